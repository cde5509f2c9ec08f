//! Spreads the sessions that were read over series.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use metrics::{Metric, Rows};
use rayon::prelude::*;

use crate::{
    Aggregate, Attributes, Origin, Point, PointFilter, Series, SeriesInfo, SeriesKey,
    file::{Cell, CellFacts, SessionFile},
    folder::Contents,
    key::fits,
    of_records::seconds,
};

/// A cell of one session, and what its points have in common.
struct Part<'c> {
    file: &'c SessionFile,
    cell: &'c Cell,
    /// When each run began and its place, the oldest first.
    began: Vec<(f64, usize)>,
    origin: Arc<Origin>,
}

impl Contents {
    /// The series that were asked for and have a point that fits, in order of their keys.
    pub fn series(&self, points: &PointFilter, aggregate: Aggregate) -> Vec<Series> {
        // By the cell itself first: that is the same one in most sessions, and quick to compare.
        let mut parts: HashMap<(&str, &str, *const CellFacts), Vec<Part<'_>>> = HashMap::new();
        for file in &self.sessions {
            let mut origins: Vec<(&str, &Attributes, Option<Arc<Origin>>)> = Vec::new();
            for cell in &file.cells {
                let (image, own) = (&*cell.facts.image, &cell.facts.attributes);
                let place = origins
                    .iter()
                    .position(|one| (one.0, one.1) == (image, own));
                let place = place.unwrap_or_else(|| {
                    origins.push((image, own, origin(file, &cell.facts, points)));
                    origins.len() - 1
                });
                let Some(origin) = &origins[place].2 else {
                    continue;
                };
                let track = &*file.images[image].track;
                let key = (&*file.machine.name, track, Arc::as_ptr(&cell.facts));
                let runs = cell.runs.iter().map(|run| seconds(run.started)).zip(0..);
                let mut began: Vec<(f64, usize)> = runs.collect();
                began.sort_by(|a, b| a.0.total_cmp(&b.0));
                parts.entry(key).or_default().push(Part {
                    file,
                    cell,
                    began,
                    origin: Arc::clone(origin),
                });
            }
        }
        let mut cells: BTreeMap<[&str; 7], Vec<Part<'_>>> = BTreeMap::new();
        for ((machine, track, _), parts) in parts {
            let [_, suite, scenario, variant, device, method] = parts[0].cell.facts.key();
            let key = [machine, device, track, suite, scenario, variant, method];
            cells.entry(key).or_default().extend(parts);
        }
        for parts in cells.values_mut() {
            parts.sort_by_key(|part| (part.file.started, &part.file.session));
        }
        let cells: Vec<_> = cells.into_iter().collect();
        let of_cell =
            |(key, parts): &([&str; 7], Vec<Part<'_>>)| self.of_cell(*key, parts, aggregate);
        let mut all: Vec<Series> = cells.par_iter().flat_map_iter(of_cell).collect();
        all.sort_by(|a, b| a.info.key.cmp(&b.info.key));
        all
    }

    /// The series of one cell that were asked for.
    fn of_cell(&self, key: [&str; 7], parts: &[Part<'_>], aggregate: Aggregate) -> Vec<Series> {
        let names = parts.iter().flat_map(|part| part.cell.metrics.keys());
        let names: BTreeSet<&String> = names.collect();
        let [machine, device, track, suite, scenario, variant, method] = key.map(str::to_owned);
        let key = SeriesKey {
            machine,
            device,
            track,
            suite,
            scenario,
            variant,
            method,
            metric: String::new(),
        };
        let of_metric = |metric: &String| {
            let key = SeriesKey {
                metric: metric.clone(),
                ..key.clone()
            };
            let row = self.filter.takes(&key).then(|| row(metric, parts))??;
            let mut newest = parts.iter().rev();
            let newest = newest.find(|part| part.cell.metrics.contains_key(metric));
            let own = newest.and_then(|part| part.cell.facts.thresholds.get(metric).copied());
            let mut info = SeriesInfo {
                settings: parts
                    .iter()
                    .find_map(|part| part.file.methods.get(&key.method))
                    .cloned(),
                joined: Vec::new(),
                unit: row.unit.sign().to_owned(),
                direction: row.direction,
                kind: row.kind,
                threshold: own.or(Some(row.threshold)),
                points: 0,
                oldest: None,
                newest: None,
                key,
            };
            let mut points = Vec::new();
            for part in parts {
                part.add(metric, aggregate, &mut info, &mut points);
            }
            points.sort_by(|a: &Point, b| a.timestamp.total_cmp(&b.timestamp));
            (!points.is_empty()).then_some(Series { info, points })
        };
        names.into_iter().filter_map(of_metric).collect()
    }
}

/// Where the points of a cell come from; `None` where they are not asked for.
fn origin(file: &SessionFile, cell: &CellFacts, points: &PointFilter) -> Option<Arc<Origin>> {
    let mut attributes = file.images[&cell.image].attributes.clone();
    attributes.extend(cell.attributes.clone());
    let attribute = |name| attributes.get(name).map(String::as_str);
    let is_asked = fits(points.branch.as_deref(), file.labels.branch.as_deref())
        && fits(points.image.as_deref(), attribute("image"))
        && fits(points.driver.as_deref(), attribute("driver"));
    let revision = file.revision().or(attribute("image_id"));
    is_asked.then(|| {
        Arc::new(Origin {
            session: file.session.clone(),
            session_began: seconds(file.started),
            revision: revision.unwrap_or(&file.session).to_owned(),
            attributes: Arc::new(attributes.clone()),
        })
    })
}

/// What a metric is: built in, or as the newest session says; `None` where nobody does.
fn row(metric: &str, parts: &[Part<'_>]) -> Option<&'static Metric> {
    let mut declared = parts.iter().rev().flat_map(|part| &part.file.metrics);
    let declared = declared.find(|declared| declared.name == metric);
    Rows::with(declared).named(metric)
}

impl Part<'_> {
    /// Adds its points of a metric: of each run, or the median of all, which is where the first run is.
    fn add(&self, metric: &str, of: Aggregate, info: &mut SeriesInfo, points: &mut Vec<Point>) {
        let Self { cell, origin, .. } = self;
        let Some(values) = cell.metrics.get(metric) else {
            return;
        };
        let runs = self.began.iter();
        let runs = runs.filter_map(|&(began, place)| Some((began, values[place]?)));
        let runs: Vec<(f64, f64)> = runs.collect();
        let (Some((first, _)), Some((last, _))) = (runs.first(), runs.last()) else {
            return;
        };
        info.points += runs.len() as u64;
        info.oldest = info.oldest.into_iter().chain([*first]).reduce(f64::min);
        info.newest = info.newest.into_iter().chain([*last]).reduce(f64::max);
        let point = |timestamp: f64, value: f64| Point {
            timestamp,
            value,
            origin: Arc::clone(origin),
        };
        match of {
            Aggregate::Run => {
                points.extend(runs.into_iter().map(|(began, value)| point(began, value)));
            }
            Aggregate::Session => {
                let median = judge::median(runs.iter().map(|(_, value)| *value));
                points.extend(median.map(|median| point(*first, median)));
            }
        }
    }
}

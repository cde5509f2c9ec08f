//! Small multiples: what each version of an image did to throughput and memory, a panel a cell.

mod sheet;

use judge::compare::Interval;
use metrics::{Metric, catalogue};

use self::sheet::{Sheet, range};
use super::{Drawing, Key, Picture, Plot, forest};
use crate::{
    document::{self, Cell, Kind, Mark, Table, known},
    format::{self, Quantity},
    model::{
        View,
        versions::{self, Versions},
    },
    svg::{
        Shape,
        ink::Ink,
        rows::{NARROW, WIDTH},
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "versions",
    title: "From version to version",
    about: "Where a session ran three or more versions of an image: one panel a cell, throughput \
            above and peak memory below, the estimated change of each version against the oldest \
            one with its 95 % interval. Above it stand the medians of the oldest and the newest \
            version, which may say otherwise where runs vary widely. All panels have the same two \
            scales. The shaded band is the noise threshold: what lies in it counts as unchanged. A \
            mark without an interval is exact, or rests on one block alone, which shows nothing. An \
            interval that leaves its panel goes on.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Panels of one drawing; the table has the others.
const MOST: usize = 60;

/// One cell over the versions.
struct Panel {
    label: String,
    /// Throughput, then memory.
    traces: [Trace; 2],
}

struct Trace {
    word: &'static str,
    quantity: Quantity,
    threshold: f64,
    /// One a version; `None` where it was not measured.
    points: Vec<Option<Point>>,
}

/// A version against the oldest that was measured.
struct Point {
    value: f64,
    ratio: Option<f64>,
    interval: Option<Interval>,
    /// `None`: it is what the others are held against.
    verdict: Option<judge::compare::Verdict>,
}

fn draw(view: &View) -> Picture {
    let drawings = versions::of(view).into_iter().filter_map(|versions| {
        let panels = panels(view, &versions);
        (!panels.is_empty()).then(|| drawing(&versions, &panels))
    });
    let oldest = Key {
        ink: Ink::Text,
        sign: Shape::Disc.sign(),
        label: "oldest version".to_owned(),
    };
    Picture {
        drawings: drawings.collect(),
        legend: [oldest].into_iter().chain(forest::legend(false)).collect(),
    }
}

fn drawing(versions: &Versions, panels: &[Panel]) -> Drawing {
    let names: Vec<&str> = versions.images.iter().map(|(name, _)| &**name).collect();
    let said = panels.iter().map(|panel| panel.describe(&names));
    let shown = &panels[..panels.len().min(MOST)];
    let more = panels.len() - shown.len();
    let sheet = Sheet {
        names: &names,
        panels: shown,
        ranges: [0, 1].map(|place| range(shown, place)),
    };
    Drawing {
        heading: versions.track.clone(),
        subtitle: format!("{} against {}", names[1..].join(", "), names[0]),
        remark: None,
        note: (more > 0).then(|| format!("{more} more cells stand in the table.")),
        description: said.collect::<Vec<_>>().join(" "),
        svg: sheet.draw(WIDTH),
        narrow: Some(sheet.draw(NARROW)),
        table: Some(table(&names, panels)),
        open: false,
    }
}

/// Every cell that at least two of the versions measured.
fn panels(view: &View, versions: &Versions) -> Vec<Panel> {
    let mut found = Vec::new();
    for group in &view.groups {
        let memory = group.footprint(view);
        for row in &group.rows {
            let of_version = |(_, contender): &(String, usize)| {
                let mut cells = row.cells.iter().copied();
                cells.find(|&cell| view.contender_of(cell) == *contender)
            };
            let cells: Vec<Option<usize>> = versions.images.iter().map(of_version).collect();
            let Some(first) = cells.iter().flatten().next() else {
                continue;
            };
            let trace = |word, metric: &'static Metric| Trace::of(view, &cells, word, metric);
            let panel = Panel {
                label: view.short_name(*first),
                traces: [
                    trace("throughput", &catalogue::THROUGHPUT),
                    trace(memory.metric.label, memory.metric),
                ],
            };
            let judged = |trace: &Trace| trace.points.iter().flatten().count() > 1;
            if panel.traces.iter().any(judged) {
                found.push(panel);
            }
        }
    }
    found
}

impl Trace {
    fn of(
        view: &View,
        cells: &[Option<usize>],
        word: &'static str,
        metric: &'static Metric,
    ) -> Self {
        let median = |cell: usize| view.report.cells[cell].metrics.median(metric);
        let mut measured = cells.iter().flatten().copied();
        let base = measured.find(|cell| median(*cell).is_some());
        let mut threshold = metric.threshold;
        let points = cells.iter().map(|cell| {
            let (cell, base) = ((*cell)?, base?);
            let value = median(cell)?;
            let found = view.standings.between(base, cell, metric);
            if let Some(found) = found.filter(|_| cell != base) {
                threshold = found.threshold;
                return Some(Point {
                    value,
                    ratio: found.ratio,
                    interval: found.interval.filter(|_| !found.is_exact),
                    verdict: Some(found.verdict),
                });
            }
            Some(Point {
                value,
                ratio: (cell == base).then_some(1.0),
                interval: None,
                verdict: None,
            })
        });
        Self {
            word,
            quantity: metric.unit.into(),
            points: points.collect(),
            threshold,
        }
    }

    /// The medians of the oldest and the newest version: `throughput: 3863 → 4164 samples/s`.
    fn caption(&self) -> String {
        let mut values = self.points.iter().flatten().map(|point| point.value);
        let first = values.next().map(|value| self.quantity.write(value));
        let last = values.next_back().map(|value| self.quantity.write(value));
        match (first, last) {
            (Some(first), Some(last)) => {
                let unit = first.rsplit(' ').next().unwrap_or_default();
                let is_same = last.ends_with(&format!(" {unit}"));
                let first = first
                    .strip_suffix(unit)
                    .filter(|_| is_same)
                    .map_or(&*first, str::trim);
                format!("{}: {first} → {last}", self.word)
            }
            (Some(only), None) => format!("{}: {only}", self.word),
            _ => format!("{}: not measured", self.word),
        }
    }
}

impl Point {
    fn look(&self) -> (Ink, Shape, bool) {
        match self.verdict {
            None => (Ink::Text, Shape::Disc, false),
            Some(verdict) => forest::sign(verdict.into()),
        }
    }

    fn change(&self) -> String {
        match (self.verdict, self.ratio, self.interval) {
            (None, ..) => "what the others are held against".to_owned(),
            (Some(verdict), Some(ratio), Some(Interval { lo, hi })) => format!(
                "{} ({}), {verdict}",
                format::change(ratio),
                format::interval(lo, hi)
            ),
            (Some(verdict), Some(ratio), None) => format!("{}, {verdict}", format::change(ratio)),
            (Some(verdict), None, _) => verdict.to_string(),
        }
    }
}

impl Panel {
    fn describe(&self, names: &[&str]) -> String {
        let traces = self.traces.iter().map(|trace| {
            let points = trace.points.iter().zip(names);
            let told = points.filter_map(|(point, name)| {
                let point = point.as_ref()?;
                let (value, change) = (trace.quantity.write(point.value), point.change());
                Some(format!("{name} {value}, {change}"))
            });
            let told: Vec<String> = told.collect();
            format!("{}: {}", trace.word, told.join("; "))
        });
        let traces: Vec<String> = traces.collect();
        format!("{}: {}.", self.label, traces.join(". "))
    }
}

fn table(names: &[&str], panels: &[Panel]) -> Table {
    let mut columns = document::columns(Kind::Name, &["cell", "version"]);
    for heads in [
        ["throughput", "change", "95 % interval"],
        ["peak memory", "change of memory", "95 % interval of memory"],
    ] {
        columns.extend(document::columns(Kind::Number, &heads));
        columns.push(Kind::Word.column("verdict"));
    }
    let row = |panel: &Panel, place: usize| {
        let mut row: Vec<Cell> = vec![panel.label.as_str().into(), names[place].into()];
        for trace in &panel.traces {
            let point = trace.points[place].as_ref();
            let change = point.filter(|point| point.verdict.is_some());
            let ratio = change.and_then(|point| point.ratio);
            let ends = change.and_then(|point| point.interval);
            row.extend([
                known(point.map(|point| trace.quantity.write(point.value))),
                known(ratio.map(format::change)),
                known(ends.map(|ends| format::interval(ends.lo, ends.hi))),
            ]);
            let verdict = change.and_then(|point| point.verdict);
            row.push(verdict.map_or_else(Cell::default, |verdict| {
                Cell::from(verdict.to_string()).marked(Mark::from(verdict))
            }));
        }
        row
    };
    let rows = panels
        .iter()
        .flat_map(|panel| (0..names.len()).map(move |place| row(panel, place)));
    Table::new(columns, rows.collect())
}

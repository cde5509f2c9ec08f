//! What is read from the history, before anything is looked for in it.

use std::collections::HashMap;

use history::{Aggregate, History, SeriesFilter, SeriesInfo, SeriesKey};
use judge::trend::{ChangePoint, Point};
use reports::trend::GpuChange;

use super::succession;
use crate::{
    cli::TrendArgs,
    commands::history::{point_filter, series_filter},
    error::Result,
    printer::Printer,
};

/// The series that were asked for and have a point, in parallel lists.
#[derive(Default)]
pub(super) struct Selected {
    pub(super) keys: Vec<SeriesInfo>,
    pub(super) all: Vec<Vec<Point>>,
    pub(super) beside: Vec<Beside>,
    pub(super) successors: Vec<Option<SeriesKey>>,
}

/// What the sessions say of a series beside its values.
pub(super) struct Beside {
    /// What the suite of the newest session sets.
    pub(super) threshold: Option<f64>,
    /// Of each point, as far as is known.
    gpus: Vec<Option<String>>,
    /// The session of the newest point; `None` for an imported one.
    session: Option<String>,
    /// When the results of those came whose place it has taken.
    pub(super) earlier: Vec<f64>,
}

impl Beside {
    /// Those change points at which the GPU is another than that of the point before.
    pub(super) fn gpu_changes(&self, found: &[ChangePoint]) -> Vec<GpuChange> {
        let at = |change: &ChangePoint| {
            let before = self.gpus.get(change.index.checked_sub(1)?)?.as_ref()?;
            let after = self.gpus.get(change.index)?.as_ref()?;
            (before != after).then(|| GpuChange {
                index: change.index,
                before: before.clone(),
                after: after.clone(),
            })
        };
        found.iter().filter_map(at).collect()
    }
}

/// Reads them, and what has taken whose place.
pub(super) fn select(history: &History, args: &TrendArgs, printer: &Printer) -> Result<Selected> {
    let asked = series_filter(&args.series);
    // What has taken a series' place is of another image or driver than was asked for.
    let around = SeriesFilter {
        image: None,
        driver: None,
        ..asked.clone()
    };
    let series = history.series(&around)?;
    let filter = point_filter(&args.series);
    let bar = printer.count_bar("reading the history", series.len() as u64);
    let mut read = Selected::default();
    for info in series {
        let points = history.points(&info.key, &filter, Aggregate::Session)?;
        bar.inc(1);
        // Those without a point on the branch are no series of it.
        let Some(newest) = points.last() else {
            continue;
        };
        read.keys.push(info);
        read.beside.push(Beside {
            threshold: newest.margin,
            gpus: points.iter().map(|point| point.card.clone()).collect(),
            session: newest.session.clone(),
            earlier: Vec::new(),
        });
        let points = points.into_iter().map(Point::from);
        read.all.push(points.collect());
    }
    bar.finish_and_clear();
    let failures = history.failures(&around)?;
    let newest: Vec<Option<&str>> = read
        .beside
        .iter()
        .map(|beside| beside.session.as_deref())
        .collect();
    read.successors = succession::successors(&read.keys, &read.all, &newest, &failures);
    let places: HashMap<&SeriesKey, usize> = read
        .keys
        .iter()
        .enumerate()
        .map(|(place, info)| (&info.key, place))
        .collect();
    for (points, successor) in read.all.iter().zip(&read.successors) {
        if let Some(place) = successor.as_ref().and_then(|key| places.get(key)) {
            let times = points.iter().map(|point| point.timestamp);
            read.beside[*place].earlier.extend(times);
        }
    }
    let wanted: Vec<bool> = read
        .keys
        .iter()
        .map(|info| asked.takes(&info.key))
        .collect();
    keep(&mut read.keys, &wanted);
    keep(&mut read.all, &wanted);
    keep(&mut read.beside, &wanted);
    keep(&mut read.successors, &wanted);
    Ok(read)
}

/// Keeps those that are wanted.
fn keep<T>(all: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    all.retain(|_| wanted.next() == Some(&true));
}

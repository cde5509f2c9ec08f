//! What is read from the history, before anything is looked for in it.

use std::collections::HashMap;

use history::{Aggregate, History, Point, SeriesFilter, SeriesInfo, SeriesKey};
use judge::trend::ChangePoint;
use reports::trend::GpuChange;

use super::supersede;
use crate::{cli::TrendArgs, commands::history::series_filter, error::Result, printer::Printer};

/// A series that was asked for.
pub(super) struct Selected {
    pub(super) info: SeriesInfo,
    /// At least one.
    pub(super) points: Vec<Point>,
    /// The series that has taken its place.
    pub(super) superseded_by: Option<SeriesKey>,
    /// When the results of those came whose place it has taken.
    pub(super) earlier: Vec<f64>,
}

impl Selected {
    pub(super) fn newest(&self) -> Option<&Point> {
        self.points.last()
    }

    /// Those change points at which the GPU is another than that of the point before.
    pub(super) fn gpu_changes(&self, found: &[ChangePoint]) -> Vec<GpuChange> {
        let at = |change: &ChangePoint| {
            let gpu = |index: usize| self.points.get(index)?.gpu.clone();
            let (before, after) = (gpu(change.index.checked_sub(1)?)?, gpu(change.index)?);
            let index = change.index;
            (before != after).then_some(GpuChange {
                index,
                before,
                after,
            })
        };
        found.iter().filter_map(at).collect()
    }
}

/// Reads the series, and what has taken whose place.
pub(super) fn select(
    history: &History,
    args: &TrendArgs,
    printer: &Printer,
) -> Result<Vec<Selected>> {
    let asked = series_filter(&args.series);
    // What has taken a series' place is of another image or driver than was asked for.
    let around = SeriesFilter {
        image: None,
        driver: None,
        ..asked.clone()
    };
    let series = history.series(&around)?;
    let branch = args.series.branch.as_deref();
    let bar = printer.count_bar("reading the history", series.len() as u64);
    let mut read = Vec::new();
    for info in series {
        let points = history.points(&info.key, branch, Aggregate::Session)?;
        bar.inc(1);
        // Those without a point on the branch are no series of it.
        if !points.is_empty() {
            read.push(Selected {
                info,
                points,
                superseded_by: None,
                earlier: Vec::new(),
            });
        }
    }
    bar.finish_and_clear();
    let successors = supersede::successors(&read, &history.failures(&around)?);
    let mut earlier: HashMap<SeriesKey, Vec<f64>> = HashMap::new();
    for (one, successor) in read.iter_mut().zip(successors) {
        if let Some(successor) = &successor {
            let times = one.points.iter().map(|point| point.timestamp);
            earlier.entry(successor.clone()).or_default().extend(times);
        }
        one.superseded_by = successor;
    }
    for one in &mut read {
        one.earlier = earlier.remove(&one.info.key).unwrap_or_default();
    }
    read.retain(|one| asked.takes(&one.info.key));
    Ok(read)
}

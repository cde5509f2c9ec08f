//! Which runs are drawn: one a cell, and what was contaminated.

use metrics::catalogue;
use record::Record;

use super::{Run, traces::panels};
use crate::{
    model::{Group, Row, View, is_contaminated},
    words::format::{self, Quantity},
};

const CONTAMINATED: usize = 2;

/// Of each cell the run in the middle, then its first few contaminated attempts; with what the cell
/// is called, and its place.
pub(super) fn of<'a>(view: &View<'a>, group: &Group) -> Vec<Run<'a>> {
    let of_cell = |(row, cell): (&Row, usize)| {
        let runs = view.runs[cell].iter().copied();
        let contaminated = runs.filter(|run| is_contaminated(run) && has_series(run));
        let runs = middle_run(view, cell)
            .into_iter()
            .chain(contaminated.take(CONTAMINATED));
        let label = match view.name_in(&row.label, cell) {
            label if label == group.scenario => label,
            label => format!("{} {label}", group.scenario),
        };
        runs.map(move |run| (label.clone(), cell, run))
    };
    group.lanes().flat_map(of_cell).collect()
}

fn has_series(run: &Record) -> bool {
    panels().any(|panel| panel.is_known(run))
}

/// The successful run with samples whose throughput is the median, or the lower of the middle two.
fn middle_run<'a>(view: &View<'a>, cell: usize) -> Option<&'a Record> {
    let throughput = |run: &Record| catalogue::THROUGHPUT.of(run).unwrap_or(0.0);
    let mut runs: Vec<&'a Record> = view.good_runs(cell);
    runs.retain(|run| has_series(run));
    runs.sort_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

/// The run's name, and the totals that have no series.
pub(super) fn details(run: &Record) -> String {
    let mut words = vec![format!("run {}", run.run)];
    if run.attempt > 1 || is_contaminated(run) {
        words.push(format!("attempt {}", run.attempt));
    }
    let monitor = &run.monitor;
    let drawn = monitor.gpus.iter().filter_map(|gpu| gpu.energy_joules);
    let drawn = drawn.reduce(|one, other| one + other);
    let bytes = |bytes: u64| Quantity::Bytes.write(bytes as f64);
    let joules = |joules: f64| Quantity::Joules.write(joules);
    for (word, total) in [
        ("read", monitor.read_bytes.map(bytes)),
        ("written", monitor.written_bytes.map(bytes)),
        ("drew", drawn.map(joules)),
    ] {
        words.extend(total.map(|total| format!("{word} {total}")));
    }
    format::clean(&words.join(" · "))
}

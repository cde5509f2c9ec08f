//! The columns of the table of cells, shared by the page, Markdown and the terminal.

use metrics::catalogue;
use protocol::Task;

use crate::{
    format::{self, UNKNOWN, bytes, seconds, significant},
    model::{CellSummary, Spread, View},
};

/// Head of the column from the least to the greatest run: the first to go where room is short.
pub(crate) const RANGE: &str = "range";

/// One column.
pub(crate) struct Column {
    /// Its head.
    pub(crate) head: &'static str,
    /// What stands in it; `None` where unknown.
    pub(crate) read: fn(&CellSummary) -> Option<String>,
    /// Where there is no room for all, those with the least go first.
    pub(crate) importance: u8,
}

/// Every column, in order.
const COLUMNS: [Column; 13] = [
    Column {
        head: "samples/s",
        read: |cell| throughput(cell).map(|spread| significant(spread.median, 4)),
        importance: 10,
    },
    Column {
        head: "CV",
        read: |cell| {
            throughput(cell)?
                .coefficient_of_variation
                .map(format::share)
        },
        importance: 9,
    },
    Column {
        head: RANGE,
        read: |cell| {
            let spread = throughput(cell).filter(|spread| spread.n > 1)?;
            let (low, high) = (
                significant(spread.minimum, 4),
                significant(spread.maximum, 4),
            );
            Some(format!("{low} – {high}"))
        },
        importance: 1,
    },
    Column {
        head: "step p50",
        read: |cell| median(cell.metrics.get(&catalogue::STEP_MEDIAN)).map(seconds),
        importance: 5,
    },
    Column {
        head: "step p99",
        read: |cell| median(cell.metrics.get(&catalogue::STEP_P99)).map(seconds),
        importance: 4,
    },
    Column {
        head: "allocated",
        read: |cell| median(cell.metrics.get(&catalogue::PEAK_ALLOCATED)).map(bytes),
        importance: 8,
    },
    Column {
        head: "reserved",
        read: |cell| median(cell.metrics.get(&catalogue::PEAK_RESERVED)).map(bytes),
        importance: 7,
    },
    Column {
        head: "on the GPU",
        read: |cell| median(cell.metrics.get(&catalogue::PROCESS_PEAK)).map(bytes),
        importance: 6,
    },
    Column {
        head: "host RSS",
        // On a GPU, the host's memory is seldom what a reader looks for; the JSON has it.
        read: |cell| {
            let resident = median(cell.metrics.get(&catalogue::RUN_HOST_PEAK_RESIDENT))?;
            let is_asked_for =
                cell.metrics.get(&catalogue::PEAK_RESERVED).is_none() || is_idle(cell);
            is_asked_for.then(|| bytes(resident))
        },
        importance: 2,
    },
    Column {
        head: "context",
        // In every run, but only where nothing runs is it what a reader looks for.
        read: |cell| {
            let context = median(cell.metrics.get(&catalogue::CONTEXT))?;
            is_idle(cell).then(|| bytes(context))
        },
        importance: 2,
    },
    Column {
        head: "cpu",
        read: |cell| {
            let share = cpu_share(cell)?;
            is_idle(cell).then(|| format::share(share))
        },
        importance: 2,
    },
    Column {
        head: "loss",
        read: loss,
        importance: 3,
    },
    Column {
        head: "runs ok",
        read: |cell| Some(runs(cell)),
        importance: 11,
    },
];

/// The columns of which at least one cell knows the metric.
pub(crate) fn columns(view: &View) -> Vec<&'static Column> {
    let known = |column: &&Column| {
        let mut cells = view.report.cells.iter();
        cells.any(|cell| (column.read)(cell).is_some())
    };
    const { &COLUMNS }.iter().filter(known).collect()
}

/// What stands in a column for a cell.
pub(crate) fn entry(column: &Column, cell: &CellSummary) -> String {
    (column.read)(cell).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn throughput(cell: &CellSummary) -> Option<Spread> {
    cell.metrics.get(&catalogue::THROUGHPUT)
}

fn is_idle(cell: &CellSummary) -> bool {
    cell.task == Task::Idle
}

/// CPU time over wall time while it was measured; 1 is one CPU.
pub(crate) fn cpu_share(cell: &CellSummary) -> Option<f64> {
    let busy = median(cell.metrics.get(&catalogue::CPU_SECONDS))?;
    Some(busy / median(cell.metrics.get(&catalogue::MEASURED_SECONDS))?)
}

fn median(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.median)
}

fn loss(cell: &CellSummary) -> Option<String> {
    let last = median(cell.metrics.get(&catalogue::LAST_LOSS))?;
    let first = median(cell.metrics.get(&catalogue::FIRST_LOSS))?;
    Some(format!(
        "{} → {}",
        significant(first, 3),
        significant(last, 3)
    ))
}

fn runs(cell: &CellSummary) -> String {
    let expected = cell.runs.max(cell.planned as usize);
    format!("{}/{expected}", cell.ok)
}

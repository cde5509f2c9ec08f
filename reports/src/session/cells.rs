//! The table of cells, and what its columns are.

use metrics::{Metric, catalogue};

use crate::{
    document::{self, Body, Cell, Kind, Mark, Table, known},
    facets,
    model::{CellSummary, Group, Spread, View},
    words::{
        format::{self, bytes, seconds, significant},
        metric,
    },
};

/// The head of a column, and what stands in it for a cell; `None` where unknown.
struct Column(&'static str, fn(&CellSummary) -> Option<String>);

const COLUMNS: [Column; 13] = [
    Column("samples/s", |cell| {
        Some(significant(throughput(cell)?.median, 4))
    }),
    Column("CV", |cell| {
        let variation = throughput(cell)?.coefficient_of_variation;
        variation.map(format::share)
    }),
    Column("range", |cell| {
        let spread = throughput(cell)?;
        let [low, high] = [spread.minimum, spread.maximum].map(|end| significant(end, 4));
        (spread.n > 1).then(|| format!("{low} – {high}"))
    }),
    Column("step p50", |cell| {
        median(cell, &catalogue::STEP_MEDIAN).map(seconds)
    }),
    Column("step p99", |cell| {
        median(cell, &catalogue::STEP_P99).map(seconds)
    }),
    // Who idles allocates nothing.
    Column("allocated", |cell| {
        bytes_where(!is_idle(cell), cell, &catalogue::PEAK_ALLOCATED)
    }),
    Column("reserved", |cell| {
        bytes_where(!is_idle(cell), cell, &catalogue::PEAK_RESERVED)
    }),
    Column("on the GPU", |cell| {
        bytes_where(true, cell, &catalogue::PROCESS_PEAK)
    }),
    // On a GPU, the host's memory is seldom what a reader looks for; the JSON has it.
    Column("host RSS", |cell| {
        let on_cpu = median(cell, &catalogue::PEAK_RESERVED).is_none();
        let is_shown = on_cpu || is_idle(cell);
        bytes_where(is_shown, cell, &catalogue::RUN_HOST_PEAK_RESIDENT)
    }),
    // In every run, but only where nothing runs is it what a reader looks for.
    Column("context", |cell| {
        bytes_where(is_idle(cell), cell, &catalogue::CONTEXT)
    }),
    Column("cpu", |cell| {
        let share = cell.cpu_share().filter(|_| is_idle(cell));
        share.map(format::share)
    }),
    Column("loss", |cell| {
        let ends = median(cell, &catalogue::FIRST_LOSS).zip(median(cell, &catalogue::LAST_LOSS))?;
        let [first, last] = [ends.0, ends.1].map(|loss| significant(loss, 3));
        Some(format!("{first} → {last}"))
    }),
    Column("runs ok", |cell| Some(runs(cell))),
];

fn median(cell: &CellSummary, metric: &Metric) -> Option<f64> {
    cell.metrics.median(metric)
}

fn bytes_where(is_shown: bool, cell: &CellSummary, metric: &Metric) -> Option<String> {
    median(cell, metric).filter(|_| is_shown).map(bytes)
}

/// The cells of all sessions by scenario, with the columns of which at least one cell knows the
/// metric. The range of the runs only where no picture shows it.
pub(crate) fn table(view: &View, has_range: bool) -> Table {
    let is_known = |column: &&Column| {
        let mut cells = view.report.cells.iter();
        cells.any(|cell| (column.1)(cell).is_some())
    };
    let has_room = |column: &&Column| has_range || column.0 != "range";
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_room).filter(is_known).collect();
    let asked = asked(view);
    let mut heads = names(view);
    heads.extend(asked.iter().map(|metric| Kind::Number.column(metric.label)));
    heads.extend(columns.iter().map(|column| Kind::Number.column(column.0)));
    let about = facets::cells(view);
    let row = |label: &str, cell: usize| {
        let summary = &view.report.cells[cell];
        let mut entries = named(view, label, cell);
        if let Some(first) = entries.first_mut() {
            first.about = Some(Box::new(about[cell].clone()));
        }
        let medians = asked.iter().map(|metric| {
            let median = summary.metrics.median(metric);
            known(median.map(|value| metric::value(metric.name, value)))
        });
        entries.extend(medians);
        entries.extend(columns.iter().map(|column| known((column.1)(summary))));
        if let Some(runs) = entries.last_mut()
            && (summary.failed > 0 || summary.ok + summary.expected == 0)
        {
            runs.mark = Some(Mark::Failure);
        }
        entries
    };
    let body = |group: &Group| Body {
        title: Some(group.scenario.as_str().into()),
        subtitle: group.subtitle(),
        rows: group
            .lanes()
            .map(|(one, cell)| row(&one.label, cell))
            .collect(),
        ..Body::default()
    };
    Table {
        title_head: "scenario",
        columns: heads,
        bodies: view.groups.iter().map(body).collect(),
        ..Table::default()
    }
}

/// Metrics that the suites ask for and that have no column.
fn asked(view: &View) -> Vec<&'static Metric> {
    const SHOWN: [&Metric; 8] = [
        &catalogue::THROUGHPUT,
        &catalogue::STEP_MEDIAN,
        &catalogue::STEP_P99,
        &catalogue::PEAK_ALLOCATED,
        &catalogue::PEAK_RESERVED,
        &catalogue::PROCESS_PEAK,
        &catalogue::CONTEXT,
        // Of an idle container it has its column where it says something.
        &catalogue::RUN_HOST_PEAK_RESIDENT,
    ];
    let mut asked = view.asked();
    asked.retain(|metric| view.has(metric) && !SHOWN.contains(metric));
    asked
}

/// The columns that name a cell within its scenario.
pub(crate) fn names(view: &View) -> Vec<document::Column> {
    let contender = view.has_several().then(|| view.contender_head());
    let heads = ["variant"].into_iter().chain(contender);
    heads.map(|head| Kind::Name.column(head)).collect()
}

pub(crate) fn named(view: &View, label: &str, cell: usize) -> Vec<Cell> {
    let contender = view.has_several().then(|| view.label_of(cell));
    [label]
        .into_iter()
        .chain(contender)
        .map(Cell::from)
        .collect()
}

fn throughput(cell: &CellSummary) -> Option<Spread> {
    cell.metrics.get(&catalogue::THROUGHPUT)
}

fn is_idle(cell: &CellSummary) -> bool {
    cell.workload.is_idle()
}

fn runs(cell: &CellSummary) -> String {
    let expected = cell.runs.max(cell.planned as usize);
    match cell.expected {
        0 => format!("{}/{expected}", cell.ok),
        failed => format!("{failed}/{expected} as expected"),
    }
}

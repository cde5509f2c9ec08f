//! The ranks of each cell that has several: where each works, and what it yields.

use ::metrics::{Metric, catalogue};
use record::{Rank, Record};

use crate::{
    document::{Block, Kind, Table, TableRow, known},
    model::{Group, View},
    words::{format, metric},
};

const CAPTION: &str = "Medians of the successful runs. What the ranks come to together is in the \
                       results: the sum of rates, the largest of times and memory.";

/// One row a rank, in the order of the results.
pub(crate) fn blocks(view: &View) -> Vec<Block> {
    let cells = view.groups.iter().flat_map(Group::cells);
    let cells = cells.filter(|_| !view.is_large());
    let rows: Vec<TableRow> = cells.flat_map(|cell| rows(view, cell)).collect();
    let table = Table::of(rows).map(|table| Table {
        caption: CAPTION.to_owned(),
        ..table
    });
    Vec::from_iter(table.map(Block::Table))
}

fn rows(view: &View, cell: usize) -> Vec<TableRow> {
    let runs = view.good_runs(cell);
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let name = view.name_of(cell);
    let row = |rank: &Rank| {
        let of = |metric: &Metric| {
            let each = runs.iter().filter_map(|run| value(run, rank.rank, metric));
            judge::median(each).map(|value| metric::value(metric.name, value))
        };
        let memory =
            of(&catalogue::PROCESS_PEAK).or_else(|| of(&catalogue::RUN_HOST_PEAK_RESIDENT));
        let rate = of(&catalogue::THROUGHPUT).or_else(|| of(&catalogue::STEP_RATE));
        vec![
            Kind::Name.cell("cell", name.as_str()),
            Kind::Number.cell("rank", rank.rank.to_string()),
            Kind::Name.cell("device", format::clean(&rank.place.device.to_string())),
            Kind::Number.cell("throughput", known(rate)),
            Kind::Number.cell("median step", known(of(&catalogue::STEP_MEDIAN))),
            Kind::Number.cell("peak allocated", known(of(&catalogue::PEAK_ALLOCATED))),
            Kind::Number.cell("process", known(memory)),
        ]
    };
    first.ranks.iter().map(row).collect()
}

fn value(run: &Record, rank: u32, metric: &Metric) -> Option<f64> {
    let mut ranks = run.ranks.iter();
    let own = ranks.find(|one| one.rank == rank)?;
    own.values.get(metric.name).copied()
}

//! Which memory metric stands for a cell where only one can.

use super::{CellSummary, Group, View};
use metrics::catalogue;

/// One memory metric, the same for all cells of a scenario.
#[derive(Clone, Copy)]
pub struct Footprint {
    /// The metric in words, as in `5.6 GiB reserved`.
    pub word: &'static str,
    /// The title of its axis.
    pub title: &'static str,
    read: fn(&CellSummary) -> Option<f64>,
}

impl Footprint {
    /// The median metric of a cell, in bytes.
    #[must_use]
    pub fn of(&self, cell: &CellSummary) -> Option<f64> {
        (self.read)(cell)
    }
}

const RESERVED: Footprint = Footprint {
    word: "reserved",
    title: "Peak reserved memory",
    read: |cell| {
        cell.metrics
            .get(&catalogue::PEAK_RESERVED)
            .map(|spread| spread.median)
    },
};
const ALLOCATED: Footprint = Footprint {
    word: "allocated",
    title: "Peak allocated memory",
    read: |cell| {
        cell.metrics
            .get(&catalogue::PEAK_ALLOCATED)
            .map(|spread| spread.median)
    },
};

impl Group {
    /// What the allocator reserved, where every measured cell knows it (on a GPU); what the
    /// tensors took, elsewhere.
    #[must_use]
    pub fn footprint(&self, view: &View) -> Footprint {
        let mut measured = self
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .map(|cell| &view.report.cells[*cell])
            .filter(|cell| cell.ok > 0);
        if measured.all(|cell| RESERVED.of(cell).is_some()) {
            RESERVED
        } else {
            ALLOCATED
        }
    }
}

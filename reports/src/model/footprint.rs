//! Which memory metric stands for a cell where only one can.

use metrics::{Metric, catalogue};

use super::{CellSummary, Group, View};

/// One memory metric, the same for all cells of a scenario.
#[derive(Clone, Copy)]
pub struct Footprint {
    /// The metric in words, as in `5.6 GiB reserved`.
    pub word: &'static str,
    /// The title of its axis.
    pub title: &'static str,
    /// The metric.
    pub metric: &'static Metric,
}

impl Footprint {
    /// The median metric of a cell, in bytes.
    #[must_use]
    pub fn of(&self, cell: &CellSummary) -> Option<f64> {
        cell.metrics.median(self.metric)
    }
}

const RESERVED: Footprint = Footprint {
    word: "reserved",
    title: "Peak reserved memory",
    metric: &catalogue::PEAK_RESERVED,
};
const ALLOCATED: Footprint = Footprint {
    word: "allocated",
    title: "Peak allocated memory",
    metric: &catalogue::PEAK_ALLOCATED,
};

impl Group {
    /// What the allocator reserved, where every measured cell knows it (on a GPU); what the
    /// tensors took, elsewhere.
    #[must_use]
    pub fn footprint(&self, view: &View) -> Footprint {
        let cells = self.cells().map(|cell| &view.report.cells[cell]);
        let mut measured = cells.filter(|cell| cell.ok > 0);
        if measured.all(|cell| RESERVED.of(cell).is_some()) {
            RESERVED
        } else {
            ALLOCATED
        }
    }
}

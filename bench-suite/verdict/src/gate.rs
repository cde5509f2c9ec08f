//! When a comparison fails a pipeline.

use judge::compare::Verdict;

use crate::{CellVerdicts, QuantityVerdict, Verdicts};

/// What fails a gate besides *worse*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailOn {
    /// Nothing else.
    #[default]
    Worse,
    /// *Cannot tell* too.
    CannotTell,
}

/// What a gate found.
#[derive(Debug, Clone)]
pub struct Gate<'a> {
    /// Gated quantities that fail it.
    pub failing: Vec<(&'a CellVerdicts, &'a QuantityVerdict)>,
    /// Cells that fail it as a whole: they work in the base and never in the head. Their figures
    /// are not among [`Gate::failing`].
    pub lost: Vec<&'a CellVerdicts>,
}

impl<'a> Gate<'a> {
    /// Reads the gated quantities.
    #[must_use]
    pub fn read(verdicts: &'a Verdicts, fail_on: FailOn) -> Self {
        let fails = |verdict| match verdict {
            Verdict::Worse => true,
            Verdict::CannotTell => fail_on == FailOn::CannotTell,
            Verdict::Better | Verdict::Same => false,
        };
        let failing = verdicts
            .all()
            .filter(|(cell, _)| cell.lost().is_none())
            .filter(|(_, found)| found.gated && fails(found.comparison.verdict))
            .collect();
        let lost = verdicts
            .cells
            .iter()
            .filter(|cell| cell.lost().is_some_and(fails))
            .collect();
        Self { failing, lost }
    }

    /// Whether nothing fails it.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.count() == 0
    }

    /// How many figures and whole cells fail it.
    #[must_use]
    pub fn count(&self) -> usize {
        self.failing.len() + self.lost.len()
    }
}

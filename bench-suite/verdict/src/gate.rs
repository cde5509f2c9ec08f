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
            .filter(|(_, found)| found.gated && fails(found.comparison.verdict))
            .collect();
        Self { failing }
    }

    /// Whether nothing fails it.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failing.is_empty()
    }
}

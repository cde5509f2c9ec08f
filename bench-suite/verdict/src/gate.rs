//! When a comparison fails a pipeline.

use judge::compare::Verdict;
use serde::Deserialize;

use crate::{CellVerdicts, MetricVerdict, Verdicts};

/// What fails a gate besides *regressed*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailOn {
    /// Nothing else.
    #[default]
    Regressed,
    /// *inconclusive* too.
    Inconclusive,
}

#[derive(Debug, Clone)]
pub struct Gate<'a> {
    pub failing: Vec<(&'a CellVerdicts, &'a MetricVerdict)>,
    /// Cells that fail it as a whole: they work in the base and never in the head. Their metrics
    /// are not among [`Gate::failing`].
    pub lost: Vec<&'a CellVerdicts>,
}

impl<'a> Gate<'a> {
    pub fn read(verdicts: &'a Verdicts, fail_on: FailOn) -> Self {
        let fails = |verdict| match verdict {
            Verdict::Regressed => true,
            Verdict::Inconclusive => fail_on == FailOn::Inconclusive,
            Verdict::Improved | Verdict::Unchanged => false,
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

    pub fn passes(&self) -> bool {
        self.count() == 0
    }

    /// How many metrics and whole cells fail it.
    pub fn count(&self) -> usize {
        self.failing.len() + self.lost.len()
    }
}

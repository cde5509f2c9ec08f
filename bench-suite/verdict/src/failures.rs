//! Runs of a cell that yielded no metric, and what a gate makes of them.

use std::{collections::BTreeMap, fmt};

use judge::{
    compare::Verdict,
    counts::{Count, p_of_more},
    family::q_values,
};
use record::{Outcome, Reason, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Runs;

/// Runs of one cell that failed, on either side. They are left out of every metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failures {
    pub base: FailedRuns,
    pub head: FailedRuns,
    /// Fisher's p that the head fails more often only by chance, the other cells of the comparison
    /// taken into account (Benjamini and Hochberg). What is no fault of an image does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_value: Option<f64>,
}

/// Runs of one cell that failed, on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRuns {
    /// Runs that there were, each with its last attempt.
    pub runs: usize,
    pub failed: usize,
    pub reasons: BTreeMap<Reason, usize>,
    /// Runs that failed as their suite expects; they are not among those that failed.
    #[serde(default)]
    pub expected: usize,
}

impl Failures {
    /// Counts those of a cell; `None` where every run ended well.
    pub(crate) fn of(base: &Runs<'_>, head: &Runs<'_>) -> Option<Self> {
        let (base, head) = (FailedRuns::of(base), FailedRuns::of(head));
        let none = |side: &FailedRuns| side.failed + side.expected == 0;
        (!none(&base) || !none(&head)).then_some(Self {
            base,
            head,
            q_value: None,
        })
    }

    /// What a gate makes of the cell: *regressed* where it works in the base and never in the head,
    /// or fails far more often there, and *inconclusive* where the head's runs all failed for what
    /// is no fault of an image. `None` where its metrics speak for it, or neither side has any.
    pub(crate) fn verdict(&self, alpha: f64) -> Option<Verdict> {
        if self.q_value.is_some_and(|q| q <= alpha) {
            return Some(Verdict::Regressed);
        }
        if self.base.all() || !self.head.all() {
            return None;
        }
        Some(match self.head.of_image() {
            0 => Verdict::Inconclusive,
            _ => Verdict::Regressed,
        })
    }

    fn p_value(&self) -> f64 {
        let count = |side: &FailedRuns| Count {
            of_them: side.of_image(),
            all: side.runs - (side.failed - side.of_image()),
        };
        p_of_more(count(&self.base), count(&self.head))
    }
}

/// Compares how often runs fail, over all cells of a comparison.
pub(crate) fn compare_failures<'a>(cells: impl Iterator<Item = &'a mut Option<Failures>>) {
    let cells: Vec<_> = cells.collect();
    let p: Vec<f64> = cells
        .iter()
        .map(|cell| cell.as_ref().map_or(1.0, Failures::p_value))
        .collect();
    for (cell, q) in cells.into_iter().zip(q_values(&p)) {
        if let Some(failures) = cell {
            failures.q_value = Some(q);
        }
    }
}

impl FailedRuns {
    fn of(runs: &Runs<'_>) -> Self {
        let mut reasons = BTreeMap::new();
        for run in runs.values() {
            if let Outcome::Failed(failure) = &run.outcome {
                *reasons.entry(failure.reason).or_insert(0) += 1;
            }
        }
        let expected = |run: &&&Record| matches!(run.outcome, Outcome::Expected(_));
        Self {
            expected: runs.values().filter(expected).count(),
            runs: runs.len(),
            failed: reasons.values().sum(),
            reasons,
        }
    }

    /// How many failed for what may be the image's fault.
    fn of_image(&self) -> usize {
        let own = self.reasons.iter();
        own.filter(|(reason, _)| !of_the_environment(**reason))
            .map(|(_, count)| count)
            .sum()
    }

    /// Whether no run yielded a metric.
    pub fn all(&self) -> bool {
        self.failed == self.runs
    }
}

/// `6 of 6 (4 out-of-memory, 2 crash)`; `0 of 6` where none failed; `0 of 6, 6 as expected`.
impl fmt::Display for FailedRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.failed, self.runs)?;
        let reasons: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, count)| match self.reasons.len() {
                1 => reason.word(),
                _ => format!("{count} {}", reason.word()),
            })
            .collect();
        if !reasons.is_empty() {
            write!(f, " ({})", reasons.join(", "))?;
        }
        match self.expected {
            0 => Ok(()),
            expected => write!(f, ", {expected} as expected"),
        }
    }
}

/// Whether the machine or the harness failed the run, and not what was measured.
fn of_the_environment(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Contaminated
            | Reason::DiskFull
            | Reason::Engine
            | Reason::GpuLost
            | Reason::Interrupted
    )
}

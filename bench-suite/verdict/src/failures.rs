//! Runs of a cell that yielded no metric, and what a gate makes of them.

use std::{collections::BTreeMap, fmt};

use judge::compare::Verdict;
use record::{Outcome, Reason, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::side::Runs;

/// Runs of one cell that failed, on either side. They are left out of every metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failures {
    /// On the base side.
    pub base: FailedRuns,
    /// On the head side.
    pub head: FailedRuns,
}

/// Runs of one cell that failed, on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRuns {
    /// Runs that there were, each with its last attempt.
    pub runs: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How many failed for each reason.
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
        (!none(&base) || !none(&head)).then_some(Self { base, head })
    }

    /// What a gate makes of a cell that works in the base and never in the head: *regressed*, or
    /// *inconclusive* where the head's runs failed for what is no fault of an image. `None` for
    /// every other cell: its metrics speak for it, or neither side has any.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        if self.base.all() || !self.head.all() {
            return None;
        }
        if self
            .head
            .reasons
            .keys()
            .all(|reason| of_the_environment(*reason))
        {
            Some(Verdict::Inconclusive)
        } else {
            Some(Verdict::Regressed)
        }
    }
}

impl FailedRuns {
    fn of(runs: &Runs<'_>) -> Self {
        let mut reasons = BTreeMap::new();
        for run in runs.values() {
            if let Outcome::Failed { reason, .. } = &run.outcome {
                *reasons.entry(*reason).or_insert(0) += 1;
            }
        }
        let expected = |run: &&&Record| matches!(run.outcome, Outcome::Expected { .. });
        Self {
            expected: runs.values().filter(expected).count(),
            runs: runs.len(),
            failed: reasons.values().sum(),
            reasons,
        }
    }

    /// Whether no run yielded a metric.
    #[must_use]
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

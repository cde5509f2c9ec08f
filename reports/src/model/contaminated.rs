//! Attempts that something else on the machine contaminated, and what came of their runs.

use record::{Outcome, Reason, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, failure};
use crate::format::plural;

/// One attempt that was contaminated: no metric and no verdict rests on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contaminated {
    /// The attempt.
    #[serde(flatten)]
    pub failure: Failure,
    /// What contaminated it, in words.
    pub why: Vec<String>,
    /// The last attempt of the same run.
    pub last_attempt: u32,
    /// How that one ended.
    pub last_outcome: Outcome,
}

/// All of a session, in the order in which they ended.
pub(super) fn of(records: &[Record]) -> Vec<Contaminated> {
    let contaminated = records.iter().filter(|record| is_contaminated(record));
    let one = |record: &Record| {
        let failure = failure(record)?;
        let attempts = records.iter().filter(|other| other.run == record.run);
        let last = attempts.max_by_key(|other| other.attempt)?;
        let mut why = record.validity.contamination.clone();
        if why.is_empty() {
            // It was not even started.
            why.push(failure.message.clone());
        }
        Some(Contaminated {
            failure,
            why,
            last_attempt: last.attempt,
            last_outcome: last.outcome.clone(),
        })
    };
    contaminated.filter_map(one).collect()
}

/// Whether something else on the machine contaminated this attempt.
pub(crate) fn is_contaminated(record: &Record) -> bool {
    failure(record).is_some_and(|failure| failure.reason == Reason::Contaminated)
}

impl Contaminated {
    /// What came of the run, in words.
    #[must_use]
    pub fn came_to(&self) -> String {
        let last = self.last_attempt;
        match &self.last_outcome {
            Outcome::Ok => format!("attempt {last} succeeded"),
            Outcome::Expected { .. } => format!("attempt {last} failed as expected"),
            Outcome::Failed { reason, .. } if *reason == Reason::Contaminated => {
                let attempts = plural(last as usize, "attempt", "attempts");
                format!("contaminated in all {attempts}")
            }
            Outcome::Failed { reason, .. } => format!("attempt {last} failed: {}", reason.word()),
        }
    }
}

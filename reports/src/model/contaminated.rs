//! Attempts that something else on the machine contaminated, and what came of their runs.

use record::{Outcome, Reason, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::plural;

/// One try that was contaminated: no metric and no verdict rests on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contaminated {
    /// The session's name.
    pub session: String,
    /// The run's name.
    pub run: String,
    /// The image's name.
    pub image: String,
    /// Scenario and variant.
    pub cell: String,
    /// The block, from 0.
    pub block: u32,
    /// Which try it was, from 1.
    pub attempt: u32,
    /// What contaminated it, in words.
    pub why: Vec<String>,
    /// The last try of the same run.
    pub last_attempt: u32,
    /// How that one ended.
    pub last_outcome: Outcome,
    /// The log, relative to the session folder.
    pub log: Option<String>,
}

/// All of a session, in the order in which they ended.
pub(super) fn of(records: &[Record]) -> Vec<Contaminated> {
    let contaminated = records.iter().filter(|record| is_contaminated(record));
    contaminated.map(|record| one(record, records)).collect()
}

/// Whether something else on the machine contaminated this try.
pub(crate) fn is_contaminated(record: &Record) -> bool {
    matches!(
        record.outcome,
        Outcome::Failed {
            reason: Reason::Contaminated,
            ..
        }
    )
}

fn one(record: &Record, records: &[Record]) -> Contaminated {
    let attempts = records.iter().filter(|other| other.run == record.run);
    let last = attempts.max_by_key(|other| other.attempt).unwrap_or(record);
    let why = match &record.outcome {
        // It was not even started.
        Outcome::Failed { message, .. } if record.validity.contamination.is_empty() => {
            vec![message.clone()]
        }
        _ => record.validity.contamination.clone(),
    };
    Contaminated {
        session: record.session.clone(),
        run: record.run.clone(),
        image: record.image.clone(),
        cell: record.cell(),
        block: record.block,
        attempt: record.attempt,
        why,
        last_attempt: last.attempt,
        last_outcome: last.outcome.clone(),
        log: record.log.clone(),
    }
}

impl Contaminated {
    /// What came of the run, in words.
    #[must_use]
    pub fn came_to(&self) -> String {
        let attempts = plural(self.last_attempt as usize, "attempt", "attempts");
        match &self.last_outcome {
            Outcome::Ok => format!("attempt {} succeeded", self.last_attempt),
            Outcome::Failed {
                reason: Reason::Contaminated,
                ..
            } => format!("contaminated in all {attempts}"),
            Outcome::Failed { reason, .. } => {
                format!("attempt {} failed: {}", self.last_attempt, reason.word())
            }
        }
    }
}

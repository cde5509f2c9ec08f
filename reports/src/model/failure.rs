//! Runs that failed, and attempts that something else on the machine contaminated.

use record::{Outcome, Reason, Record, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::format::plural;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub session: String,
    pub run: String,
    pub image: String,
    /// Scenario and variant.
    pub cell: String,
    /// The block, from 0.
    pub block: u32,
    /// Which try it was, from 1.
    pub attempt: u32,
    /// Why, as a type.
    pub reason: Reason,
    pub stage: Stage,
    /// Why, in words.
    pub message: String,
    /// Whether its suite expects it to fail so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
    /// The log, relative to the session folder.
    pub log: Option<String>,
}

/// One attempt that was contaminated: no metric and no verdict rests on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contaminated {
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
pub(super) fn contaminated(records: &[Record]) -> Vec<Contaminated> {
    let attempts = records.iter().filter(|record| is_contaminated(record));
    let one = |record: &Record| {
        let failure = failure(record)?;
        let tries = records.iter().filter(|other| other.run == record.run);
        let last = tries.max_by_key(|other| other.attempt)?;
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
    attempts.filter_map(one).collect()
}

/// Whether something else on the machine contaminated this attempt.
pub(crate) fn is_contaminated(record: &Record) -> bool {
    failure(record).is_some_and(|failure| failure.reason == Reason::Contaminated)
}

impl Contaminated {
    /// What came of the run, in words.
    pub(crate) fn came_to(&self) -> String {
        let last = self.last_attempt;
        match &self.last_outcome {
            Outcome::Ok => format!("attempt {last} succeeded"),
            Outcome::Expected(_) => format!("attempt {last} failed as expected"),
            Outcome::Failed(failure) if failure.reason == Reason::Contaminated => {
                let attempts = plural(last as usize, "attempt", "attempts");
                format!("contaminated in all {attempts}")
            }
            Outcome::Failed(failure) => {
                format!("attempt {last} failed: {}", failure.reason.word())
            }
        }
    }
}

pub(super) fn failure(record: &Record) -> Option<Failure> {
    let failure = record.outcome.failure()?;
    Some(Failure {
        session: record.session.clone(),
        run: record.run.clone(),
        image: record.image.clone(),
        cell: record.cell(),
        block: record.block,
        attempt: record.attempt,
        reason: failure.reason,
        stage: failure.stage,
        message: failure.message.clone(),
        expected: record.outcome.passes(),
        log: record.log.clone(),
    })
}

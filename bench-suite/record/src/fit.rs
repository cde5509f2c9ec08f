//! What a search for the largest batch found: `fit.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Outcome;

/// Version of `fit.json`.
pub const VERSION: u32 = 3;

/// One search: what was asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// [`VERSION`].
    pub version: u32,
    /// The memory to fit.
    pub memory_bytes: u64,
    /// Where the work ran.
    pub device: String,
    /// The machine's name.
    pub machine: String,
    /// Every combination of the axes but the batch.
    pub found: Vec<Found>,
    /// What to take, a sentence for each image and scenario.
    pub advice: Vec<String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Samples in a micro-batch.
    pub batch: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The most memory that it held: on a GPU that of the process during the measured steps, on the
    /// CPU the container's or process's memory.
    pub peak_bytes: Option<u64>,
    /// Throughput.
    pub throughput_samples_per_second: Option<f64>,
    /// Wall time of the run.
    pub seconds: f64,
    /// Whether it got nowhere with its memory full, and so counts as too large.
    pub stalled: bool,
}

/// What was found out about one combination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The image's name.
    pub image: String,
    /// The suite's name.
    pub suite: String,
    /// The scenario's name.
    pub scenario: String,
    /// The model's name.
    pub model: String,
    /// The choice on every axis but the batch, as text.
    pub combination: String,
    /// Micro-batches in an optimizer step.
    pub accumulation: u32,
    /// Largest batch that fits; `None` where none does.
    pub largest_batch: Option<u32>,
    /// Smallest batch that was too large; on a GPU one more than the largest that fits, on the
    /// CPU within a sixteenth of it.
    pub too_large_batch: Option<u32>,
    /// Whether even the largest batch that was asked for fits, and larger ones may.
    pub reached_most: bool,
    /// Why the search ended before it was done.
    pub problem: Option<String>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
}

impl Found {
    /// The attempt at the largest batch that fits.
    pub fn largest_attempt(&self) -> Option<&Attempt> {
        let batch = self.largest_batch?;
        let mut attempts = self.attempts.iter();
        attempts.find(|attempt| attempt.batch == batch && attempt.outcome.is_ok())
    }
}

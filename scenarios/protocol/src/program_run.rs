//! What the harness asks of a program that is not ours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Snapshot,
    run_file::{is_false, is_zero},
};

/// The variable with the path of the file that a program appends its event lines to. Where it is
/// not set, nobody asks for any.
pub const EVENTS_VARIABLE: &str = "TORCHGAUGE_EVENTS";

/// The variable with a [`ProgramRun`]: the path of its file, or its JSON, which begins with `{`.
pub const RUN_VARIABLE: &str = "TORCHGAUGE_RUN";

/// When a program's run is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// After its measured steps: a program that goes on is ended, and that is a success.
    #[default]
    Measured,
    /// When the program ends by itself.
    Exit,
}

/// What the harness asks of a program that is not ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The run's name, which `started` repeats.
    pub run: String,
    /// Least steps before measuring.
    pub warmup: u32,
    /// Least seconds before measuring: warm-up goes on until both are reached.
    pub warmup_seconds: u32,
    /// Measured steps.
    pub measured: u32,
    /// Steps after the measured ones under a profiler, each of whose kernels is an event.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub profiled: u32,
    /// Whether to attribute memory and time of one warm-up step to the model's modules.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attribution: bool,
    /// When the allocator's history goes to [`crate::SNAPSHOT_FILE`].
    #[serde(default, skip_serializing_if = "Snapshot::is_never")]
    pub snapshot: Snapshot,
    /// Events of it that are kept; 0 where there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub snapshot_entries: u32,
    /// Samples of one step of one process, where the program does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_step: Option<f64>,
    /// When the run is over.
    #[serde(default)]
    pub until: Until,
}

//! What a session was to do, and with what.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use protocol::{Device, Model, Steps, Task, Variant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Claim, ImageFacts, Machine, Reason};

/// `session.json`: the plan, the machine and the images of one `bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The session's name: when it began and four random letters.
    pub session: String,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs or where it was cut off.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// Whether every planned run has a record.
    pub complete: bool,
    /// What measured.
    pub tool: Tool,
    /// The machine.
    pub machine: Machine,
    /// Where runs executed.
    pub engine: EngineFacts,
    /// Where the work ran.
    pub device: Device,
    /// The suites, by name, with the SHA-256 of their text.
    pub suites: BTreeMap<String, String>,
    /// What the suites ask, by name, where they say it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub questions: BTreeMap<String, SuiteQuestion>,
    /// The images.
    pub images: Vec<ImageFacts>,
    /// The cells; each runs once in every block.
    pub cells: Vec<CellPlan>,
    /// Blocks.
    pub blocks: u32,
    /// Seed of the order within blocks.
    pub order_seed: u64,
    /// What its suites claim, for the session to judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// How the session looked at its own metrics to know when to end; `None` where the number of
    /// blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciding: Option<Deciding>,
    /// What the command line asked for, for the session to be resumed without it; `None` before
    /// version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// How runs are carried out.
    #[serde(default)]
    pub policy: RunPolicy,
    /// What `history add` was told about the session.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What the reader should know, such as why no container was used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a suite asks, and the metrics that answer it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteQuestion {
    /// The question, as a sentence.
    pub question: String,
    /// The metrics that answer it, by name, the first one first; those that a gate looks at where
    /// it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered_by: Vec<String>,
}

/// What the command line of a session asked for. Files stand with their whole path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Suites, by name or file.
    pub suites: Vec<String>,
    /// Of the suites these cells or scenarios alone; all where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
    /// Images, by name or file.
    pub images: Vec<String>,
    /// The devices that were chosen: `cpu`, or GPUs such as `cuda:0,1`.
    pub device: String,
    /// The executor that was chosen, with its argument.
    pub engine: String,
    /// libtorch in place of the images' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<PathBuf>,
    /// The `scenario` binary in place of a built one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_binary: Option<PathBuf>,
    /// What images stand on in place of their base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_archive: Option<PathBuf>,
}

/// How runs are carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunPolicy {
    /// The GPUs that runs are spread over; empty where everything runs on the session's device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Device>,
    /// Whether other sessions may measure on the same GPU at the same time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_gpu: bool,
    /// How often a run is attempted again that the engine failed. What the workload failed is never
    /// attempted again; how often a contaminated run is repeated stands in its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_retries: Option<u32>,
}

/// What the user says about a session: `history add --branch`, `--revision`, `--track`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Labels {
    /// The branch it was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What was measured, such as a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The tracks that images are followed along, by image, where they are not the usual ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tracks: BTreeMap<String, String>,
}

impl Labels {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of Torchgauge.
    pub version: String,
    /// The commit it was built from, `-dirty` behind it where the tree was changed.
    pub revision: Option<String>,
    /// The command line.
    pub command: Vec<String>,
}

/// One cell of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellPlan {
    /// The image's name, or `local`.
    pub image: String,
    /// The suite's name.
    pub suite: String,
    /// The scenario's name.
    pub scenario: String,
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// The choice on every axis.
    pub variant: Variant,
    /// How many steps.
    pub steps: Steps,
    /// Seed of parameters, data and dropout.
    pub seed: u64,
    /// Relative changes that count as none, by metric, where the suite sets its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, f64>,
    /// How its runs are to fail; `None`: they are to end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Reason>,
}

/// A session that adds blocks until it is decided what it is to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deciding {
    /// What is compared with what.
    pub sides: SidesCompared,
    /// Seconds that the session may take.
    pub time_budget_seconds: f64,
    /// Most blocks, as asked for.
    pub most_blocks: u32,
    /// Blocks that the time is good for, fixed before the first look: the whole of the error
    /// budget is spent by then. `None` before the first look.
    pub planned_blocks: Option<u32>,
    /// Seconds that the blocks have taken so far.
    pub spent_seconds: f64,
    /// Every look at the metrics, in order.
    pub looks: Vec<Look>,
    /// Why no block is added any more; `None` while the session goes on.
    pub end: Option<LookEnd>,
    /// The metric that alone is to be decided; `None`: every gated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The ratio that it is decided against; `None`: against no change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// How often a decision may be wrong; `None`: as often as a comparison's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// What a session decides on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SidesCompared {
    /// Every other image against this one.
    Images {
        /// The image.
        base: String,
    },
    /// Two values of one axis, within every image.
    Axis {
        /// The axis.
        axis: String,
        /// The value compared against.
        base: String,
        /// The value compared.
        head: String,
    },
}

/// One look at the metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// Blocks that there were.
    pub blocks: u32,
    /// Share of the planned blocks that had run, 1 at the last look: what all looks so far may
    /// have spent of the error budget follows from it.
    pub fraction: f64,
    /// Gated metrics that were decided.
    pub decided: usize,
    /// Gated metrics that were not, by name.
    pub undecided: Vec<String>,
}

/// Why no block is added any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookEnd {
    /// Every gated metric is decided, or yields nothing that further blocks could decide.
    Decided,
    /// The budget of time is used up.
    Time,
    /// The most blocks that were asked for have run.
    Blocks,
}

/// Where runs executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineFacts {
    /// `docker`, `podman` or `process`.
    pub kind: String,
    /// Its version.
    pub version: Option<String>,
    /// Its storage driver.
    pub storage_driver: Option<String>,
    /// How containers reached the GPU.
    pub gpu_path: Option<String>,
}

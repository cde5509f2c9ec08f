//! What a session was to do, and with what.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::PathBuf,
    sync::LazyLock,
};

use jiff::Timestamp;
use protocol::{Axes, Device, Steps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Claim, DeclaredMetric, ImageFacts, MOST_DECLARED, Machine, Place, Reason, Record, Sampled,
    Workload,
};

/// Most cells of a session: beyond, reports take minutes.
pub const MOST_CELLS: usize = 10_000;
/// Most images of a session.
pub const MOST_IMAGES: usize = 500;

/// `session.json`: the plan, the machine and the images of one `bench`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The machines that runs happened on, by name.
    pub hosts: BTreeMap<String, Machine>,
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
    /// Of a part of a session, which has some of its blocks alone, the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_block: Option<u32>,
    /// Seed of the order within blocks.
    pub order_seed: u64,
    /// The metrics that its suites declare.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<DeclaredMetric>,
    /// What its suites claim, for the session to judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// How the session looked at its own metrics to know when to end; `None` where the number of
    /// blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciding: Option<Deciding>,
    /// What the command line asked for, for the session to be resumed without it.
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

/// What others than a run used of its host's CPUs meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// CPUs' worth of time, on average.
    pub used: f64,
    /// The host's CPUs.
    pub cpus: u32,
    /// Whether it is enough to change what the run yields.
    pub is_much: bool,
}

impl Session {
    /// The machine, of several the first by name.
    pub fn machine(&self) -> &Machine {
        static UNKNOWN: LazyLock<Machine> = LazyLock::new(Machine::default);
        self.hosts.values().next().unwrap_or(&UNKNOWN)
    }

    /// The numbers of its blocks, from 0 but in a part of a session.
    pub fn numbers(&self) -> Range<u32> {
        let first = self.first_block.unwrap_or(0);
        first..first.saturating_add(self.blocks)
    }

    /// Cells, by their place, that have no run in a block, since all of theirs is decided.
    pub fn resting(&self, block: u32) -> Option<&BTreeSet<usize>> {
        let mut all = self.rests();
        all.find_map(|(blocks, resting)| blocks.contains(&block).then_some(resting))
    }

    /// What rests after each look, with the blocks up to the next one.
    fn rests(&self) -> impl Iterator<Item = (Range<u32>, &BTreeSet<usize>)> {
        let looks = self.deciding.iter().flat_map(|deciding| &deciding.looks);
        let ends = looks.clone().skip(1).map(|look| look.blocks);
        let both = looks.zip(ends.chain([u32::MAX]));
        both.map(|(look, end)| (look.blocks..end, &look.resting))
    }

    /// How many runs it has in its blocks so far.
    pub fn planned(&self) -> usize {
        let resting = self.rests().map(|(blocks, resting)| {
            let blocks = blocks.end.min(self.blocks).saturating_sub(blocks.start);
            resting.len().saturating_mul(blocks as usize)
        });
        let all = self.cells.len().saturating_mul(self.blocks as usize);
        resting.fold(all, usize::saturating_sub)
    }

    /// What no session can have: of outside, whoever wrote it.
    pub(crate) fn problem(&self) -> Option<String> {
        for (what, count, most) in [
            ("cells", self.cells.len(), MOST_CELLS),
            ("images", self.images.len(), MOST_IMAGES),
            ("metrics", self.metrics.len(), MOST_DECLARED),
        ] {
            if count > most {
                return Some(format!("{count} {what}; at most {most}"));
            }
        }
        let of_metric = |metric: &DeclaredMetric| {
            let (key, expected) = metric.problem()?;
            Some(format!("the metric `{}`, {key}: {expected}", metric.name))
        };
        let of_metrics = self.metrics.iter().find_map(of_metric);
        of_metrics.or_else(|| self.cells.iter().find_map(|cell| cell.axes.problem()))
    }

    /// The machine that a run happened on, of several ranks the first.
    pub fn machine_of(&self, record: &Record) -> &Machine {
        let own = self.hosts.get(&record.host);
        own.unwrap_or_else(|| self.machine())
    }

    /// How many CPUs others used while a run went on; `None` where that is not known.
    pub fn others(&self, record: &Record) -> Option<Others> {
        let cpus = self.machine_of(record).cpu.logical_cores;
        let used = record.monitor.get(Sampled::OtherCores)?.mean;
        // A GPU leaves most of the CPUs idle.
        let most = if record.device.is_cuda() { 0.5 } else { 0.25 };
        (cpus > 0).then_some(Others {
            used,
            cpus,
            is_much: used > most * f64::from(cpus),
        })
    }

    /// The names of its machines: `gpu-1`, or `gpu-1, gpu-2`.
    pub fn machine_names(&self) -> String {
        let names: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
        names.join(", ")
    }
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
    /// Of a question whether something is so, what makes the answer yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yes_when: Option<YesWhen>,
}

/// What makes the answer to a question yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum YesWhen {
    /// Runs stay within their limit of memory.
    Fits,
    /// Deterministic runs have the same losses to the bit.
    SameBits,
    /// Every run passes.
    Succeeds,
    /// The first metric that answers changes beyond its threshold, or one that a gate looks at where
    /// none is named.
    Changes,
    /// Every claim of the suite holds.
    ClaimsHold,
}

/// What the command line of a session asked for. Files stand with their whole path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Suites, by name or file.
    pub suites: Vec<String>,
    /// The suite, as a text, of a program that was given on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
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
    /// What runs are spread over; empty where everything runs on the session's device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// Whether other sessions may measure on the same GPU at the same time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_gpu: bool,
    /// Whether others may use the CPUs at the same time, other sessions on the CPU among them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_cpu: bool,
    /// Whether unified memory may be more than a GPU has, where `limits.gpu_memory` is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribes_gpu: bool,
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
    /// What runs.
    pub workload: Workload,
    /// The choice on every axis.
    pub axes: Axes,
    /// How many steps.
    pub steps: Steps,
    /// Processes of a run, each on a GPU of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// Seed of parameters, data and dropout.
    pub seed: u64,
    /// Relative changes that count as none, by metric, where the suite sets its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, f64>,
    /// How its runs are to fail; `None`: they are to end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Reason>,
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_one(ranks: &u32) -> bool {
    *ranks == 1
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
    /// Cells that rest from here on, by their place in the session: nothing of them is undecided.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resting: BTreeSet<usize>,
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

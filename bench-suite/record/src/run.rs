//! What one run yielded.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use protocol::{
    Axes, Device, Kernel, MOST_KERNELS, MOST_MODULES, MemoryPoint, Module, Phase, Shortage,
    Started, Values, bad_name, bad_values,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Method, Monitor, Outcome, Place, Validity, Window, Workload, machine};

/// One execution of a cell, successful or not: one line of `records.ndjson`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The run's name, unique in the session.
    pub run: String,
    /// The session's name.
    pub session: String,
    /// The image's name, or `local` for a run without one.
    pub image: String,
    /// The ID under which the engine ran it.
    pub image_id: Option<String>,
    /// The suite's name.
    pub suite: String,
    /// The scenario's name in the suite.
    pub scenario: String,
    /// What ran.
    pub workload: Workload,
    /// The choice on every axis.
    pub axes: Axes,
    /// The host that it ran on, of several ranks the first; one of the session's.
    #[serde(default)]
    pub host: String,
    /// Where it ran, of several ranks the first.
    pub device: Device,
    /// The block, from 0. Runs of one block are compared with each other.
    pub block: u32,
    /// Place in the session's order, from 0.
    pub order: u32,
    /// Which try at this run it was, from 1.
    pub attempt: u32,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// Wall time of the whole run as the harness saw it, in seconds.
    pub wall_seconds: f64,
    /// What separated the run from the rest of the machine.
    pub isolation: Isolation,
    /// How it was measured.
    pub method: Method,
    /// How it ended.
    pub outcome: Outcome,
    /// Versions and device as the workload reports them; `None` where it never started.
    pub started: Option<Started>,
    /// What the run yielded, by name. The catalogue of metrics says what the names mean, and the
    /// session's own rows what a suite declared. Values of a failed run are for looking at, never
    /// for verdicts.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// What each measured step yielded, by name: `step_seconds`, `loss`; `None` where a step did
    /// not yield it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<Option<f64>>>,
    /// What it was made with, as its workload or program says, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// What ran in a profiled step after the measured ones, the longest first; of several ranks in
    /// the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Kernel>,
    /// What the model's modules take of a warm-up step, by name; of several ranks in the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Module>,
    /// Memory at moments outside of measuring, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_points: Vec<MemoryPoint>,
    /// The processes of a run that has several, in the order of their ranks; `values` is then
    /// what they come to together, and everything else is of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Rank>,
    /// Time of each phase of the workload, in seconds.
    #[serde(default)]
    pub phase_seconds: BTreeMap<Phase, f64>,
    /// When each phase of the workload began, in seconds since the run's start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phase_began_seconds: BTreeMap<Phase, f64>,
    /// What the harness itself took.
    pub harness: HarnessCost,
    /// What was seen from outside.
    #[serde(default)]
    pub monitor: Monitor,
    /// Whether the machine was fit to measure on.
    #[serde(default)]
    pub validity: Validity,
    /// The log, relative to the session folder.
    pub log: Option<String>,
    /// The allocator's history as `torch.cuda._memory_viz` reads it, relative to the session folder,
    /// where it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The allocation that failed, where memory ran out on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// What to know before believing the run, such as a limit that the engine refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What else went on, such as how it was ended, and what memory held when that ran out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the cells of one scenario and one variant are called: `resnet50 · fp32 bs64`; the scenario
/// alone where no axis has a name, as of a program without parameters.
pub fn cell_name(scenario: &str, variant: &str) -> String {
    match variant {
        "" => scenario.to_owned(),
        variant => format!("{scenario} · {variant}"),
    }
}

impl Record {
    /// Scenario and variant as one line of text: what two images are compared on.
    pub fn cell(&self) -> String {
        cell_name(&self.scenario, &self.axes.to_string())
    }

    /// What no run can have yielded, or no cell be named by.
    pub(crate) fn problem(&self) -> Option<String> {
        let of_ranks = self.ranks.iter().map(|rank| &rank.values);
        let mut values = [&self.values].into_iter().chain(of_ranks);
        let mut series = self.series.keys();
        let of_series = |name: &String| Some(format!("the series `{name}`: {}", bad_name(name)?));
        let of_kernels = || {
            let count = self.kernels.len();
            let many = (count > MOST_KERNELS).then(|| format!("{count} kernels"));
            many.or_else(|| self.kernels.iter().find_map(Kernel::problem))
        };
        let of_modules = || {
            let count = self.modules.len();
            let many = (count > MOST_MODULES).then(|| format!("{count} modules"));
            many.or_else(|| self.modules.iter().find_map(Module::problem))
        };
        let of_axes = || self.axes.problem();
        values
            .find_map(bad_values)
            .or_else(|| series.find_map(of_series))
            .or_else(of_kernels)
            .or_else(of_modules)
            .or_else(of_axes)
    }

    /// A value of a run that went well; `None` where the run failed or did not yield it.
    pub fn value(&self, name: &str) -> Option<f64> {
        let value = self.outcome.is_ok().then(|| self.values.get(name))?;
        value.copied().filter(|value| value.is_finite())
    }

    /// What the measured steps yielded under this name, without steps that did not.
    pub fn series(&self, name: &str) -> impl Iterator<Item = f64> + Clone {
        let series = self.series.get(name).map_or(&[][..], Vec::as_slice);
        series.iter().copied().flatten()
    }

    /// When a phase of the workload passed; `None` where that is not known.
    pub fn window(&self, phase: Phase) -> Option<Window> {
        Window::of(phase, &self.phase_began_seconds, &self.phase_seconds)
    }

    /// UUID of the run's GPU, spelled as [`crate::Gpu::uuid`] spells it: what the workload told;
    /// else that of the GPU it was sent to. `None` on the CPU and where neither is known.
    pub fn gpu_uuid(&self, machine: &Machine) -> Option<String> {
        if !self.device.is_cuda() {
            return None;
        }
        let told = self.started.as_ref().and_then(|told| told.cuda.as_ref());
        let told = told.and_then(|cuda| machine::spelled(&cuda.uuid));
        told.or_else(|| machine.gpu(self.device)?.uuid())
    }
}

/// One process of a run that has several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// Where it ran.
    pub place: Place,
    /// Versions and device as it reports them.
    pub started: Option<Started>,
    /// What it yielded, by name.
    pub values: Values,
}

/// What separated a run from the rest of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// What it ran in, such as `container` or `process`.
    pub engine: String,
    /// The container's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How a container reached the GPU: `cdi`, `nvidia-runtime`, `passthrough`, or Apptainer's `nv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_path: Option<String>,
    /// What a container would have separated, and was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// `container`, and what it does not separate.
impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.engine)?;
        if self.missing.is_empty() {
            return Ok(());
        }
        write!(f, " without {}", self.missing.join(", "))
    }
}

impl Isolation {
    /// Of a run in an engine that separates none of these.
    pub fn without(engine: &str, missing: &[&str]) -> Self {
        Self {
            engine: engine.to_owned(),
            missing: missing.iter().map(|&what| what.to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// What the harness itself took, in seconds: everything but the workload's own phases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarnessCost {
    /// Making the container or the process's folder.
    pub create_seconds: f64,
    /// From the order to start until the workload's process began, where it told so.
    pub start_seconds: f64,
    /// From the end of the workload until the harness knew.
    pub notice_seconds: f64,
    /// Removing the container.
    pub remove_seconds: f64,
}

impl HarnessCost {
    /// All of it.
    pub fn total_seconds(&self) -> f64 {
        self.create_seconds + self.start_seconds + self.notice_seconds + self.remove_seconds
    }
}

//! A scenario, expanded: its variants, and where each may run.

use std::{collections::BTreeMap, sync::Arc};

use protocol::{Axes, Device, Model, Steps, Task, Trace, Variant};
use record::{Reason, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{limits::Limits, program::Program, validity::ValidityKeys};

/// Where a scenario may run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The CPU.
    Cpu,
    /// A CUDA GPU.
    Cuda,
}

impl DeviceKind {
    /// A device of this kind, for checks that do not care which.
    pub fn any(self) -> Device {
        match self {
            Self::Cpu => Device::Cpu,
            Self::Cuda => Device::Cuda(0),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda(_) => Self::Cuda,
        }
    }
}

/// One scenario of a suite, expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name, unique in the suite.
    pub name: String,
    pub description: Option<String>,
    /// What it measures; of a program the command with the places of its parameters.
    pub workload: Workload,
    pub steps: Steps,
    /// Seed of parameters, data and dropout.
    pub seed: u64,
    /// Threads for work on the CPU; `None`: as many as the run may use.
    pub threads: Option<u32>,
    pub limits: Limits,
    /// Relative changes that count as none, by metric, where the suite sets its own.
    pub thresholds: BTreeMap<String, f64>,
    /// From when on the machine is not fit to measure on.
    pub validity: ValidityKeys,
    /// The variants, in the order of the axes, included ones last.
    pub variants: Vec<ScenarioVariant>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// What the built-in workload computes, as its run file says it.
    Builtin {
        model: Model,
        task: Task,
        variant: Variant,
        /// What the task allocation makes.
        trace: Option<Arc<Trace>>,
    },
    /// A program of the user's, with the variables that axes of ours set.
    Program {
        program: Box<Program>,
        /// The choice on the axes of ours.
        variant: Variant,
    },
}

impl Work {
    /// The choice on the axes of ours.
    pub fn variant(&self) -> &Variant {
        let (Self::Builtin { variant, .. } | Self::Program { variant, .. }) = self;
        variant
    }

    pub fn program(&self) -> Option<&Program> {
        match self {
            Self::Builtin { .. } => None,
            Self::Program { program, .. } => Some(program),
        }
    }

    /// Why no step of it can be attributed to modules, where one is to be.
    pub(crate) fn check_attribution(&self, steps: &Steps) -> Result<(), &'static str> {
        match self {
            Self::Builtin { task, variant, .. } => steps.check_attribution(*task, variant),
            Self::Program { .. } => steps.check_attribution(Task::Training, &Variant::default()),
        }
    }

    /// Why its steps cannot be what a suite says, and the key that does.
    pub(super) fn check_steps(
        &self,
        steps: &Steps,
        device: Device,
    ) -> Result<(), (&'static str, String)> {
        let of = |key, what| move |why| (key, format!("{what}: {why}"));
        let attributed = of("attribution", "no step can be attributed to modules");
        self.check_attribution(steps).map_err(attributed)?;
        let recorded = of("snapshot", "no allocations can be recorded");
        steps
            .check_snapshot(device, self.variant())
            .map_err(recorded)
    }
}

/// One variant and where it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioVariant {
    pub axes: Axes,
    pub work: Work,
    /// Processes of a run, each on a GPU of its own.
    pub ranks: u32,
    /// The devices, at least one.
    pub devices: Vec<DeviceKind>,
    /// How its runs are to fail there; nothing where they are to end well.
    pub expected: BTreeMap<DeviceKind, Reason>,
}

impl Scenario {
    pub fn variants_for(&self, device: DeviceKind) -> impl Iterator<Item = &ScenarioVariant> {
        self.variants
            .iter()
            .filter(move |one| one.devices.contains(&device))
    }
}

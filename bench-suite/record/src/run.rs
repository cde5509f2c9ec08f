//! What one run yielded.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use protocol::{
    Device, MemoryPoint, Model, Phase, Shortage, Started, Step, Summary, Task, Variant,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Method, Monitor, Outcome, Peaks, Validity, Window, machine};

/// One execution of a cell, successful or not: one line of `records.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// The choice on every axis.
    pub variant: Variant,
    /// Where it ran.
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
    /// How it was measured; empty in records before version 3, see [`Method::of`].
    #[serde(default)]
    pub method: Method,
    /// How it ended.
    pub outcome: Outcome,
    /// Versions and device as the workload told them; `None` where it never started.
    pub workload: Option<Started>,
    /// The metrics; `None` where the run failed before it had them. Metrics of a failed run
    /// are for looking at, never for verdicts.
    pub metrics: Option<Metrics>,
    /// The measured steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Time of each phase of the workload, in seconds.
    #[serde(default)]
    pub phase_seconds: BTreeMap<Phase, f64>,
    /// When each phase of the workload began, in seconds since the run's start; none in records of
    /// version 1.
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
    /// The allocation that failed, where memory ran out on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// What the reader should know, such as a limit that the engine refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Record {
    /// Scenario and variant as one line of text: what two images are compared on.
    #[must_use]
    pub fn cell(&self) -> String {
        format!("{} · {}", self.scenario, self.variant)
    }

    /// When a phase of the workload passed; `None` where that is not known.
    #[must_use]
    pub fn window(&self, phase: Phase) -> Option<Window> {
        Window::of(phase, &self.phase_began_seconds, &self.phase_seconds)
    }

    /// UUID of the run's GPU, spelled as [`crate::Gpu::uuid`] spells it: what the workload told;
    /// else that of the GPU it was sent to. `None` on the CPU and where neither is known.
    #[must_use]
    pub fn gpu_uuid(&self, machine: &Machine) -> Option<String> {
        let Device::Cuda(index) = self.device else {
            return None;
        };
        let told = self.workload.as_ref().and_then(|told| told.cuda.as_ref());
        let told = told.and_then(|cuda| machine::spelled(&cuda.uuid));
        told.or_else(|| {
            let mut gpus = machine.gpus.iter();
            gpus.find(|gpu| gpu.index == index)?.uuid()
        })
    }
}

/// What a run yielded: what the workload told, and what was worked out beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// What the workload told.
    #[serde(flatten)]
    pub summary: Summary,
    /// Distribution of the step times. A step of the task idle is as long as it was asked to be.
    pub step_seconds: StepTimes,
    /// Model operations a second over those of the matrix product, from 0 to 1.
    #[serde(default)]
    pub utilization: Option<f64>,
    /// Memory at moments outside of measuring, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_points: Vec<MemoryPoint>,
    /// Peaks of what was seen from outside, each of one window.
    #[serde(flatten)]
    pub peaks: Peaks,
}

/// Distribution of step times, in seconds. Quantiles are linear between order statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTimes {
    /// Least.
    pub minimum: f64,
    /// Mean.
    pub mean: f64,
    /// Half are below.
    pub median: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// Greatest.
    pub maximum: f64,
}

impl StepTimes {
    /// Of the measured steps; `None` where there are none.
    #[must_use]
    pub fn of(steps: &[Step]) -> Option<Self> {
        let mut times: Vec<f64> = steps.iter().map(|step| step.seconds).collect();
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let quantile = |share: f64| {
            let place = share * last as f64;
            let below = place.floor();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in the list, from 0 to its last index"
            )]
            let index = below as usize;
            let above = times[(index + 1).min(last)];
            times[index] + (above - times[index]) * (place - below)
        };
        Some(Self {
            minimum: times[0],
            mean: times.iter().sum::<f64>() / times.len() as f64,
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            maximum: times[last],
        })
    }
}

/// What separated a run from the rest of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// What it ran in, such as `container` or `process`.
    pub engine: String,
    /// The container's ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How a container reached the GPU: `cdi`, `nvidia-runtime` or `passthrough`.
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
    #[must_use]
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
    #[must_use]
    pub fn total_seconds(&self) -> f64 {
        self.create_seconds + self.start_seconds + self.notice_seconds + self.remove_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_times_by_hand() {
        let steps: Vec<Step> = [4.0, 1.0, 3.0, 2.0]
            .into_iter()
            .zip(0..)
            .map(|(seconds, index)| Step {
                index,
                seconds,
                ..Step::default()
            })
            .collect();
        let times = StepTimes::of(&steps).unwrap();
        assert!((times.median - 2.5).abs() < 1e-12);
        assert!((times.p90 - 3.7).abs() < 1e-12);
        assert!((times.mean - 2.5).abs() < 1e-12);
        assert!((times.minimum - 1.0).abs() < 1e-12 && (times.maximum - 4.0).abs() < 1e-12);
        assert_eq!(StepTimes::of(&[]), None);
    }
}

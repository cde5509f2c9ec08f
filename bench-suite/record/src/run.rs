//! What one run yielded.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{
    Device, Memory, MemoryPoint, Model, Phase, ScalerState, Shortage, Started, Step, Task, Variant,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Monitor, Outcome, Validity, machine};

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

/// The metrics of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Samples that the measured steps processed, over their wall time; `None` for the task idle.
    pub throughput_samples_per_second: Option<f64>,
    /// Samples that the measured steps processed.
    pub samples: u64,
    /// Wall time of the measured steps, from an idle device to an idle device.
    pub measured_seconds: f64,
    /// CPU time that the process took during the measured steps, all threads together, in
    /// hundredths of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// As `cpu_seconds`, from the start of the process to the end of the measured steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_cpu_seconds: Option<f64>,
    /// Distribution of the step times. A step of the task idle is as long as it was asked to be.
    pub step_seconds: StepTimes,
    /// Samples in one micro-batch; like all samples 0 for the task idle.
    pub micro_batch: u64,
    /// Samples in one optimizer step.
    pub effective_batch: u64,
    /// Trainable parameters.
    pub parameters: u64,
    /// Steps of the warm-up; `None` in records from before it was told.
    #[serde(default)]
    pub warmup_steps: Option<u32>,
    /// Floating-point operations of the model for a sample, two for each multiply-add;
    /// recomputation does not count.
    #[serde(default)]
    pub model_flops_per_sample: Option<f64>,
    /// What a large matrix product reached in the same run and precision, in operations a second.
    #[serde(default)]
    pub matmul_flops_per_second: Option<f64>,
    /// Model operations a second over that, from 0 to 1.
    #[serde(default)]
    pub utilization: Option<f64>,
    /// Loss of the first step of the run; training only.
    pub first_loss: Option<f64>,
    /// Loss of the last step of the run; training only.
    pub last_loss: Option<f64>,
    /// The loss scaler; amp-fp16 training only.
    pub scaler: Option<ScalerState>,
    /// Memory as the workload read it.
    pub memory: Memory,
    /// Memory at moments outside of measuring, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_points: Vec<MemoryPoint>,
    /// Most bytes of the GPU that the run's process held, seen from outside.
    pub process_peak_bytes: Option<u64>,
    /// Most bytes of host memory that the container or process held, seen from outside.
    pub container_peak_bytes: Option<u64>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "engine", rename_all = "kebab-case")]
pub enum Isolation {
    /// A fresh container.
    Container {
        /// Its ID.
        id: Option<String>,
        /// How it reached the GPU: `cdi`, `nvidia-runtime` or `passthrough`.
        gpu_path: Option<String>,
    },
    /// A plain process.
    Process {
        /// What a container would have separated.
        missing: Vec<String>,
    },
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

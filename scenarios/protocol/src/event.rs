//! What the workload reports, one JSON object a line: an [`Event`], and beside it the `rank` of the
//! process that wrote it, where a run has several.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Kernel, Module, Values};

/// A stretch of a run, in order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// From the start of the process to the end of reading the run file.
    ProcessStart,
    /// Making the CUDA context.
    CudaStart,
    /// Making the model and the optimizer state.
    ModelBuild,
    /// Making the synthetic data.
    Data,
    /// Steps before measuring.
    Warmup,
    /// Measured steps.
    Measure,
    /// Steps under a profiler, where some were asked for.
    Profile,
    /// Freeing everything.
    Teardown,
    /// Timing a large matrix product, the ceiling that utilisation is a share of. Last, so that
    /// nothing measured feels it.
    Calibrate,
}

/// A moment of a run at which memory is read. The device is idle at each, so they lie outside of
/// measuring.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The CUDA context is made, and no tensor yet.
    Context,
    /// The model is made. The optimizer's state comes with its first step.
    Model,
    /// The synthetic data are on the device.
    Data,
    /// The first micro-batch of a warm-up step has gone forward.
    Forward,
    /// The gradients of all micro-batches of a warm-up step are there.
    Backward,
    /// The optimizer has taken a warm-up step.
    OptimizerStep,
}

/// Memory at a [`Moment`]. `None` is «cannot be known here», never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPoint {
    /// When.
    pub moment: Moment,
    /// The warm-up step, from 0; `None` before the first.
    pub step: Option<u32>,
    /// Bytes in tensors.
    pub allocated_bytes: Option<u64>,
    /// Most bytes in tensors since the last point.
    pub peak_allocated_bytes: Option<u64>,
    /// Bytes held by the caching allocator; on a GPU only.
    pub reserved_bytes: Option<u64>,
    /// Bytes of the GPU in use by everybody.
    pub device_used_bytes: Option<u64>,
}

/// One line of the results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: what runs.
    Started(Box<Started>),
    /// A phase began.
    PhaseBegan {
        /// Which.
        phase: Phase,
        /// When, in seconds since 1970, so that what was seen from outside finds its window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_seconds: Option<f64>,
    },
    /// A phase ended.
    PhaseEnded {
        /// Which.
        phase: Phase,
        /// How long it took.
        seconds: f64,
    },
    /// A sign of life from the step loop, at most one a second.
    Heartbeat {
        /// Where the run is.
        phase: Phase,
        /// Steps finished in this phase.
        step: u32,
    },
    /// Memory at a moment outside of measuring.
    Memory(MemoryPoint),
    /// One measured step. Written after the last of them, so that writing contaminates none.
    Step(Step),
    /// What a kernel takes of a profiled step, written after the last of them. A later one of the
    /// same name takes its place.
    Kernel(Kernel),
    /// What a module takes of one warm-up step. A later one of the same name takes its place.
    Module(Module),
    /// One value of a program's run, before the last line. A later one of the same name takes its
    /// place.
    Value {
        /// Up to 64 of a-z, 0-9 and _, a letter first.
        name: String,
        /// Finite.
        value: f64,
        /// What it is counted in; `None` where the name is that of a metric of the catalogue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
        /// Which way it improves, `less` or `more`; `None` where it only describes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        better: Option<String>,
        /// Who read it.
        #[serde(default)]
        source: Source,
    },
    /// What a program's run was made with, such as versions, by name.
    Facts {
        /// Up to 200 letters each.
        facts: BTreeMap<String, String>,
    },
    /// The last line of a run that went well.
    Finished {
        /// What the run yielded.
        values: Values,
    },
    /// The last line of a run that did not.
    Failed {
        /// Why, as a type.
        reason: FailureReason,
        /// Where.
        phase: Phase,
        /// Why, in words; the first lines of libtorch's message where it has one.
        message: String,
        /// What can still be read at that moment, such as memory.
        #[serde(default, skip_serializing_if = "Values::is_empty")]
        values: Values,
        /// The allocation that failed, where memory ran out on a GPU.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortage: Option<Shortage>,
    },
}

/// Who read a value of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The program itself.
    #[default]
    Program,
    /// `torchgauge.py`, which the program calls.
    Helper,
    /// The hook, of which the program knows nothing.
    Hook,
}

/// What runs: versions and device, as libtorch itself says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The run's name out of the run file.
    pub run: String,
    /// Version of the `scenario` binary; empty where a program runs.
    #[serde(default)]
    pub scenario_version: String,
    /// libtorch's version, such as `2.11.0`; empty where a program has none.
    #[serde(default)]
    pub libtorch_version: String,
    /// Threads for work on the CPU; 0 where a program does not say.
    #[serde(default)]
    pub threads: u32,
    /// The GPU, where the run uses one.
    pub cuda: Option<CudaFacts>,
    /// The allocator's settings as libtorch says that it uses them; on a GPU only.
    pub allocator: Option<String>,
    /// NCCL's variables in the environment; on a GPU only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nccl: BTreeMap<String, String>,
}

/// The GPU and its libraries, as the workload sees them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CudaFacts {
    /// The GPU's name.
    pub device_name: String,
    /// The GPU's UUID, `GPU-…`.
    pub uuid: String,
    /// Compute capability, such as `9.0`.
    pub capability: String,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Memory of the GPU.
    pub total_memory_bytes: u64,
    /// CUDA runtime linked in, such as `13.0`.
    pub runtime_version: String,
    /// Newest CUDA that the driver knows, such as `13.0`.
    pub driver_cuda_version: String,
    /// cuDNN, such as `9.19.0`; `None` where it is not there.
    pub cudnn_version: Option<String>,
    /// NCCL, such as `2.28.9`; `None` where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl_version: Option<String>,
}

/// One measured step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// From 0.
    pub index: u32,
    /// What the step yielded, by name: `step_seconds`, and whatever else the workload reads at
    /// each step. A name becomes a series of the run.
    pub values: Values,
}

/// An allocation on a GPU that failed, and what the caching allocator held at that moment.
// As libtorch's shim fills it in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[repr(C)]
pub struct Shortage {
    /// Bytes that were asked for, rounded up to what would have been taken from the driver.
    pub requested_bytes: u64,
    /// Bytes of the GPU that nobody used.
    pub free_bytes: u64,
    /// Bytes of the GPU, or of the share of it that the run may take.
    pub capacity_bytes: u64,
    /// Bytes in tensors.
    pub allocated_bytes: u64,
    /// Bytes that the allocator held.
    pub reserved_bytes: u64,
}

/// Why a run failed, as far as the workload itself can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureReason {
    /// The run file cannot be read or asks for a combination that means nothing.
    BadRunFile,
    /// No such device, or libtorch cannot use it.
    DeviceUnavailable,
    /// An allocator setting did not take.
    SettingIgnored,
    /// The device's memory ran out.
    OutOfMemory,
    /// The host has no memory left for what is offloaded.
    HostOutOfMemory,
    /// The loss is NaN or infinite.
    LossNotFinite,
    /// The loss did not fall over the run, although it trains on data that it sees again and
    /// again.
    LossNotFalling,
    /// The step cannot be captured as a CUDA graph.
    NotCapturable,
    /// A trainable parameter received no gradient.
    GradientMissing,
    /// Serving keeps its latency objective at no rate of arrivals.
    SloNotMet,
    /// A worker of the data loader ended, `/dev/shm` has no room for its batches, or its folder
    /// has a file that it cannot read.
    DataLoader,
    /// Ranks could not exchange something: one of them ended or hangs, or a GPU does not see
    /// another.
    Exchange,
    /// libtorch threw something else.
    Libtorch,
    /// The results file cannot be written.
    Results,
    /// A program ended with an exception, or gave up.
    Exception,
    /// A rank died of a signal, as whoever started it saw.
    RankCrash,
    /// A rank could not be started, or ended with a status and no reason, as whoever started it saw.
    RankExit,
    /// A rank still ran long after others were done, and was ended by whoever started it.
    RankHang,
}

impl FailureReason {
    /// Whether it is told by whoever started the process, for that could not: the cause of the run's
    /// failure then, whichever rank spoke before.
    pub fn is_from_outside(self) -> bool {
        matches!(self, Self::RankCrash | Self::RankExit | Self::RankHang)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_tagged_line() {
        let event = Event::PhaseEnded {
            phase: Phase::ModelBuild,
            seconds: 0.25,
        };
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(
            line,
            r#"{"event":"phase-ended","phase":"model-build","seconds":0.25}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }

    #[test]
    fn a_step_names_its_values() {
        let line = r#"{"event":"step","index":3,"values":{"loss":2.0,"step_seconds":0.5}}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }
}

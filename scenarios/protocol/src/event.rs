//! What the workload tells, one JSON object a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The last line of a run that went well.
    Finished(Box<Summary>),
    /// The last line of a run that did not.
    Failed {
        /// Why, as a type.
        reason: FailureReason,
        /// Where.
        phase: Phase,
        /// Why, in words; the first lines of libtorch's message where it has one.
        message: String,
        /// Memory at that moment, where it can still be read.
        memory: Option<Box<Memory>>,
    },
}

/// What runs: versions and device, as libtorch itself says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The run's name out of the run file.
    pub run: String,
    /// Version of the `scenario` binary.
    pub scenario_version: String,
    /// libtorch's version, such as `2.11.0`.
    pub libtorch_version: String,
    /// Threads for work on the CPU.
    pub threads: u32,
    /// The GPU, where the run uses one.
    pub cuda: Option<CudaFacts>,
    /// The allocator's settings as libtorch says that it uses them; on a GPU only.
    pub allocator: Option<String>,
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
}

/// One measured step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// From 0.
    pub index: u32,
    /// Time of the step; on a GPU between two CUDA events.
    pub seconds: f64,
    /// Mean loss over the step's micro-batches; `None` for inference.
    pub loss: Option<f64>,
    /// Tokens in its sequences, where the variant draws a length for each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_length: Option<u32>,
    /// Whether the loss scaler skipped the optimizer step because a gradient was not finite.
    pub skipped: bool,
    /// Where the time went; `None` for inference, for a replayed graph, and where the run file
    /// asks for no parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<StepParts>,
}

/// Where the time of a training step went. The parts add up to the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepParts {
    /// Waiting for the next micro-batches of a data loader and bringing them to the device; `None`
    /// where the batches lie there from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_seconds: Option<f64>,
    /// Forward and loss of all micro-batches, and dropping the gradients of the step before.
    pub forward_seconds: f64,
    /// Backward of all micro-batches, recomputation included.
    pub backward_seconds: f64,
    /// Unscaling and the optimizer.
    pub optimizer_seconds: f64,
}

/// Memory metrics. `None` is «cannot be known here», never 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Most bytes in tensors during the measured steps. On a GPU from libtorch's allocator,
    /// on the CPU from a counting allocator.
    pub peak_allocated_bytes: Option<u64>,
    /// Most bytes that the caching allocator held during the measured steps; on a GPU only.
    pub peak_reserved_bytes: Option<u64>,
    /// As `peak_allocated_bytes`, over the whole run, warm-up included.
    pub run_peak_allocated_bytes: Option<u64>,
    /// As `peak_reserved_bytes`, over the whole run, warm-up included.
    pub run_peak_reserved_bytes: Option<u64>,
    /// Bytes in tensors at the end of the last measured step.
    pub allocated_bytes: Option<u64>,
    /// Bytes held by the caching allocator at the end of the last measured step.
    pub reserved_bytes: Option<u64>,
    /// Bytes of parameters.
    pub parameter_bytes: Option<u64>,
    /// Bytes of gradients.
    pub gradient_bytes: Option<u64>,
    /// Bytes of optimizer state.
    pub optimizer_bytes: Option<u64>,
    /// Bytes of the GPU that making the CUDA context took: in use once it was made and before
    /// the first tensor, less those in use before, both as NVML says; on a GPU only. Another
    /// process that takes or frees memory in that moment counts too.
    pub context_bytes: Option<u64>,
    /// Bytes of the GPU in use before this process made its context; on a GPU only.
    #[serde(default)]
    pub device_used_before_bytes: Option<u64>,
    /// Bytes of the GPU in use by all processes at the end of the last measured step.
    pub device_used_bytes: Option<u64>,
    /// Bytes of the GPU.
    pub device_total_bytes: Option<u64>,
    /// Most resident bytes of the process in host memory (`VmHWM`).
    pub host_peak_resident_bytes: Option<u64>,
    /// The caching allocator's counters; on a GPU only.
    pub counters: Option<AllocatorCounters>,
    /// The allocation that failed; only where memory ran out on a GPU. «Now» is then that moment
    /// for the allocator's bytes, and not the end of the work that failed, which gave them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
}

impl Memory {
    /// Bytes of the GPU outside the allocator at the end of the last measured step: the CUDA
    /// context, libraries, their workspaces. What other processes took meanwhile counts too.
    #[must_use]
    pub fn outside_allocator_bytes(&self) -> Option<u64> {
        let own = self
            .device_used_bytes?
            .checked_sub(self.device_used_before_bytes?)?;
        own.checked_sub(self.reserved_bytes?)
    }
}

/// An allocation on a GPU that failed, and what the caching allocator held at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Counters of the caching allocator. Those of events count the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocatorCounters {
    /// Times that a failed allocation was tried again after giving cached memory back.
    pub retries: u64,
    /// Times that memory ran out.
    pub out_of_memory: u64,
    /// Allocations asked of the driver; `None` where the backend does not count them.
    pub device_allocations: Option<u64>,
    /// Blocks given back to the driver; `None` where the backend does not count them.
    pub device_frees: Option<u64>,
    /// Bytes that tensors asked for, before rounding up to whole blocks, at the end of the last
    /// measured step. Like all below, `None` where the backend does not count them.
    #[serde(default)]
    pub requested_bytes: Option<u64>,
    /// Most of them during the measured steps.
    #[serde(default)]
    pub peak_requested_bytes: Option<u64>,
    /// Bytes in tensors, and in blocks that wait until a stream is done with them.
    #[serde(default)]
    pub active_bytes: Option<u64>,
    /// Most of them during the measured steps.
    #[serde(default)]
    pub peak_active_bytes: Option<u64>,
    /// Bytes in split blocks that nothing uses.
    #[serde(default)]
    pub inactive_split_bytes: Option<u64>,
    /// Most of them over the whole run.
    pub peak_inactive_split_bytes: Option<u64>,
    /// Segments taken from the driver.
    #[serde(default)]
    pub segments: Option<u64>,
    /// Most of them over the whole run.
    pub peak_segments: Option<u64>,
}

/// The loss scaler at the end of an amp-fp16 run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalerState {
    /// The scale.
    pub scale: f64,
    /// Optimizer steps skipped in warm-up.
    pub skipped_in_warmup: u32,
    /// Optimizer steps skipped while measuring.
    pub skipped_while_measuring: u32,
}

/// What a run yielded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Trainable parameters of the model.
    pub parameters: u64,
    /// Samples in one micro-batch; like all samples 0 for the task idle.
    pub micro_batch: u64,
    /// Samples in one optimizer step.
    pub effective_batch: u64,
    /// Steps of the warm-up: at least those asked for, more where they took less than the
    /// seconds asked for; `None` in records from before it was told.
    #[serde(default)]
    pub warmup_steps: Option<u32>,
    /// Samples that the measured steps processed.
    pub samples: u64,
    /// Wall time of the measured steps, from an idle device to an idle device.
    pub measured_seconds: f64,
    /// `samples / measured_seconds`; `None` for the task idle.
    pub throughput_samples_per_second: Option<f64>,
    /// CPU time that the process took during the measured steps, all threads together, in
    /// hundredths of a second.
    #[serde(default)]
    pub cpu_seconds: Option<f64>,
    /// As `cpu_seconds`, from the start of the process to the end of the measured steps.
    #[serde(default)]
    pub run_cpu_seconds: Option<f64>,
    /// Floating-point operations of the model for a sample, two for each multiply-add; what is
    /// computed again for checkpointing does not count. Where lengths vary, the mean over the
    /// measured steps.
    #[serde(default)]
    pub model_flops_per_sample: Option<f64>,
    /// What a large matrix product reaches on this device in the variant's precision, in
    /// operations a second; `None` where the run file asks for no calibration.
    #[serde(default)]
    pub matmul_flops_per_second: Option<f64>,
    /// Loss of the first step of the run; training only.
    pub first_loss: Option<f64>,
    /// Loss of the last step of the run; training only.
    pub last_loss: Option<f64>,
    /// Memory at the end of the last measured step.
    pub memory: Memory,
    /// The loss scaler; amp-fp16 training only.
    pub scaler: Option<ScalerState>,
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
    /// The loss is NaN or infinite.
    LossNotFinite,
    /// The loss did not fall over the run, although it trains on data that it sees again and
    /// again.
    LossNotFalling,
    /// The step cannot be captured as a CUDA graph.
    NotCapturable,
    /// A trainable parameter received no gradient.
    GradientMissing,
    /// A worker of the data loader ended, or `/dev/shm` has no room for its batches.
    DataLoader,
    /// libtorch threw something else.
    Libtorch,
    /// The results file cannot be written.
    Results,
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
    fn a_step_lies_flat_beside_its_tag() {
        let step = Step {
            index: 3,
            seconds: 0.5,
            ..Step::default()
        };
        let line = serde_json::to_string(&Event::Step(step)).unwrap();
        assert_eq!(
            line,
            r#"{"event":"step","index":3,"seconds":0.5,"loss":null,"skipped":false}"#
        );
    }
}

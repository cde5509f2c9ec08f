//! What a run yields, with the names under which its values go out: those of metrics.

use protocol::{Shortage, Values};
use serde::Serialize;
use serde_json::Value;

use crate::{loader::Figures, serving::Serving};

/// The numbers of a summary, a memory reading or a step's parts, by name. What is `None` has no
/// entry.
pub fn values(of: &impl Serialize) -> Values {
    let Ok(Value::Object(fields)) = serde_json::to_value(of) else {
        return Values::new();
    };
    let numbers = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_f64()?)));
    numbers.collect()
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Trainable parameters of the model.
    #[serde(rename = "parameters_count")]
    pub parameters: Option<u64>,
    /// Samples in one micro-batch; like all samples `None` where nothing is computed.
    #[serde(rename = "micro_batch_samples")]
    pub micro_batch: Option<u64>,
    /// Samples in one optimizer step; of a rank of a pipeline an equal share of them.
    #[serde(rename = "effective_batch_samples")]
    pub effective_batch: Option<f64>,
    /// Steps of the warm-up: at least those asked for, more where they took less than the
    /// seconds asked for.
    #[serde(rename = "warmup_steps_count")]
    pub warmup_steps: u32,
    /// Samples that the measured steps processed.
    #[serde(rename = "samples_count")]
    pub samples: Option<f64>,
    /// Wall time of the measured steps, from an idle device to an idle device.
    pub measured_seconds: f64,
    /// `samples / measured_seconds`; `None` for the tasks serving and idle.
    pub throughput_samples_per_second: Option<f64>,
    /// Tokens that the measured steps processed; `None` where the model reads none, and for the
    /// task generation.
    #[serde(rename = "tokens_count")]
    pub tokens: Option<f64>,
    /// `tokens / measured_seconds`.
    pub throughput_tokens_per_second: Option<f64>,
    /// The task generation's own.
    #[serde(flatten)]
    pub generation: Option<Generation>,
    /// Bytes of keys and values that a sequence keeps for a token.
    pub kv_cache_token_bytes: Option<u64>,
    /// The task serving's own.
    #[serde(flatten)]
    pub serving: Option<Serving>,
    /// Tensors that the task allocation made until memory ran out, or all; on a GPU only.
    #[serde(rename = "survived_allocations_count")]
    pub survived_allocations: Option<u64>,
    /// What a thousand of them took.
    pub thousand_allocations_seconds: Option<f64>,
    /// What training together exchanges.
    #[serde(flatten)]
    pub exchange: Option<Exchange>,
    /// The task collectives' own.
    #[serde(flatten)]
    pub collective: Option<Collective>,
    /// Share of the measured steps in which they waited for a data loader; `None` where there is
    /// none, and where parts are not timed.
    pub data_wait_ratio: Option<f64>,
    /// `forward_host_cpu_ratio`, `forward_gpu_busy_ratio` and so on: how busy the host's CPUs and the
    /// GPU were in each part of a training step.
    #[serde(flatten)]
    pub parts: Values,
    /// The data loader's own.
    #[serde(flatten)]
    pub loader: Option<Figures>,
    /// CPU time that the process took during the measured steps, all threads together, in
    /// hundredths of a second.
    pub cpu_seconds: Option<f64>,
    /// As `cpu_seconds`, from the start of the process to the end of the measured steps.
    pub run_cpu_seconds: Option<f64>,
    /// Floating-point operations of the model for a sample, two for each multiply-add; what is
    /// computed again for checkpointing does not count. Where lengths vary, the mean over the
    /// measured steps.
    pub model_flops_per_sample: Option<f64>,
    /// What a large matrix product reaches on this device in the variant's precision, in
    /// operations a second; `None` where the run file asks for no calibration.
    pub matmul_flops_per_second: Option<f64>,
    /// Loss of the first step of the run; training only.
    pub first_loss: Option<f64>,
    /// Loss of the last step of the run; training only.
    pub last_loss: Option<f64>,
    /// Memory at the end of the last measured step.
    #[serde(flatten)]
    pub memory: Memory,
    /// The loss scaler; amp-fp16 training only.
    #[serde(flatten)]
    pub scaler: Option<ScalerState>,
    /// `warmup_step_1_gradient_digest` and so on, one for each of the first warm-up steps;
    /// deterministic training only.
    #[serde(flatten)]
    pub digests: Values,
}

/// What generation yields, over all measured requests. A request begins on an idle device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Generation {
    /// Tokens of all prompts over the time until the first new ones were there.
    pub prefill_tokens_per_second: f64,
    /// Tokens after the first one that each sequence got a second; `None` where there are none.
    pub decode_tokens_per_second: Option<f64>,
    /// Half of the requests had their first token sooner.
    pub time_to_first_token_seconds: f64,
}

/// What ranks that train one model exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Exchange {
    /// Bytes that a rank must send at least in a step.
    #[serde(rename = "step_sent_bytes")]
    pub sent_bytes: f64,
    /// Share of a step that goes when nothing is exchanged: what of the exchange no computation
    /// hides, and what it takes of the GPU from those that it hides behind.
    #[serde(rename = "exposed_exchange_ratio")]
    pub exposed_ratio: Option<f64>,
    /// The same of a pipeline: the share of a step in which a rank waits for others.
    #[serde(rename = "pipeline_idle_ratio")]
    pub idle_ratio: Option<f64>,
}

/// What a collective takes, over all iterations of the measured steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Collective {
    /// Bytes of the message over the mean time of an iteration.
    pub algorithm_bandwidth_bytes_per_second: f64,
    /// That times what each rank must send of it: comparable between collectives, numbers of ranks
    /// and the hardware's own figures (nccl-tests, `doc/PERFORMANCE.md`).
    pub bus_bandwidth_bytes_per_second: f64,
    pub iteration_p50_seconds: f64,
    pub iteration_p99_seconds: f64,
    /// The median of the faster ones, where iterations are in two modes.
    pub iteration_lower_mode_seconds: Option<f64>,
    /// The median of the slower ones.
    pub iteration_upper_mode_seconds: Option<f64>,
    /// Their share.
    pub iteration_upper_mode_ratio: Option<f64>,
}

/// Memory metrics. `None` is «cannot be known here», never 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
    pub parameter_bytes: Option<u64>,
    pub gradient_bytes: Option<u64>,
    pub optimizer_bytes: Option<u64>,
    /// Bytes of the GPU that making the CUDA context took: in use once it was made and before
    /// the first tensor, less those in use before, both as NVML says; on a GPU only. Another
    /// process that takes or frees memory in that moment counts too.
    pub context_bytes: Option<u64>,
    /// Bytes of the GPU in use before this process made its context; on a GPU only.
    pub device_used_before_bytes: Option<u64>,
    /// Bytes of the GPU in use by all processes at the end of the last measured step.
    pub device_used_bytes: Option<u64>,
    pub device_total_bytes: Option<u64>,
    /// Most resident bytes of the process in host memory (`VmHWM`).
    #[serde(rename = "run_host_peak_resident_bytes")]
    pub host_peak_resident_bytes: Option<u64>,
    /// Bytes that a measured step copied between the GPU and the host, both ways together, where
    /// something is offloaded.
    pub offloaded_step_bytes: Option<u64>,
    /// Bytes of host memory that are pinned for it.
    pub pinned_host_bytes: Option<u64>,
    /// The caching allocator's counters; on a GPU only.
    #[serde(flatten)]
    pub counters: Option<AllocatorCounters>,
    /// The allocation that failed; only where memory ran out on a GPU. «Now» is then that moment
    /// for the allocator's bytes, and not the end of the work that failed, which gave them back.
    #[serde(skip)]
    pub shortage: Option<Shortage>,
}

/// Counters of the caching allocator. Those of events count the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AllocatorCounters {
    /// Times that a failed allocation was tried again after giving cached memory back.
    #[serde(rename = "allocation_retries_count")]
    pub retries: u64,
    /// Times that memory ran out.
    #[serde(rename = "out_of_memory_count")]
    pub out_of_memory: u64,
    /// Allocations asked of the driver; `None` where the backend does not count them.
    #[serde(rename = "device_allocations_count")]
    pub device_allocations: Option<u64>,
    /// Blocks given back to the driver; `None` where the backend does not count them.
    #[serde(rename = "device_frees_count")]
    pub device_frees: Option<u64>,
    /// Bytes that tensors asked for, before rounding up to whole blocks, at the end of the last
    /// measured step. Like all below, `None` where the backend does not count them.
    pub requested_bytes: Option<u64>,
    /// Most of them during the measured steps.
    pub peak_requested_bytes: Option<u64>,
    /// Bytes in tensors, and in blocks that wait until a stream is done with them.
    pub active_bytes: Option<u64>,
    /// Most of them during the measured steps.
    pub peak_active_bytes: Option<u64>,
    /// Bytes in split blocks that nothing uses.
    pub inactive_split_bytes: Option<u64>,
    /// Most of them over the whole run.
    pub peak_inactive_split_bytes: Option<u64>,
    /// The largest block that is held and that nothing uses.
    pub largest_free_block_bytes: Option<u64>,
    /// Segments taken from the driver.
    #[serde(rename = "segments_count")]
    pub segments: Option<u64>,
    /// Most of them over the whole run.
    #[serde(rename = "peak_segments_count")]
    pub peak_segments: Option<u64>,
}

/// The loss scaler at the end of an amp-fp16 run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScalerState {
    #[serde(rename = "loss_scale")]
    pub scale: f64,
    /// Optimizer steps skipped in warm-up.
    #[serde(rename = "skipped_in_warmup_count")]
    pub skipped_in_warmup: u32,
    /// Optimizer steps skipped while measuring.
    #[serde(rename = "skipped_steps_count")]
    pub skipped_while_measuring: u32,
}

/// Where the time of a training step went. The parts add up to the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepParts {
    /// Waiting for the next micro-batches of a data loader and bringing them to the device; `None`
    /// where the batches lie there from the start.
    #[serde(rename = "step_data_seconds")]
    pub data_seconds: Option<f64>,
    /// Forward and loss of all micro-batches, and dropping the gradients of the step before.
    #[serde(rename = "step_forward_seconds")]
    pub forward_seconds: f64,
    /// Backward of all micro-batches, recomputation included.
    #[serde(rename = "step_backward_seconds")]
    pub backward_seconds: f64,
    /// Unscaling and the optimizer.
    #[serde(rename = "step_optimizer_seconds")]
    pub optimizer_seconds: f64,
}

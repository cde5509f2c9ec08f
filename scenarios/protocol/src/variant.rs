//! The axes, each declared once, and the values that they take.

use std::{collections::BTreeMap, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Allocator, Arrivals, Axes, Axis, Count, Device, InputKind, LengthRange, LoraTargets, Positive,
    Task,
    axis::{Need, axes},
    text::text_form,
    validity::Combination,
};

axes! {
    /// The arithmetic.
    precision: Precision { always: true, label: "{value}", rule: precision },
    /// What is recomputed in backward.
    checkpointing: Checkpointing { needs: &[Need::Training], rule: checkpointing },
    /// Micro-batches whose gradients are summed before one optimizer step.
    accumulation: Positive { needs: &[Need::Training] },
    /// The CUDA allocator's settings.
    allocator: Allocator {
        label: "{value}",
        needs: &[Need::Cuda],
        is_of_allocator: true,
        variables: &Allocator::VARIABLES,
        value: |variant, _| variant.allocator.configuration(),
    },
    /// How image tensors lie in memory.
    memory_format: MemoryFormat { label: "{value}", needs: &[Need::Images] },
    /// The optimizer.
    optimizer: Optimizer { label: "{value}", needs: &[Need::Training] },
    /// How the CPU hands the work to the GPU.
    execution: Execution { needs: &[Need::Cuda], rule: execution },
    /// The kernels that compute attention.
    attention: Attention { needs: &[Need::Cuda], rule: attention },
    /// After how many steps the allocator's cached memory goes back to the driver.
    empty_cache: EmptyCache { needs: &[Need::Cuda, Need::Eager], is_of_allocator: true },
    /// What autograd notes in forward.
    gradients: Gradients { needs: &[Need::Inference] },
    /// What each step keeps for good, as programs that leak do.
    retain: Retain { needs: &[Need::Eager], rule: retain },
    /// Only algorithms that give the same bits every time, for the price that they ask.
    deterministic: bool {
        variables: &[DETERMINISTIC_ENVIRONMENT.0],
        value: |variant, device| {
            (variant.deterministic && device.is_cuda())
                .then(|| DETERMINISTIC_ENVIRONMENT.1.to_owned())
        },
    },
    /// Where compiled kernels are kept.
    kernel_cache: KernelCache { needs: &[Need::Cuda], variables: &[KERNEL_CACHE_VARIABLE] },
    /// Samples in one micro-batch; the effective batch is this times `accumulation`. Of the task
    /// allocation the tensors that a step makes.
    batch: Positive { always: true, label: "bs{value}", is_of_allocator: true, rule: batch },
    /// Tokens in a sequence; the model's usual length unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_length: Option<Positive> {
        label: "seq{value}",
        needs: &[Need::Tokens],
        rule: sequence_length,
    },
    /// Lengths of sequences, of which each step, of serving each request, draws one out of the
    /// run's seed, in place of
    /// `sequence_length`; all steps have one length unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    sequence_lengths: Option<LengthRange> {
        label: "seq{value}",
        needs: &[Need::Tokens],
        rule: sequence_lengths,
    },
    /// Height and width of an image in pixels; the model's usual size unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_size: Option<Positive> {
        label: "{value}px",
        needs: &[Need::Images],
        rule: image_size,
    },
    /// Processes that make the micro-batches and hand them over through `/dev/shm`, as a data
    /// loader's workers do; the batches lie on the device from the start unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    loader_workers: Option<Count<256>> { label: "workers={value}", needs: &[Need::Training] },
    /// Micro-batches that each of them makes ahead of need, 2 unless said otherwise.
    // Requests and answers for all of them fit into a pipe, so that nobody waits for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefetch_factor: Option<Count<64>> { label: "prefetch={value}", rule: prefetch_factor },
    /// What the loader's workers make the micro-batches of, `synthetic` unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Data")]
    data: Option<Data> { label: "{value}", needs: &[Need::Training], rule: data },
    /// Samples in the folder, 1024 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder_samples: Option<Count<16_384>> {
        label: "samples={value}",
        rule: |asked| of_folder(asked, asked.variant.folder_samples.is_some()),
    },
    /// Whether the kernel has the folder's files in memory when a worker reads them, `warm` unless
    /// said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PageCache")]
    page_cache: Option<PageCache> {
        label: "{value}",
        rule: |asked| of_folder(asked, asked.variant.page_cache.is_some()),
    },
    /// Whether batches of a loader go to the GPU from pinned memory on a stream of their own, while
    /// it computes; from pageable memory, and on the stream that computes, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin_memory: Option<bool> {
        needs: &[Need::Cuda],
        rule: |asked| of_loader(asked, asked.variant.pin_memory.is_some()),
    },
    /// Rank of low-rank adapters, which are trained in place of the model's own weights; all
    /// weights are trained unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    lora_rank: Option<Count<1024>> { label: "lora{value}", needs: &[Need::Decoder] },
    /// The projections that have an adapter, `q+v` unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LoraTargets")]
    lora_targets: Option<LoraTargets> { rule: |asked| {
        of_adapters(asked, asked.variant.lora_targets.is_some())
    } },
    /// Whether the adapters are added to the weights before serving; they stay apart unless said
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    lora_merged: Option<bool> { rule: lora_merged },
    /// Tokens that generation makes after the prompt, 32 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_tokens: Option<Positive> {
        label: "new{value}",
        needs: &[Need::Generation],
        rule: new_tokens,
    },
    /// Requests a second that arrive; where `slo_ms` alone is given, the highest rate that keeps it
    /// is searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrival_rate: Option<Count<100_000>> {
        label: "rate{value}",
        needs: &[Need::Serving],
        rule: arrival_rate,
    },
    /// The process that they arrive by, `poisson` unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Arrivals")]
    arrivals: Option<Arrivals> { label: "{value}", needs: &[Need::Serving] },
    /// Milliseconds that a request waits at most for others to share its batch; a batch begins as
    /// soon as the model is free unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_wait_ms: Option<Count<60_000>> { label: "wait{value}ms", needs: &[Need::Serving] },
    /// Requests that wait at most, 1024 unless said otherwise; further ones are rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_length: Option<Positive> { needs: &[Need::Serving], rule: queue_length },
    /// The latency objective: milliseconds within which a request is to be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    slo_ms: Option<Count<600_000>> { label: "slo{value}ms", needs: &[Need::Serving] },
    /// The tensors that are allocated, `random` unless said otherwise or the scenario has a `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<Allocations> { label: "{value}", needs: &[Need::Allocation] },
    /// Sizes of random tensors in MiB, 1-400 unless said otherwise: the logarithm is uniform, and
    /// what it gives varies by ± 30 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    allocation_mib: Option<LengthRange> {
        label: "{value}MiB",
        needs: &[Need::Allocation],
        rule: |asked| refuse_if(
            asked.variant.allocations == Some(Allocations::Alternating)
                && asked.variant.allocation_mib.is_some(),
            || "alternating tensors have two sizes; drop allocation_mib".to_owned(),
        ),
    },
    /// Most MiB of tensors that are there at once, 1024 unless said otherwise: others go before one
    /// that would pass it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    live_mib: Option<Count<16_777_216>> { label: "live{value}MiB", needs: &[Need::Allocation] },
}

/// What a run with `deterministic` needs in its environment on a GPU, with its value: cuBLAS
/// then works in buffers that give the same bits every time (NVIDIA's cuBLAS documentation,
/// «Results Reproducibility»).
pub const DETERMINISTIC_ENVIRONMENT: (&str, &str) = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8");

/// Says where the CUDA driver keeps the kernels that it compiles (NVIDIA's CUDA programming guide,
/// «CUDA Environment Variables»). The harness sets it for every run on a GPU.
pub const KERNEL_CACHE_VARIABLE: &str = "CUDA_CACHE_PATH";

fn precision(asked: &Combination<'_>) -> Result<(), String> {
    let on_gpu = matches!(
        asked.variant.precision,
        Precision::Tf32 | Precision::AmpFp16
    );
    refuse_if(on_gpu && !asked.device.is_cuda(), || {
        format!(
            "{} needs a CUDA GPU; on cpu use fp32 or amp-bf16",
            asked.value("precision")
        )
    })?;
    let reads_tokens = matches!(asked.model.input(), InputKind::Tokens { .. });
    refuse_if(
        asked.variant.precision == Precision::Bf16 && !reads_tokens,
        || {
            format!(
                "bf16 needs a model that reads tokens; for {} use amp-bf16",
                asked.model
            )
        },
    )
}

fn checkpointing(asked: &Combination<'_>) -> Result<(), String> {
    let (model, blocks) = (asked.model, asked.model.blocks());
    match asked.variant.checkpointing {
        Checkpointing::Every(k) if k > blocks => Err(format!(
            "{model} has {blocks} blocks; every-{k} is more than that"
        )),
        _ => Ok(()),
    }
}

/// A graph replays one step, or of generation the decoding of one token, with the same kernels on
/// the same addresses.
fn execution(asked: &Combination<'_>) -> Result<(), String> {
    if asked.variant.execution == Execution::Eager {
        return Ok(());
    }
    refuse_if(asked.task == Task::Serving, || {
        "cuda-graph replays one shape, and batches of requests differ in size; use eager".to_owned()
    })?;
    let others = [
        (
            "checkpointing",
            "reads and sets the random state within the step",
        ),
        ("sequence_lengths", "changes the shapes from step to step"),
        ("loader_workers", "brings new addresses in every step"),
    ];
    match others.into_iter().find(|(axis, _)| asked.is_chosen(axis)) {
        None => Ok(()),
        Some((axis, why)) => Err(format!(
            "cuda-graph cannot capture {axis}={}, which {why}; use eager, or drop {axis}",
            asked.value(axis)
        )),
    }
}

/// `ResNet` is the one family whose images may have other sizes.
fn attention(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    let has_none = matches!(
        asked.model.input(),
        InputKind::Images {
            resizable: true,
            ..
        }
    );
    refuse_if(variant.attention != Attention::Default && has_none, || {
        format!("{} has no attention; drop the axis", asked.model)
    })?;
    let has_half = matches!(variant.attention, Attention::Flash | Attention::Cudnn);
    let is_half = !matches!(variant.precision, Precision::Fp32 | Precision::Tf32);
    refuse_if(has_half && !is_half, || {
        format!(
            "{} computes in 16 bits alone, and precision is {}; use amp-bf16 or efficient",
            asked.value("attention"),
            asked.value("precision")
        )
    })
}

fn retain(asked: &Combination<'_>) -> Result<(), String> {
    let Variant {
        retain, gradients, ..
    } = asked.variant;
    let is_asked = *retain != Retain::None;
    let has_steps = matches!(asked.task, Task::Training | Task::Inference);
    refuse_if(is_asked && !has_steps, || {
        format!(
            "{} keeps nothing from one request to the next; use the task training or inference",
            asked.task
        )
    })?;
    let is_tracked = asked.task == Task::Training || *gradients == Gradients::Tracked;
    refuse_if(*retain == Retain::Graph && !is_tracked, || {
        "forward makes no graph here; use gradients: tracked, or retain: outputs".to_owned()
    })
}

/// As `torch.nn.functional.batch_norm`: «Expected more than 1 value per channel when training».
/// The last stage of a `ResNet`, the one family whose images may have other sizes, is 32 times
/// smaller than the image.
fn batch(asked: &Combination<'_>) -> Result<(), String> {
    let few = asked.task == Task::Allocation && asked.variant.batch.get() < 100;
    refuse_if(few, || {
        "a step of allocation makes at least 100 tensors, for fewer take no time; use 100"
            .to_owned()
    })?;
    let InputKind::Images {
        size,
        resizable: true,
        ..
    } = asked.model.input()
    else {
        return Ok(());
    };
    let size = asked.variant.image_size.map_or(size, Positive::get);
    let single = asked.task == Task::Training && asked.variant.batch == Positive::ONE;
    refuse_if(single && size <= 32, || {
        format!(
            "{} cannot train on one image of {size} × {size}, because batch normalisation needs \
             more than one value for each channel; use a batch of at least 2 or images of at \
             least 64 × 64",
            asked.model
        )
    })
}

fn sequence_length(asked: &Combination<'_>) -> Result<(), String> {
    let length = asked.variant.sequence_length.map_or(0, Positive::get);
    // Where the tokens after it are chosen too, those are what is refused.
    let is_whole = asked.task == Task::Generation && asked.variant.new_tokens.is_none();
    let new = if is_whole {
        asked.variant.new_tokens()
    } else {
        0
    };
    fits_positions(asked, length, new)
}

fn new_tokens(asked: &Combination<'_>) -> Result<(), String> {
    let InputKind::Tokens { length, .. } = asked.model.input() else {
        return Ok(());
    };
    let length = asked.variant.sequence_length.map_or(length, Positive::get);
    fits_positions(
        asked,
        length,
        asked.variant.new_tokens.map_or(0, Positive::get),
    )
}

fn fits_positions(asked: &Combination<'_>, length: u32, new: u32) -> Result<(), String> {
    let InputKind::Tokens { longest, .. } = asked.model.input() else {
        return Ok(());
    };
    refuse_if(length + new > longest, || {
        let more = match new {
            0 => String::new(),
            new => format!(" and {new} new ones"),
        };
        format!(
            "{} holds at most {longest} positions, got {length}{more}",
            asked.model
        )
    })
}

fn sequence_lengths(asked: &Combination<'_>) -> Result<(), String> {
    let Some(lengths) = asked.variant.sequence_lengths else {
        return Ok(());
    };
    refuse_if(asked.variant.sequence_length.is_some(), || {
        format!(
            "{lengths} draws a length for each step, and sequence_length is the same for all; \
             drop one of the two"
        )
    })?;
    refuse_if(asked.task == Task::Generation, || {
        format!("generation reads prompts of one length; use sequence_length for {lengths}")
    })?;
    fits_positions(asked, lengths.longest(), 0)
}

fn image_size(asked: &Combination<'_>) -> Result<(), String> {
    let (
        Some(got),
        InputKind::Images {
            size,
            multiple_of,
            resizable,
        },
    ) = (asked.variant.image_size, asked.model.input())
    else {
        return Ok(());
    };
    let model = asked.model;
    refuse_if(!resizable && got.get() != size, || {
        format!("{model} reads images of {size} × {size} only, got {got}")
    })?;
    refuse_if(got.get() % multiple_of != 0, || {
        format!("{model} takes multiples of {multiple_of}, got {got}")
    })
}

fn prefetch_factor(asked: &Combination<'_>) -> Result<(), String> {
    of_loader(asked, asked.variant.prefetch_factor.is_some())
}

fn of_loader(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    refuse_if(is_asked && asked.variant.loader_workers.is_none(), || {
        "there is no data loader; give loader_workers too".to_owned()
    })
}

fn data(asked: &Combination<'_>) -> Result<(), String> {
    let (variant, samples) = (asked.variant, asked.variant.folder_samples());
    if variant.data != Some(Data::Folder) {
        return Ok(());
    }
    of_loader(asked, true)?;
    refuse_if(variant.batch.get() > samples, || {
        let batch = variant.batch;
        format!("a folder of {samples} samples has no batch of {batch}; raise folder_samples")
    })
}

fn of_folder(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    let is_there = asked.variant.data == Some(Data::Folder);
    refuse_if(is_asked && !is_there, || {
        "no folder is read; give data: folder too".to_owned()
    })
}

fn of_adapters(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    refuse_if(is_asked && asked.variant.lora_rank.is_none(), || {
        "there are no adapters; give lora_rank too".to_owned()
    })
}

fn lora_merged(asked: &Combination<'_>) -> Result<(), String> {
    let merged = asked.variant.lora_merged;
    of_adapters(asked, merged.is_some())?;
    refuse_if(merged == Some(true) && asked.task == Task::Training, || {
        "what is merged cannot be trained; drop lora_merged, or use the task inference or \
         generation"
            .to_owned()
    })
}

fn arrival_rate(asked: &Combination<'_>) -> Result<(), String> {
    let is_known = asked.variant.arrival_rate.is_some() || asked.variant.slo_ms.is_some();
    refuse_if(asked.task == Task::Serving && !is_known, || {
        "serving needs the requests a second that arrive, such as arrival_rate: 100, or slo_ms, \
         for which it searches the highest rate"
            .to_owned()
    })
}

fn queue_length(asked: &Combination<'_>) -> Result<(), String> {
    let (batch, queue) = (asked.variant.batch.get(), asked.variant.queue_length());
    refuse_if(asked.task == Task::Serving && queue < batch, || {
        format!("a queue of {queue} never holds a batch of {batch}; use at least {batch}")
    })
}

fn refuse_if(refused: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if refused { Err(why()) } else { Ok(()) }
}

/// The arithmetic of matrix products and convolutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// IEEE single precision throughout.
    #[default]
    Fp32,
    /// Single precision whose products may use the 19-bit tf32 units.
    Tf32,
    /// Autocast to half precision with dynamic loss scaling.
    AmpFp16,
    /// Autocast to bfloat16, without loss scaling.
    AmpBf16,
    /// Parameters, gradients and optimizer state in bfloat16, without autocast.
    Bf16,
}

/// Which activations are dropped in forward and computed again in backward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Checkpointing {
    /// Keep all activations.
    #[default]
    None,
    /// Recompute each block (transformer layer, residual block).
    Blocks,
    /// Recompute groups of this many consecutive blocks; at least 2.
    Every(u32),
}

/// Why a text is no checkpointing policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checkpointing `{0}`; expected none, blocks, or every-K with K of at least 2")]
pub struct ParseCheckpointingError(String);

impl FromStr for Checkpointing {
    type Err = ParseCheckpointingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "blocks" => Ok(Self::Blocks),
            _ => text
                .strip_prefix("every-")
                .filter(|k| k.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|k| k.parse().ok())
                .filter(|k| (2..=1024).contains(k))
                .map(Self::Every)
                .ok_or_else(|| ParseCheckpointingError(text.to_owned())),
        }
    }
}

impl fmt::Display for Checkpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Blocks => f.write_str("blocks"),
            Self::Every(k) => write!(f, "every-{k}"),
        }
    }
}

text_form!(
    Checkpointing,
    "Which activations are recomputed in backward: none, blocks, every-K",
    r"^(none|blocks|every-[0-9]+)$"
);

/// After how many steps cached memory goes back to the driver, as `torch.cuda.empty_cache()` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EmptyCache {
    /// It stays in the cache.
    #[default]
    Never,
    /// After each.
    EachStep,
    /// After so many; at least 2.
    Each(u32),
}

impl EmptyCache {
    /// Whether it goes back after step `step`, from 0.
    pub fn is_due(self, step: u32) -> bool {
        match self {
            Self::Never => false,
            Self::EachStep => true,
            Self::Each(steps) => step % steps == steps - 1,
        }
    }
}

/// Why a text says nothing of when the cache is emptied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown empty_cache `{0}`; expected never, each-step, or each-N with N from 2 to 1000000")]
pub struct ParseEmptyCacheError(String);

impl FromStr for EmptyCache {
    type Err = ParseEmptyCacheError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "never" => Ok(Self::Never),
            "each-step" => Ok(Self::EachStep),
            _ => text
                .strip_prefix("each-")
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|n| n.parse().ok())
                .filter(|n| (2..=1_000_000).contains(n))
                .map(Self::Each)
                .ok_or_else(|| ParseEmptyCacheError(text.to_owned())),
        }
    }
}

impl fmt::Display for EmptyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::EachStep => f.write_str("each-step"),
            Self::Each(steps) => write!(f, "each-{steps}"),
        }
    }
}

text_form!(
    EmptyCache,
    "After how many steps cached memory goes back to the driver: never, each-step, each-N",
    r"^(never|each-step|each-[0-9]+)$"
);

/// What autograd notes in forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gradients {
    /// The whole graph, as where `no_grad` was forgotten.
    Tracked,
    /// Nothing, under `torch.no_grad()`.
    #[default]
    NoGrad,
    /// Nothing, under `torch.inference_mode()`: tensors have no version counters either.
    InferenceMode,
}

/// What each step keeps for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Retain {
    /// Nothing.
    #[default]
    None,
    /// The loss with its graph, as `total += loss` does; of inference the scores with theirs.
    Graph,
    /// The scores without a graph, as `outputs.append(scores.detach())` does.
    Outputs,
}

/// How image tensors lie in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryFormat {
    /// Batch, channel, height, width.
    #[default]
    Contiguous,
    /// Batch, height, width, channel: what tensor cores want for convolutions.
    ChannelsLast,
}

/// The optimizer, in libtorch's fused in-place form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// SGD, momentum 0.9: one extra value for each parameter.
    #[default]
    SgdMomentum,
    /// `AdamW`: two extra values for each parameter.
    Adamw,
}

/// How the CPU hands the work to the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// One kernel after the other, as written.
    #[default]
    Eager,
    /// The whole step captured once as a CUDA graph, and replayed.
    CudaGraph,
}

/// The kernels of `scaled_dot_product_attention`, as `torch.nn.attention.SDPBackend` names them. A
/// run in which the chosen ones cannot compute what the model asks for fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attention {
    /// Those that libtorch prefers on this GPU.
    #[default]
    Default,
    /// Those of `FlashAttention`, in 16 bits and without a mask.
    Flash,
    /// The memory-efficient ones.
    Efficient,
    /// cuDNN's, in 16 bits; it plans anew for every shape.
    Cudnn,
    /// Matrix products and a softmax.
    Math,
}

/// The tensors that the task allocation makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocations {
    /// Of random sizes; those that go are any of them.
    #[default]
    Random,
    /// 10000² and 5000² floats in turn; the oldest goes first.
    Alternating,
}

/// What a data loader's workers make micro-batches of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// The same few micro-batches, made anew each time.
    #[default]
    Synthetic,
    /// Files: JPEGs that are decoded, cropped at random, resized, flipped and normalised, or a file
    /// of tokens.
    Folder,
}

/// Whether the kernel has the folder's files in memory when they are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PageCache {
    /// As writing them left them, and where they lie in memory anyway.
    #[default]
    Warm,
    /// Each is read from the disk every time.
    Cold,
}

/// Where the CUDA driver keeps the kernels that it compiles for the GPU. cuDNN's trials have it
/// compile some hundred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelCache {
    /// In a folder of the run's own, which begins empty.
    #[default]
    Run,
    /// In one folder for all runs of the session that say so: the first one fills it.
    Session,
}

impl Variant {
    /// Every axis that has a value, with the value as text.
    pub fn axes(&self) -> Axes {
        let value = serde_json::to_value(self).expect("a variant serialises");
        let map = value.as_object().expect("a variant is a map");
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        map.iter()
            .map(|(axis, value)| (axis, text(value)))
            .collect()
    }

    /// The choice that axes name. Refused are axes that no workload of ours has, and values that
    /// an axis does not take.
    pub fn of(axes: &Axes) -> Result<Self, serde_json::Error> {
        let typed = |text: &String| match serde_json::from_str(text) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
            _ => Value::String(text.clone()),
        };
        let map = axes.iter().map(|(axis, text)| (axis.clone(), typed(text)));
        serde_json::from_value(Value::Object(map.collect()))
    }

    /// The environment variables that the choices set for a run.
    pub fn environment(&self, device: Device) -> BTreeMap<String, String> {
        Axis::ALL
            .iter()
            .filter_map(|axis| Some((axis, (axis.value)(self, device)?)))
            .flat_map(|(axis, value)| {
                let variables = axis.variables.iter();
                variables.map(move |variable| ((*variable).to_owned(), value.clone()))
            })
            .collect()
    }

    /// Tokens that generation makes after the prompt.
    pub fn new_tokens(&self) -> u32 {
        self.new_tokens.map_or(32, Positive::get)
    }

    /// Samples in the folder that a data loader reads.
    pub fn folder_samples(&self) -> u32 {
        self.folder_samples.map_or(1024, Count::get)
    }

    /// Requests that wait at most.
    pub fn queue_length(&self) -> u32 {
        self.queue_length.map_or(1024, Positive::get)
    }

    /// Samples that one optimizer step sees.
    pub fn effective_batch(&self) -> u64 {
        u64::from(self.batch.get()) * u64::from(self.accumulation.get())
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.axes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_reads_short_and_complete() {
        let variant: Variant = serde_json::from_str(
            r#"{"precision":"amp-bf16","batch":64,"checkpointing":"every-3","accumulation":4}"#,
        )
        .unwrap();
        assert_eq!(
            variant.to_string(),
            "amp-bf16 bs64 checkpointing=every-3 accumulation=4"
        );
        assert_eq!(
            variant.axes().without("precision"),
            "bs64 checkpointing=every-3 accumulation=4"
        );
        assert_eq!(
            variant.axes().without("accumulation"),
            "amp-bf16 bs64 checkpointing=every-3"
        );
        assert_eq!(variant.effective_batch(), 256);
        assert_eq!(Variant::of(&variant.axes()).unwrap(), variant);
        let own = variant.axes();
        let more = [(&"lr".to_owned(), &"0.1".to_owned())];
        let axes: Axes = own.iter().chain(more).collect();
        assert!(axes.to_string().ends_with("accumulation=4 lr=0.1"));
        assert!(Variant::of(&axes).is_err());
    }

    #[test]
    fn counts_outside_their_range_are_refused() {
        let bad = ["0", "-3", "65537", "1.5", "\"two\""].map(|bad| ("batch", bad));
        let more = [("loader_workers", "257"), ("prefetch_factor", "65")];
        for (axis, bad) in bad.into_iter().chain(more) {
            let text = format!(r#"{{"{axis}":{bad}}}"#);
            assert!(serde_json::from_str::<Variant>(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn axes_set_their_variables_on_a_gpu() {
        let variant: Variant =
            serde_json::from_str(r#"{"allocator":"expandable_segments","deterministic":true}"#)
                .unwrap();
        let set: Vec<_> = variant.environment(Device::Cuda(0)).into_iter().collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            set,
            [
                pair("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
                pair("PYTORCH_ALLOC_CONF", "expandable_segments:True"),
                pair("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
            ]
        );
        assert!(Variant::default().environment(Device::Cuda(0)).is_empty());
    }

    #[test]
    fn checkpointing_reads_and_writes() {
        for text in ["none", "blocks", "every-2", "every-12"] {
            assert_eq!(text.parse::<Checkpointing>().unwrap().to_string(), text);
        }
        for text in [
            "", "every", "every-", "every-1", "every--2", "every-+2", "block",
        ] {
            assert!(text.parse::<Checkpointing>().is_err(), "{text}");
        }
    }
}

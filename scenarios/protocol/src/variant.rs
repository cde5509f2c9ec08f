//! The axes, each declared once, and the values that they take.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Allocator, Arrivals, Axes, Axis, Count, Device, InputKind, LengthRange, LoraTargets, Model,
    Nccl, Positive, Refusal, Task,
    axis::{Need, axes},
    quantisation::{self, Fp8, Int8, Qat},
    text::{numbered, read_by, text_form},
    validity::Combination,
    volume,
};

axes! {
    /// The arithmetic.
    precision: Precision { always: true, label: "{value}", rule: precision },
    /// How many values share a scale in the FP8 products of linear layers.
    fp8: Fp8 { rule: quantisation::fp8 },
    /// In which whole numbers linear layers multiply.
    int8: Int8 { rule: quantisation::int8 },
    /// What training rounds to whole numbers, as inference later will.
    qat: Qat { needs: &[Need::Training], rule: quantisation::qat },
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
    /// What lies in the host's memory while nobody needs it.
    offload: Offload { needs: &[Need::Cuda, Need::Training] },
    /// In which form blocks keep what backward needs.
    activations: Activations { needs: &[Need::Training], rule: activations },
    /// In which form `AdamW` keeps its moments.
    optimizer_state: OptimizerState { needs: &[Need::Training], rule: optimizer_state },
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
    /// Tokens in a sequence; the model's usual length by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_length: Option<Positive> {
        label: "seq{value}",
        needs: &[Need::Tokens],
        rule: sequence_length,
    },
    /// Lengths of sequences, of which each step, of serving each request, draws one out of the
    /// run's seed, in place of
    /// `sequence_length`; all steps have one length by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    sequence_lengths: Option<LengthRange> {
        label: "seq{value}",
        needs: &[Need::Tokens],
        rule: sequence_lengths,
    },
    /// Height and width of an image in pixels, or the edges of a volume in voxels; the model's usual
    /// size by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_size: Option<Positive> {
        label: "{value}px",
        needs: &[Need::Images],
        rule: volume::image_size,
    },
    /// Edges of a patch of a volume in voxels: each training step takes one of every volume, and
    /// inference slides over the whole volume; volumes are taken whole by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_size: Option<Positive> { label: "patch{value}", rule: volume::patch_size },
    /// Processes that make the micro-batches and hand them over through `/dev/shm`, as a data
    /// loader's workers do; by default the batches are on the device from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    loader_workers: Option<Count<256>> { label: "workers={value}", needs: &[Need::Training] },
    /// Micro-batches that each of them makes ahead of need, 2 by default.
    // Requests and answers for all of them fit into a pipe, so that nobody waits for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefetch_factor: Option<Count<64>> { label: "prefetch={value}", rule: prefetch_factor },
    /// What the loader's workers make the micro-batches of, `synthetic` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Data")]
    data: Option<Data> { label: "{value}", needs: &[Need::Training], rule: data },
    /// Samples in the folder, 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder_samples: Option<Count<16_384>> {
        label: "samples={value}",
        rule: |asked| of_folder(asked, asked.variant.folder_samples.is_some()),
    },
    /// Whether the kernel has the folder's files in memory when a worker reads them, `warm` by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PageCache")]
    page_cache: Option<PageCache> {
        label: "{value}",
        rule: |asked| of_folder(asked, asked.variant.page_cache.is_some()),
    },
    /// Whether batches of a loader go to the GPU from pinned memory on a stream of their own, while
    /// it computes; by default from pageable memory, and on the stream that computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin_memory: Option<bool> {
        needs: &[Need::Cuda],
        rule: |asked| of_loader(asked, asked.variant.pin_memory.is_some()),
    },
    /// Rank of low-rank adapters, which are trained in place of the model's own weights; all
    /// weights are trained by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    lora_rank: Option<Count<1024>> { label: "lora{value}", needs: &[Need::Decoder] },
    /// The projections that have an adapter, `q+v` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LoraTargets")]
    lora_targets: Option<LoraTargets> { rule: |asked| {
        of_adapters(asked, asked.variant.lora_targets.is_some())
    } },
    /// Whether the adapters are added to the weights before serving; they stay apart by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    lora_merged: Option<bool> { rule: lora_merged },
    /// Tokens that generation, or a decoder that serves, makes after the prompt, 32 by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_tokens: Option<Positive> {
        label: "new{value}",
        needs: &[Need::Answers],
        rule: new_tokens,
    },
    /// Tokens of the answers, of which each request draws a length out of the run's seed, in place of
    /// `new_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    answer_lengths: Option<LengthRange> {
        label: "new{value}",
        needs: &[Need::Serving, Need::Answers],
        rule: answer_lengths,
    },
    /// Requests a second that arrive; where `slo_ms` alone is given, the highest rate that keeps it
    /// is searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrival_rate: Option<Count<100_000>> {
        label: "rate{value}",
        needs: &[Need::Serving],
        rule: arrival_rate,
    },
    /// The process that they arrive by, `poisson` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Arrivals")]
    arrivals: Option<Arrivals> { label: "{value}", needs: &[Need::Serving] },
    /// Milliseconds that a request waits at most for others to share its batch; by default a batch
    /// begins as soon as the model is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_wait_ms: Option<Count<60_000>> {
        label: "wait{value}ms",
        needs: &[Need::Serving],
        rule: longest_wait,
    },
    /// Requests that wait at most, 1024 by default; further ones are rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_length: Option<Positive> { needs: &[Need::Serving], rule: queue_length },
    /// The latency objective: milliseconds within which a request is to be answered; of a decoder,
    /// within which its first token is to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    slo_ms: Option<Count<600_000>> { label: "slo{value}ms", needs: &[Need::Serving] },
    /// The objective of the tokens after the first one: milliseconds from one to the next, on average
    /// over a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    slo_token_ms: Option<Count<600_000>> {
        label: "slo{value}ms-token",
        needs: &[Need::Serving, Need::Answers],
        rule: slo_token,
    },
    /// The tensors that are allocated, `random` unless the scenario has a `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<Allocations> { label: "{value}", needs: &[Need::Allocation] },
    /// Sizes of random tensors in MiB, 1-400 by default: the logarithm is uniform, and
    /// what it gives varies by ± 30 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    allocation_mib: Option<LengthRange> {
        label: "{value}MiB",
        needs: &[Need::Allocation],
        rule: |asked| refuse_if!(asked.variant.allocations == Some(Allocations::Alternating)
                && asked.variant.allocation_mib.is_some(), "alternating tensors have two sizes; drop allocation_mib"),
    },
    /// Settings of NCCL's for a run, which go into its environment.
    #[serde(skip_serializing_if = "Nccl::is_empty")]
    nccl: Nccl {
        label: "{value}",
        needs: &[Need::Cuda],
        prefix: Nccl::PREFIX,
        rule: |asked| refuse_if!(asked.variant.parallel.is_none()
                && !asked.variant.nccl.is_empty()
                && asked.task != Task::Collectives, "nothing goes through NCCL here; give parallel, or use the task collectives"),
    },
    /// How the ranks of a run train one model; each on its own by default.
    #[serde(skip_serializing_if = "Parallel::is_none")]
    parallel: Parallel {
        label: "{value}",
        needs: &[Need::Training, Need::Eager],
        rule: parallel,
    },
    /// Which GPUs ranks run on that exchange nothing.
    #[serde(skip_serializing_if = "Placement::is_spread")]
    placement: Placement {
        label: "{value}",
        needs: &[Need::Cuda],
        rule: |asked| refuse_if!(asked.variant.placement == Placement::Packed
                && (!asked.variant.parallel.is_none() || asked.task == Task::Collectives),
            "NCCL takes one rank a GPU; use placement spread for ranks that exchange something"),
    },
    /// What ranks do with a message, `all-reduce` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    collective: Option<Collective> { label: "{value}", needs: &[Need::Collectives] },
    /// Bytes of the message; 1 MiB by default. Of an all-gather and a reduce-scatter they
    /// are those of all ranks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Count<1_073_741_824>> {
        label: "{value}B",
        needs: &[Need::Collectives],
        rule: message,
    },
    /// Most MiB of tensors that are there at once, 1024 by default: others go before one
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
    refuse_if!(
        on_gpu && !asked.device.is_cuda(),
        "{} needs a CUDA GPU; on cpu use fp32 or amp-bf16",
        asked.value("precision")
    )?;
    if asked.task == Task::Collectives {
        let is_sent = matches!(asked.variant.precision, Precision::Fp32 | Precision::Bf16);
        return refuse_if!(
            !is_sent,
            "{} is no type of a message; use fp32 or bf16",
            asked.value("precision")
        );
    }
    let reads_tokens = matches!(asked.model.input(), InputKind::Tokens { .. });
    refuse_if!(
        asked.variant.precision == Precision::Bf16 && !reads_tokens,
        "bf16 needs a model that reads tokens; for {} use amp-bf16",
        asked.model
    )
}

fn checkpointing(asked: &Combination<'_>) -> Result<(), String> {
    let (model, blocks) = (asked.model, asked.model.blocks());
    match asked.variant.checkpointing {
        Checkpointing::Every(_) if model.reads_volumes() => Err(format!(
            "later blocks of {model} read what earlier ones give, so each is recomputed alone; use \
             blocks"
        )),
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
    refuse_if!(
        asked.task == Task::Serving && !asked.model.is_decoder(),
        "cuda-graph replays one shape, and batches of requests differ in size; use eager"
    )?;
    let others = [
        (
            "checkpointing",
            "reads and sets the random state within the step",
        ),
        ("sequence_lengths", "changes the shapes from step to step"),
        ("loader_workers", "brings new addresses in every step"),
        ("offload", "waits for the host's part in every step"),
        ("patch_size", "takes another place in every step"),
    ];
    // Serving decodes in places of one size, and reads prompts apart.
    let mut others = others.into_iter().filter(|_| asked.task != Task::Serving);
    match others.find(|(axis, _)| asked.is_chosen(axis)) {
        None => Ok(()),
        Some((axis, why)) => Err(format!(
            "cuda-graph cannot capture {axis}={}, which {why}; use eager, or drop {axis}",
            asked.value(axis)
        )),
    }
}

fn activations(asked: &Combination<'_>) -> Result<(), String> {
    let Variant {
        activations,
        precision,
        execution,
        ..
    } = asked.variant;
    let is_short = *activations == Activations::Bf16 && *precision == Precision::Bf16;
    refuse_if!(
        is_short,
        "precision bf16 keeps bf16 already; use int8, or drop activations"
    )?;
    let is_captured = *activations == Activations::Int8 && *execution == Execution::CudaGraph;
    refuse_if!(
        is_captured,
        "int8 with its scales is not supported in a cuda-graph; use bf16, or execution eager"
    )
}

fn optimizer_state(asked: &Combination<'_>) -> Result<(), String> {
    let Variant {
        optimizer_state: state,
        optimizer,
        precision,
        ..
    } = asked.variant;
    let is_chosen = *state != OptimizerState::Fp32;
    refuse_if!(
        is_chosen && *optimizer != Optimizer::Adamw,
        "the moments of adamw alone have another form; use optimizer: adamw"
    )?;
    let is_short = *state == OptimizerState::Bf16 && *precision == Precision::Bf16;
    refuse_if!(
        is_short,
        "precision bf16 has its state in bf16 already; use int8, or drop optimizer_state"
    )
}

fn attention(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    let has_none = asked.model.is_convolutional();
    refuse_if!(
        variant.attention != Attention::Default && has_none,
        "{} has no attention; drop the axis",
        asked.model
    )?;
    let has_half = matches!(variant.attention, Attention::Flash | Attention::Cudnn);
    let is_half = !matches!(variant.precision, Precision::Fp32 | Precision::Tf32);
    refuse_if!(
        has_half && !is_half,
        "{} computes in 16 bits alone, and precision is {}; use amp-bf16 or efficient",
        asked.value("attention"),
        asked.value("precision")
    )
}

fn retain(asked: &Combination<'_>) -> Result<(), String> {
    let Variant {
        retain, gradients, ..
    } = asked.variant;
    let is_asked = *retain != Retain::None;
    let has_steps = matches!(asked.task, Task::Training | Task::Inference);
    refuse_if!(
        is_asked && !has_steps,
        "{} keeps nothing from one request to the next; use the task training or inference",
        asked.task
    )?;
    let is_tracked = asked.task == Task::Training || *gradients == Gradients::Tracked;
    refuse_if!(
        *retain == Retain::Graph && !is_tracked,
        "forward makes no graph here; use gradients: tracked, or retain: outputs"
    )
}

/// As `torch.nn.functional.batch_norm`: «Expected more than 1 value per channel when training».
/// The last stage of a `ResNet`, the one family whose images may have other sizes, is 32 times
/// smaller than the image.
fn batch(asked: &Combination<'_>) -> Result<(), String> {
    let few = asked.task == Task::Allocation && asked.variant.batch.get() < 100;
    refuse_if!(
        few,
        "a step of allocation makes at least 100 tensors, for fewer take no time; use 100"
    )?;
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
    refuse_if!(
        single && size <= 32,
        "{} cannot train on one image of {size} × {size}, because batch normalisation needs \
             more than one value for each channel; use a batch of at least 2 or images of at \
             least 64 × 64",
        asked.model
    )
}

fn sequence_length(asked: &Combination<'_>) -> Result<(), String> {
    let length = asked.variant.sequence_length.map_or(0, Positive::get);
    fits_positions(asked, length, usual_answer(asked))
}

/// Tokens of answers whose length is not chosen. Where it is, that is what is refused.
fn usual_answer(asked: &Combination<'_>) -> u32 {
    let variant = asked.variant;
    let is_chosen = variant.new_tokens.is_some() || variant.answer_lengths.is_some();
    if asked.answers() && !is_chosen {
        variant.new_tokens()
    } else {
        0
    }
}

fn new_tokens(asked: &Combination<'_>) -> Result<(), String> {
    fits_answers(asked, asked.variant.new_tokens.map_or(0, Positive::get))
}

fn answer_lengths(asked: &Combination<'_>) -> Result<(), String> {
    let Some(lengths) = asked.variant.answer_lengths else {
        return Ok(());
    };
    refuse_if!(
        asked.variant.new_tokens.is_some(),
        "{lengths} draws a length for each answer, and new_tokens is the same for all; drop one \
             of the two"
    )?;
    fits_answers(asked, lengths.longest())
}

/// After the longest prompt.
fn fits_answers(asked: &Combination<'_>, new: u32) -> Result<(), String> {
    let (InputKind::Tokens { length, .. }, variant) = (asked.model.input(), asked.variant) else {
        return Ok(());
    };
    let usual = variant.sequence_length.map_or(length, Positive::get);
    let longest = variant.sequence_lengths.map_or(usual, LengthRange::longest);
    fits_positions(asked, longest, new)
}

fn fits_positions(asked: &Combination<'_>, length: u32, new: u32) -> Result<(), String> {
    let InputKind::Tokens { longest, .. } = asked.model.input() else {
        return Ok(());
    };
    refuse_if!(length + new > longest, "{}", {
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
    refuse_if!(
        asked.variant.sequence_length.is_some(),
        "{lengths} draws a length for each step, and sequence_length is the same for all; \
             drop one of the two"
    )?;
    refuse_if!(
        asked.task == Task::Generation,
        "generation reads prompts of one length; use sequence_length for {lengths}"
    )?;
    fits_positions(asked, lengths.longest(), usual_answer(asked))
}

fn prefetch_factor(asked: &Combination<'_>) -> Result<(), String> {
    of_loader(asked, asked.variant.prefetch_factor.is_some())
}

fn of_loader(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    refuse_if!(
        is_asked && asked.variant.loader_workers.is_none(),
        "there is no data loader; give loader_workers too"
    )
}

fn data(asked: &Combination<'_>) -> Result<(), String> {
    let (variant, samples) = (asked.variant, asked.variant.folder_samples());
    if variant.data != Some(Data::Folder) {
        return Ok(());
    }
    refuse_if!(
        asked.model.reads_volumes(),
        "{} reads volumes, and a folder has images or text; use synthetic",
        asked.model
    )?;
    of_loader(asked, true)?;
    refuse_if!(variant.batch.get() > samples, "{}", {
        let batch = variant.batch;
        format!("a folder of {samples} samples has no batch of {batch}; raise folder_samples")
    })
}

fn of_folder(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    let is_there = asked.variant.data == Some(Data::Folder);
    refuse_if!(
        is_asked && !is_there,
        "no folder is read; give data: folder too"
    )
}

fn of_adapters(asked: &Combination<'_>, is_asked: bool) -> Result<(), String> {
    refuse_if!(
        is_asked && asked.variant.lora_rank.is_none(),
        "there are no adapters; give lora_rank too"
    )
}

fn lora_merged(asked: &Combination<'_>) -> Result<(), String> {
    let merged = asked.variant.lora_merged;
    of_adapters(asked, merged.is_some())?;
    refuse_if!(
        merged == Some(true) && asked.task == Task::Training,
        "what is merged cannot be trained; drop lora_merged, or use the task inference or \
         generation"
    )
}

fn arrival_rate(asked: &Combination<'_>) -> Result<(), String> {
    let Variant {
        arrival_rate,
        slo_ms,
        arrivals,
        ..
    } = asked.variant;
    let is_known = arrival_rate.is_some() || slo_ms.is_some() || *arrivals == Some(Arrivals::Trace);
    refuse_if!(
        asked.task == Task::Serving && !is_known,
        "serving needs the requests a second that arrive, such as arrival_rate: 100, slo_ms, for \
         which it searches the highest rate, or arrivals: trace"
    )
}

/// Each request begins as soon as there is a place.
fn longest_wait(asked: &Combination<'_>) -> Result<(), String> {
    let waits = asked.variant.longest_wait_ms.is_some();
    refuse_if!(
        waits && asked.model.is_decoder(),
        "{} takes a request as soon as one of its places is free, for others join and leave \
             between two tokens; drop longest_wait_ms",
        asked.model
    )
}

fn slo_token(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    let is_asked = variant.slo_token_ms.is_some();
    refuse_if!(
        is_asked && variant.slo_ms.is_none(),
        "the first token has an objective of its own; give slo_ms, too"
    )?;
    refuse_if!(
        is_asked && variant.longest_answer() == 1,
        "an answer of one token has no next one; drop slo_token_ms"
    )
}

fn queue_length(asked: &Combination<'_>) -> Result<(), String> {
    let (batch, queue) = (asked.variant.batch.get(), asked.variant.queue_length());
    refuse_if!(
        asked.task == Task::Serving && queue < batch,
        "a queue of {queue} never holds a batch of {batch}; use at least {batch}"
    )
}

fn parallel(asked: &Combination<'_>) -> Result<(), String> {
    let parallel = asked.variant.parallel;
    let mut others = vec![
        (
            "sequence_lengths",
            "of other lengths ranks wait for each other",
        ),
        ("offload", "gradients are exchanged on the device"),
    ];
    let is_in_blocks = matches!(parallel, Parallel::Sharded | Parallel::Pipeline);
    refuse_if!(is_in_blocks && asked.model.reads_volumes(), "{}", {
        let model = asked.model;
        format!("blocks of {model} read each other's output; use ddp")
    })?;
    if parallel == Parallel::Sharded {
        others.extend([
            (
                "checkpointing",
                "blocks are gathered for one backward alone",
            ),
            ("memory_format", "shards are cut from contiguous tensors"),
            (
                "activations",
                "what is gathered for a block is kept by nobody",
            ),
            ("optimizer_state", "a shard ends within a quantised block"),
            ("lora_rank", "all of a block's parameters are trained alike"),
            ("fp8", "blocks are gathered in the precision's type"),
            (
                "qat",
                "blocks are gathered without what is known of their inputs",
            ),
        ]);
        let is_scaled = asked.variant.precision == Precision::AmpFp16;
        refuse_if!(
            is_scaled,
            "a loss scaler has to see all shards; use amp-bf16 with sharded"
        )?;
    }
    if parallel == Parallel::Pipeline {
        others.extend([
            ("loader_workers", "a stage but the first reads no data"),
            ("activations", "micro-batches are kept beside each other"),
            ("retain", "no rank has both the scores and the loss's graph"),
            ("lora_rank", "adapters are in no stage's parameters"),
        ]);
        let is_scaled = asked.variant.precision == Precision::AmpFp16;
        refuse_if!(
            is_scaled,
            "a loss scaler has to see all stages; use amp-bf16 with pipeline"
        )?;
    }
    let chosen = |(axis, _): &(&str, &str)| asked.is_chosen(axis);
    match others.into_iter().find(chosen) {
        Some((axis, why)) if !parallel.is_none() => Err(format!(
            "{axis}={} means nothing here: {why}; drop {axis}",
            asked.value(axis)
        )),
        _ => Ok(()),
    }
}

fn message(asked: &Combination<'_>) -> Result<(), String> {
    let bytes = asked.variant.message_bytes();
    refuse_if!(
        !bytes.is_multiple_of(8),
        "a message has whole values on each of two ranks; {bytes} bytes is no multiple of 8"
    )
}

/// Refuses in these words, as of `format!`, where the condition holds.
macro_rules! refuse_if {
    ($refused:expr, $($why:tt)+) => {
        if $refused { Err(format!($($why)+)) } else { Ok(()) }
    };
}
pub(crate) use refuse_if;

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

read_by!(
    Checkpointing,
    "unknown checkpointing `{}`; expected none, blocks, or every-K with K of at least 2",
    |text| match text {
        "none" => Some(Self::None),
        "blocks" => Some(Self::Blocks),
        _ => numbered(text, "every-", 2..=1024).map(Self::Every),
    }
);

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

read_by!(
    EmptyCache,
    "unknown empty_cache `{}`; expected never, each-step, or each-N with N from 2 to 1000000",
    |text| match text {
        "never" => Some(Self::Never),
        "each-step" => Some(Self::EachStep),
        _ => numbered(text, "each-", 2..=1_000_000).map(Self::Each),
    }
);

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

/// What lies in the host's memory while nobody needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// Nothing.
    #[default]
    None,
    /// What the blocks of a model keep for backward: copied there in forward, and back ahead of
    /// need. Of checkpointed blocks these are their inputs.
    Activations,
    /// The optimizer's state, and the step itself: gradients go over as backward makes them, the
    /// CPU moves the parameters, and these come back.
    Optimizer,
    /// The two together.
    Both,
}

impl Offload {
    /// Whether what blocks keep is offloaded.
    pub fn has_activations(self) -> bool {
        matches!(self, Self::Activations | Self::Both)
    }

    /// Whether the optimizer is.
    pub fn has_optimizer(self) -> bool {
        matches!(self, Self::Optimizer | Self::Both)
    }
}

/// In which form blocks keep what backward needs: values that have a gradient, without weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activations {
    /// As it is.
    #[default]
    Plain,
    /// Single precision in bfloat16.
    Bf16,
    /// Whole numbers of 8 bits with a scale for each row.
    Int8,
}

/// In which form `AdamW` keeps its moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerState {
    /// In the parameters' type: single precision, but for the precision `bf16`.
    #[default]
    Fp32,
    /// In bfloat16, rounded to the nearest.
    Bf16,
    /// 8 bits for each value, of a dynamic code, with a scale for each 256; those of tables of
    /// embeddings stay as they are.
    Int8,
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

/// How the ranks of a run train one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Parallel {
    /// Each has a model of its own, and they exchange nothing.
    #[default]
    None,
    /// Each has all parameters and a batch of its own; gradients are averaged during backward, as
    /// `DistributedDataParallel` does.
    Ddp,
    /// Each has a part of every block's parameters, gradients and optimizer state, and gathers a block
    /// before its use, as `fully_shard` does.
    Sharded,
    /// Each has consecutive blocks, a stage, through which the `accumulation` micro-batches of a step
    /// pass one after the other, by the schedule 1F1B.
    Pipeline,
}

impl Parallel {
    /// Whether ranks exchange nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Which GPUs the ranks of a run work on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One each.
    #[default]
    Spread,
    /// All the same one, whose time the driver deals out in slices.
    Packed,
}

impl Placement {
    /// Whether each rank has a GPU of its own.
    pub fn is_spread(&self) -> bool {
        *self == Self::Spread
    }

    /// GPUs that so many ranks need.
    pub fn gpus(self, ranks: u32) -> u32 {
        match self {
            Self::Spread => ranks,
            Self::Packed => 1,
        }
    }
}

/// What ranks do with a message. `n` is the number of ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// The sum of all ranks' messages on each of them.
    #[default]
    AllReduce,
    /// An n-th of the message from each rank, all of it on each of them.
    AllGather,
    /// An n-th of the sum of all ranks' messages on each of them.
    ReduceScatter,
    /// Rank 0's message on all of them.
    Broadcast,
    /// From each even rank to the odd one after it.
    Send,
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
        let of_axes = Axis::ALL
            .iter()
            .filter_map(|axis| Some((axis, (axis.value)(self, device)?)))
            .flat_map(|(axis, value)| {
                let variables = axis.variables.iter();
                variables.map(move |variable| ((*variable).to_owned(), value.clone()))
            });
        of_axes.chain(self.nccl.variables()).collect()
    }

    /// Tokens that generation makes after the prompt.
    pub fn new_tokens(&self) -> u32 {
        self.new_tokens.map_or(32, Positive::get)
    }

    /// Tokens of the longest answer.
    pub fn longest_answer(&self) -> u32 {
        let lengths = self.answer_lengths;
        lengths.map_or_else(|| self.new_tokens(), LengthRange::longest)
    }

    /// Tokens of an answer, on average.
    pub fn mean_answer(&self) -> f64 {
        let lengths = self.answer_lengths;
        let shortest = lengths.map_or_else(|| self.new_tokens(), LengthRange::shortest);
        f64::midpoint(shortest.into(), self.longest_answer().into())
    }

    /// Whether serving searches the highest rate that keeps the objective.
    pub fn searches_rate(&self) -> bool {
        self.arrival_rate.is_none() && self.slo_ms.is_some()
    }

    /// Samples in the folder that a data loader reads.
    pub fn folder_samples(&self) -> u32 {
        self.folder_samples.map_or(1024, Count::get)
    }

    /// Requests that wait at most.
    pub fn queue_length(&self) -> u32 {
        self.queue_length.map_or(1024, Positive::get)
    }

    /// Bytes of a message of the task collectives.
    pub fn message_bytes(&self) -> u32 {
        self.message.map_or(1 << 20, Count::get)
    }

    /// Refuses what means nothing with so many ranks. One rank trains alone, whatever `parallel`
    /// says: what several are compared with.
    pub fn check_ranks(&self, model: Model, task: Task, ranks: u32) -> Result<(), Refusal> {
        let refusal = |axis, reason: &str| {
            Err(Refusal {
                axis,
                reason: format!("{reason}; got {ranks}"),
            })
        };
        let is_pairwise = self.collective == Some(Collective::Send);
        match task {
            Task::Collectives if ranks < 2 => {
                refusal("collective", "collectives need ranks of at least 2")
            }
            Task::Collectives if is_pairwise && !ranks.is_multiple_of(2) => {
                refusal("collective", "send needs an even number of ranks")
            }
            Task::Training if self.parallel == Parallel::Pipeline && ranks > model.blocks() => {
                let blocks = model.blocks();
                let reason = format!(
                    "a stage has a block at least, and {model} has {blocks}; use ranks of at most \
                     {blocks}"
                );
                refusal("parallel", &reason)
            }
            _ => Ok(()),
        }
    }

    /// Samples that one optimizer step sees.
    pub fn effective_batch(&self) -> u64 {
        u64::from(self.batch.get()) * u64::from(self.accumulation.get())
    }

    /// Those of them that one of so many ranks counts: of a pipeline, whose ranks see the same ones,
    /// an equal share.
    pub fn own_samples(&self, ranks: u32) -> f64 {
        let sharing = match self.parallel {
            Parallel::Pipeline => ranks.max(1),
            _ => 1,
        };
        self.effective_batch() as f64 / f64::from(sharing)
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
    fn ranks_are_as_many_as_a_choice_means_something_with() {
        for (task, json, ranks, axis) in [
            (Task::Training, r#"{"parallel":"ddp"}"#, 1, None),
            (Task::Training, r#"{"parallel":"pipeline"}"#, 2, None),
            (
                Task::Training,
                r#"{"parallel":"pipeline"}"#,
                3,
                Some("parallel"),
            ),
            (Task::Collectives, "{}", 1, Some("collective")),
            (
                Task::Collectives,
                r#"{"collective":"send"}"#,
                3,
                Some("collective"),
            ),
            (Task::Collectives, r#"{"collective":"send"}"#, 4, None),
        ] {
            let variant: Variant = serde_json::from_str(json).unwrap();
            let refused = variant.check_ranks(Model::BertTiny, task, ranks).err();
            assert_eq!(refused.map(|refusal| refusal.axis), axis, "{json} {ranks}");
        }
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

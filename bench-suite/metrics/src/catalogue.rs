//! The rows. A new metric is one of them; everything that shows or judges metrics follows.

use crate::{Across, Direction, Kind, Metric, Role, Unit, source, window};

macro_rules! catalogue {
    ($($id:ident = $metric:expr;)+) => {
        $(
            #[doc = concat!("`", stringify!($id), "`, as `docs/metrics.md` describes it.")]
            pub const $id: Metric = $metric;
        )+
        /// Every metric, in the order of the page.
        pub const ALL: &[&Metric] = &[$(&$id),+];
    };
}

const END: &str = "the end of the measured steps";
const FORWARD: &str = "after forward, in a warm-up step";

catalogue! {
    THROUGHPUT = across(Across::Sum, headline(gated(0.005, more(time(
        "throughput_samples_per_second", "throughput", Unit::SamplesPerSecond, MEASURED,
        "Samples of the measured steps over their wall time, from an idle device to an idle \
         device.")))));
    STEP_RATE = across(Across::Mean, headline(gated(0.005, more(time(
        "throughput_steps_per_second", "steps a second", Unit::StepsPerSecond, MEASURED,
        "Measured steps over their wall time, of a program whose samples are not known.")))));
    TOKEN_RATE = across(Across::Sum, explains(0.005, more(time(
        "throughput_tokens_per_second", "tokens a second", Unit::TokensPerSecond, MEASURED,
        "Tokens of the measured steps over their wall time, of a model that reads tokens."))));
    PREFILL_RATE = across(Across::Sum, headline(gated(0.02, more(time(
        "prefill_tokens_per_second", "prefill", Unit::TokensPerSecond, REQUESTS,
        "Tokens of all prompts over the time from an idle device to the first new tokens. \
         Generation only.")))));
    DECODE_RATE = across(Across::Mean, headline(gated(0.02, more(time(
        "decode_tokens_per_second", "decoding, a sequence", Unit::TokensPerSecond, REQUESTS,
        "Tokens after the first one that each sequence of a batch gets a second. Generation \
         only.")))));
    FIRST_TOKEN = headline(gated(0.02, seconds("time_to_first_token_seconds",
        "time to first token", REQUESTS,
        "From an idle device to the first new tokens, of the median request. Generation only.")));
    LATENCY_P50 = explains(0.05, latency("latency_p50_seconds", "p50 latency",
        "The latency that half of the requests are at or below, from the moment at which a request \
         was to arrive to its answer. A rejected request is slower than all. Serving only, as what \
         follows: of at least 11 requests."));
    LATENCY_P90 = headline(gated(0.05, latency("latency_p90_seconds", "p90 latency",
        "As `latency_p50_seconds`, 90 % of at least 64 requests.")));
    LATENCY_P99 = headline(gated(0.05, latency("latency_p99_seconds", "p99 latency",
        "As `latency_p50_seconds`, 99 % of at least 662 requests.")));
    LATENCY_P999 = explains(0.1, latency("latency_p999_seconds", "p99.9 latency",
        "As `latency_p50_seconds`, 99.9 % of at least 6,636 requests."));
    FIRST_TOKEN_P50 = explains(0.05, latency("first_token_p50_seconds", "p50 time to first token",
        "As `latency_p50_seconds`, to the first token of an answer of several tokens."));
    FIRST_TOKEN_P99 = headline(gated(0.05, latency("first_token_p99_seconds",
        "p99 time to first token",
        "As `latency_p99_seconds`, to the first token of an answer of several tokens.")));
    TOKEN_P50 = explains(0.05, latency("token_p50_seconds", "p50 time per output token",
        "The time from one token to the next, on average over a request, that half of the requests \
         with several tokens are at or below."));
    TOKEN_P99 = headline(gated(0.05, latency("token_p99_seconds", "p99 time per output token",
        "As `token_p50_seconds`, 99 % of at least 662 requests.")));
    ANSWER_RATE = across(Across::Sum, headline(gated(0.02, more(time(
        "answer_tokens_per_second", "output tokens", Unit::TokensPerSecond, REQUESTS,
        "Tokens of all answers over the time from the beginning of the arrivals to the last one. \
         Serving with a decoder only.")))));
    HIGHEST_RATE = headline(gated(0.05, request_rate("highest_rate_requests_per_second",
        "highest rate",
        "The highest rate of arrivals at which 99 % of the requests are answered within the latency \
         objective, `slo_ms` and, of a decoder, `slo_token_ms`, to 1.1 %, by a search within the \
         run. Serving without an `arrival_rate` only.")));
    GOODPUT = headline(gated(0.02, request_rate("goodput_requests_per_second", "goodput",
        "Requests answered within the latency objective, `slo_ms`, over the time from the \
         beginning of the arrivals to the last answer. Serving with an objective only.")));
    ACHIEVED = explains(0.02, request_rate("achieved_requests_per_second", "requests answered",
        "Requests answered over the time from the beginning of the arrivals to the last answer. A \
         server that keeps up achieves the rate that arrives."));
    REJECTED = across(Across::Mean, time("rejected_ratio", "requests rejected", Unit::Ratio,
        REQUESTS, "Share of the requests that found the queue full."));
    BATCH_MEAN = across(Across::Mean, describes(count("batch_mean_count", "requests in a batch",
        REQUESTS, "Mean number of requests that one forward answered.")));
    QUEUE_PEAK = time("queue_peak_count", "deepest queue", Unit::Count, REQUESTS,
        "Most requests that waited at once.");
    QUEUE_MEAN = seconds("queue_mean_seconds", "wait for a batch", REQUESTS,
        "Mean time from the moment at which a request was to arrive to the beginning of its batch.");
    SURVIVED = headline(gated(0.02, more(count("survived_allocations_count", "allocations survived",
        (window::MEASURED_STEPS, source::COUNTER),
        "Tensors that were made before memory ran out, or all. Allocation on a GPU only."))));
    THOUSAND_ALLOCATIONS = headline(gated(0.05, seconds("thousand_allocations_seconds",
        "a thousand allocations", (window::MEASURED_STEPS, source::WORKLOAD_CLOCK),
        "Time of a thousand tensors made and of those that went for them, the GPU waited for after \
         each step. Allocation only.")));
    BUS_BANDWIDTH = across(Across::Mean, headline(gated(0.02, more(time(
        "bus_bandwidth_bytes_per_second", "bus bandwidth", Unit::BytesPerSecond, MEASURED,
        "`algorithm_bandwidth_bytes_per_second` times the share of a message that each rank must \
         send, as nccl-tests counts it: of n ranks 2 (n − 1) / n for an all-reduce, (n − 1) / n for \
         an all-gather and a reduce-scatter, 1 for a broadcast and from one to another. Collectives \
         only, as the three that follow.")))));
    ALGORITHM_BANDWIDTH = across(Across::Mean, more(time(
        "algorithm_bandwidth_bytes_per_second", "algorithm bandwidth", Unit::BytesPerSecond,
        MEASURED,
        "Bytes of the message over the mean time of an iteration. Of an all-gather and a \
         reduce-scatter they are those of all ranks together.")));
    ITERATION_P50 = headline(gated(0.05, seconds("iteration_p50_seconds", "median iteration", MEASURED,
        "The time of an iteration that half of them are at or below, over all measured steps.")));
    ITERATION_P99 = explains(0.1, seconds("iteration_p99_seconds", "p99 iteration", MEASURED,
        "The time of an iteration that 99 % of them are at or below, over all measured steps."));
    UPPER_MODE = seconds("iteration_upper_mode_seconds", "slow iteration", MEASURED,
        "The median of the slower iterations, where iterations are in two modes: two groups, each of \
         a twentieth of them at least, whose medians are at least 10 % and whose means at least five \
         times their scatter apart.");
    UPPER_MODE_SHARE = time("iteration_upper_mode_ratio", "slow iterations", Unit::Ratio, MEASURED,
        "Their share.");
    EXPOSED_EXCHANGE = across(Across::Mean, explains(0.1, time("exposed_exchange_ratio",
        "exposed exchange", Unit::Ratio, MEASURED,
        "Share by which a step is shorter where ranks exchange no gradients, timed in as many steps \
         after the measured ones, at most 20: what of the exchange no computation hides, and what it \
         takes from the one that hides it. Ranks that train one model only, not in stages.")));
    PIPELINE_IDLE = across(Across::Mean, explains(0.1, time("pipeline_idle_ratio", "bubble",
        Unit::Ratio, MEASURED,
        "Share of a step in which a rank of a pipeline waits for others, mean over the ranks: by how \
         much a step is shorter where its stage computes as much and exchanges nothing, timed in as \
         many steps after the measured ones, at most 20. Of n equal stages and m micro-batches \
         (n − 1) / (m + n − 1) is the schedule's, the rest transfers and unequal stages.")));
    SENT_BYTES = across(Across::Mean, describes(bytes("step_sent_bytes", "sent a step",
        (window::MEASURED_STEPS, source::COUNTER),
        "Bytes that a rank must send at least in a step, of all that is exchanged. Ranks that train \
         one model only.")));
    STEP_MEDIAN = explains(0.01, seconds("step_median_seconds", "median step", MEASURED,
        "The step that half of the run's steps are below."));
    STEP_MEAN = seconds("step_mean_seconds", "mean step", MEASURED,
        "Mean of the run's steps.");
    STEP_P90 = seconds("step_p90_seconds", "p90 step", MEASURED,
        "The step that 90 % of the run's steps are below.");
    STEP_P99 = explains(0.05, seconds("step_p99_seconds", "p99 step", MEASURED,
        "The step that 99 % of the run's steps are below; with fewer than 100 steps nearly the \
         longest."));
    STEP_DATA = seconds("step_data_seconds", "data, of a step", MEASURED,
        "Mean time of a step's waiting for a data loader and bringing its batches to the device.");
    STEP_FORWARD = seconds("step_forward_seconds", "forward, of a step", MEASURED,
        "Mean time of a step's forward and loss, over all micro-batches.");
    STEP_BACKWARD = seconds("step_backward_seconds", "backward, of a step", MEASURED,
        "Mean time of a step's backward, recomputation included.");
    STEP_OPTIMIZER = seconds("step_optimizer_seconds", "optimizer, of a step", MEASURED,
        "Mean time of a step's unscaling and optimizer.");
    DATA_GPU_BUSY = gpu_busy("data_gpu_busy_ratio", "GPU busy in data",
        "Share of a step's data in which a kernel runs on the GPU: kernels between its marks in the \
         profiled steps, over the time of the measured steps, which no profiler slows down. The marks \
         are kernels themselves, in the stream, and what a step launched ahead counts where it ran; \
         copies and NCCL's kernels, which wait for other ranks, do not. Of a data loader's batches.");
    FORWARD_GPU_BUSY = gpu_busy("forward_gpu_busy_ratio", "GPU busy in forward",
        "As `data_gpu_busy_ratio`, of forward and loss.");
    BACKWARD_GPU_BUSY = gpu_busy("backward_gpu_busy_ratio", "GPU busy in backward",
        "As `data_gpu_busy_ratio`, of backward.");
    OPTIMIZER_GPU_BUSY = gpu_busy("optimizer_gpu_busy_ratio", "GPU busy in the optimizer",
        "As `data_gpu_busy_ratio`, of unscaling and the optimizer.");
    DATA_HOST_CPU = host_cpu("data_host_cpu_ratio", "CPUs at work in data",
        "CPUs that the process kept at work while it waited for a data loader's batches, 1 being all \
         of one: its CPU time, all threads together, over the time until it went on. The loader's \
         workers are not in it (`loader_cpu_seconds`).");
    FORWARD_HOST_CPU = host_cpu("forward_host_cpu_ratio", "CPUs at work in forward",
        "As `data_host_cpu_ratio`, of forward and loss: on a GPU of launching them, which may be done \
         long before they are.");
    BACKWARD_HOST_CPU = host_cpu("backward_host_cpu_ratio", "CPUs at work in backward",
        "As `forward_host_cpu_ratio`, of backward.");
    OPTIMIZER_HOST_CPU = host_cpu("optimizer_host_cpu_ratio", "CPUs at work in the optimizer",
        "As `forward_host_cpu_ratio`, of unscaling and the optimizer.");
    DATA_WAIT = across(Across::Mean, headline(explains(0.1, time("data_wait_ratio",
        "waiting for data", Unit::Ratio, MEASURED,
        "Share of the measured steps in which they waited for a data loader and for its batches to \
         reach the device: `step_data_seconds` of all steps over their time."))));
    LOADER_RATE = across(Across::Sum, headline(explains(0.05, more(time(
        "loader_samples_per_second", "loader alone", Unit::SamplesPerSecond,
        ("before the warm-up", source::WORKLOAD_CLOCK),
        "Samples that a data loader hands over a second where nobody trains on them, in at \
         least two seconds, once those that were made ahead are gone. `data: folder` only.")))));
    LOADER_CPU = across(Across::Sum, seconds("loader_cpu_seconds", "CPU time of the loader",
        (window::MEASURED_STEPS, source::KERNEL),
        "CPU time of a data loader's workers together; `cpu_seconds` does not have it."));
    HOST_TO_DEVICE = across(Across::Mean, explains(0.1, more(time(
        "host_to_device_bytes_per_second", "host to GPU", Unit::BytesPerSecond,
        (window::MEASURED_STEPS, source::CLOCK),
        "Bytes of the inputs that a data loader brings to the GPU over the time that they took: \
         from pageable memory the driver's staging counts, from pinned memory the copy alone."))));
    DATA_FOLDER = describes(bytes("data_folder_bytes", "folder of data",
        ("before the warm-up", source::COUNTER),
        "Bytes of the files that a data loader reads. They lie in the run's `/tmp`, which in a \
         container is memory of the container's."));
    UTILIZATION = across(Across::Mean, more(time(
        "model_utilization_ratio", "model utilization", Unit::Ratio,
        (window::MEASURED_STEPS, source::COUNTER),
        "Operations of the model a second over those of a large matrix product in the same run \
         and precision. Recomputation does not count.")));
    SCALING_EFFICIENCY = across(Across::Mean, headline(explains(0.02, more(time(
        "scaling_efficiency_ratio", "scaling efficiency", Unit::Ratio, MEASURED,
        "Throughput of a rank over that of a rank in runs of the fewest ranks of the same cell \
         otherwise, in the same session and block. Worked out where sessions are read, and in no \
         record.")))));
    RANK_LAG = across(Across::Mean, time("rank_lag_ratio", "lag of the slowest rank", Unit::Ratio,
        MEASURED,
        "Share by which the median step of the slowest rank is longer than that of the median rank. \
         Ranks that wait for each other in every step hide it. Of several ranks alone."));
    MEASURED_SECONDS = describes(seconds("measured_seconds", "measured steps", MEASURED,
        "Wall time of the measured steps."));

    PEAK_ALLOCATED = headline(gated(0.005, bytes("peak_allocated_bytes", "peak allocated",
        (window::MEASURED_STEPS, source::ALLOCATOR),
        "Most bytes in tensors.")));
    GROWTH = headline(gated(0.1, bytes("allocated_growth_bytes", "leaked a step",
        (window::MEASURED_STEPS, source::ALLOCATOR),
        "Bytes by which what is in tensors after a step grows from one to the next: the median over \
         nine stretches of the steps, and 0 where its interval has 0 in it, as where a cache grew \
         once. The record has the interval, which is right with 96 %: `allocated_growth_least_bytes` \
         and `allocated_growth_most_bytes`. Unknown with fewer than ten steps, and of programs on \
         the CPU.")));
    PEAK_RESERVED = headline(gated(0.02, bytes("peak_reserved_bytes", "peak reserved",
        (window::MEASURED_STEPS, source::ALLOCATOR),
        "Most bytes that the caching allocator held of the GPU: tensors, and what it keeps for the \
         next ones.")));
    PROCESS_PEAK = explains(0.02, bytes("process_peak_bytes", "process on the GPU",
        (window::MEASURED_STEPS, source::NVML_AND_WORKLOAD),
        "Most bytes of the GPU that the run's process held: the allocator's, the CUDA context, \
         libraries and their workspaces. The greatest sample of the window, or, where no sample \
         shows as much, the allocator's peak and what lay outside of it when the last step was \
         over: `sampled_process_peak_bytes` and `reported_process_peak_bytes` in the record."));
    RANKS_PROCESS_PEAK = bytes("ranks_process_peak_bytes", "processes on all GPUs",
        (window::MEASURED_STEPS, source::NVML_AND_WORKLOAD),
        "Sum of `process_peak_bytes` over the ranks, whose value of the run is the largest. Of several \
         ranks alone; of those that share a GPU what they hold of it together, for their parts are \
         not known.");
    GPU_PEAK = bytes("gpu_peak_bytes", "GPU in use",
        (window::MEASURED_STEPS, source::NVML_AND_WORKLOAD),
        "Most bytes of the GPU that all processes held together.");
    OUTSIDE = bytes("outside_bytes", "outside the allocator",
        (window::MEASURED_STEPS, source::NVML_AND_WORKLOAD),
        "Peak of the process on the GPU less peak reserved: the CUDA context, libraries, their \
         workspaces.");
    RESERVED_UNUSED = bytes("reserved_unused_bytes", "reserved and unused",
        (window::MEASURED_STEPS, source::ALLOCATOR),
        "Peak reserved less peak allocated: what the allocator's cache and its fragmentation cost.");
    CONTAINER_PEAK = bytes("container_peak_bytes", "container on the host",
        (window::MEASURED_STEPS, source::CGROUP),
        "Most bytes of host memory that the container or process held. Unknown where no sample \
         lies within the measured steps.");

    RUN_PEAK_ALLOCATED = bytes("run_peak_allocated_bytes", "peak allocated, whole run",
        (window::RUN, source::ALLOCATOR),
        "As `peak_allocated_bytes`, with warm-up: cuDNN's trials of algorithms count.");
    RUN_PEAK_RESERVED = bytes("run_peak_reserved_bytes", "peak reserved, whole run",
        (window::RUN, source::ALLOCATOR),
        "As `peak_reserved_bytes`, with warm-up.");
    RUN_PROCESS_PEAK = headline(explains(0.02, bytes("run_process_peak_bytes",
        "process on the GPU, whole run", (window::RUN, source::NVML_AND_WORKLOAD),
        "As `process_peak_bytes`, with warm-up and without calibration.")));
    RUN_CONTAINER_PEAK = bytes("run_container_peak_bytes", "container on the host, whole run",
        (window::RUN, source::CGROUP),
        "As `container_peak_bytes`, from the start.");
    RUN_HOST_PEAK_RESIDENT = headline(explains(0.05,
        bytes("run_host_peak_resident_bytes", "host memory", (window::RUN, source::KERNEL),
        "Most resident bytes of the workload's process in host memory (`VmHWM`).")));

    PARAMETERS = bytes("parameter_bytes", "parameters", (END, source::COUNTER),
        "Bytes of the model's parameters.");
    GRADIENTS = bytes("gradient_bytes", "gradients", (END, source::COUNTER),
        "Bytes of the gradients between two steps; 0 where they go to the host as backward makes \
         them.");
    OPTIMIZER = bytes("optimizer_bytes", "optimizer state", (END, source::COUNTER),
        "Bytes of the optimizer's state on the device; 0 where it is offloaded.");
    OFFLOADED = bytes("offloaded_step_bytes", "moved a step",
        (window::MEASURED_STEPS, source::COUNTER),
        "Bytes that a step copies between the GPU and the host's memory, both ways together, where \
         something is offloaded.");
    PINNED_HOST = explains(0.02, bytes("pinned_host_bytes", "pinned on the host",
        (END, source::COUNTER),
        "Bytes of host memory that are pinned for what is offloaded."));
    KEY_VALUES = explains(0.005, bytes("kv_cache_token_bytes", "keys and values a token",
        (END, source::COUNTER),
        "Bytes of keys and values that a sequence keeps for a token, over all layers. Generation \
         only."));
    DATA = bytes("data_bytes", "buffers and data", (FORWARD, source::ALLOCATOR),
        "Bytes that a step finds besides parameters and optimizer state: buffers, batches.");
    ACTIVATIONS = bytes("activation_bytes", "activations", (FORWARD, source::ALLOCATOR),
        "Bytes that the first micro-batch's forward keeps for its backward. Training only.");
    BACKWARD = bytes("backward_bytes", "gradients and temporaries at the peak",
        (window::MEASURED_STEPS, source::ALLOCATOR),
        "Peak allocated less what forward left: gradients as they come, and temporaries.");
    ALLOCATED = bytes("allocated_bytes", "allocated at the end", (END, source::ALLOCATOR),
        "Bytes in tensors.");
    RESERVED = bytes("reserved_bytes", "reserved at the end", (END, source::ALLOCATOR),
        "Bytes that the caching allocator held of the GPU.");
    DEVICE_USED = bytes("device_used_bytes", "GPU in use at the end", (END, source::COUNTER),
        "Bytes of the GPU that all processes held together, as CUDA reports.");
    CONTEXT = bytes("context_bytes", "CUDA context",
        ("around making the CUDA context", source::NVML),
        "Bytes of the GPU that making the CUDA context took, before the first tensor. Libraries \
         load later.");

    PEAK_INACTIVE_SPLIT = bytes("peak_inactive_split_bytes", "inactive splits",
        (window::RUN, source::ALLOCATOR),
        "Most bytes in split blocks that nothing used.");
    LARGEST_FREE_BLOCK = describes(bytes("largest_free_block_bytes", "largest free block",
        (END, source::ALLOCATOR),
        "The largest block that the caching allocator held and that nothing used: what it can give \
         without asking the driver."));
    PEAK_SEGMENTS = across(Across::Sum, count("peak_segments_count", "segments", (window::RUN, source::ALLOCATOR),
        "Most segments taken from the driver."));
    DEVICE_ALLOCATIONS = across(Across::Sum, count("device_allocations_count", "allocations of the driver",
        (window::RUN, source::ALLOCATOR),
        "Allocations asked of the driver."));
    ALLOCATION_RETRIES = across(Across::Sum, count("allocation_retries_count", "allocation retries",
        (window::RUN, source::ALLOCATOR),
        "Times that a failed allocation was tried again after giving cached memory back."));

    CPU_SECONDS = across(Across::Sum, seconds("cpu_seconds", "CPU time",
        (window::MEASURED_STEPS, source::KERNEL),
        "CPU time of the process, all threads together."));
    RUN_CPU_SECONDS = across(Across::Sum, seconds("run_cpu_seconds",
        "CPU time, whole run", (window::RUN, source::KERNEL),
        "As `cpu_seconds`, from the start of the process."));
    GPU_ENERGY = across(Across::Sum, time("gpu_energy_joules", "energy of the GPU", Unit::Joules,
        (window::MEASURED_STEPS, source::NVML),
        "Energy that the GPU drew, by its counter. Unknown with fewer than ten samples."));
    GPU_POWER = across(Across::Sum, time("gpu_mean_power_watts", "mean power of the GPU", Unit::Watts,
        (window::MEASURED_STEPS, source::NVML),
        "Mean of the samples. The GPU averages each over up to a second."));
    RUN_GPU_ENERGY = across(Across::Sum, time("run_gpu_energy_joules",
        "energy of the GPU, whole run", Unit::Joules, (window::WHOLE_RUN, source::NVML),
        "Energy that the GPU drew from the first sample to the last."));
    RUN_GPU_POWER = across(Across::Sum, time("run_gpu_mean_power_watts",
        "mean power of the GPU, whole run", Unit::Watts, (window::WHOLE_RUN, source::NVML),
        "Mean of all samples."));

    PROGRAM = headline(gated(0.02, seconds("program_seconds", "program, start to end", WHOLE_RUN,
        "From the start of a program of the user's to its end, where it ended by itself.")));
    FIRST_STEP = headline(gated(0.1, seconds("time_to_first_step_seconds", "time to first step",
        ("the first step of the run", source::COUNTER),
        "From the start of a program's process to the end of its first step, importing and \
         compiling included. Programs of users alone.")));
    WALL = seconds("wall_seconds", "whole run", WHOLE_RUN,
        "Wall time from making the container or process to its removal.");
    CONTAINER_START = seconds("container_start_seconds", "container start", WHOLE_RUN,
        "Making the container or the process's folder, and starting it.");
    HARNESS = seconds("harness_seconds", "harness", WHOLE_RUN,
        "Making, starting, noticing the end, removing.");
    PROCESS_START = seconds("process_start_seconds", "import or link",
        ("phase: process start", source::CLOCK),
        "From the start of the process until it is ready to work: the built-in workload's libraries \
         are linked and loaded, or a program has imported torch.");
    CUDA_START = seconds("cuda_start_seconds", "CUDA start",
        ("phase: CUDA start", source::CLOCK),
        "Making the CUDA context.");
    MODEL_BUILD = seconds("model_build_seconds", "model build",
        ("phase: model build", source::CLOCK),
        "Making the model.");
    WARMUP = headline(explains(0.1, seconds("warmup_seconds", "warm-up",
        ("phase: warm-up", source::CLOCK),
        "Steps before measuring, cuDNN's trials and the compiling of kernels among them. Of runs \
         that share a kernel cache, the first, which fills it, has none where sessions are read.")));

    MEASURED_START = seconds("time_to_measured_steps_seconds", "time to measured steps",
        ("start of the process to the first measured step", source::CLOCK),
        "From the start of the process to the first measured step: import or link, CUDA start, model \
         build, data and warm-up.");

    IMAGE_PULL = bytes("image_pull_bytes", "pull size", ("the image", source::REGISTRY),
        "Compressed bytes of all layers, as their registry sends them. It belongs to no run; a \
         comparison shows it of images that Docker pulled whole for their session.");

    IMAGE_SIZE = headline(bytes("image_size_bytes", "image size", ("the image", source::IMAGE),
        "Bytes of all layers of the image. It belongs to no run; a comparison judges it once."));

    IMAGE_LOAD = headline(Metric {
        threshold: 0.1,
        ..seconds("image_load_seconds", "image load", ("the image", source::HARNESS_CLOCK),
            "Sending the image to the engine, which unpacks it. It belongs to no run; a comparison \
             shows it of images that were loaded nearly whole for their session, never of those that \
             the engine had, and as inconclusive: each is loaded once.")
    });

    FIRST_LOSS = across(Across::Mean, describes(plain("first_loss", "first loss",
        ("the first step of the run", source::COUNTER),
        "Loss. Training only.")));
    LAST_LOSS = across(Across::Mean, describes(plain("last_loss", "last loss", (END, source::COUNTER),
        "Loss. Training only.")));
}

type WindowAndSource = (&'static str, &'static str);

const MEASURED: WindowAndSource = (window::MEASURED_STEPS, source::CLOCK);
const REQUESTS: WindowAndSource = (window::MEASURED_STEPS, source::WORKLOAD_CLOCK);
const WHOLE_RUN: WindowAndSource = (window::WHOLE_RUN, source::HARNESS_CLOCK);

const fn time(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    (window, source): WindowAndSource,
    about: &'static str,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        direction: Direction::LowerIsBetter,
        kind: Kind::TimeLike,
        threshold: 0.05,
        role: Role::Followed,
        window,
        source,
        headline: false,
        about,
        across: Across::Largest,
    }
}

const fn seconds(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
) -> Metric {
    time(name, label, Unit::Seconds, when, about)
}

const fn latency(name: &'static str, label: &'static str, about: &'static str) -> Metric {
    seconds(name, label, REQUESTS, about)
}

const fn request_rate(name: &'static str, label: &'static str, about: &'static str) -> Metric {
    let rate = time(name, label, Unit::RequestsPerSecond, REQUESTS, about);
    across(Across::Sum, more(rate))
}

const fn gpu_busy(name: &'static str, label: &'static str, about: &'static str) -> Metric {
    let when = (window::PROFILED_STEPS, source::PROFILER);
    across(
        Across::Mean,
        more(time(name, label, Unit::Ratio, when, about)),
    )
}

const fn host_cpu(name: &'static str, label: &'static str, about: &'static str) -> Metric {
    let when = (window::MEASURED_STEPS, source::KERNEL);
    across(Across::Mean, time(name, label, Unit::Ratio, when, about))
}

const fn plain(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
) -> Metric {
    time(name, label, Unit::Plain, when, about)
}

const fn bytes(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
) -> Metric {
    Metric {
        kind: Kind::MemoryLike,
        threshold: 0.02,
        ..time(name, label, Unit::Bytes, when, about)
    }
}

const fn count(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
) -> Metric {
    Metric {
        unit: Unit::Count,
        ..bytes(name, label, when, about)
    }
}

/// One that improves as it grows.
const fn more(metric: Metric) -> Metric {
    Metric {
        direction: Direction::HigherIsBetter,
        ..metric
    }
}

const fn gated(threshold: f64, metric: Metric) -> Metric {
    Metric {
        role: Role::Gated,
        threshold,
        ..metric
    }
}

const fn explains(threshold: f64, metric: Metric) -> Metric {
    Metric {
        role: Role::Explains,
        threshold,
        ..metric
    }
}

const fn headline(metric: Metric) -> Metric {
    Metric {
        headline: true,
        ..metric
    }
}

const fn describes(metric: Metric) -> Metric {
    Metric {
        role: Role::Describes,
        ..metric
    }
}

const fn across(across: Across, metric: Metric) -> Metric {
    Metric { across, ..metric }
}

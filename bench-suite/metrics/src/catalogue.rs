//! The rows. A new metric is one of them; everything that shows or judges metrics follows.

use protocol::{AllocatorCounters, Memory, Phase, StepParts, Summary, Task};
use record::{MemoryParts, Peaks, Record, StepTimes};

use crate::{Direction, Kind, Metric, Role, Source, Unit, Window};

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

const END: Window = Window::Moment("the end of the measured steps");
const FORWARD: Window = Window::Moment("after forward, in a warm-up step");

catalogue! {
    THROUGHPUT = gated(0.005, Metric {
        direction: Direction::HigherIsBetter,
        ..time("throughput_samples_per_second", "throughput", Unit::SamplesPerSecond, MEASURED,
            "Samples of the measured steps over their wall time, from an idle device to an idle \
             device. Nothing for the task idle.",
            |r| summary(r)?.throughput_samples_per_second)
    });
    STEP_MEDIAN = explains(0.01, seconds("step_median_seconds", "median step", MEASURED,
        "The step that half of the run's steps are below.", |r| steps(r, |s| s.median)));
    STEP_MEAN = seconds("step_mean_seconds", "mean step", MEASURED,
        "Mean of the run's steps.", |r| steps(r, |s| s.mean));
    STEP_P90 = seconds("step_p90_seconds", "p90 step", MEASURED,
        "The step that 90 % of the run's steps are below.", |r| steps(r, |s| s.p90));
    STEP_P99 = explains(0.05, seconds("step_p99_seconds", "p99 step", MEASURED,
        "The step that 99 % of the run's steps are below; with fewer than 100 steps nearly the \
         longest.", |r| steps(r, |s| s.p99)));
    STEP_DATA = seconds("step_data_seconds", "data, of a step", MEASURED,
        "Mean time of a step's waiting for a data loader and bringing its batches to the device.",
        |r| part(r, |parts| parts.data_seconds));
    STEP_FORWARD = seconds("step_forward_seconds", "forward, of a step", MEASURED,
        "Mean time of a step's forward and loss, over all micro-batches.",
        |r| part(r, |parts| Some(parts.forward_seconds)));
    STEP_BACKWARD = seconds("step_backward_seconds", "backward, of a step", MEASURED,
        "Mean time of a step's backward, recomputation included.",
        |r| part(r, |parts| Some(parts.backward_seconds)));
    STEP_OPTIMIZER = seconds("step_optimizer_seconds", "optimizer, of a step", MEASURED,
        "Mean time of a step's unscaling and optimizer.",
        |r| part(r, |parts| Some(parts.optimizer_seconds)));
    UTILIZATION = Metric {
        direction: Direction::HigherIsBetter,
        ..time("model_utilization_ratio", "model utilization", Unit::Ratio,
            (Window::MeasuredSteps, Source::Counter),
            "Operations of the model a second over those of a large matrix product in the same run \
             and precision. Recomputation does not count.", |r| r.metrics.as_ref()?.utilization)
    };
    MEASURED_SECONDS = describes(seconds("measured_seconds", "measured steps", MEASURED,
        "Wall time of the measured steps.", |r| Some(summary(r)?.measured_seconds)));

    PEAK_ALLOCATED = gated(0.005, bytes("peak_allocated_bytes", "peak allocated",
        (Window::MeasuredSteps, Source::Allocator),
        "Most bytes in tensors.", |r| memory(r, |m| m.peak_allocated_bytes)));
    PEAK_RESERVED = gated(0.02, bytes("peak_reserved_bytes", "peak reserved",
        (Window::MeasuredSteps, Source::Allocator),
        "Most bytes that the caching allocator held of the GPU: tensors, and what it keeps for the \
         next ones.", |r| memory(r, |m| m.peak_reserved_bytes)));
    PROCESS_PEAK = explains(0.02, bytes("process_peak_bytes", "process on the GPU",
        (Window::MeasuredSteps, Source::NvmlAndWorkload),
        "Most bytes of the GPU that the run's process held: the allocator's, the CUDA context, \
         libraries and their workspaces. The greatest sample of the window, or, where no sample \
         shows as much, the allocator's peak and what lay outside of it when the last step was \
         over; `process_peak_reading` in the record says which.",
        |r| peaks(r, |p| p.process_peak_bytes)));
    GPU_PEAK = bytes("gpu_peak_bytes", "GPU in use",
        (Window::MeasuredSteps, Source::NvmlAndWorkload),
        "Most bytes of the GPU that all processes held together.", |r| peaks(r, |p| p.gpu_peak_bytes));
    OUTSIDE = bytes("outside_bytes", "outside the allocator",
        (Window::MeasuredSteps, Source::NvmlAndWorkload),
        "Peak of the process on the GPU less peak reserved: the CUDA context, libraries, their \
         workspaces.",
        |r| peaks(r, |p| p.process_peak_bytes).zip(memory(r, |m| m.peak_reserved_bytes))
            .map(|(process, reserved)| process - reserved));
    RESERVED_UNUSED = former(&["slack_bytes"], bytes("reserved_unused_bytes", "reserved and unused",
        (Window::MeasuredSteps, Source::Allocator),
        "Peak reserved less peak allocated: what the allocator's cache and its fragmentation cost.",
        |r| memory(r, |m| m.peak_reserved_bytes?.checked_sub(m.peak_allocated_bytes?))));
    CONTAINER_PEAK = bytes("container_peak_bytes", "container on the host",
        (Window::MeasuredSteps, Source::Cgroup),
        "Most bytes of host memory that the container or process held. Unknown where no sample \
         lies within the measured steps.", |r| peaks(r, |p| p.container_peak_bytes));

    RUN_PEAK_ALLOCATED = bytes("run_peak_allocated_bytes", "peak allocated, whole run",
        (Window::Run, Source::Allocator),
        "As `peak_allocated_bytes`, with warm-up: cuDNN's trials of algorithms count.",
        |r| memory(r, |m| m.run_peak_allocated_bytes));
    RUN_PEAK_RESERVED = bytes("run_peak_reserved_bytes", "peak reserved, whole run",
        (Window::Run, Source::Allocator),
        "As `peak_reserved_bytes`, with warm-up.", |r| memory(r, |m| m.run_peak_reserved_bytes));
    RUN_PROCESS_PEAK = bytes("run_process_peak_bytes", "process on the GPU, whole run",
        (Window::Run, Source::NvmlAndWorkload),
        "As `process_peak_bytes`, with warm-up and without calibration.",
        |r| peaks(r, |p| p.run_process_peak_bytes));
    RUN_CONTAINER_PEAK = bytes("run_container_peak_bytes", "container on the host, whole run",
        (Window::Run, Source::Cgroup),
        "As `container_peak_bytes`, from the start. In sessions of version 1 with calibration, for \
         they do not tell when it began.", |r| peaks(r, |p| p.run_container_peak_bytes));
    RUN_HOST_PEAK_RESIDENT = former(&["host_peak_resident_bytes"], explains(0.05,
        bytes("run_host_peak_resident_bytes", "host memory", (Window::Run, Source::Kernel),
        "Most resident bytes of the workload's process in host memory (`VmHWM`).",
        |r| memory(r, |m| m.host_peak_resident_bytes))));

    PARAMETERS = bytes("parameter_bytes", "parameters", (END, Source::Counter),
        "Bytes of the model's parameters.", |r| memory(r, |m| m.parameter_bytes));
    GRADIENTS = bytes("gradient_bytes", "gradients", (END, Source::Counter),
        "Bytes of the gradients between two steps.", |r| memory(r, |m| m.gradient_bytes));
    OPTIMIZER = bytes("optimizer_bytes", "optimizer state", (END, Source::Counter),
        "Bytes of the optimizer's state.", |r| memory(r, |m| m.optimizer_bytes));
    DATA = bytes("data_bytes", "buffers and data", (FORWARD, Source::Allocator),
        "Bytes that a step finds besides parameters and optimizer state: buffers, batches.",
        |r| parts(r, |p| p.data_bytes));
    ACTIVATIONS = bytes("activation_bytes", "activations", (FORWARD, Source::Allocator),
        "Bytes that the first micro-batch's forward keeps for its backward. Training only.",
        |r| parts(r, |p| p.activation_bytes));
    BACKWARD = bytes("backward_bytes", "gradients and temporaries at the peak",
        (Window::MeasuredSteps, Source::Allocator),
        "Peak allocated less what forward left: gradients as they come, and temporaries.",
        |r| parts(r, |p| p.backward_bytes));
    ALLOCATED = bytes("allocated_bytes", "allocated at the end", (END, Source::Allocator),
        "Bytes in tensors.", |r| memory(r, |m| m.allocated_bytes));
    RESERVED = bytes("reserved_bytes", "reserved at the end", (END, Source::Allocator),
        "Bytes that the caching allocator held of the GPU.", |r| memory(r, |m| m.reserved_bytes));
    DEVICE_USED = bytes("device_used_bytes", "GPU in use at the end", (END, Source::Counter),
        "Bytes of the GPU that all processes held together, as CUDA tells the workload.",
        |r| memory(r, |m| m.device_used_bytes));
    CONTEXT = bytes("context_bytes", "CUDA context",
        (Window::Moment("around making the CUDA context"), Source::Nvml),
        "Bytes of the GPU that making the CUDA context took, before the first tensor. Libraries \
         load later.", |r| memory(r, |m| m.context_bytes));

    PEAK_INACTIVE_SPLIT = bytes("peak_inactive_split_bytes", "inactive splits",
        (Window::Run, Source::Allocator),
        "Most bytes in split blocks that nothing used.", |r| counter(r, |c| c.peak_inactive_split_bytes));
    PEAK_SEGMENTS = count("peak_segments_count", "segments", (Window::Run, Source::Allocator),
        "Most segments taken from the driver.", |r| counter(r, |c| c.peak_segments));
    DEVICE_ALLOCATIONS = count("device_allocations_count", "allocations of the driver",
        (Window::Run, Source::Allocator),
        "Allocations asked of the driver.", |r| counter(r, |c| c.device_allocations));
    ALLOCATION_RETRIES = count("allocation_retries_count", "allocation retries",
        (Window::Run, Source::Allocator),
        "Times that a failed allocation was tried again after giving cached memory back.",
        |r| counter(r, |c| Some(c.retries)));

    CPU_SECONDS = former(&["processor_seconds"], seconds("cpu_seconds", "CPU time",
        (Window::MeasuredSteps, Source::Kernel),
        "CPU time of the process, all threads together.", |r| summary(r)?.cpu_seconds));
    RUN_CPU_SECONDS = former(&["run_processor_seconds"], seconds("run_cpu_seconds",
        "CPU time, whole run", (Window::Run, Source::Kernel),
        "As `cpu_seconds`, from the start of the process.", |r| summary(r)?.run_cpu_seconds));
    GPU_ENERGY = time("gpu_energy_joules", "energy of the GPU", Unit::Joules,
        (Window::MeasuredSteps, Source::Nvml),
        "Energy that the GPU drew, by its counter. Unknown with fewer than ten samples.",
        |r| r.monitor.gpu_measured_energy_joules);
    GPU_POWER = time("gpu_mean_power_watts", "mean power of the GPU", Unit::Watts,
        (Window::MeasuredSteps, Source::Nvml),
        "Mean of the samples. The GPU averages each over up to a second.",
        |r| Some(r.monitor.gpu_power_watts.as_ref()?.measured?.mean));
    RUN_GPU_ENERGY = former(&["card_energy_joules"], time("run_gpu_energy_joules",
        "energy of the GPU, whole run", Unit::Joules, (Window::WholeRun, Source::Nvml),
        "Energy that the GPU drew from the first sample to the last.",
        |r| r.monitor.gpu_energy_joules));
    RUN_GPU_POWER = former(&["card_mean_power_watts"], time("run_gpu_mean_power_watts",
        "mean power of the GPU, whole run", Unit::Watts, (Window::WholeRun, Source::Nvml),
        "Mean of all samples.", |r| Some(r.monitor.gpu_power_watts.as_ref()?.mean)));

    WALL = seconds("wall_seconds", "whole run", WHOLE_RUN,
        "Wall time from making the container or process to its removal.", |r| Some(r.wall_seconds));
    CONTAINER_START = seconds("container_start_seconds", "container start", WHOLE_RUN,
        "Making the container or the process's folder, and starting it.",
        |r| Some(r.harness.create_seconds + r.harness.start_seconds));
    HARNESS = seconds("harness_seconds", "harness", WHOLE_RUN,
        "Making, starting, noticing the end, removing.", |r| Some(r.harness.total_seconds()));
    CUDA_START = seconds("cuda_start_seconds", "CUDA start",
        (Window::Phase("CUDA start"), Source::Clock),
        "Making the CUDA context.", |r| phase(r, Phase::CudaStart));
    MODEL_BUILD = seconds("model_build_seconds", "model build",
        (Window::Phase("model build"), Source::Clock),
        "Making the model.", |r| phase(r, Phase::ModelBuild));
    WARMUP = seconds("warmup_seconds", "warm-up", (Window::Phase("warm-up"), Source::Clock),
        "Steps before measuring, cuDNN's trials and the compiling of kernels among them.",
        |r| phase(r, Phase::Warmup));

    FIRST_LOSS = describes(plain("first_loss", "first loss",
        (Window::Moment("the first step of the run"), Source::Counter),
        "Loss. Training only.", |r| summary(r)?.first_loss));
    LAST_LOSS = describes(plain("last_loss", "last loss", (END, Source::Counter),
        "Loss. Training only.", |r| summary(r)?.last_loss));
}

type Read = fn(&Record) -> Option<f64>;
type WindowAndSource = (Window, Source);

const MEASURED: WindowAndSource = (Window::MeasuredSteps, Source::Clock);
const WHOLE_RUN: WindowAndSource = (Window::WholeRun, Source::HarnessClock);

const fn time(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    (window, source): WindowAndSource,
    about: &'static str,
    read: Read,
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
        about,
        formerly: &[],
        read,
    }
}

const fn seconds(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
    read: Read,
) -> Metric {
    time(name, label, Unit::Seconds, when, about, read)
}

const fn plain(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
    read: Read,
) -> Metric {
    time(name, label, Unit::Plain, when, about, read)
}

const fn bytes(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
    read: Read,
) -> Metric {
    Metric {
        kind: Kind::MemoryLike,
        threshold: 0.02,
        ..time(name, label, Unit::Bytes, when, about, read)
    }
}

const fn count(
    name: &'static str,
    label: &'static str,
    when: WindowAndSource,
    about: &'static str,
    read: Read,
) -> Metric {
    Metric {
        unit: Unit::Count,
        ..bytes(name, label, when, about, read)
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

const fn describes(metric: Metric) -> Metric {
    Metric {
        role: Role::Describes,
        ..metric
    }
}

const fn former(formerly: &'static [&'static str], metric: Metric) -> Metric {
    Metric { formerly, ..metric }
}

fn float(number: u64) -> f64 {
    number as f64
}

fn summary(record: &Record) -> Option<&Summary> {
    Some(&record.metrics.as_ref()?.summary)
}

/// Idle steps are as long as they were asked to be, which is no metric of the image.
fn steps(record: &Record, read: fn(&StepTimes) -> f64) -> Option<f64> {
    let metrics = record.metrics.as_ref()?;
    (record.task != Task::Idle).then(|| read(&metrics.step_seconds))
}

/// Mean over the measured steps; `None` where they have no parts.
fn part(record: &Record, read: fn(&StepParts) -> Option<f64>) -> Option<f64> {
    let steps = record.steps.iter();
    let parts: Option<Vec<f64>> = steps.map(|step| read(step.parts.as_ref()?)).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    Some(parts.iter().sum::<f64>() / parts.len() as f64)
}

fn memory(record: &Record, read: fn(&Memory) -> Option<u64>) -> Option<f64> {
    read(&summary(record)?.memory).map(float)
}

fn peaks(record: &Record, read: fn(&Peaks) -> Option<u64>) -> Option<f64> {
    read(&record.metrics.as_ref()?.peaks).map(float)
}

fn parts(record: &Record, read: fn(&MemoryParts) -> Option<u64>) -> Option<f64> {
    read(&MemoryParts::of(record.metrics.as_ref()?)?).map(float)
}

fn counter(record: &Record, read: fn(&AllocatorCounters) -> Option<u64>) -> Option<f64> {
    read(summary(record)?.memory.counters.as_ref()?).map(float)
}

fn phase(record: &Record, phase: Phase) -> Option<f64> {
    record.phase_seconds.get(&phase).copied()
}

//! The table. The noise thresholds of what is compared are the documented defaults of suites
//! (`scenarios/suites.md`); a suite may set its own.

use protocol::{AllocatorCounters, Memory, Phase, Task};

use super::{Better, Nature, Quantity, Unit};
use crate::{Metrics, Record, StepTimes};

type Read = fn(&Record) -> Option<f64>;

pub(super) const ALL: &[Quantity] = &[
    gated(
        0.005,
        Quantity {
            better: Better::Higher,
            unit: Unit::SamplesPerSecond,
            ..time("throughput_samples_per_second", "throughput", |r| {
                metrics(r, |m| m.throughput_samples_per_second)
            })
        },
    ),
    explains(
        0.01,
        time("step_median_seconds", "median step", |r| {
            steps(r, |s| s.median)
        }),
    ),
    time("step_mean_seconds", "mean step", |r| steps(r, |s| s.mean)),
    time("step_p90_seconds", "p90 step", |r| steps(r, |s| s.p90)),
    explains(
        0.05,
        time("step_p99_seconds", "p99 step", |r| steps(r, |s| s.p99)),
    ),
    gated(
        0.005,
        bytes("peak_allocated_bytes", "peak allocated", |r| {
            memory(r, |m| m.peak_allocated_bytes)
        }),
    ),
    gated(
        0.02,
        bytes("peak_reserved_bytes", "peak reserved", |r| {
            memory(r, |m| m.peak_reserved_bytes)
        }),
    ),
    explains(
        0.02,
        bytes("process_peak_bytes", "process on the GPU", |r| {
            metrics(r, |m| m.process_peak_bytes.map(float))
        }),
    ),
    explains(
        0.05,
        bytes("host_peak_resident_bytes", "host memory", |r| {
            memory(r, |m| m.host_peak_resident_bytes)
        }),
    ),
    // Whatever lives at the peak and is neither parameter, gradient nor optimizer state.
    bytes("activation_bytes", "activations at the peak", |r| {
        let held = match r.task {
            Task::Training => |m: &Memory| Some(m.gradient_bytes? + m.optimizer_bytes?),
            Task::Inference => |_: &Memory| Some(0),
            Task::Idle => |_: &Memory| None,
        };
        let memory = &r.metrics.as_ref()?.memory;
        let held = held(memory)? + memory.parameter_bytes?;
        memory.peak_allocated_bytes?.checked_sub(held).map(float)
    }),
    // What fragmentation costs: held by the allocator and in no tensor, peak against peak.
    bytes("reserved_unused_bytes", "reserved and unused", |r| {
        memory(r, |m| {
            m.peak_reserved_bytes?.checked_sub(m.peak_allocated_bytes?)
        })
    }),
    bytes(
        "run_peak_allocated_bytes",
        "peak allocated, with warm-up",
        |r| memory(r, |m| m.run_peak_allocated_bytes),
    ),
    bytes(
        "run_peak_reserved_bytes",
        "peak reserved, with warm-up",
        |r| memory(r, |m| m.run_peak_reserved_bytes),
    ),
    bytes("allocated_bytes", "allocated at the end", |r| {
        memory(r, |m| m.allocated_bytes)
    }),
    bytes("reserved_bytes", "reserved at the end", |r| {
        memory(r, |m| m.reserved_bytes)
    }),
    bytes("parameter_bytes", "parameters", |r| {
        memory(r, |m| m.parameter_bytes)
    }),
    bytes("gradient_bytes", "gradients", |r| {
        memory(r, |m| m.gradient_bytes)
    }),
    bytes("optimizer_bytes", "optimizer state", |r| {
        memory(r, |m| m.optimizer_bytes)
    }),
    // What an idle container takes of the GPU.
    bytes("context_bytes", "CUDA context", |r| {
        memory(r, |m| m.context_bytes)
    }),
    bytes("device_used_bytes", "GPU in use by everybody", |r| {
        memory(r, |m| m.device_used_bytes)
    }),
    bytes("container_peak_bytes", "container on the host", |r| {
        metrics(r, |m| m.container_peak_bytes.map(float))
    }),
    bytes("peak_inactive_split_bytes", "inactive splits", |r| {
        counter(r, |c| c.peak_inactive_split_bytes)
    }),
    count("peak_segments_count", "segments", |r| {
        counter(r, |c| c.peak_segments)
    }),
    count(
        "device_allocations_count",
        "allocations of the driver",
        |r| counter(r, |c| c.device_allocations),
    ),
    count("allocation_retries_count", "allocation retries", |r| {
        counter(r, |c| Some(c.retries))
    }),
    time("cpu_seconds", "CPU time, measured steps", |r| {
        metrics(r, |m| m.cpu_seconds)
    }),
    time("run_cpu_seconds", "CPU time, whole run", |r| {
        metrics(r, |m| m.run_cpu_seconds)
    }),
    time("wall_seconds", "whole run", |r| Some(r.wall_seconds)),
    time("container_start_seconds", "container start", |r| {
        Some(r.harness.create_seconds + r.harness.start_seconds)
    }),
    time("harness_seconds", "harness", |r| {
        Some(r.harness.total_seconds())
    }),
    time("cuda_start_seconds", "CUDA start", |r| {
        phase(r, Phase::CudaStart)
    }),
    time("model_build_seconds", "model build", |r| {
        phase(r, Phase::ModelBuild)
    }),
    time("warmup_seconds", "warm-up", |r| phase(r, Phase::Warmup)),
    Quantity {
        unit: Unit::Joules,
        ..time("gpu_energy_joules", "energy of the GPU", |r| {
            r.monitor.gpu_energy_joules
        })
    },
    Quantity {
        unit: Unit::Watts,
        ..time("gpu_mean_power_watts", "mean power of the GPU", |r| {
            r.monitor.gpu_power_watts.as_ref().map(|series| series.mean)
        })
    },
];

const fn time(name: &'static str, label: &'static str, read: Read) -> Quantity {
    Quantity {
        name,
        label,
        unit: Unit::Seconds,
        better: Better::Lower,
        nature: Nature::Time,
        threshold: 0.05,
        compared: false,
        gated: false,
        read,
    }
}

const fn bytes(name: &'static str, label: &'static str, read: Read) -> Quantity {
    Quantity {
        unit: Unit::Bytes,
        nature: Nature::Memory,
        threshold: 0.02,
        ..time(name, label, read)
    }
}

const fn count(name: &'static str, label: &'static str, read: Read) -> Quantity {
    Quantity {
        unit: Unit::Count,
        ..bytes(name, label, read)
    }
}

/// Compared, and a change for the worse fails a gate.
const fn gated(threshold: f64, quantity: Quantity) -> Quantity {
    Quantity {
        gated: true,
        ..explains(threshold, quantity)
    }
}

/// Compared, to explain what the gate says.
const fn explains(threshold: f64, quantity: Quantity) -> Quantity {
    Quantity {
        threshold,
        compared: true,
        ..quantity
    }
}

fn float(number: u64) -> f64 {
    number as f64
}

fn metrics(record: &Record, read: fn(&Metrics) -> Option<f64>) -> Option<f64> {
    record.metrics.as_ref().and_then(read)
}

/// Idle steps are as long as they were asked to be, which is no metric of the image.
fn steps(record: &Record, read: fn(&StepTimes) -> f64) -> Option<f64> {
    let metrics = record.metrics.as_ref()?;
    (record.task != Task::Idle).then(|| read(&metrics.step_seconds))
}

fn memory(record: &Record, read: fn(&Memory) -> Option<u64>) -> Option<f64> {
    let metrics = record.metrics.as_ref()?;
    read(&metrics.memory).map(float)
}

fn counter(record: &Record, read: fn(&AllocatorCounters) -> Option<u64>) -> Option<f64> {
    let counters = record.metrics.as_ref()?.memory.counters.as_ref()?;
    read(counters).map(float)
}

fn phase(record: &Record, phase: Phase) -> Option<f64> {
    record.phase_seconds.get(&phase).copied()
}

//! Which figures of a run become series. A new one is one line in [`ALL`].

use judge::compare::{Direction, Kind};
use protocol::{AllocatorCounters, Memory, Phase};
use record::{Metrics, Record};

/// A figure of a run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit in it.
    pub name: &'static str,
    /// Its unit: `samples/s`, `s`, `bytes`, `count`, `J` or `W`.
    pub unit: &'static str,
    /// Which way it improves.
    pub direction: Direction,
    /// How it behaves from run to run.
    pub kind: Kind,
    read: fn(&Record) -> Option<f64>,
}

impl Metric {
    /// The metric of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|metric| metric.name == name)
    }

    /// The figure of this run; `None` where it cannot be known, and for a failed run, whose
    /// figures are for looking at only.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        if !record.outcome.is_ok() {
            return None;
        }
        (self.read)(record).filter(|value| value.is_finite())
    }
}

/// Every metric that the history follows.
pub static ALL: &[Metric] = &[
    speed("throughput_samples_per_second", |r| {
        figures(r, |m| m.throughput_samples_per_second)
    }),
    time("step_median_seconds", |r| {
        figures(r, |m| m.step_seconds.median)
    }),
    time("step_mean_seconds", |r| figures(r, |m| m.step_seconds.mean)),
    time("step_p90_seconds", |r| figures(r, |m| m.step_seconds.p90)),
    time("step_p99_seconds", |r| figures(r, |m| m.step_seconds.p99)),
    bytes("peak_allocated_bytes", |r| {
        memory(r, |m| m.peak_allocated_bytes)
    }),
    bytes("peak_reserved_bytes", |r| {
        memory(r, |m| m.peak_reserved_bytes)
    }),
    bytes("run_peak_allocated_bytes", |r| {
        memory(r, |m| m.run_peak_allocated_bytes)
    }),
    bytes("run_peak_reserved_bytes", |r| {
        memory(r, |m| m.run_peak_reserved_bytes)
    }),
    bytes("allocated_bytes", |r| memory(r, |m| m.allocated_bytes)),
    bytes("reserved_bytes", |r| memory(r, |m| m.reserved_bytes)),
    bytes("parameter_bytes", |r| memory(r, |m| m.parameter_bytes)),
    bytes("gradient_bytes", |r| memory(r, |m| m.gradient_bytes)),
    bytes("optimizer_bytes", |r| memory(r, |m| m.optimizer_bytes)),
    // What an idle container takes of the card.
    bytes("context_bytes", |r| memory(r, |m| m.context_bytes)),
    bytes("device_used_bytes", |r| memory(r, |m| m.device_used_bytes)),
    bytes("host_peak_resident_bytes", |r| {
        memory(r, |m| m.host_peak_resident_bytes)
    }),
    bytes("process_peak_bytes", |r| {
        metrics(r, |m| m.process_peak_bytes.map(float))
    }),
    bytes("container_peak_bytes", |r| {
        metrics(r, |m| m.container_peak_bytes.map(float))
    }),
    bytes("peak_inactive_split_bytes", |r| {
        counter(r, |c| c.peak_inactive_split_bytes)
    }),
    count("peak_segments_count", |r| counter(r, |c| c.peak_segments)),
    count("device_allocations_count", |r| {
        counter(r, |c| c.device_allocations)
    }),
    count("allocation_retries_count", |r| {
        counter(r, |c| Some(c.retries))
    }),
    time("wall_seconds", |r| Some(r.wall_seconds)),
    time("container_start_seconds", |r| {
        Some(r.harness.create_seconds + r.harness.start_seconds)
    }),
    time("harness_seconds", |r| Some(r.harness.total_seconds())),
    time("cuda_start_seconds", |r| phase(r, Phase::CudaStart)),
    time("model_build_seconds", |r| phase(r, Phase::ModelBuild)),
    time("warmup_seconds", |r| phase(r, Phase::Warmup)),
    lower("card_energy_joules", "J", Kind::TimeLike, |r| {
        r.monitor.card_energy_joules
    }),
    lower("card_mean_power_watts", "W", Kind::TimeLike, |r| {
        r.monitor
            .card_power_watts
            .as_ref()
            .map(|series| series.mean)
    }),
];

type Read = fn(&Record) -> Option<f64>;

const fn lower(name: &'static str, unit: &'static str, kind: Kind, read: Read) -> Metric {
    Metric {
        name,
        unit,
        direction: Direction::LowerIsBetter,
        kind,
        read,
    }
}

const fn speed(name: &'static str, read: Read) -> Metric {
    Metric {
        direction: Direction::HigherIsBetter,
        ..lower(name, "samples/s", Kind::TimeLike, read)
    }
}

const fn time(name: &'static str, read: Read) -> Metric {
    lower(name, "s", Kind::TimeLike, read)
}

const fn bytes(name: &'static str, read: Read) -> Metric {
    lower(name, "bytes", Kind::MemoryLike, read)
}

const fn count(name: &'static str, read: Read) -> Metric {
    lower(name, "count", Kind::MemoryLike, read)
}

fn float(number: u64) -> f64 {
    number as f64
}

fn metrics(record: &Record, read: fn(&Metrics) -> Option<f64>) -> Option<f64> {
    record.metrics.as_ref().and_then(read)
}

fn figures(record: &Record, read: fn(&Metrics) -> f64) -> Option<f64> {
    record.metrics.as_ref().map(read)
}

fn memory(record: &Record, read: fn(&Memory) -> Option<u64>) -> Option<f64> {
    record
        .metrics
        .as_ref()
        .and_then(|metrics| read(&metrics.memory))
        .map(float)
}

fn counter(record: &Record, read: fn(&AllocatorCounters) -> Option<u64>) -> Option<f64> {
    let counters = record.metrics.as_ref()?.memory.counters.as_ref()?;
    read(counters).map(float)
}

fn phase(record: &Record, phase: Phase) -> Option<f64> {
    record.phase_seconds.get(&phase).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_carry_their_unit() {
        for (place, metric) in ALL.iter().enumerate() {
            assert!(
                ALL[..place].iter().all(|other| other.name != metric.name),
                "{}",
                metric.name
            );
            let ending = match metric.unit {
                "samples/s" => "_samples_per_second",
                "s" => "_seconds",
                "J" => "_joules",
                "W" => "_watts",
                "bytes" => "_bytes",
                "count" => "_count",
                other => panic!("unit {other}"),
            };
            assert!(
                metric.name.ends_with(ending),
                "{} in {}",
                metric.name,
                metric.unit
            );
            assert!(std::ptr::eq(Metric::named(metric.name).unwrap(), metric));
        }
    }
}

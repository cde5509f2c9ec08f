//! The quantities that are compared and followed over time, in one table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Metrics, Record};

/// What a quantity is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Samples a second.
    SamplesPerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// How a quantity behaves from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Nature {
    /// Noisy in every run.
    Time,
    /// Often the same to the byte in every run.
    Memory,
}

/// One figure of a run, with what a comparison must know about it.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// The name in files, with its unit.
    pub name: &'static str,
    /// A few words for people.
    pub label: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// How it behaves from run to run.
    pub nature: Nature,
    /// The largest relative change that counts as none, unless a suite says otherwise.
    pub margin: f64,
    /// Whether a change for the worse fails a gate. The others are there to explain.
    pub gated: bool,
    read: fn(&Metrics) -> Option<f64>,
}

impl Quantity {
    /// Every quantity. A new one is one entry here.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "throughput_samples_per_second",
            label: "throughput",
            unit: Unit::SamplesPerSecond,
            better: Better::Higher,
            nature: Nature::Time,
            margin: 0.005,
            gated: true,
            read: |metrics| Some(metrics.throughput_samples_per_second),
        },
        Self {
            name: "step_median_seconds",
            label: "median step",
            unit: Unit::Seconds,
            better: Better::Lower,
            nature: Nature::Time,
            margin: 0.01,
            gated: false,
            read: |metrics| Some(metrics.step_seconds.median),
        },
        Self {
            name: "step_p99_seconds",
            label: "p99 step",
            unit: Unit::Seconds,
            better: Better::Lower,
            nature: Nature::Time,
            margin: 0.05,
            gated: false,
            read: |metrics| Some(metrics.step_seconds.p99),
        },
        Self {
            name: "peak_allocated_bytes",
            label: "peak allocated",
            unit: Unit::Bytes,
            better: Better::Lower,
            nature: Nature::Memory,
            margin: 0.005,
            gated: true,
            read: |metrics| bytes(metrics.memory.peak_allocated_bytes),
        },
        Self {
            name: "peak_reserved_bytes",
            label: "peak reserved",
            unit: Unit::Bytes,
            better: Better::Lower,
            nature: Nature::Memory,
            margin: 0.02,
            gated: true,
            read: |metrics| bytes(metrics.memory.peak_reserved_bytes),
        },
        Self {
            name: "process_peak_bytes",
            label: "process on the card",
            unit: Unit::Bytes,
            better: Better::Lower,
            nature: Nature::Memory,
            margin: 0.02,
            gated: false,
            read: |metrics| bytes(metrics.process_peak_bytes),
        },
        Self {
            name: "host_peak_resident_bytes",
            label: "host memory",
            unit: Unit::Bytes,
            better: Better::Lower,
            nature: Nature::Memory,
            margin: 0.05,
            gated: false,
            read: |metrics| bytes(metrics.memory.host_peak_resident_bytes),
        },
    ];

    /// The quantity of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|quantity| quantity.name == name)
    }

    /// Its value in a run that went well; `None` where the run failed or did not yield it.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        record
            .outcome
            .is_ok()
            .then_some(record.metrics.as_ref())
            .flatten()
            .and_then(self.read)
    }
}

fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_carry_their_unit() {
        let names: BTreeSet<_> = Quantity::ALL.iter().map(|quantity| quantity.name).collect();
        assert_eq!(names.len(), Quantity::ALL.len());
        for quantity in Quantity::ALL {
            let unit = match quantity.unit {
                Unit::SamplesPerSecond => "_samples_per_second",
                Unit::Seconds => "_seconds",
                Unit::Bytes => "_bytes",
            };
            assert!(quantity.name.ends_with(unit), "{}", quantity.name);
            assert!(Quantity::named(quantity.name).is_some());
        }
        assert!(Quantity::named("speed").is_none());
    }
}

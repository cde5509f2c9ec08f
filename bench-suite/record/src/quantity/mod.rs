//! The quantities that are compared, claimed and followed over time, in one table.

mod table;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Record;

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
    /// Times that something happened, or things that there are.
    Count,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
}

impl Unit {
    /// The unit's sign, such as `s`.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::SamplesPerSecond => "samples/s",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Joules => "J",
            Self::Watts => "W",
        }
    }
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

/// One metric of a run, with what a comparison must know about it.
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
    pub threshold: f64,
    /// Whether a comparison judges it.
    pub compared: bool,
    /// Whether a change for the worse fails a gate. The others are there to explain.
    pub gated: bool,
    read: fn(&Record) -> Option<f64>,
}

impl Quantity {
    /// Every quantity. A new one is one entry in [`table`].
    pub const ALL: &'static [Self] = table::ALL;

    /// Those that a comparison judges; the others are followed over time and may be claimed.
    pub fn compared() -> impl Iterator<Item = &'static Self> {
        Self::ALL.iter().filter(|quantity| quantity.compared)
    }

    /// The quantity of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|quantity| quantity.name == name)
    }

    /// Its value in a run that went well; `None` where the run failed or did not yield it.
    #[must_use]
    pub fn of(&self, record: &Record) -> Option<f64> {
        if !record.outcome.is_ok() {
            return None;
        }
        (self.read)(record).filter(|value| value.is_finite())
    }
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
                Unit::Count => "_count",
                Unit::Joules => "_joules",
                Unit::Watts => "_watts",
            };
            assert!(quantity.name.ends_with(unit), "{}", quantity.name);
            assert!(Quantity::named(quantity.name).is_some());
            assert!(
                quantity.compared || !quantity.gated,
                "{}: a gate reads comparisons",
                quantity.name
            );
            assert!(
                (0.0..1.0).contains(&quantity.threshold),
                "{}",
                quantity.name
            );
        }
        assert!(Quantity::named("speed").is_none());
    }
}

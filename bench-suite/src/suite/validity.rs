//! From when on a machine is not fit to measure on, as a suite says it.

use record::ValidityLimits;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use strict_yaml::{Document, KeyPath, YamlError};

use super::{
    file::within,
    units::{Wait, scalar},
};

/// Most repeats of one run.
const MOST_REPEATS: u32 = 100;

/// `validity:` as it stands in a file; keys that are missing are taken from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ValidityFile {
    /// Longest wait for an idle machine before a run, such as `5min`; `0s`: none. 2min unless said.
    pub(super) wait: Option<Wait>,
    /// How often a contaminated run is repeated; 2 unless said otherwise.
    #[schemars(range(max = 100))]
    pub(super) repeats: Option<u32>,
    /// Before a run: most that the GPU may be at work; 10 unless said otherwise.
    #[serde(alias = "card_utilization_percent")]
    pub(super) gpu_utilization_percent: Option<Limit>,
    /// Before a run: how warm the GPU may be; 75 unless said otherwise.
    #[serde(alias = "card_temperature_celsius")]
    pub(super) gpu_temperature_celsius: Option<Limit>,
    /// Before and during a run: how many processes of others may use the GPU; 0 unless said.
    #[serde(alias = "card_processes")]
    pub(super) gpu_processes: Option<u32>,
    /// During a run: most of the samples in which heat or a fault held the GPU back; 5 unless said.
    pub(super) throttled_percent: Option<Limit>,
    /// During a run: most of the samples in which the power cap held the GPU back; `any` unless said.
    pub(super) power_cap_percent: Option<Limit>,
    /// Before and during a run: most that others may use of all CPUs; `any` unless said.
    pub(super) host_busy_percent: Option<Limit>,
    /// During a run: most of the time in which the host waited for memory; 10 unless said otherwise.
    pub(super) memory_stall_percent: Option<Limit>,
}

/// A limit from 0 to 100, or `any`: none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit(Option<f64>);

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a number from 0 to 100, or any",
            true,
            |value| {
                if value.as_str() == Some("any") {
                    return Some(Limit(None));
                }
                let limit = value
                    .as_f64()
                    .filter(|limit| (0.0..=100.0).contains(limit))?;
                Some(Limit(Some(limit)))
            },
        )
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A limit from 0 to 100, or any",
            "anyOf": [
                { "type": "number", "minimum": 0, "maximum": 100 },
                { "const": "any" },
            ],
        })
    }
}

impl ValidityFile {
    /// Checks what types cannot.
    pub(super) fn check(&self, document: &Document, path: &KeyPath) -> Result<(), YamlError> {
        self.repeats.map_or(Ok(()), |repeats| {
            within(document, path, "repeats", repeats, 0..=MOST_REPEATS)
        })
    }

    /// These, and `others` where these say nothing.
    pub(super) fn or(&self, others: &Self) -> Self {
        Self {
            wait: self.wait.or(others.wait),
            repeats: self.repeats.or(others.repeats),
            gpu_utilization_percent: self
                .gpu_utilization_percent
                .or(others.gpu_utilization_percent),
            gpu_temperature_celsius: self
                .gpu_temperature_celsius
                .or(others.gpu_temperature_celsius),
            gpu_processes: self.gpu_processes.or(others.gpu_processes),
            throttled_percent: self.throttled_percent.or(others.throttled_percent),
            power_cap_percent: self.power_cap_percent.or(others.power_cap_percent),
            host_busy_percent: self.host_busy_percent.or(others.host_busy_percent),
            memory_stall_percent: self.memory_stall_percent.or(others.memory_stall_percent),
        }
    }
}

impl From<ValidityFile> for ValidityLimits {
    fn from(file: ValidityFile) -> Self {
        let usual = Self::default();
        let limit = |own: Option<Limit>, usual| own.map_or(usual, |limit| limit.0);
        Self {
            wait_seconds: file
                .wait
                .map_or(usual.wait_seconds, |wait| wait.0.as_secs_f64()),
            repeats: file.repeats.unwrap_or(usual.repeats),
            gpu_utilization_percent: limit(
                file.gpu_utilization_percent,
                usual.gpu_utilization_percent,
            ),
            gpu_temperature_celsius: limit(
                file.gpu_temperature_celsius,
                usual.gpu_temperature_celsius,
            ),
            gpu_processes: file.gpu_processes.or(usual.gpu_processes),
            throttled_percent: limit(file.throttled_percent, usual.throttled_percent),
            power_cap_percent: limit(file.power_cap_percent, usual.power_cap_percent),
            host_busy_percent: limit(file.host_busy_percent, usual.host_busy_percent),
            memory_stall_percent: limit(file.memory_stall_percent, usual.memory_stall_percent),
        }
    }
}

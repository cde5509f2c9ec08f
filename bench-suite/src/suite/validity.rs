//! From when on a machine is not fit to measure on, as a suite says it.

use protocol::Device;
use record::ValidityLimits;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer};
use strict_yaml::{Spot, YamlError};

use super::{
    axes::schema_of,
    units::{Wait, scalar, within},
};

const MOST_REPEATS: u32 = 100;
/// A run on the CPU has the same CPUs as whatever else runs.
const BUSY_PERCENT_ON_CPU: f64 = 25.0;

/// `validity:` as written in a file; keys that are missing are taken from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ValidityFile {
    /// Longest wait for an idle machine before a run, such as `5min`; `0s`: none. 2min by default.
    pub(super) wait: Option<Wait>,
    /// How often a contaminated run is repeated; 2 by default.
    #[schemars(range(max = 100))]
    pub(super) repeats: Option<u32>,
    /// Before a run: most that the GPU may be at work; 10 by default.
    pub(super) gpu_utilization_percent: Option<Limit>,
    /// Before a run: how warm the GPU may be; 75 by default.
    pub(super) gpu_temperature_celsius: Option<Limit>,
    /// Before and during a run: how many processes of others may use the GPU; 0 by default.
    pub(super) gpu_processes: Option<u32>,
    /// During a run: most of the samples in which heat or a fault held the GPU back; 5 by default.
    pub(super) throttled_percent: Option<Limit>,
    /// During a run: most of the samples in which the power cap held the GPU back; `any` by default.
    pub(super) power_cap_percent: Option<Limit>,
    /// Before and during a run: most that others may use of all CPUs; on the CPU 25, on a GPU `any`
    /// by default.
    pub(super) host_busy_percent: Option<Limit>,
    /// During a run: most of the time in which the host waited for memory; 10 by default.
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

schema_of!(Limit as "Limit", _ => json_schema!({
    "description": "A limit from 0 to 100, or any",
    "anyOf": [{ "type": "number", "minimum": 0, "maximum": 100 }, { "const": "any" }],
}));

impl ValidityFile {
    pub(super) fn check(&self, at: &Spot<'_>) -> Result<(), YamlError> {
        self.repeats.map_or(Ok(()), |repeats| {
            within(at, "repeats", repeats, 0..=MOST_REPEATS)
        })
    }

    /// These, over others where these say nothing.
    pub(super) fn over(&self, others: &Self) -> ValidityKeys {
        ValidityKeys([others.clone(), self.clone()])
    }
}

/// What a scenario and the defaults of its suite say of a fit machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidityKeys([ValidityFile; 2]);

impl ValidityKeys {
    /// What holds for runs on this device: what they say, and else what is usual.
    pub fn limits(&self, device: Device) -> ValidityLimits {
        let mut all = ValidityLimits {
            host_busy_percent: (!device.is_cuda()).then_some(BUSY_PERCENT_ON_CPU),
            ..ValidityLimits::default()
        };
        for file in &self.0 {
            for (held, limit) in [
                (
                    &mut all.gpu_utilization_percent,
                    file.gpu_utilization_percent,
                ),
                (
                    &mut all.gpu_temperature_celsius,
                    file.gpu_temperature_celsius,
                ),
                (&mut all.throttled_percent, file.throttled_percent),
                (&mut all.power_cap_percent, file.power_cap_percent),
                (&mut all.host_busy_percent, file.host_busy_percent),
                (&mut all.memory_stall_percent, file.memory_stall_percent),
            ] {
                *held = limit.map_or(*held, |limit| limit.0);
            }
            let wait = file.wait.map(|wait| wait.0.as_secs_f64());
            all.wait_seconds = wait.unwrap_or(all.wait_seconds);
            all.repeats = file.repeats.unwrap_or(all.repeats);
            all.gpu_processes = file.gpu_processes.or(all.gpu_processes);
        }
        all
    }
}

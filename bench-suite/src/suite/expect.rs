//! Runs that are chosen by axes and device: those left out, and those that are to fail.

use std::{cell::Cell, collections::BTreeMap};

use protocol::Axes;
use record::Reason;
use schemars::json_schema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use strict_yaml::{Spot, YamlError};

use super::{
    axes::{Exclusion, device_schemas, parameter_schema, schema_of},
    scenario::{DeviceKind, ScenarioVariant, Work},
    values::{Given, Picked, Reading, values},
};

/// How runs are to fail: one entry or a list of them, each with `outcome` and what an
/// [`Exclusion`] has. The first that fits a variant holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Expect {
    pub(super) is_list: bool,
    pub(super) entries: Vec<BTreeMap<String, Value>>,
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_list = value.is_array();
        let entries = if is_list {
            serde_json::from_value(value)
        } else {
            serde_json::from_value(value).map(|entry| vec![entry])
        };
        let entries = entries.map_err(D::Error::custom)?;
        Ok(Self { is_list, entries })
    }
}

schema_of!(Expect as "Expect", generator => {
    let entry = generator.subschema_for::<Entry>();
    json_schema!({
        "description": "How runs are to fail; of a list the first entry that fits a run holds",
        "anyOf": [entry, { "type": "array", "items": entry }],
    })
});

struct Entry;

schema_of!(Entry as "ExpectEntry", generator => {
    let mut keys = device_schemas(generator);
    let outcomes = Reason::ALL.into_iter().filter(|one| one.can_be_expected());
    let outcomes: Vec<_> = outcomes.map(Reason::word).collect();
    keys.insert("outcome".into(), serde_json::json!({ "enum": outcomes }));
    json_schema!({
        "type": "object",
        "description": "How runs are to fail, and which: axis to one value or a list of \
                        values, and device",
        "properties": keys,
        "required": ["outcome"],
        "additionalProperties": parameter_schema(true),
    })
});

/// A variant with how its runs are to fail.
pub(super) fn expecting(
    (axes, work): (Axes, Work),
    devices: Vec<DeviceKind>,
    picked: &Picked<'_>,
    expected: &[(Spot<'_>, Expected)],
) -> ScenarioVariant {
    let of_device = |device: &DeviceKind| {
        let mut entries = expected.iter().map(|(_, one)| one);
        let first = entries.find(|one| one.runs.matches(*device, picked))?;
        first.used.set(true);
        Some((*device, first.outcome))
    };
    ScenarioVariant {
        ranks: 1,
        expected: devices.iter().filter_map(of_device).collect(),
        axes,
        work,
        devices,
    }
}

pub(super) struct Expected {
    outcome: Reason,
    runs: Exclude,
    /// Whether a variant fits it.
    pub(super) used: Cell<bool>,
}

impl Expected {
    pub(super) fn read(
        at: &Spot<'_>,
        reading: Reading<'_>,
        entry: &BTreeMap<String, Value>,
    ) -> Result<Self, YamlError> {
        let mut runs = entry.clone();
        let Some(outcome) = runs.remove("outcome") else {
            let message = "the key `outcome` is missing";
            let expected = "expected how the run fails, such as out-of-memory";
            return Err(at.expecting(message, expected, None));
        };
        let known = Reason::ALL.into_iter().filter(|one| one.can_be_expected());
        let word = outcome.as_str().unwrap_or_default();
        let Some(outcome) = known.clone().find(|one| one.word() == word) else {
            let words: Vec<String> = known.map(Reason::word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let message = format!("no outcome that a suite can expect: {outcome}");
            let at = at.key("outcome");
            return Err(at.unknown(message, "expected one of ", word, &words));
        };
        Ok(Self {
            outcome,
            runs: Exclude::of(at, reading, &runs)?,
            used: Cell::new(false),
        })
    }
}

/// Runs of these axes and this device: an entry of `exclude` or of `expect`, typed.
pub(super) struct Exclude {
    device: Option<DeviceKind>,
    axes: BTreeMap<String, Vec<Given>>,
}

impl Exclude {
    pub(super) fn read(
        at: &Spot<'_>,
        reading: Reading<'_>,
        file: &Exclusion,
    ) -> Result<Self, YamlError> {
        if file.0.is_empty() {
            let message = "this would leave everything out";
            return Err(at.expecting(message, "expected at least one axis", None));
        }
        Self::of(at, reading, &file.0)
    }

    fn of(
        at: &Spot<'_>,
        reading: Reading<'_>,
        file: &BTreeMap<String, Value>,
    ) -> Result<Self, YamlError> {
        let (mut device, mut axes) = (None, BTreeMap::new());
        for (key, value) in file {
            if key == "device" {
                device = serde_json::from_value(value.clone())
                    .map_err(|error| at.key(key).serde(&error))?;
            } else {
                axes.insert(key.clone(), values(at, reading, key, value)?);
            }
        }
        Ok(Self { device, axes })
    }

    pub(super) fn matches(&self, device: DeviceKind, picked: &Picked<'_>) -> bool {
        self.device.is_none_or(|own| own == device)
            && self.axes.iter().all(|(axis, values)| {
                let mut values = values.iter();
                picked
                    .get(axis.as_str())
                    .is_some_and(|given| values.any(|value| value.canonical == given.canonical))
            })
    }
}

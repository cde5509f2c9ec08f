//! Files of older versions, read as those of today.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Peaks, Record, Session, VERSION};

/// Keys of version 1 that have another name since. Each stands for one thing wherever it occurs.
const RENAMED: &[(&str, &str)] = &[
    ("card_energy_joules", "gpu_energy_joules"),
    ("card_lost", "gpu_lost"),
    ("card_memory_clock_mhz", "gpu_memory_clock_mhz"),
    ("card_power_watts", "gpu_power_watts"),
    ("card_process_bytes", "gpu_process_bytes"),
    ("card_processes", "gpu_processes"),
    ("card_sm_clock_mhz", "gpu_sm_clock_mhz"),
    ("card_stretches", "gpu_intervals"),
    ("card_temperature_celsius", "gpu_temperature_celsius"),
    ("card_throttle_reasons", "gpu_throttle_reasons"),
    ("card_throttled_percent", "gpu_throttled_percent"),
    ("card_uncorrected_errors", "gpu_uncorrected_errors"),
    ("card_used_bytes", "gpu_used_bytes"),
    ("card_utilization_percent", "gpu_utilization_percent"),
    ("card_xids", "gpu_xids"),
    ("cards", "gpus"),
    ("conduct", "policy"),
    ("margins", "thresholds"),
    ("other_card_processes", "other_gpu_processes"),
    ("processor", "cpu"),
    ("processor_cores", "cpu_cores"),
    ("processor_seconds", "cpu_seconds"),
    ("run_processor_seconds", "run_cpu_seconds"),
    ("shares_card", "shares_gpu"),
];

/// Peaks of version 1 that mixed windows; they are worked out again.
const MIXED: [&str; 2] = ["process_peak_bytes", "container_peak_bytes"];

/// What is read from a session's folder.
pub(crate) trait Document: DeserializeOwned {
    /// Works out again what version 1 told otherwise.
    fn settle(&mut self) {}
}

impl Document for Session {}

impl Document for Record {
    fn settle(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.peaks = Peaks::of(&metrics.summary.memory, &self.monitor, None);
        }
    }
}

/// Reads a document of version 1. Its parts with a version of their own keep it.
pub(crate) fn from_1<T: Document>(text: &str) -> Result<T, serde_json::Error> {
    // A list reads as a map too, where serde knows the order of the fields; here nobody does.
    let mut fields: Map<String, Value> = serde_json::from_str(text)?;
    fields.insert("version".to_owned(), VERSION.into());
    let mut value = Value::Object(fields);
    rename(&mut value);
    if let Some(metrics) = value.get_mut("metrics").and_then(Value::as_object_mut) {
        metrics.retain(|key, _| !MIXED.contains(&key.as_str()));
    }
    let mut document: T = serde_json::from_value(value)?;
    document.settle();
    Ok(document)
}

fn rename(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rename),
        Value::Object(fields) => {
            for (old, new) in RENAMED {
                if let Some(field) = fields.remove(*old) {
                    fields.insert((*new).to_owned(), field);
                }
            }
            fields.values_mut().for_each(rename);
        }
        _ => {}
    }
}

//! The noise thresholds that a suite sets: relative changes that count as none.

use std::collections::BTreeMap;

use metrics::Metric;
use schemars::json_schema;
use serde::Deserialize;
use strict_yaml::{Spot, YamlError};

use super::axes::schema_of;

/// Metric to noise threshold, as written in a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct ThresholdsFile(BTreeMap<String, f64>);

impl ThresholdsFile {
    pub(super) fn check(&self, at: &Spot<'_>) -> Result<(), YamlError> {
        let names: Vec<_> = Metric::compared().map(|one| one.name).collect();
        for (name, threshold) in &self.0 {
            let at = at.key(name);
            if !names.contains(&name.as_str()) {
                let message = format!("no compared metric is named `{name}`");
                return Err(at
                    .on_key()
                    .unknown(message, "expected one of: ", name, &names));
            }
            if !(0.0..1.0).contains(threshold) {
                let message = format!("a value out of range: {threshold}");
                let expected = "expected a share from 0 to below 1; 2 % is written 0.02";
                return Err(at.expecting(message, expected, None));
            }
        }
        Ok(())
    }

    /// With the defaults where nothing is said.
    pub(super) fn or(&self, defaults: &Self) -> BTreeMap<String, f64> {
        let mut all = defaults.0.clone();
        all.extend(self.0.clone());
        all
    }
}

schema_of!(ThresholdsFile as "Thresholds", _ => {
    let metrics = Metric::compared().map(|metric| {
        let threshold = serde_json::json!({
            "type": "number",
            "minimum": 0,
            "exclusiveMaximum": 1,
            "description": format!("{}; {} by default", metric.label, metric.threshold),
        });
        (metric.name, threshold)
    });
    json_schema!({
        "type": "object",
        "description": "Metric to the largest relative change that counts as none",
        "properties": metrics.collect::<BTreeMap<_, _>>(),
        "additionalProperties": false,
    })
});

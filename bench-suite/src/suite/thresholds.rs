//! The noise thresholds that a suite sets: relative changes that count as none.

use std::collections::BTreeMap;

use metrics::Metric;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use strict_yaml::{Document, KeyPath, YamlError, did_you_mean};

/// Metric to noise threshold, as it stands in a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct ThresholdsFile(BTreeMap<String, f64>);

impl ThresholdsFile {
    pub(super) fn check(&self, document: &Document, at: &KeyPath) -> Result<(), YamlError> {
        for (name, threshold) in &self.0 {
            let at = at.clone().key(name.as_str());
            if !Metric::compared().any(|metric| metric.name == name) {
                let names: Vec<_> = Metric::compared().map(|one| one.name).collect();
                return Err(document.error_at_key(
                    &at,
                    format!("no compared metric is named `{name}`"),
                    format!("expected one of: {}", names.join(", ")),
                    did_you_mean(name, names.iter().copied()),
                ));
            }
            if !(0.0..1.0).contains(threshold) {
                return Err(document.error_expecting(
                    &at,
                    format!("a value out of range: {threshold}"),
                    "expected a share from 0 to below 1; 2 % is written 0.02",
                    None,
                ));
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

impl JsonSchema for ThresholdsFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Thresholds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let metrics: BTreeMap<_, _> = Metric::compared()
            .map(|metric| {
                let threshold = serde_json::json!({
                    "type": "number",
                    "minimum": 0,
                    "exclusiveMaximum": 1,
                    "description": format!("{}; {} unless said otherwise", metric.label, metric.threshold),
                });
                (metric.name, threshold)
            })
            .collect();
        json_schema!({
            "type": "object",
            "description": "Metric to the largest relative change that counts as none",
            "properties": metrics,
            "additionalProperties": false,
        })
    }
}

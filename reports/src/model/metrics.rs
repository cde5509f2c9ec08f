//! The metrics of a cell: every one of the catalogue that its runs yielded.

use std::{borrow::Cow, collections::BTreeMap};

use metrics::{Metric, catalogue};
use record::Record;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Spread;

/// The metrics of a cell over its successful runs, by name. One that no run yielded is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellMetrics(BTreeMap<String, Spread>);

impl CellMetrics {
    /// Of successful runs.
    #[must_use]
    pub fn of(runs: &[&Record]) -> Self {
        let spread = |metric: &Metric| {
            let spread = Spread::of(runs.iter().filter_map(|run| metric.of(run)))?;
            Some((metric.name.to_owned(), spread))
        };
        Self(
            catalogue::ALL
                .iter()
                .filter_map(|metric| spread(metric))
                .collect(),
        )
    }

    /// One metric; `None` where no run yielded it.
    #[must_use]
    pub fn get(&self, metric: &Metric) -> Option<Spread> {
        self.0.get(metric.name).copied()
    }

    /// The median of one metric over the runs.
    #[must_use]
    pub fn median(&self, metric: &Metric) -> Option<f64> {
        Some(self.get(metric)?.median)
    }

    /// Metric and spread of every metric that is known, in the order of the catalogue.
    pub fn known(&self) -> impl Iterator<Item = (&'static Metric, Spread)> {
        catalogue::ALL
            .iter()
            .filter_map(|metric| Some((*metric, self.get(metric)?)))
    }
}

impl JsonSchema for CellMetrics {
    fn schema_name() -> Cow<'static, str> {
        "CellMetrics".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let spread = generator.subschema_for::<Spread>();
        let properties: serde_json::Map<String, serde_json::Value> = catalogue::ALL
            .iter()
            .map(|metric| {
                let mut schema = spread.clone();
                schema.insert("description".to_owned(), metric.about.into());
                (metric.name.to_owned(), schema.to_value())
            })
            .collect();
        json_schema!({
            "description": "The metrics of a cell over its successful runs, by name. One that no \
                run yielded is missing. docs/metrics.md says what each means.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

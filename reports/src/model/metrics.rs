//! The metrics of a cell: every one of the catalogue that its runs yielded.

use std::{borrow::Cow, collections::BTreeMap};

use metrics::{Metric, Rows, catalogue};
use record::Record;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// The metrics of a cell over its successful runs, by name. One that no run yielded is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellMetrics(BTreeMap<String, Spread>);

impl CellMetrics {
    pub fn of(runs: &[&Record], rows: &Rows) -> Self {
        let spread = |metric: &'static Metric| {
            let spread = Spread::of(runs.iter().filter_map(|run| metric.of(run)))?;
            Some((metric.name.to_owned(), spread))
        };
        Self(rows.all().filter_map(spread).collect())
    }

    /// One metric; `None` where no run yielded it.
    pub fn get(&self, metric: &Metric) -> Option<Spread> {
        self.0.get(metric.name).copied()
    }

    /// The median of one metric over the runs.
    pub fn median(&self, metric: &Metric) -> Option<f64> {
        Some(self.get(metric)?.median)
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
                run yielded is missing. docs/metrics.md defines each; others are declared by a suite.",
            "type": "object",
            "properties": properties,
            "additionalProperties": spread,
        })
    }
}

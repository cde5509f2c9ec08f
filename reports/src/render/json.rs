//! Reports as JSON.

use serde::Serialize;

/// A report as JSON, a line break at its end.
pub fn render<T: Serialize + ?Sized>(report: &T) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// The JSON Schema of `report.json`, as committed.
pub fn schema() -> Result<String, serde_json::Error> {
    render(&schemars::schema_for!(crate::model::Report))
}

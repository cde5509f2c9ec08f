//! `report.json`, for programs. Its schema is committed as `report.schema.json`.

use crate::Report;

/// The report as JSON, a line break at its end.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// The JSON Schema of `report.json`, as committed.
pub fn schema() -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&schemars::schema_for!(Report))? + "\n")
}

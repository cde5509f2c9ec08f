//! Values of axes as they stand in a file.

use protocol::Variant;
use serde_json::{Map, Value};
use strict_yaml::{Document, KeyPath, YamlError};

/// One value of an axis and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) value: Value,
    /// The value as records write it, so that two spellings of one value are seen as one.
    pub(super) canonical: String,
    pub(super) at: KeyPath,
}

/// One value or a list of them, each typed and none twice.
pub(super) fn values(
    document: &Document,
    at: &KeyPath,
    axis: &str,
    value: &Value,
) -> Result<Vec<Given>, YamlError> {
    let at = at.clone().key(axis);
    let Value::Array(items) = value else {
        return Ok(vec![typed(document, at.clone(), &at, axis, value)?]);
    };
    // An unknown axis is the better message for an unknown axis without values.
    if items.is_empty() && Variant::AXES.contains(&axis) {
        let help = "drop the axis, and the workload's default holds".to_owned();
        return Err(document.error_expecting(
            &at,
            format!("the axis `{axis}` has no values"),
            "expected at least one",
            Some(help),
        ));
    }
    if items.is_empty() {
        return Ok(vec![typed(document, at.clone(), &at, axis, value)?]);
    }
    let mut values: Vec<Given> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let given = typed(document, at.clone().index(place), &at, axis, item)?;
        if values
            .iter()
            .any(|other| other.canonical == given.canonical)
        {
            let message = format!("`{}` stands in this list already", given.canonical);
            return Err(document.error_at(&given.at, message, Some("drop it".into())));
        }
        values.push(given);
    }
    Ok(values)
}

pub(super) fn one_value(
    document: &Document,
    at: &KeyPath,
    axis: &str,
    value: &Value,
) -> Result<Given, YamlError> {
    let at = at.clone().key(axis);
    if value.is_array() {
        let message = "a list, where one variant is described";
        let expected = "expected one value; write one entry of `include` for each variant";
        return Err(document.error_expecting(&at, message, expected, None));
    }
    typed(document, at.clone(), &at, axis, value)
}

/// Reads one value through [`Variant`].
fn typed(
    document: &Document,
    at: KeyPath,
    axis_at: &KeyPath,
    axis: &str,
    value: &Value,
) -> Result<Given, YamlError> {
    let map = Map::from_iter([(axis.to_owned(), value.clone())]);
    let variant: Variant = serde_json::from_value(Value::Object(map)).map_err(|error| {
        let unknown = error.to_string().starts_with("unknown field");
        document.error_from_serde(if unknown { axis_at } else { &at }, &error)
    })?;
    match variant.axes().remove(axis) {
        Some(canonical) if !value.is_null() => Ok(Given {
            value: value.clone(),
            canonical,
            at,
        }),
        _ => Err(document.error_expecting(
            &at,
            format!("the axis `{axis}` has no value"),
            "expected a value",
            Some("drop the axis, and the workload's default holds".into()),
        )),
    }
}

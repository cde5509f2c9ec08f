//! Values of axes as they stand in a file.

use std::collections::BTreeMap;

use protocol::{Variant, bad_name};
use serde_json::{Map, Value};
use strict_yaml::{KeyPath, Spot, YamlError};

use super::program::{ProgramFile, is_environment};

/// How the values of axes are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading<'a> {
    /// As those of the built-in workload.
    Builtin,
    /// As those of a program: its parameters, and axes of ours that set variables.
    Program(&'a ProgramFile),
    /// As texts, which fit scenarios of all kinds.
    Text,
}

impl Reading<'_> {
    /// Whether an axis is one of ours, whose values have a type.
    fn is_typed(self, axis: &str) -> bool {
        match self {
            Self::Builtin => true,
            Self::Program(program) => is_environment(axis) && !program.uses(axis),
            Self::Text => false,
        }
    }
}

/// One value of an axis and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) value: Value,
    /// The value as records write it, so that two spellings of one value are seen as one.
    pub(super) canonical: String,
    pub(super) at: KeyPath,
}

/// A value on every axis that was given.
pub(super) type Picked<'a> = BTreeMap<&'a str, &'a Given>;

/// One value or a list of them, each typed and none twice.
pub(super) fn values(
    at: &Spot<'_>,
    reading: Reading<'_>,
    axis: &str,
    value: &Value,
) -> Result<Vec<Given>, YamlError> {
    let axis_at = at.key(axis);
    let read = |at: &Spot<'_>, value: &Value| {
        if !reading.is_typed(axis) {
            return text(at, &axis_at, axis, value);
        }
        let given = typed(at, &axis_at, axis, value)?;
        if matches!(reading, Reading::Program(_)) && given.canonical.starts_with("managed") {
            let message = "unified memory is of the built-in workload alone";
            let expected = "expected settings that the environment can hold";
            return Err(at.expecting(message, expected, None));
        }
        Ok(given)
    };
    let Value::Array(items) = value else {
        return Ok(vec![read(&axis_at, value)?]);
    };
    // An unknown axis is the better message for an unknown axis without values.
    if items.is_empty() && (Variant::AXES.contains(&axis) || !reading.is_typed(axis)) {
        let message = format!("the axis `{axis}` has no values");
        return Err(axis_at.expecting(message, "expected at least one", Some(DROP.to_owned())));
    }
    if items.is_empty() {
        return Ok(vec![read(&axis_at, value)?]);
    }
    let mut values: Vec<Given> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let at = axis_at.index(place);
        let given = read(&at, item)?;
        if values
            .iter()
            .any(|other| other.canonical == given.canonical)
        {
            let message = format!("`{}` is in this list already", given.canonical);
            return Err(at.error(message, Some("drop it".into())));
        }
        values.push(given);
    }
    Ok(values)
}

const DROP: &str = "drop the axis, and the workload's default holds";

pub(super) fn one_value(
    at: &Spot<'_>,
    reading: Reading<'_>,
    axis: &str,
    value: &Value,
) -> Result<Given, YamlError> {
    if value.is_array() {
        let message = "a list, where one variant is described";
        let expected = "expected one value; write one entry of `include` for each variant";
        return Err(at.key(axis).expecting(message, expected, None));
    }
    let mut values = values(at, reading, axis, value)?;
    Ok(values.swap_remove(0))
}

/// Reads one value of a program's parameter: a number or a text.
fn text(at: &Spot<'_>, axis_at: &Spot<'_>, axis: &str, value: &Value) -> Result<Given, YamlError> {
    if let Some(why) = bad_name(axis) {
        let message = format!("`{axis}` is no name of an axis");
        return Err(axis_at.clone().on_key().expecting(message, why, None));
    }
    let canonical = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(choice) => choice.to_string(),
        _ => String::new(),
    };
    if canonical.is_empty() || canonical.len() > 200 || canonical.contains(char::is_control) {
        let expected = "expected a number, or up to 200 letters that print";
        return Err(at.expecting("no value of an axis", expected, None));
    }
    Ok(Given {
        value: value.clone(),
        canonical,
        at: at.path().clone(),
    })
}

/// Reads one value through [`Variant`].
fn typed(at: &Spot<'_>, axis_at: &Spot<'_>, axis: &str, value: &Value) -> Result<Given, YamlError> {
    let map = Map::from_iter([(axis.to_owned(), value.clone())]);
    let variant: Variant = serde_json::from_value(Value::Object(map)).map_err(|error| {
        let unknown = error.to_string().starts_with("unknown field");
        let at = if unknown { axis_at } else { at };
        at.clone().serde(&error)
    })?;
    match variant.axes().get(axis).cloned() {
        Some(canonical) if !value.is_null() => Ok(Given {
            value: value.clone(),
            canonical,
            at: at.path().clone(),
        }),
        _ => {
            let message = format!("the axis `{axis}` has no value");
            Err(at.expecting(message, "expected a value", Some(DROP.to_owned())))
        }
    }
}

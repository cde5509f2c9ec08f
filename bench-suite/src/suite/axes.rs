//! Axes and their values as a suite writes them, and the schemas of both.

use std::collections::BTreeMap;

use protocol::Variant;
use schemars::{JsonSchema as _, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::scenario::DeviceKind;

/// Axis → one value or a list of values. Typed later through [`Variant`], so that a new axis
/// needs no change here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Axes(pub(super) BTreeMap<String, Value>);

/// Axis → one value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Choice(pub(super) BTreeMap<String, Value>);

/// What is left out: axes as in [`Axes`], and `device`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Exclusion(pub(super) BTreeMap<String, Value>);

/// The schema of every axis, out of [`Variant`]'s own.
pub(super) fn axis_schemas(generator: &mut SchemaGenerator) -> BTreeMap<String, Value> {
    let schema = Variant::json_schema(generator);
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut axes = properties.cloned().unwrap_or_default();
    for axis in axes.values_mut() {
        if let Some(axis) = axis.as_object_mut() {
            // A default of the workload is none of the suite's.
            axis.remove("default");
            // An axis is left away rather than set to nothing.
            if let Some(kinds) = axis.get_mut("type").and_then(Value::as_array_mut) {
                kinds.retain(|kind| kind != "null");
            }
        }
    }
    axes.into_iter().collect()
}

/// As [`axis_schemas`], and lists of values too.
fn list_schemas(generator: &mut SchemaGenerator) -> BTreeMap<String, Value> {
    let mut axes = axis_schemas(generator);
    for axis in axes.values_mut() {
        *axis = serde_json::json!({
            "anyOf": [axis, { "type": "array", "items": axis, "minItems": 1, "uniqueItems": true }],
        });
    }
    axes
}

/// As [`list_schemas`], and the device.
pub(super) fn device_schemas(generator: &mut SchemaGenerator) -> BTreeMap<String, Value> {
    let mut axes = list_schemas(generator);
    let device = generator.subschema_for::<DeviceKind>();
    axes.insert("device".into(), device.into());
    axes
}

pub(super) fn parameter_schema(is_list: bool) -> Value {
    let one = serde_json::json!({ "type": ["string", "number", "boolean"] });
    if !is_list {
        return one;
    }
    serde_json::json!({
        "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }],
    })
}

/// Says by what JSON Schema a type stands in that of suites which is not derived.
macro_rules! schema_of {
    ($kind:ty as $name:literal, $generator:pat => $schema:expr) => {
        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}
pub(super) use schema_of;

schema_of!(Axes as "Axes", generator => json_schema!({
    "type": "object",
    "description": "Axis to one value or a list of values; all combinations are measured",
    "properties": list_schemas(generator),
    "additionalProperties": parameter_schema(true),
}));

schema_of!(Choice as "Choice", generator => json_schema!({
    "type": "object",
    "description": "Axis to one value",
    "properties": axis_schemas(generator),
    "additionalProperties": parameter_schema(false),
    "minProperties": 1,
}));

schema_of!(Exclusion as "Exclusion", generator => json_schema!({
    "type": "object",
    "description": "What is left out: axis to one value or a list of values, and device",
    "properties": device_schemas(generator),
    "additionalProperties": parameter_schema(true),
    "minProperties": 1,
}));

//! A suite file as it is written.

use std::{collections::BTreeMap, ops::RangeInclusive};

use protocol::{Model, Steps, Task, Variant};
use record::Claim;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Document, KeyPath, YamlError};

use super::{
    DeviceKind, MAX_BLOCKS, VERSION, claims::CellFile, expect::Expect, limits::LimitsFile,
    thresholds::ThresholdsFile, validity::ValidityFile,
};

/// A suite: what to measure and how often.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Torchgauge suite")]
pub(super) struct SuiteFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub(super) version: u32,
    /// What the suite is for, in a sentence.
    pub(super) description: String,
    /// The question that the suite answers, for the head of its report.
    pub(super) question: Option<String>,
    /// The metrics that answer it, the first one first; those that a gate looks at unless said
    /// otherwise.
    #[serde(default)]
    pub(super) answered_by: Vec<String>,
    /// What holds for every scenario that does not say otherwise.
    #[serde(default)]
    pub(super) defaults: Defaults,
    /// What to measure.
    #[schemars(length(min = 1))]
    pub(super) scenarios: Vec<ScenarioFile>,
    /// What somebody claimed, for a session to judge.
    #[serde(default)]
    pub(super) claims: Vec<Claim<CellFile>>,
}

/// What holds for every scenario that does not say otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    /// How often every cell runs: once in each block.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) blocks: u32,
    /// How many steps a run takes.
    pub(super) steps: Steps,
    /// Seed of parameters, data and dropout.
    pub(super) seed: u64,
    /// Threads for work on the CPU; as many as the run may use unless said otherwise.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) threads: Option<u32>,
    /// What a run may use.
    pub(super) limits: LimitsFile,
    /// Relative changes that count as none, by metric.
    #[serde(alias = "margins")]
    pub(super) thresholds: ThresholdsFile,
    /// From when on the machine is not fit to measure on.
    pub(super) validity: ValidityFile,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            blocks: 3,
            steps: Steps::new(3, 10),
            seed: 1,
            threads: None,
            limits: LimitsFile::default(),
            thresholds: ThresholdsFile::default(),
            validity: ValidityFile::default(),
        }
    }
}

/// A model and a task, with the axes whose combinations are measured.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    /// Its name, unique in the suite.
    #[schemars(regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"), length(max = 40))]
    pub(super) name: String,
    /// What it is for.
    pub(super) description: Option<String>,
    /// The model.
    pub(super) model: Model,
    /// The task; training unless said otherwise.
    #[serde(default)]
    pub(super) task: Task,
    /// Where it can run; `[cpu, cuda]` unless said otherwise. On other devices it is left out.
    #[serde(default = "everywhere")]
    #[schemars(length(min = 1))]
    pub(super) devices: Vec<DeviceKind>,
    /// Values on each axis; all combinations are measured.
    #[serde(default)]
    pub(super) axes: Axes,
    /// Combinations that are left out: those that match every axis given here.
    #[serde(default)]
    pub(super) exclude: Vec<Exclusion>,
    /// Further variants, each given by the axes in which it differs from the first combination.
    #[serde(default)]
    pub(super) include: Vec<Choice>,
    /// Runs that are to fail, and how; all others are to end well.
    #[serde(default)]
    pub(super) expect: Expect,
    /// How many steps a run takes.
    pub(super) steps: Option<Steps>,
    /// Seed of parameters, data and dropout.
    pub(super) seed: Option<u64>,
    /// Threads for work on the CPU.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) threads: Option<u32>,
    /// What a run may use.
    #[serde(default)]
    pub(super) limits: LimitsFile,
    /// Relative changes that count as none, by metric.
    #[serde(default, alias = "margins")]
    pub(super) thresholds: ThresholdsFile,
    /// From when on the machine is not fit to measure on.
    #[serde(default)]
    pub(super) validity: ValidityFile,
}

fn everywhere() -> Vec<DeviceKind> {
    vec![DeviceKind::Cpu, DeviceKind::Cuda]
}

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
pub(super) fn list_schemas(generator: &mut SchemaGenerator) -> BTreeMap<String, Value> {
    let mut axes = axis_schemas(generator);
    for axis in axes.values_mut() {
        *axis = serde_json::json!({
            "anyOf": [axis, { "type": "array", "items": axis, "minItems": 1, "uniqueItems": true }],
        });
    }
    axes
}

impl JsonSchema for Axes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Axes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Axis to one value or a list of values; all combinations are measured",
            "properties": list_schemas(generator),
            "additionalProperties": false,
        })
    }
}

impl JsonSchema for Choice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Choice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Axis to one value",
            "properties": axis_schemas(generator),
            "additionalProperties": false,
            "minProperties": 1,
        })
    }
}

impl JsonSchema for Exclusion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Exclusion".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut axes = list_schemas(generator);
        axes.insert(
            "device".into(),
            generator.subschema_for::<DeviceKind>().into(),
        );
        json_schema!({
            "type": "object",
            "description": "What is left out: axis to one value or a list of values, and device",
            "properties": axes,
            "additionalProperties": false,
            "minProperties": 1,
        })
    }
}

/// Reads the form and checks everything but the axes.
pub(super) fn read(document: &Document) -> Result<SuiteFile, YamlError> {
    check_version(document)?;
    let file: SuiteFile = document.parse()?;
    let top = KeyPath::root();
    let at = top.clone().key("defaults");
    let defaults = &file.defaults;
    within(document, &at, "blocks", defaults.blocks, 1..=MAX_BLOCKS)?;
    check_steps(document, &at, defaults.steps)?;
    check_threads(document, &at, defaults.threads)?;
    defaults.limits.check(document, &at.clone().key("limits"))?;
    let thresholds = at.clone().key("thresholds");
    defaults.thresholds.check(document, &thresholds)?;
    defaults.validity.check(document, &at.key("validity"))?;
    if file.scenarios.is_empty() {
        let at = top.key("scenarios");
        return Err(document.error_expecting(&at, "no scenarios", "expected at least one", None));
    }
    for (place, scenario) in file.scenarios.iter().enumerate() {
        let at = top.clone().key("scenarios").index(place);
        let name = at.clone().key("name");
        if !is_name(&scenario.name) {
            return Err(document.error_expecting(
                &name,
                format!("`{}` is no name", scenario.name),
                "expected up to 40 of a-z, 0-9 and -, not at the ends",
                None,
            ));
        }
        let mut others = file.scenarios[..place].iter();
        if others.any(|other| other.name == scenario.name) {
            return Err(document.error_expecting(
                &name,
                format!("a second scenario with the name `{}`", scenario.name),
                "expected a name that no other scenario has",
                None,
            ));
        }
        if scenario.devices.is_empty() {
            let at = at.key("devices");
            return Err(document.error_expecting(&at, "no device", "expected cpu, cuda", None));
        }
        if let Some(steps) = scenario.steps {
            check_steps(document, &at, steps)?;
        }
        check_threads(document, &at, scenario.threads)?;
        scenario.limits.check(document, &at.clone().key("limits"))?;
        let thresholds = at.clone().key("thresholds");
        scenario.thresholds.check(document, &thresholds)?;
        scenario.validity.check(document, &at.key("validity"))?;
    }
    Ok(file)
}

/// The version first: a file of another version may have other keys, and that is the message.
fn check_version(document: &Document) -> Result<(), YamlError> {
    match document.value().get("version") {
        Some(got) if got.is_u64() && *got != u64::from(VERSION) => Err(document.error_expecting(
            &KeyPath::root().key("version"),
            format!("a suite of version {got}"),
            format!("expected {VERSION}, the version that this Torchgauge reads"),
            None,
        )),
        _ => Ok(()),
    }
}

fn check_steps(document: &Document, at: &KeyPath, steps: Steps) -> Result<(), YamlError> {
    const MOST: u32 = 1_000_000;
    let at = at.clone().key("steps");
    within(document, &at, "measured", steps.measured, 1..=MOST)?;
    within(document, &at, "warmup", steps.warmup, 0..=MOST)
}

fn check_threads(document: &Document, at: &KeyPath, threads: Option<u32>) -> Result<(), YamlError> {
    threads.map_or(Ok(()), |threads| {
        within(document, at, "threads", threads, 1..=4096)
    })
}

/// Whether the number at this key is within these.
pub(super) fn within(
    document: &Document,
    at: &KeyPath,
    key: &str,
    got: u32,
    range: RangeInclusive<u32>,
) -> Result<(), YamlError> {
    if range.contains(&got) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(document.error_expecting(
        &at.clone().key(key),
        format!("a value out of range: {got}"),
        format!("expected a whole number from {least} to {most}"),
        None,
    ))
}

/// Names become parts of file and container names.
pub(super) fn is_name(name: &str) -> bool {
    let letters = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let ends = !name.starts_with('-') && !name.ends_with('-');
    letters && ends && (1..=40).contains(&name.len())
}

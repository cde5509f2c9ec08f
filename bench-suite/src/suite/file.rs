//! A suite file as it is written.

use std::collections::BTreeMap;

use protocol::{Model, Steps, Task, Variant};
use record::Claim;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use strict_yaml::{Document, KeyPath, YamlError};

use super::{
    DeviceKind, MAX_BLOCKS, VERSION, claims::CellFile, limits::LimitsFile,
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
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exclusion {
    pub(super) device: Option<Value>,
    pub(super) axes: BTreeMap<String, Value>,
}

impl<'de> Deserialize<'de> for Exclusion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut axes = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Ok(Self {
            device: axes.remove("device"),
            axes,
        })
    }
}

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

fn one_or_many(axis: &Value) -> Value {
    serde_json::json!({
        "anyOf": [axis, { "type": "array", "items": axis, "minItems": 1, "uniqueItems": true }],
    })
}

impl JsonSchema for Axes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Axes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let axes: BTreeMap<_, _> = axis_schemas(generator)
            .into_iter()
            .map(|(name, axis)| (name, one_or_many(&axis)))
            .collect();
        json_schema!({
            "type": "object",
            "description": "Axis to one value or a list of values; all combinations are measured",
            "properties": axes,
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
        let device: Value = generator.subschema_for::<DeviceKind>().into();
        let mut axes: BTreeMap<_, _> = axis_schemas(generator)
            .into_iter()
            .map(|(name, axis)| (name, one_or_many(&axis)))
            .collect();
        axes.insert("device".into(), device);
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
    let defaults = top.clone().key("defaults");
    if !(1..=MAX_BLOCKS).contains(&file.defaults.blocks) {
        let at = defaults.key("blocks");
        let got = file.defaults.blocks;
        let expected = format!("a whole number from 1 to {MAX_BLOCKS}");
        return Err(out_of_range(document, &at, &got.to_string(), &expected));
    }
    check_steps(
        document,
        &defaults.clone().key("steps"),
        file.defaults.steps,
    )?;
    check_threads(document, &defaults, file.defaults.threads)?;
    file.defaults
        .limits
        .check(document, &defaults.clone().key("limits"))?;
    file.defaults
        .thresholds
        .check(document, &defaults.clone().key("thresholds"))?;
    file.defaults
        .validity
        .check(document, &defaults.key("validity"))?;
    if file.scenarios.is_empty() {
        let at = top.key("scenarios");
        return Err(document.error_expecting(&at, "no scenarios", "expected at least one", None));
    }
    for (place, scenario) in file.scenarios.iter().enumerate() {
        let at = KeyPath::root().key("scenarios").index(place);
        let name = at.clone().key("name");
        if !is_name(&scenario.name) {
            return Err(document.error_expecting(
                &name,
                format!("`{}` is no name", scenario.name),
                "expected up to 40 of a-z, 0-9 and -, not at the ends",
                None,
            ));
        }
        let same = |other: &&ScenarioFile| other.name == scenario.name;
        if file.scenarios[..place].iter().any(|other| same(&other)) {
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
            check_steps(document, &at.clone().key("steps"), steps)?;
        }
        check_threads(document, &at, scenario.threads)?;
        scenario.limits.check(document, &at.clone().key("limits"))?;
        scenario
            .thresholds
            .check(document, &at.clone().key("thresholds"))?;
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
    if !(1..=MOST).contains(&steps.measured) {
        let expected = "a whole number from 1 to 1000000";
        let at = at.clone().key("measured");
        return Err(out_of_range(
            document,
            &at,
            &steps.measured.to_string(),
            expected,
        ));
    }
    if steps.warmup > MOST {
        let expected = "a whole number from 0 to 1000000";
        let at = at.clone().key("warmup");
        return Err(out_of_range(
            document,
            &at,
            &steps.warmup.to_string(),
            expected,
        ));
    }
    Ok(())
}

fn check_threads(document: &Document, at: &KeyPath, threads: Option<u32>) -> Result<(), YamlError> {
    match threads {
        Some(threads) if !(1..=4096).contains(&threads) => Err(out_of_range(
            document,
            &at.clone().key("threads"),
            &threads.to_string(),
            "a whole number from 1 to 4096",
        )),
        _ => Ok(()),
    }
}

fn out_of_range(document: &Document, at: &KeyPath, got: &str, expected: &str) -> YamlError {
    let message = format!("a value out of range: {got}");
    document.error_expecting(at, message, format!("expected {expected}"), None)
}

/// Names become parts of file and container names.
pub(super) fn is_name(name: &str) -> bool {
    let letters = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let ends = !name.starts_with('-') && !name.ends_with('-');
    letters && ends && (1..=40).contains(&name.len())
}

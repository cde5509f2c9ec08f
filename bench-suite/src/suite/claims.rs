//! The claims that a suite carries.

use std::collections::BTreeMap;

use protocol::{Model, Task, Variant};
use record::{CellChoice, Claim, Expectation};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use strict_yaml::{Document, KeyPath, YamlError, most_similar};
use verdict::ClaimProblem;

use super::{Scenario, expand::one_value, file::axis_schemas};

/// A claim about an effect between two cells, or about a value of one.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimFile {
    /// The claim in words.
    pub(super) statement: String,
    /// Who said so, as a reader can find it.
    pub(super) source: String,
    /// The quantity it is about, by its name in records, such as `peak_allocated_bytes`.
    pub(super) metric: String,
    /// Scenarios of this suite that it is about, by name; all unless said otherwise.
    #[serde(default)]
    pub(super) scenarios: Vec<String>,
    /// Models that it is about; all unless said otherwise.
    #[serde(default)]
    pub(super) models: Vec<Model>,
    /// The task that it is about; both unless said otherwise.
    pub(super) task: Option<Task>,
    /// The cell without the treatment; left out where the claim is about a value.
    pub(super) baseline: Option<CellFile>,
    /// The cell with it.
    pub(super) treated: CellFile,
    /// What is claimed.
    pub(super) expect: Expectation,
}

/// Cells by image (`image`, or `libtorch` for a version) and some of their axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CellFile {
    image: Option<String>,
    libtorch: Option<String>,
    axes: BTreeMap<String, Value>,
}

impl<'de> Deserialize<'de> for CellFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Known {
            image: Option<String>,
            libtorch: Option<String>,
            #[serde(flatten)]
            axes: BTreeMap<String, Value>,
        }
        let Known {
            image,
            libtorch,
            axes,
        } = Known::deserialize(deserializer)?;
        Ok(Self {
            image,
            libtorch,
            axes,
        })
    }
}

impl JsonSchema for CellFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cell".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut keys = axis_schemas(generator);
        for (key, what) in [
            ("image", "The image's name"),
            ("libtorch", "The image's libtorch; `2.6` is every 2.6.x"),
        ] {
            keys.insert(
                key.into(),
                serde_json::json!({ "type": "string", "minLength": 1, "description": what }),
            );
        }
        json_schema!({
            "type": "object",
            "description": "Cells by image and some of their axes; what neither cell of a claim \
                            names is the same in both",
            "properties": keys,
            "additionalProperties": false,
        })
    }
}

/// Checks every claim, and that cells of the suite fit it.
pub(super) fn read(
    document: &Document,
    files: &[ClaimFile],
    scenarios: &[Scenario],
) -> Result<Vec<Claim>, YamlError> {
    let at = KeyPath::root().key("claims");
    files
        .iter()
        .enumerate()
        .map(|(place, file)| read_one(document, &at.clone().index(place), file, scenarios))
        .collect()
}

fn read_one(
    document: &Document,
    at: &KeyPath,
    file: &ClaimFile,
    scenarios: &[Scenario],
) -> Result<Claim, YamlError> {
    for (key, text) in [("statement", &file.statement), ("source", &file.source)] {
        if text.trim().is_empty() {
            let expected = "expected a sentence; nobody can judge what nobody said";
            return Err(document.error_expecting(
                &at.clone().key(key),
                "nothing is said",
                expected,
                None,
            ));
        }
    }
    for (place, name) in file.scenarios.iter().enumerate() {
        if !scenarios.iter().any(|scenario| scenario.name == *name) {
            let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
            let help = most_similar(name, names.iter().copied())
                .map(|similar| format!("did you mean `{similar}`?"));
            return Err(document.error_expecting(
                &at.clone().key("scenarios").index(place),
                format!("the suite has no scenario `{name}`"),
                format!("expected one of: {}", names.join(", ")),
                help,
            ));
        }
    }
    let choice = |key: &str, cell: &CellFile| cell.read(document, &at.clone().key(key));
    let claim = Claim {
        statement: file.statement.clone(),
        source: file.source.clone(),
        metric: file.metric.clone(),
        scenarios: file.scenarios.clone(),
        models: file.models.clone(),
        task: file.task,
        baseline: match &file.baseline {
            Some(cell) => Some(choice("baseline", cell)?),
            None => None,
        },
        treated: choice("treated", &file.treated)?,
        expect: file.expect,
    };
    verdict::check_claim(&claim).map_err(|problem| refuse(document, at, &problem))?;
    if !scenarios.iter().any(|scenario| measures(scenario, &claim)) {
        let help = "add the variants to a scenario, or change what the claim names".to_owned();
        return Err(document.error_expecting(
            at,
            "no cells of this suite fit the claim",
            "expected a scenario that has both cells, alike in everything else",
            Some(help),
        ));
    }
    Ok(claim)
}

/// A problem at the key that makes it.
fn refuse(document: &Document, at: &KeyPath, problem: &ClaimProblem) -> YamlError {
    let key = match problem {
        ClaimProblem::Range(_) | ClaimProblem::Judge(_) => "expect",
        ClaimProblem::NoQuantity { .. } => "metric",
        ClaimProblem::NoAxis { .. }
        | ClaimProblem::Baseline
        | ClaimProblem::OneImage
        | ClaimProblem::NoTreatment => "treated",
    };
    let help = match problem {
        ClaimProblem::NoQuantity { metric } => {
            let names = metrics::catalogue::ALL.iter().map(|quantity| quantity.name);
            most_similar(metric, names).map(|similar| format!("did you mean `{similar}`?"))
        }
        _ => None,
    };
    document.error_at(&at.clone().key(key), problem.to_string(), help)
}

impl CellFile {
    fn read(&self, document: &Document, at: &KeyPath) -> Result<CellChoice, YamlError> {
        for (key, value) in [("image", &self.image), ("libtorch", &self.libtorch)] {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                let at = at.clone().key(key);
                return Err(document.error_expecting(&at, "no name", "expected a name", None));
            }
        }
        let mut axes = BTreeMap::new();
        for (axis, value) in &self.axes {
            let given = one_value(document, at, axis, value)?;
            axes.insert(axis.clone(), given.canonical);
        }
        Ok(CellChoice {
            image: self.image.clone(),
            libtorch: self.libtorch.clone(),
            axes,
        })
    }
}

/// Whether the scenario has the cells of the claim, on any image.
fn measures(scenario: &Scenario, claim: &Claim) -> bool {
    let concerned = (claim.scenarios.is_empty() || claim.scenarios.contains(&scenario.name))
        && (claim.models.is_empty() || claim.models.contains(&scenario.model))
        && claim.task.is_none_or(|task| task == scenario.task);
    let fits = |variant: &Variant, choice: &CellChoice| {
        let axes = variant.axes();
        let mut wanted = choice.axes.iter();
        wanted.all(|(axis, value)| axes.get(axis) == Some(value))
    };
    let mut treated = scenario
        .variants
        .iter()
        .filter(|one| fits(&one.variant, &claim.treated));
    concerned
        && treated.any(|treated| {
            let Some(choice) = &claim.baseline else {
                return true;
            };
            let named = |axis: &String| {
                choice.axes.contains_key(axis) || claim.treated.axes.contains_key(axis)
            };
            let others = |variant: &Variant| {
                let mut axes = variant.axes();
                axes.retain(|axis, _| !named(axis));
                axes
            };
            scenario.variants.iter().any(|baseline| {
                fits(&baseline.variant, choice)
                    && others(&baseline.variant) == others(&treated.variant)
                    && baseline
                        .devices
                        .iter()
                        .any(|device| treated.devices.contains(device))
            })
        })
}

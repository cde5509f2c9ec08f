//! The claims that a suite carries.

use std::collections::BTreeMap;

use record::{CellChoice, Claim};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Document, KeyPath, YamlError, most_similar};
use verdict::ClaimProblem;

use super::{Scenario, file::axis_schemas, values::one_value};

/// Cells by image (`image`, or `libtorch` for a version) and some of their axes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct CellFile(CellChoice<Value>);

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
    claims: &[Claim<CellFile>],
    scenarios: &[Scenario],
) -> Result<Vec<Claim>, YamlError> {
    let at = KeyPath::root().key("claims");
    claims
        .iter()
        .enumerate()
        .map(|(place, claim)| read_one(document, &at.clone().index(place), claim, scenarios))
        .collect()
}

fn read_one(
    document: &Document,
    at: &KeyPath,
    claim: &Claim<CellFile>,
    scenarios: &[Scenario],
) -> Result<Claim, YamlError> {
    for (key, text) in [("statement", &claim.statement), ("source", &claim.source)] {
        if text.trim().is_empty() {
            let at = at.clone().key(key);
            return Err(document.error_expecting(&at, "empty", "expected a sentence", None));
        }
    }
    for (place, name) in claim.scenarios.iter().enumerate() {
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
    let claim = claim
        .clone()
        .read_cells(|key, cell| cell.read(document, &at.clone().key(key)))?;
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
    let (key, help) = match problem {
        ClaimProblem::Range(_) | ClaimProblem::Judge(_) => ("expect", None),
        ClaimProblem::NoMetric { metric } => {
            let names = metrics::catalogue::ALL.iter().map(|metric| metric.name);
            let similar = most_similar(metric, names);
            let help = similar.map(|similar| format!("did you mean `{similar}`?"));
            ("metric", help)
        }
        ClaimProblem::NoAxis { .. }
        | ClaimProblem::Baseline
        | ClaimProblem::OneImage
        | ClaimProblem::NoTreatment => ("treated", None),
    };
    document.error_at(&at.clone().key(key), problem.to_string(), help)
}

impl CellFile {
    fn read(self, document: &Document, at: &KeyPath) -> Result<CellChoice, YamlError> {
        let CellChoice {
            image,
            libtorch,
            axes: given,
        } = self.0;
        for (key, value) in [("image", &image), ("libtorch", &libtorch)] {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                let at = at.clone().key(key);
                return Err(document.error_expecting(&at, "no name", "expected a name", None));
            }
        }
        let mut axes = BTreeMap::new();
        for (axis, value) in given {
            let read = one_value(document, at, &axis, &value)?;
            axes.insert(axis, read.canonical);
        }
        Ok(CellChoice {
            image,
            libtorch,
            axes,
        })
    }
}

/// Whether the scenario has the cells of the claim, on any image.
fn measures(scenario: &Scenario, claim: &Claim) -> bool {
    let fitting = |choice: &CellChoice| {
        let choice = choice.clone();
        let all = scenario
            .variants
            .iter()
            .map(|one| (one, one.variant.axes()));
        all.filter(move |(_, axes)| choice.fits_axes(axes))
    };
    claim.concerns(&scenario.name, scenario.model, scenario.task)
        && fitting(&claim.treated).any(|(treated, axes)| {
            claim.baseline.as_ref().is_none_or(|choice| {
                fitting(choice).any(|(baseline, own)| {
                    let mut devices = baseline.devices.iter();
                    choice.alike(&own, &claim.treated, &axes)
                        && devices.any(|device| treated.devices.contains(device))
                })
            })
        })
}

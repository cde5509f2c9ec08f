//! The claims that a suite carries.

use std::collections::BTreeMap;

use metrics::Rows;
use protocol::{Model, Task};
use record::{CellChoice, ChosenCell, Claim};
use schemars::json_schema;
use serde::Deserialize;
use serde_json::Value;
use strict_yaml::{Document, Segment, Spot, YamlError, did_you_mean};
use verdict::ClaimProblem;

use super::{
    axes::{axis_schemas, parameter_schema, schema_of},
    scenario::{DeviceKind, Scenario},
    values::{Reading, one_value},
};

/// Cells by scenario, image (`image`, or `libtorch` for a version) and some of their axes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct CellFile(CellChoice<Value>);

schema_of!(CellFile as "Cell", generator => {
    let mut keys = axis_schemas(generator);
    for (key, what) in [
        ("scenario", "The scenario, of a claim about two"),
        ("image", "The image's name"),
        ("libtorch", "The image's libtorch; `2.6` is every 2.6.x"),
    ] {
        let form = serde_json::json!({ "type": "string", "minLength": 1, "description": what });
        keys.insert(key.into(), form);
    }
    json_schema!({
        "type": "object",
        "description": "Cells by scenario, image and some of their axes; what neither cell of \
                        a claim names is the same in both",
        "properties": keys,
        "additionalProperties": parameter_schema(false),
    })
});

/// Checks every claim, and that cells of the suite fit it.
pub(super) fn read(
    document: &Document,
    claims: &[Claim<CellFile>],
    scenarios: &[Scenario],
    rows: &Rows,
) -> Result<Vec<Claim>, YamlError> {
    let at = document.top().key("claims");
    let read = |(place, claim)| read_one(&at.index(place), claim, (scenarios, rows));
    YamlError::all(claims.iter().enumerate().map(read))
}

fn read_one(
    at: &Spot<'_>,
    claim: &Claim<CellFile>,
    (scenarios, rows): (&[Scenario], &Rows),
) -> Result<Claim, YamlError> {
    for (key, text) in [("statement", &claim.statement), ("source", &claim.source)] {
        if text.trim().is_empty() {
            return Err(at.key(key).expecting("empty", "expected a sentence", None));
        }
    }
    let top = at.document().top();
    let mended = top.key("scenarios").mended();
    let is_sound = |way: &Vec<Segment>| match way.as_slice() {
        [_, Segment::Key(key)] => key != "name",
        way => way.len() > 2,
    };
    let are_known = mended.iter().all(is_sound);
    let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
    for (place, name) in claim.scenarios.iter().enumerate().filter(|_| are_known) {
        one_of(&at.key("scenarios").index(place), "scenario", name, &names)?;
    }
    let cells = [
        ("baseline", claim.baseline.as_ref()),
        ("treated", Some(&claim.treated)),
    ];
    for (key, cell) in cells.into_iter().filter(|_| are_known) {
        if let Some(name) = cell.and_then(|cell| cell.0.scenario.as_ref()) {
            one_of(&at.key(key).key("scenario"), "scenario", name, &names)?;
        }
    }
    let known: Vec<&str> = Model::ALL.iter().map(|model| model.name()).collect();
    for (place, model) in claim.models.iter().enumerate() {
        one_of(&at.key("models").index(place), "model", model, &known)?;
    }
    if let Some(task) = &claim.task {
        let known: Vec<&str> = Task::ALL.iter().map(|task| task.name()).collect();
        one_of(&at.key("task"), "task", task, &known)?;
    }
    let mut workloads = scenarios.iter().map(|one| &one.workload);
    let reading = if are_known && workloads.all(|one| one.task().is_some()) {
        Reading::Builtin
    } else {
        Reading::Text
    };
    let claim = claim
        .clone()
        .read_cells(|key, cell| cell.read(&at.key(key), reading))?;
    if let Err(problem) = verdict::check_claim(&claim, rows) {
        let of_what = match problem {
            ClaimProblem::NoMetric { .. } => &top.key("metrics"),
            _ => at,
        };
        if of_what.is_sound() {
            return Err(refuse(at, &problem));
        }
    }
    if top.is_sound() && !measures(scenarios, &claim) {
        let help = "add the variants to a scenario, or change what the claim names".to_owned();
        let expected = "expected a scenario that has both cells, alike in everything else";
        return Err(at.expecting("no cells of this suite fit the claim", expected, Some(help)));
    }
    Ok(claim)
}

/// Refuses a name that is none of these.
fn one_of(at: &Spot<'_>, what: &str, name: &str, known: &[&str]) -> Result<(), YamlError> {
    if known.contains(&name) {
        return Ok(());
    }
    let message = format!("there is no {what} `{name}`");
    Err(at.unknown(message, "expected one of: ", name, known))
}

/// A problem at the key that makes it.
fn refuse(at: &Spot<'_>, problem: &ClaimProblem) -> YamlError {
    let (key, help) = match problem {
        ClaimProblem::Range(_) | ClaimProblem::Judge(_) => ("expect", None),
        ClaimProblem::NoMetric { metric, known } => {
            ("metric", did_you_mean(metric, known.iter().copied()))
        }
        ClaimProblem::Baseline | ClaimProblem::OneSided(_) | ClaimProblem::NoTreatment => {
            ("treated", None)
        }
    };
    at.key(key).error(problem.to_string(), help)
}

impl CellFile {
    fn read(self, at: &Spot<'_>, reading: Reading<'_>) -> Result<CellChoice, YamlError> {
        let CellChoice {
            scenario,
            image,
            libtorch,
            axes: given,
        } = self.0;
        for (key, value) in [("image", &image), ("libtorch", &libtorch)] {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                return Err(at.key(key).expecting("no name", "expected a name", None));
            }
        }
        let mut axes = BTreeMap::new();
        for (axis, value) in given {
            let read = one_value(at, reading, &axis, &value)?;
            axes.insert(axis, read.canonical);
        }
        Ok(CellChoice {
            scenario,
            image,
            libtorch,
            axes,
        })
    }
}

/// Whether the suite has the cells of the claim, on any image.
fn measures(scenarios: &[Scenario], claim: &Claim) -> bool {
    let scenarios = scenarios.iter();
    let concerned = scenarios.filter(|one| claim.concerns(&one.name, &one.workload));
    let variants = concerned.flat_map(|one| one.variants.iter().map(move |variant| (one, variant)));
    let cells = variants.map(|(one, variant)| {
        let cell = ChosenCell {
            scenario: &one.name,
            image: None,
            axes: &variant.axes,
        };
        (cell, variant.devices.as_slice())
    });
    let cells: Vec<(ChosenCell<'_>, &[DeviceKind])> = cells.collect();
    let fitting = |choice: &CellChoice| {
        let choice = choice.clone();
        cells.iter().filter(move |(cell, _)| choice.fits(*cell))
    };
    fitting(&claim.treated).any(|(treated, devices)| {
        claim.baseline.as_ref().is_none_or(|choice| {
            fitting(choice).any(|(baseline, own)| {
                choice.pairs(*baseline, &claim.treated, *treated)
                    && own.iter().any(|device| devices.contains(device))
            })
        })
    })
}

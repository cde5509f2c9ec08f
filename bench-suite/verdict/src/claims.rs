//! Published claims, held against the runs of a session.
//!
//! A claim names a baseline and a treated cell by image and some axes. Every measured pair that
//! fits is judged: the two cells of a pair are the same in everything that the claim does not
//! name, and their runs are paired by block. A claim holds if every pair bears it out, and is
//! refuted by one that does not. The intervals of a claim's k pairs are made at 1 − 0.05 ÷ k, so
//! that all of them together are right with 95 % (Bonferroni).

use std::collections::BTreeMap;

use judge::{
    claims::{ClaimError, ClaimVerdict, Effect, Outcome, Range},
    compare::{self, Block, CompareError as JudgeError},
};
use metrics::Metric;
use protocol::Variant;
use record::{CellChoice, Claim, Expectation, Record, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Options,
    question::{metric, pair},
    side::Runs,
};

/// A claim with what the session says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFound {
    /// The claim.
    pub claim: Claim,
    /// *Refuted* if one pair refutes it, *holds* if every pair bears it out and there is one, else
    /// *inconclusive*.
    pub outcome: Outcome,
    /// Every measured pair that fits it; none where the session has not measured it.
    pub pairs: Vec<ClaimPair>,
}

/// One measured pair of cells, or one cell where the claim is about a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimPair {
    /// The suite.
    pub suite: String,
    /// The scenario.
    pub scenario: String,
    /// The cell without the treatment.
    pub baseline: Option<ClaimCell>,
    /// The cell with it.
    pub treated: ClaimCell,
    /// What the measurement says.
    pub verdict: ClaimVerdict,
}

/// One cell of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimCell {
    /// The image.
    pub image: String,
    /// The variant.
    pub variant: String,
}

/// Why a claim cannot be judged.
#[derive(Debug, thiserror::Error)]
#[error("the claim \"{statement}\": {problem}")]
pub struct ClaimsError {
    /// The claim.
    pub statement: String,
    /// Why.
    pub problem: ClaimProblem,
}

/// What is wrong with a claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimProblem {
    /// Its range means nothing.
    #[error(transparent)]
    Range(#[from] ClaimError),
    /// There is no such quantity.
    #[error("`{metric}` is no quantity; there are: {}", names())]
    NoQuantity {
        /// As given.
        metric: String,
    },
    /// It names an axis that there is not.
    #[error("there is no axis `{axis}`; there are: {}", Variant::AXES.join(", "))]
    NoAxis {
        /// As given.
        axis: String,
    },
    /// An effect without a baseline, or a value with one.
    #[error(
        "an effect (ratio, saving, increase) is one of `treated` over `baseline`, and a value is \
         of `treated` alone; give `baseline` for the one and leave it out for the other"
    )]
    Baseline,
    /// Only one side names its image.
    #[error("one side names an image and the other does not; name both, or neither")]
    OneImage,
    /// The two cells are the same.
    #[error("baseline and treated are the same cell; give them different values on one axis")]
    NoTreatment,
    /// The judge refused a value.
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

fn names() -> String {
    let names: Vec<_> = metrics::catalogue::ALL
        .iter()
        .map(|quantity| quantity.name)
        .collect();
    names.join(", ")
}

/// What the judge calls the expectation.
fn effect(expect: Expectation) -> Effect {
    let range = |range: record::Range| Range {
        min: range.min,
        max: range.max,
    };
    match expect {
        Expectation::Ratio(given) => Effect::Ratio(range(given)),
        Expectation::Saving(given) => Effect::Saving(range(given)),
        Expectation::Increase(given) => Effect::Increase(range(given)),
        Expectation::Value(given) => Effect::Value(range(given)),
    }
}

/// Whether a claim means something, measured or not.
pub fn check_claim(claim: &Claim) -> Result<(), ClaimProblem> {
    read(claim).map(|_| ())
}

fn read(claim: &Claim) -> Result<(&'static Metric, Effect), ClaimProblem> {
    let quantity = Metric::named(&claim.metric).ok_or_else(|| ClaimProblem::NoQuantity {
        metric: claim.metric.clone(),
    })?;
    let effect = effect(claim.expect);
    effect.ratio_range()?;
    let sides = || claim.baseline.iter().chain([&claim.treated]);
    if let Some(axis) = sides()
        .flat_map(|side| side.axes.keys())
        .find(|axis| !Variant::AXES.contains(&axis.as_str()))
    {
        let axis = axis.clone();
        return Err(ClaimProblem::NoAxis { axis });
    }
    if matches!(effect, Effect::Value(_)) != claim.baseline.is_none() {
        return Err(ClaimProblem::Baseline);
    }
    if let Some(baseline) = &claim.baseline {
        if baseline.names_an_image() != claim.treated.names_an_image() {
            return Err(ClaimProblem::OneImage);
        }
        if *baseline == claim.treated {
            return Err(ClaimProblem::NoTreatment);
        }
    }
    Ok((quantity, effect))
}

/// One cell of the session with its runs.
struct Measured<'a> {
    first: &'a Record,
    libtorch: Option<&'a str>,
    axes: BTreeMap<String, String>,
    runs: Runs<'a>,
}

/// Judges every claim by the runs of one session.
pub fn judge_claims(
    session: &Session,
    records: &[Record],
    claims: &[Claim],
) -> Result<Vec<ClaimFound>, ClaimsError> {
    let cells = measured(session, records);
    claims
        .iter()
        .map(|claim| {
            judge_one(claim, &cells).map_err(|problem| ClaimsError {
                statement: claim.statement.clone(),
                problem,
            })
        })
        .collect()
}

fn measured<'a>(session: &'a Session, records: &'a [Record]) -> Vec<Measured<'a>> {
    let mut cells: BTreeMap<_, Measured<'a>> = BTreeMap::new();
    for run in records {
        let key = (
            &run.suite,
            &run.scenario,
            run.variant.to_string(),
            &run.image,
        );
        let cell = cells.entry(key).or_insert_with(|| {
            let facts = session.images.iter().find(|facts| facts.name == run.image);
            Measured {
                first: run,
                libtorch: facts.map(|facts| facts.libtorch_version.as_str()),
                axes: run.variant.axes(),
                runs: Runs::new(),
            }
        });
        let newest = cell.runs.entry(run.block).or_insert(run);
        if run.attempt >= newest.attempt {
            *newest = run;
        }
    }
    cells.into_values().collect()
}

fn judge_one(claim: &Claim, cells: &[Measured<'_>]) -> Result<ClaimFound, ClaimProblem> {
    let (quantity, effect) = read(claim)?;
    let asked: Vec<&Measured<'_>> = cells.iter().filter(|cell| cell.concerns(claim)).collect();
    let mut questions: Vec<(Option<&Measured<'_>>, &Measured<'_>, compare::Metric)> = Vec::new();
    for treated in asked.iter().filter(|cell| cell.fits(&claim.treated)) {
        let Some(choice) = &claim.baseline else {
            let of_one = values(quantity, &treated.runs);
            questions.push((None, treated, metric(quantity, of_one, quantity.threshold)));
            continue;
        };
        for baseline in asked.iter().filter(|cell| cell.fits(choice)) {
            if baseline.is_partner_of(treated, choice, &claim.treated) {
                let blocks = pair(quantity, &baseline.runs, &treated.runs);
                let blocks = blocks.into_values().collect();
                questions.push((
                    Some(baseline),
                    treated,
                    metric(quantity, blocks, quantity.threshold),
                ));
            }
        }
    }
    // Where no block yields the metric on both sides, nothing was measured.
    questions.retain(|(_, _, metric)| {
        let mut blocks = metric.blocks.iter();
        blocks.any(|block| block.base.is_some() && block.head.is_some())
    });
    let mut options = Options::default().statistics;
    options.confidence = 1.0 - (1.0 - options.confidence) / questions.len().max(1) as f64;
    let mut pairs = Vec::new();
    for (baseline, treated, metric) in questions {
        let comparison = compare::compare(&metric, &options)?;
        pairs.push(ClaimPair {
            suite: treated.first.suite.clone(),
            scenario: treated.first.scenario.clone(),
            baseline: baseline.map(Measured::name),
            treated: treated.name(),
            verdict: effect.judge(&comparison)?,
        });
    }
    Ok(ClaimFound {
        outcome: together(&pairs),
        claim: claim.clone(),
        pairs,
    })
}

fn together(pairs: &[ClaimPair]) -> Outcome {
    let is = |wanted| move |pair: &ClaimPair| pair.verdict.outcome == wanted;
    if pairs.iter().any(is(Outcome::Refuted)) {
        Outcome::Refuted
    } else if !pairs.is_empty() && pairs.iter().all(is(Outcome::Holds)) {
        Outcome::Holds
    } else {
        Outcome::Inconclusive
    }
}

/// Each run of one cell against 1: the ratio is then the value.
fn values(quantity: &Metric, runs: &Runs<'_>) -> Vec<Block> {
    runs.values()
        .map(|run| Block {
            base: Some(1.0),
            head: quantity.of(run),
        })
        .collect()
}

impl Measured<'_> {
    fn name(&self) -> ClaimCell {
        ClaimCell {
            image: self.first.image.clone(),
            variant: self.first.variant.to_string(),
        }
    }

    /// Whether the claim is about the cell's scenario, model and task.
    fn concerns(&self, claim: &Claim) -> bool {
        let Record {
            scenario,
            model,
            task,
            ..
        } = self.first;
        (claim.scenarios.is_empty() || claim.scenarios.contains(scenario))
            && (claim.models.is_empty() || claim.models.contains(model))
            && claim.task.is_none_or(|asked| asked == *task)
    }

    fn fits(&self, choice: &CellChoice) -> bool {
        let mut wanted = choice.axes.iter();
        choice
            .image
            .as_ref()
            .is_none_or(|image| *image == self.first.image)
            && choice.fits_libtorch(self.libtorch)
            && wanted.all(|(axis, value)| self.axes.get(axis) == Some(value))
    }

    /// Whether the two differ in nothing but what the choices name.
    fn is_partner_of(&self, treated: &Self, own: &CellChoice, other: &CellChoice) -> bool {
        let others = |cell: &Self| {
            let mut axes = cell.axes.clone();
            axes.retain(|axis, _| !own.axes.contains_key(axis) && !other.axes.contains_key(axis));
            axes
        };
        let (a, b) = (self.first, treated.first);
        let same_image = a.image == b.image;
        (&a.suite, &a.scenario) == (&b.suite, &b.scenario)
            && (same_image || own.names_an_image())
            && !(same_image && self.axes == treated.axes)
            && others(self) == others(treated)
    }
}

//! Published claims, held against the runs of a session.
//!
//! A claim names a baseline and a treated cell by image and some axes. Every measured pair that
//! fits is judged: the two cells of a pair are the same in everything that the claim does not
//! name, and their runs are paired by block. A pair whose methods differ is left out and counted,
//! unless what differs is ignored. A claim holds if every pair bears it out, and is
//! refuted by one that does not. The intervals of a claim's k pairs are made at 1 − 0.05 ÷ k, so
//! that all of them together are right with 95 % (Bonferroni).

use std::collections::BTreeSet;

use judge::{
    claims::Outcome,
    compare::{Block, CompareError as JudgeError, Comparison, Interval, Options, compare},
};
use metrics::{Metric, Rows};
use record::{
    ChosenCell, Claim, Expectation, MethodDifference, MethodKey, Range, RangeError, Record,
    Session, printable,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    question::{measurement, pair},
    side::{Cell, Runs, Side},
};

/// How often the intervals of a claim may miss the truth, all together.
const WRONG: f64 = 0.05;

/// A claim with what the session says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFound {
    pub claim: Claim,
    /// *Refuted* if one pair refutes it, *holds* if every pair bears it out and there is one, else
    /// *inconclusive*.
    pub outcome: Outcome,
    /// Every measured pair that fits it; none where the session has not measured it.
    pub pairs: Vec<ClaimPair>,
    /// Measured pairs that fit it and were left out, since their methods differ.
    #[serde(default, skip_serializing_if = "OtherMethods::is_empty")]
    pub left_out: OtherMethods,
    /// Those of `pairs` that were taken although their methods differ, as asked.
    #[serde(default, skip_serializing_if = "OtherMethods::is_empty")]
    pub method_ignored: OtherMethods,
}

/// Pairs whose two cells were measured by different methods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherMethods {
    pub pairs: usize,
    /// What differs in them; the base is the baseline, the head the treated cell.
    pub differences: Vec<MethodDifference>,
}

impl OtherMethods {
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    fn hear(&mut self, differences: Vec<MethodDifference>) {
        self.pairs += 1;
        for difference in differences {
            if !self.differences.contains(&difference) {
                self.differences.push(difference);
            }
        }
    }
}

impl ClaimFound {
    /// Whether the session measured what it is about.
    pub fn is_measured(&self) -> bool {
        !self.pairs.is_empty()
    }
}

/// One measured pair of cells, or one cell where the claim is about a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimPair {
    pub suite: String,
    pub scenario: String,
    /// The cell without the treatment.
    pub baseline: Option<ClaimCell>,
    pub treated: ClaimCell,
    /// What the measurement says.
    pub verdict: ClaimVerdict,
}

impl ClaimPair {
    /// Whether its two cells are of two images.
    pub fn is_across_images(&self) -> bool {
        let mut baseline = self.baseline.iter();
        baseline.any(|cell| cell.image != self.treated.image)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimCell {
    /// The scenario, where the claim is about two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    pub image: String,
    pub variant: String,
}

/// A claim, judged by one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimVerdict {
    pub outcome: Outcome,
    /// Measured treated ÷ baseline; of a value the value.
    pub measured: Option<f64>,
    pub interval: Option<Interval>,
    /// The claimed range as treated ÷ baseline; of a value as it is.
    pub claimed: Range,
    /// Why, one sentence.
    pub reason: String,
}

impl ClaimVerdict {
    fn of(measured: Comparison, claimed: Range) -> Self {
        Self {
            outcome: Outcome::of(measured.interval, claimed.min, claimed.max),
            measured: measured.ratio,
            interval: measured.interval,
            claimed,
            reason: match measured.interval {
                Some(Interval { lo, hi }) => {
                    let (min, max) = (Some(lo), Some(hi));
                    format!("measured {}, claimed {claimed}", Range { min, max })
                }
                None => measured.reason,
            },
        }
    }
}

/// Why a claim cannot be judged.
#[derive(Debug, thiserror::Error)]
#[error("the claim \"{}\": {problem}", printable(statement))]
pub struct ClaimsError {
    pub statement: String,
    pub problem: ClaimProblem,
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimProblem {
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("no metric is named `{}`; there are: {}", printable(metric), known.join(", "))]
    NoMetric {
        metric: String,
        known: Vec<&'static str>,
    },
    #[error(
        "ratio, saving and increase need a `baseline`, and a value has none; add `baseline`, or \
         leave it out"
    )]
    Baseline,
    #[error("one cell names its {0} and the other does not; name both, or neither")]
    OneSided(&'static str),
    #[error("baseline and treated are the same cell; give them different values on one axis")]
    NoTreatment,
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

/// Whether a claim means something, measured or not: its metric, and the range as treated ÷
/// baseline.
pub fn check_claim(claim: &Claim, rows: &Rows) -> Result<(&'static Metric, Range), ClaimProblem> {
    let metric = rows
        .named(&claim.metric)
        .ok_or_else(|| ClaimProblem::NoMetric {
            metric: claim.metric.clone(),
            known: rows.all().map(|metric| metric.name).collect(),
        })?;
    let range = claim.expect.ratio_range()?;
    let is_value = matches!(claim.expect, Expectation::Value(_));
    match &claim.baseline {
        Some(_) if is_value => Err(ClaimProblem::Baseline),
        None if !is_value => Err(ClaimProblem::Baseline),
        Some(baseline) if baseline.names_an_image() != claim.treated.names_an_image() => {
            Err(ClaimProblem::OneSided("image"))
        }
        Some(baseline) if baseline.scenario.is_some() != claim.treated.scenario.is_some() => {
            Err(ClaimProblem::OneSided("scenario"))
        }
        Some(baseline) if *baseline == claim.treated => Err(ClaimProblem::NoTreatment),
        _ => Ok((metric, range)),
    }
}

/// Judges every claim by the runs of one session. Pairs whose methods differ in nothing but
/// `ignore` are taken.
pub fn judge_claims(
    session: &Session,
    records: &[Record],
    claims: &[Claim],
    ignore: &[MethodKey],
) -> Result<Vec<ClaimFound>, ClaimsError> {
    let cells = measured(session, records);
    let rows = Rows::with(&session.metrics);
    claims
        .iter()
        .map(|claim| {
            judge_one(claim, &cells, ignore, &rows).map_err(|problem| ClaimsError {
                statement: claim.statement.clone(),
                problem,
            })
        })
        .collect()
}

/// One cell of the session with its runs.
struct Measured<'a> {
    cell: Cell,
    first: &'a Record,
    libtorch: Option<String>,
    runs: Runs<'a>,
}

fn measured<'a>(session: &'a Session, records: &'a [Record]) -> Vec<Measured<'a>> {
    let images: BTreeSet<&str> = records.iter().map(|run| run.image.as_str()).collect();
    let sides = images
        .into_iter()
        .filter_map(|image| Side::pick(session, records, Some(image)).ok());
    let mut all = Vec::new();
    for side in sides {
        for (cell, runs) in side.cells() {
            let Some(&first) = runs.values().next() else {
                continue;
            };
            all.push(Measured {
                cell,
                first,
                libtorch: side.origin.libtorch_version.clone(),
                runs,
            });
        }
    }
    all.sort_by(|a, b| a.cell.cmp(&b.cell));
    all
}

fn judge_one(
    claim: &Claim,
    cells: &[Measured<'_>],
    ignore: &[MethodKey],
    rows: &Rows,
) -> Result<ClaimFound, ClaimProblem> {
    let (metric, range) = check_claim(claim, rows)?;
    let concerned: Vec<&Measured<'_>> = cells
        .iter()
        .filter(|cell| claim.concerns(&cell.cell.scenario, &cell.first.workload))
        .collect();
    let mut questions = Vec::new();
    let treated = concerned
        .iter()
        .filter(|cell| claim.treated.fits(cell.chosen()));
    for treated in treated {
        match &claim.baseline {
            None => questions.push((None, treated, values(metric, &treated.runs))),
            Some(choice) => questions.extend(
                concerned
                    .iter()
                    .filter(|cell| cell.cell.suite == treated.cell.suite)
                    .filter(|cell| choice.fits(cell.chosen()))
                    .filter(|cell| choice.pairs(cell.chosen(), &claim.treated, treated.chosen()))
                    .map(|cell| {
                        let blocks = pair(metric, &cell.runs, &treated.runs);
                        (Some(cell), treated, blocks.into_values().collect())
                    }),
            ),
        }
    }
    // Where no block yields the metric on both sides, nothing was measured.
    let both = |block: &Block| block.base.is_some() && block.head.is_some();
    questions.retain(|(_, _, blocks)| blocks.iter().any(both));
    let (mut left_out, mut method_ignored) = (OtherMethods::default(), OtherMethods::default());
    questions.retain(|(baseline, treated, _)| {
        let differences = baseline.map_or_else(Vec::new, |cell| {
            cell.first.method.differences(&treated.first.method)
        });
        // Two scenarios that a claim names may be two methods: that is what it is about.
        let is_named = claim.treated.scenario.is_some();
        let is_ignored =
            |one: &MethodDifference| is_named || MethodKey::any_covers(ignore, &one.key);
        if !differences.iter().all(is_ignored) {
            left_out.hear(differences);
            return false;
        }
        if !differences.is_empty() {
            method_ignored.hear(differences);
        }
        true
    });
    let options = Options {
        alpha: WRONG / questions.len().max(1) as f64,
    };
    let mut pairs = Vec::new();
    for (baseline, treated, blocks) in questions {
        let measured = compare(&measurement(metric, blocks, metric.threshold), &options)?;
        pairs.push(ClaimPair {
            suite: treated.cell.suite.clone(),
            scenario: treated.cell.scenario.clone(),
            baseline: baseline.map(|cell| cell.name(claim)),
            treated: treated.name(claim),
            verdict: ClaimVerdict::of(measured, range),
        });
    }
    Ok(ClaimFound {
        outcome: together(&pairs),
        claim: claim.clone(),
        pairs,
        left_out,
        method_ignored,
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
fn values(metric: &Metric, runs: &Runs<'_>) -> Vec<Block> {
    runs.values()
        .map(|run| Block {
            base: Some(1.0),
            head: metric.of(run),
        })
        .collect()
}

impl Measured<'_> {
    fn name(&self, claim: &Claim) -> ClaimCell {
        let of_two = claim.baseline.as_ref().and(claim.treated.scenario.as_ref());
        ClaimCell {
            scenario: of_two.map(|_| self.cell.scenario.clone()),
            image: self.first.image.clone(),
            variant: self.cell.variant.clone(),
        }
    }

    fn chosen(&self) -> ChosenCell<'_> {
        ChosenCell {
            scenario: &self.cell.scenario,
            image: Some((&self.first.image, self.libtorch.as_deref())),
            axes: &self.first.axes,
        }
    }
}

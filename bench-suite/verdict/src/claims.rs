//! Published claims, held against the runs of a session.
//!
//! A claim names a baseline and a treated cell by scenario and some axes. Every measured pair that
//! fits, in every image, is judged: the two cells of a pair agree on all axes that the claim does
//! not name, and their runs are paired by block.

use std::collections::BTreeMap;

use judge::{
    claims::{self, ClaimError, ClaimVerdict, Effect},
    compare::CompareError as JudgeError,
};
use protocol::Variant;
use record::{Quantity, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Options;
use crate::compare::{metric, pair};

/// A claim about two cells of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words: "AMP saves 30–50 % of peak memory".
    pub statement: String,
    /// Who said so, as a reader can find it.
    pub source: String,
    /// The quantity it is about, by its name in records: `peak_allocated_bytes`.
    pub metric: String,
    /// The cell without the treatment.
    pub baseline: CellChoice,
    /// The cell with it.
    pub treated: CellChoice,
    /// The claimed effect of treated over baseline.
    pub expect: Effect,
}

/// Cells by scenario and some of their axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellChoice {
    /// The scenario's name.
    pub scenario: String,
    /// Axis to value; axes left out are the same on both sides.
    #[serde(default)]
    pub variant: BTreeMap<String, String>,
}

/// A claim with what the session says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFound {
    /// The claim.
    pub claim: Claim,
    /// Every measured pair that fits it; none where the session has not measured it.
    pub pairs: Vec<ClaimPair>,
}

/// One measured pair of cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimPair {
    /// The image.
    pub image: String,
    /// The cell without the treatment.
    pub baseline: String,
    /// The cell with it.
    pub treated: String,
    /// What the measurement says.
    pub verdict: ClaimVerdict,
}

/// Why a claim cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum ClaimsError {
    /// Its range means nothing.
    #[error(transparent)]
    Range(#[from] ClaimError),
    /// There is no such quantity.
    #[error(
        "the claim \"{statement}\" is about `{metric}`, which is no quantity; there are: {}",
        crate::compare::names()
    )]
    NoQuantity {
        /// The claim.
        statement: String,
        /// As given.
        metric: String,
    },
    /// It names an axis that there is not.
    #[error(
        "the claim \"{statement}\": there is no axis `{axis}`; there are: {}",
        Variant::AXES.join(", ")
    )]
    Axis {
        /// The claim.
        statement: String,
        /// As given.
        axis: String,
    },
    /// The judge refused a value.
    #[error("the claim \"{statement}\": {source}")]
    Judge {
        /// The claim.
        statement: String,
        /// Why.
        source: JudgeError,
    },
}

/// Suite, image, scenario, and the variant as text.
type Key<'a> = (&'a str, &'a str, &'a str, String);
/// Block to the last record of the run.
type Runs<'a> = BTreeMap<u32, &'a Record>;

/// Judges every claim by the runs of one session.
pub fn judge_claims(records: &[Record], claims: &[Claim]) -> Result<Vec<ClaimFound>, ClaimsError> {
    let mut cells: BTreeMap<Key<'_>, (&Variant, Runs<'_>)> = BTreeMap::new();
    for run in records {
        let variant = run.variant.to_string();
        let key = (
            run.suite.as_str(),
            run.image.as_str(),
            run.scenario.as_str(),
            variant,
        );
        let (_, runs) = cells
            .entry(key)
            .or_insert_with(|| (&run.variant, Runs::new()));
        let newest = runs.entry(run.block).or_insert(run);
        if run.attempt >= newest.attempt {
            *newest = run;
        }
    }
    claims
        .iter()
        .map(|claim| judge_one(claim, &cells))
        .collect()
}

fn judge_one(
    claim: &Claim,
    cells: &BTreeMap<Key<'_>, (&Variant, Runs<'_>)>,
) -> Result<ClaimFound, ClaimsError> {
    let statement = || claim.statement.clone();
    let quantity = Quantity::named(&claim.metric).ok_or_else(|| ClaimsError::NoQuantity {
        statement: statement(),
        metric: claim.metric.clone(),
    })?;
    let named: Vec<&String> = [&claim.baseline, &claim.treated]
        .into_iter()
        .flat_map(|choice| choice.variant.keys())
        .collect();
    if let Some(axis) = named
        .iter()
        .find(|axis| !Variant::AXES.contains(&axis.as_str()))
    {
        return Err(ClaimsError::Axis {
            statement: statement(),
            axis: (*axis).clone(),
        });
    }
    let judged = claims::Claim {
        statement: statement(),
        source: claim.source.clone(),
        metric: claim.metric.clone(),
        baseline: claim.baseline.scenario.clone(),
        treated: claim.treated.scenario.clone(),
        expect: claim.expect,
    };
    // A range that means nothing is an error whether the cells were measured or not.
    judged.ratio_range()?;
    let others = |variant: &Variant| {
        let mut axes = variant.axes();
        axes.retain(|axis, _| !named.contains(&axis));
        axes
    };
    let options = Options::default();
    let mut pairs = Vec::new();
    for ((suite, image, scenario, name), (variant, base)) in cells {
        if !claim.baseline.fits(scenario, variant) {
            continue;
        }
        let fitting = cells
            .iter()
            .filter(|((suite_too, image_too, scenario, _), (head, _))| {
                (suite, image) == (suite_too, image_too)
                    && claim.treated.fits(scenario, head)
                    && others(head) == others(variant)
            });
        for ((_, _, scenario_too, name_too), (_, head)) in fitting {
            if (scenario, name) == (scenario_too, name_too) {
                continue;
            }
            let metric = metric(quantity, pair(quantity, base, head), &options);
            let measured =
                judge::compare::compare(&metric, &options.family.each).map_err(|source| {
                    ClaimsError::Judge {
                        statement: statement(),
                        source,
                    }
                })?;
            pairs.push(ClaimPair {
                image: (*image).to_owned(),
                baseline: format!("{scenario} · {name}"),
                treated: format!("{scenario_too} · {name_too}"),
                verdict: judged.judge(&measured)?,
            });
        }
    }
    Ok(ClaimFound {
        claim: claim.clone(),
        pairs,
    })
}

impl CellChoice {
    fn fits(&self, scenario: &str, variant: &Variant) -> bool {
        let axes = variant.axes();
        let mut wanted = self.variant.iter();
        self.scenario == scenario && wanted.all(|(axis, value)| axes.get(axis) == Some(value))
    }
}

//! What goes into a comparison and what comes out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::moderation::Variance;

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better, as with samples per second.
    HigherIsBetter,
    /// Less is better, as with seconds and bytes.
    LowerIsBetter,
}

/// How a metric behaves from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Noisy in every run: seconds, samples per second, watts.
    TimeLike,
    /// Often the same to the byte in every run: allocated, reserved, process memory.
    MemoryLike,
}

/// One block: what the metric read on either side. `None`: that run failed, or the
/// metric is missing from its record. A run without a partner counts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Block {
    /// The base cell's value, in the metric's unit.
    pub base: Option<f64>,
    /// The head cell's value, in the same unit.
    pub head: Option<f64>,
}

impl Block {
    /// A block in which both runs yielded the metric.
    pub fn pair(base: f64, head: f64) -> Self {
        Self {
            base: Some(base),
            head: Some(head),
        }
    }
}

/// One metric of one pair of cells, ready to be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    pub blocks: Vec<Block>,
    /// Which way the metric improves.
    pub direction: Direction,
    /// How the metric behaves from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none: 0.005 means that ratios from
    /// 1/1.005 to 1.005 are *unchanged*. At least 0.
    pub threshold: f64,
    /// Where the sides come from two sessions: how far sessions lie apart. Then what their runs
    /// scatter by is only a part of the noise, and neither blocks nor ranks say anything.
    pub between: Option<BetweenSessions>,
    /// Comparisons of one number are cells of one metric, which may know each other's noise.
    pub metric: usize,
    /// The variance of a run's logarithm in earlier sessions of this cell, where it is known.
    pub past: Option<Variance>,
}

/// The noise of a session's level, from other sessions of the same series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetweenSessions {
    /// Standard deviation of the logarithm of a session's median, which is about the relative one;
    /// what its runs scatter by is a part of it.
    pub deviation: f64,
    /// Its degrees of freedom: sessions less the levels that they lie on. Above 0.
    pub degrees_of_freedom: f64,
}

/// How strict to be. [`Default`] is what the bars in the README were measured with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How often a verdict may be wrong: 0.02, of one comparison or of all verdicts in a family.
    /// Intervals miss the truth as often.
    pub alpha: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { alpha: 0.02 }
    }
}

/// With which probability [`Comparison::minimum_detectable_change`] is detected.
pub(super) const POWER: f64 = 0.8;
/// Relative run-to-run standard deviation below which no measurement is believed. It keeps two timings
/// that happen to agree to the last digit from proving anything to the last digit.
pub(super) const NOISE_FLOOR: f64 = 1e-4;

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Changed for the better, by more than the noise threshold.
    Improved,
    /// Changed for the worse, by more than the noise threshold.
    Regressed,
    /// The whole interval lies within the noise threshold.
    Unchanged,
    /// The interval crosses an end of the noise threshold, or there is none.
    Inconclusive,
}

impl Verdict {
    /// The verdict for a change, whose sign alone counts.
    pub fn of_change(change: f64, direction: Direction) -> Self {
        match (direction, change > 0.0) {
            (Direction::HigherIsBetter, true) | (Direction::LowerIsBetter, false) => Self::Improved,
            (Direction::HigherIsBetter, false) | (Direction::LowerIsBetter, true) => {
                Self::Regressed
            }
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// A closed interval of ratios (head ÷ base), `lo` ≤ `hi`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Interval {
    pub fn contains(&self, ratio: f64) -> bool {
        self.lo <= ratio && ratio <= self.hi
    }

    /// The verdict that it is: a change where it lies wholly beyond the noise threshold, *unchanged*
    /// where it lies wholly between 1/(1 + noise threshold) and 1 + noise threshold.
    pub fn verdict(&self, threshold: f64, direction: Direction) -> Verdict {
        let (least, most) = (1.0 / (1.0 + threshold), 1.0 + threshold);
        if self.lo >= least && self.hi <= most {
            Verdict::Unchanged
        } else if self.lo > most {
            Verdict::of_change(1.0, direction)
        } else if self.hi < least {
            Verdict::of_change(-1.0, direction)
        } else {
            Verdict::Inconclusive
        }
    }
}

/// How the interval and p came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Both sides were the same to the byte in every run, or one of them was 0 in every run: chance
    /// has no part in it.
    Exact,
    /// Student's paired t, Welch's t and the rank test of Mann and Whitney on the logarithms, put
    /// together by Cauchy's combination (Liu and Xie 2020).
    #[serde(alias = "paired-t")]
    Combined,
    /// Student's t with a variance that the cells of the metric moderate (Smyth 2004), and ranks.
    Moderated,
    /// Memory that jumps between two values, by how often either side has the upper one (Clopper
    /// and Pearson 1934).
    TwoModes,
    /// Student's t of the difference of two sessions, by the variance between sessions of the
    /// history.
    BetweenSessions,
    /// Too few usable blocks, or values that have no ratio.
    None,
}

/// One metric of one pair of cells, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// head ÷ base: the ratio from which as much speaks for a larger as for a smaller one; without
    /// noise to speak of the geometric mean of the blocks' ratios, with wild runs near the ratio of
    /// the medians. It lies in the interval. `None` with no usable block, or where base is 0.
    pub ratio: Option<f64>,
    /// The ratios that are not rejected at `level`. Wholly beyond the noise threshold it is the
    /// verdict *regressed* or *improved*, wholly within *unchanged*, and else *inconclusive*.
    /// `None` with fewer than two usable runs a side.
    pub interval: Option<Interval>,
    /// Share of such intervals that may miss the truth: [`Options::alpha`] × the verdicts that a
    /// family comes to ÷ its comparisons, so that of all verdicts this share is wrong at most.
    /// `None` where there is no chance or no interval.
    #[serde(default)]
    pub level: Option<f64>,
    /// The smallest level at which this comparison by itself has a verdict; without a noise
    /// threshold that is the p of no change. 0 where [`Method::Exact`]; `None` where there is
    /// nothing to compute it from.
    pub p_value: Option<f64>,
    /// The same with the family taken into account: decided where it is at most
    /// [`Options::alpha`]. Gated metrics are one family, the others a second one.
    pub q_value: Option<f64>,
    pub verdict: Verdict,
    /// The noise threshold that the verdict used, relative.
    pub threshold: f64,
    /// The smallest relative increase of this metric alone that sessions with this many blocks and
    /// this noise call improved or regressed with probability 0.8, the noise
    /// threshold and the number of metrics in the family taken into account. `None` with fewer than
    /// two blocks.
    pub minimum_detectable_change: Option<f64>,
    /// How many blocks it takes until that is twice the noise threshold, with the noise and the
    /// family seen here. `None` where unknown, the noise threshold is 0, or 10,000 do not do.
    pub blocks_needed: Option<usize>,
    /// Run-to-run standard deviation of the log value, which is about the relative one,
    /// without the part that the two runs of a block share.
    pub noise: Option<f64>,
    /// Blocks with both sides.
    pub blocks_used: usize,
    /// Blocks of which one side alone yielded the metric; such runs count without a partner.
    pub blocks_dropped: usize,
    /// How interval and p came about.
    pub method: Method,
    /// Why the verdict is what it is, one sentence.
    pub reason: String,
}

impl Comparison {
    /// Whether the interval leaves no change out, however small the change is.
    pub fn is_real(&self) -> bool {
        self.interval
            .is_some_and(|interval| !interval.contains(1.0))
    }
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BaseOrHead {
    /// What is compared against.
    Base,
    Head,
}

impl std::fmt::Display for BaseOrHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// What cannot be judged at all: a value or a setting that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompareError(pub(super) String);

//! What goes into a comparison and what comes out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sessions::BetweenSessions;

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
/// metric is missing from its record. Such a block is dropped, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Block {
    /// The base cell's value, in the metric's unit.
    pub base: Option<f64>,
    /// The head cell's value, in the same unit.
    pub head: Option<f64>,
}

impl Block {
    /// A block in which both runs yielded the metric.
    #[must_use]
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
    /// The blocks, in any order.
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
}

/// How strict to be. [`Default`] is what the bars in the README were measured with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Coverage of the interval: 0.95.
    pub confidence: f64,
    /// Largest p at which *improved* or *regressed* is said: 0.02, both directions together.
    pub alpha: f64,
    /// With which probability [`Comparison::minimum_detectable_change`] is detected: 0.8.
    pub power: f64,
    /// Relative run-to-run standard deviation below which no measurement is believed:
    /// 0.0001. It keeps two timings that happen to agree to the last digit from
    /// proving anything to the last digit.
    pub noise_floor: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            alpha: 0.02,
            power: 0.8,
            noise_floor: 1e-4,
        }
    }
}

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Changed for the better, and not within the noise threshold.
    Improved,
    /// Changed for the worse, and not within the noise threshold.
    Regressed,
    /// The whole interval lies within the noise threshold.
    Unchanged,
    /// Neither a change nor sameness is shown by this many blocks.
    Inconclusive,
}

impl Verdict {
    /// The verdict for a change, whose sign alone counts.
    #[must_use]
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
        f.write_str(match self {
            Self::Improved => "improved",
            Self::Regressed => "regressed",
            Self::Unchanged => "unchanged",
            Self::Inconclusive => "inconclusive",
        })
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
    /// Is `ratio` inside?
    #[must_use]
    pub fn contains(&self, ratio: f64) -> bool {
        self.lo <= ratio && ratio <= self.hi
    }

    /// Does the whole interval lie between 1/(1 + noise threshold) and 1 + noise threshold?
    #[must_use]
    pub fn within_threshold(&self, threshold: f64) -> bool {
        self.lo >= 1.0 / (1.0 + threshold) && self.hi <= 1.0 + threshold
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
    /// Student's t of the difference of two sessions, by the variance between sessions of the
    /// history.
    BetweenSessions,
    /// Too few usable blocks, or values that have no ratio.
    None,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Combined => "paired t, Welch's t and ranks on logarithms",
            Self::BetweenSessions => "t by the variance between sessions",
            Self::None => "none",
        })
    }
}

/// One metric of one pair of cells, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// head ÷ base: the ratio from which as much speaks for a larger as for a smaller one; without
    /// noise to speak of the geometric mean of the blocks' ratios, with wild runs near the ratio of
    /// the medians. It lies in the interval. `None` with no usable block, or where base is 0.
    pub ratio: Option<f64>,
    /// Interval of the ratio at [`Options::confidence`]: those that the test behind `p_value` does
    /// not reject at 1 − confidence. `None` with fewer than two usable blocks.
    pub interval: Option<Interval>,
    /// P of an effect this large with no change, both directions together. 0 or 1 where
    /// [`Method::Exact`]; `None` where there is nothing to compute it from.
    pub p_value: Option<f64>,
    /// p after the other metrics of the family are taken into account: gated metrics are one
    /// family, the others a second one. Only
    /// [`family::judge_all`](crate::family::judge_all) fills it.
    pub q_value: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
    /// The noise threshold that the verdict used, relative.
    pub threshold: f64,
    /// The smallest relative increase of this metric alone that sessions with this many blocks and
    /// this noise call improved or regressed with probability [`Options::power`], the number of
    /// metrics in the family taken into account; in normal noise right to ± 5 points of power from
    /// five blocks on. `None` with fewer than two blocks.
    pub minimum_detectable_change: Option<f64>,
    /// How many blocks it takes until the minimum detectable change is the noise threshold, with
    /// the noise and the family seen here. `None` where unknown, the noise threshold is 0, or 10,000 do not do.
    pub blocks_needed: Option<usize>,
    /// Run-to-run standard deviation of the log value, which is about the relative one,
    /// without the part that the two runs of a block share.
    pub noise: Option<f64>,
    /// Blocks used.
    pub blocks_used: usize,
    /// Blocks dropped because a side was missing.
    pub blocks_dropped: usize,
    /// How interval and p came about.
    pub method: Method,
    /// Why the verdict is what it is, one sentence.
    pub reason: String,
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BaseOrHead {
    /// What is compared against.
    Base,
    /// What is compared.
    Head,
}

impl std::fmt::Display for BaseOrHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Head => "head",
        })
    }
}

/// What cannot be judged at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// NaN or infinite.
    #[error(
        "block {block}, {side}: the value is {value}, expected a finite number; \
         leave the value out if the run did not yield the metric"
    )]
    NotFinite {
        /// Position in [`Measurement::blocks`], from 0.
        block: usize,
        /// Which side.
        side: BaseOrHead,
        /// The value.
        value: f64,
    },
    /// Below zero.
    #[error(
        "block {block}, {side}: the value is {value}, expected at least 0; \
         a ratio says nothing about a metric that can be negative"
    )]
    Negative {
        /// Position in [`Measurement::blocks`], from 0.
        block: usize,
        /// Which side.
        side: BaseOrHead,
        /// The value.
        value: f64,
    },
    /// A setting out of its range.
    #[error("{setting} is {value}, expected {expected}")]
    Setting {
        /// Name of the field.
        setting: &'static str,
        /// The value.
        value: f64,
        /// The range it must be in.
        expected: &'static str,
    },
}

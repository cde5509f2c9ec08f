//! Does a measured interval bear out what somebody claimed?
//!
//! A claim gives a range for treated ÷ baseline. It *holds* if the whole interval lies
//! in the range, is *refuted* if the whole interval lies outside on one side, and else
//! the blocks *inconclusive*.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, Interval};

/// What is claimed; both ends belong to the range. An end left out is open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// treated ÷ baseline.
    Ratio(Range),
    /// 1 − treated ÷ baseline: 0.3 to 0.5 is "saves 30–50 %".
    Saving(Range),
    /// treated ÷ baseline − 1: 0.2 to 0.3 is "costs 20–30 % more".
    Increase(Range),
    /// The value itself. What is measured is then a comparison with 1.
    Value(Range),
}

/// A range of numbers; an end left out is open.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Smallest value that bears the claim out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value that bears the claim out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// What the measurement says of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The whole interval lies in the claimed range.
    Holds,
    /// The whole interval lies outside, on one side.
    Refuted,
    /// The interval crosses an end of the range, or there is none.
    Inconclusive,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// A claim, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimVerdict {
    /// What it comes to.
    pub outcome: Outcome,
    /// Measured treated ÷ baseline; of [`Effect::Value`] the value.
    pub measured: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// The claimed range as treated ÷ baseline; of [`Effect::Value`] as it is.
    pub claimed: Range,
    /// Why, one sentence.
    pub reason: String,
}

/// A claim that means nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// Neither end is given.
    #[error("the claim has no range: give min, max or both")]
    Open,
    /// An end is NaN, infinite, or makes a ratio below 0.
    #[error(
        "{end} is {value}, expected a finite number that leaves treated ÷ baseline at 0 or above \
         (a saving is at most 1; 30 % is written 0.3)"
    )]
    End {
        /// `min` or `max`.
        end: &'static str,
        /// The value.
        value: f64,
    },
    /// min > max.
    #[error("min {min} is above max {max}; exchange them")]
    Reversed {
        /// The lower end as given.
        min: f64,
        /// The upper end as given.
        max: f64,
    },
}

/// Relative rounding error allowed at the ends of a claimed range.
const ROUNDING: f64 = 1e-12;

impl Effect {
    /// The claimed range as treated ÷ baseline, checked.
    ///
    /// # Errors
    /// [`ClaimError`] if the range is open on both sides, reversed, or not a ratio.
    pub fn ratio_range(self) -> Result<Range, ClaimError> {
        let (Self::Ratio(given) | Self::Saving(given) | Self::Increase(given) | Self::Value(given)) =
            self;
        if given.min.is_none() && given.max.is_none() {
            return Err(ClaimError::Open);
        }
        let ratio = |value: f64| match self {
            Self::Ratio(_) | Self::Value(_) => value,
            Self::Saving(_) => 1.0 - value,
            Self::Increase(_) => 1.0 + value,
        };
        for (end, value) in [("min", given.min), ("max", given.max)] {
            if let Some(value) = value
                && (!value.is_finite() || ratio(value) < 0.0)
            {
                return Err(ClaimError::End { end, value });
            }
        }
        if let (Some(min), Some(max)) = (given.min, given.max)
            && min > max
        {
            return Err(ClaimError::Reversed { min, max });
        }
        let (low, high) = (given.min.map(ratio), given.max.map(ratio));
        Ok(match self {
            Self::Saving(_) => Range {
                min: high,
                max: low,
            },
            _ => Range {
                min: low,
                max: high,
            },
        })
    }

    /// Judges the claim by a comparison of its cells: base the baseline, head the treated. For
    /// [`Effect::Value`] every base is 1.
    ///
    /// # Errors
    /// As [`Effect::ratio_range`].
    pub fn judge(self, measured: &Comparison) -> Result<ClaimVerdict, ClaimError> {
        let claimed = self.ratio_range()?;
        let mut verdict = ClaimVerdict {
            outcome: Outcome::Inconclusive,
            measured: measured.ratio,
            interval: measured.interval,
            claimed,
            reason: String::new(),
        };
        let Some(interval) = measured.interval else {
            verdict.reason = format!("there is no interval: {}", measured.reason);
            return Ok(verdict);
        };
        // 1 - 0.4 is not quite 0.6 in binary; an exact 0.6 must still meet it.
        let low = claimed.min.map_or(0.0, |min| min * (1.0 - ROUNDING));
        let high = claimed
            .max
            .map_or(f64::INFINITY, |max| max * (1.0 + ROUNDING));
        let what = match self {
            Self::Value(_) => "the value",
            _ => "treated ÷ baseline",
        };
        let seen = format!(
            "{what} lies between {} and {}",
            number(interval.lo),
            number(interval.hi)
        );
        let range = match (claimed.min, claimed.max) {
            (Some(min), Some(max)) => format!("{} to {}", number(min), number(max)),
            (Some(min), None) => format!("at least {}", number(min)),
            (None, max) => format!("at most {}", number(max.unwrap_or(f64::INFINITY))),
        };
        (verdict.outcome, verdict.reason) = if interval.lo >= low && interval.hi <= high {
            (
                Outcome::Holds,
                format!("{seen}, all of it in the claimed {range}"),
            )
        } else if interval.hi < low {
            (
                Outcome::Refuted,
                format!("{seen}, all of it below the claimed {range}"),
            )
        } else if interval.lo > high {
            (
                Outcome::Refuted,
                format!("{seen}, all of it above the claimed {range}"),
            )
        } else {
            (
                Outcome::Inconclusive,
                format!("{seen}, partly in and partly out of the claimed {range}; add blocks"),
            )
        };
        Ok(verdict)
    }
}

/// Ratios to four decimals, bytes and the like as whole numbers.
fn number(value: f64) -> String {
    if value.abs() >= 10_000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Block, Direction, Kind, Metric, Options, compare};

    fn range(min: impl Into<Option<f64>>, max: impl Into<Option<f64>>) -> Range {
        Range {
            min: min.into(),
            max: max.into(),
        }
    }

    #[track_caller]
    fn check(expect: Effect, pairs: &[(f64, f64)], outcome: Outcome) {
        let metric = Metric {
            blocks: pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect(),
            direction: Direction::LowerIsBetter,
            kind: Kind::MemoryLike,
            threshold: 0.01,
        };
        let measured = compare(&metric, &Options::default()).unwrap();
        let verdict = expect.judge(&measured).unwrap();
        assert_eq!(verdict.outcome, outcome, "{verdict:?}");
        assert!(!verdict.reason.is_empty());
    }

    #[test]
    fn exact_memory_is_held_against_a_saving() {
        let halved = [(1000.0, 600.0); 3];
        check(Effect::Saving(range(0.3, 0.5)), &halved, Outcome::Holds);
        check(Effect::Saving(range(0.5, 0.6)), &halved, Outcome::Refuted);
        check(Effect::Saving(range(0.1, 0.3)), &halved, Outcome::Refuted);
        check(Effect::Saving(range(0.4, None)), &halved, Outcome::Holds);
        check(Effect::Ratio(range(None, 0.6)), &halved, Outcome::Holds);
        check(Effect::Increase(range(0.2, 0.3)), &halved, Outcome::Refuted);
    }

    #[test]
    fn noise_that_crosses_an_end_cannot_tell() {
        let noisy = [
            (100.0, 120.0),
            (100.0, 135.0),
            (101.0, 118.0),
            (99.0, 128.0),
        ];
        check(
            Effect::Increase(range(0.2, 0.3)),
            &noisy,
            Outcome::Inconclusive,
        );
        check(Effect::Increase(range(0.0, 0.6)), &noisy, Outcome::Holds);
        check(Effect::Ratio(range(2.0, None)), &noisy, Outcome::Refuted);
        check(
            Effect::Ratio(range(0.0, 2.0)),
            &noisy[..1],
            Outcome::Inconclusive,
        );
    }

    #[test]
    fn a_value_is_held_against_a_range_of_values() {
        let gb = [(1.0, 0.8e9); 3];
        let around = |value: f64| range(value * 0.95, value * 1.05);
        check(Effect::Value(around(0.8e9)), &gb, Outcome::Holds);
        check(Effect::Value(around(0.6e9)), &gb, Outcome::Refuted);
        check(Effect::Value(range(None, 0.7e9)), &gb, Outcome::Refuted);
        let wild = [(1.0, 0.7e9), (1.0, 0.9e9), (1.0, 0.8e9)];
        check(Effect::Value(around(0.8e9)), &wild, Outcome::Inconclusive);
    }

    #[test]
    fn meaningless_ranges_are_named() {
        let error = |expect: Effect| expect.ratio_range().unwrap_err();
        assert!(matches!(
            error(Effect::Ratio(range(None, None))),
            ClaimError::Open
        ));
        assert!(matches!(
            error(Effect::Ratio(range(2.0, 1.0))),
            ClaimError::Reversed { .. }
        ));
        let percent = error(Effect::Saving(range(30.0, 50.0)));
        assert!(
            percent.to_string().contains("30 % is written 0.3"),
            "{percent}"
        );
        assert!(matches!(
            error(Effect::Ratio(range(f64::NAN, 1.0))),
            ClaimError::End { .. }
        ));
    }
}

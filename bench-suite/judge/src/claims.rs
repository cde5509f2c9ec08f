//! Does a measured interval bear out what somebody claimed?
//!
//! A claim gives a range for treated ÷ baseline. It *holds* if the whole interval lies
//! in the range, is *refuted* if the whole interval lies outside on one side, and else
//! the blocks *cannot tell*.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, Interval};

/// What somebody claimed, and about which cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words: "AMP saves 30–50 % of peak memory".
    pub statement: String,
    /// Who said so, as a reader can find it.
    pub source: String,
    /// The metric it is about, by its record name: `peak_allocated_bytes`.
    pub metric: String,
    /// The cell without the treatment.
    pub baseline: String,
    /// The cell with it.
    pub treated: String,
    /// The claimed effect.
    pub expect: Effect,
}

/// The claimed effect of treated over baseline; both ends belong to the range. An end
/// left out is open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// treated ÷ baseline.
    Ratio(Range),
    /// 1 − treated ÷ baseline: 0.3 to 0.5 is "saves 30–50 %".
    Saving(Range),
    /// treated ÷ baseline − 1: 0.2 to 0.3 is "costs 20–30 % more".
    Increase(Range),
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
    CannotTell,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Refuted => "refuted",
            Self::CannotTell => "cannot tell",
        })
    }
}

/// A claim, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimVerdict {
    /// What it comes to.
    pub outcome: Outcome,
    /// Measured treated ÷ baseline.
    pub ratio: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// The claimed range as treated ÷ baseline.
    pub claimed: Range,
    /// Why, one sentence.
    pub reason: String,
}

/// A claim that means nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// Neither end is given.
    #[error("the claim \"{statement}\" has no range: give min, max or both")]
    Open {
        /// The claim.
        statement: String,
    },
    /// An end is NaN, infinite, or makes a ratio below 0.
    #[error(
        "the claim \"{statement}\": {end} is {value}, expected a finite number that leaves \
         treated ÷ baseline at 0 or above (a saving is at most 1; 30 % is written 0.3)"
    )]
    End {
        /// The claim.
        statement: String,
        /// `min` or `max`.
        end: &'static str,
        /// The value.
        value: f64,
    },
    /// min > max.
    #[error("the claim \"{statement}\": min {min} is above max {max}; exchange them")]
    Reversed {
        /// The claim.
        statement: String,
        /// The lower end as given.
        min: f64,
        /// The upper end as given.
        max: f64,
    },
}

/// Relative rounding error allowed at the ends of a claimed range.
const ROUNDING: f64 = 1e-12;

impl Claim {
    /// The claimed range as treated ÷ baseline, checked.
    ///
    /// # Errors
    /// [`ClaimError`] if the range is open on both sides, reversed, or not a ratio.
    pub fn ratio_range(&self) -> Result<Range, ClaimError> {
        let (Effect::Ratio(given) | Effect::Saving(given) | Effect::Increase(given)) = self.expect;
        let statement = || self.statement.clone();
        if given.min.is_none() && given.max.is_none() {
            return Err(ClaimError::Open {
                statement: statement(),
            });
        }
        let ratio = |value: f64| match self.expect {
            Effect::Ratio(_) => value,
            Effect::Saving(_) => 1.0 - value,
            Effect::Increase(_) => 1.0 + value,
        };
        for (end, value) in [("min", given.min), ("max", given.max)] {
            if let Some(value) = value
                && (!value.is_finite() || ratio(value) < 0.0)
            {
                return Err(ClaimError::End {
                    statement: statement(),
                    end,
                    value,
                });
            }
        }
        if let (Some(min), Some(max)) = (given.min, given.max)
            && min > max
        {
            return Err(ClaimError::Reversed {
                statement: statement(),
                min,
                max,
            });
        }
        let (low, high) = (given.min.map(ratio), given.max.map(ratio));
        Ok(match self.expect {
            Effect::Saving(_) => Range {
                min: high,
                max: low,
            },
            _ => Range {
                min: low,
                max: high,
            },
        })
    }

    /// Judges the claim by a comparison of its cells: base the baseline, head the treated.
    ///
    /// # Errors
    /// As [`Claim::ratio_range`].
    pub fn judge(&self, measured: &Comparison) -> Result<ClaimVerdict, ClaimError> {
        let claimed = self.ratio_range()?;
        let mut verdict = ClaimVerdict {
            outcome: Outcome::CannotTell,
            ratio: measured.ratio,
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
        let seen = format!(
            "treated ÷ baseline lies between {:.4} and {:.4}",
            interval.lo, interval.hi
        );
        let range = match (claimed.min, claimed.max) {
            (Some(min), Some(max)) => format!("{min:.4} to {max:.4}"),
            (Some(min), None) => format!("at least {min:.4}"),
            (None, max) => format!("at most {:.4}", max.unwrap_or(f64::INFINITY)),
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
                Outcome::CannotTell,
                format!("{seen}, partly in and partly out of the claimed {range}; add blocks"),
            )
        };
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Block, Direction, Kind, Metric, Options, compare};

    fn claim(expect: Effect) -> Claim {
        Claim {
            statement: "AMP saves memory".to_owned(),
            source: "an article".to_owned(),
            metric: "peak_allocated_bytes".to_owned(),
            baseline: "fp32".to_owned(),
            treated: "amp-fp16".to_owned(),
            expect,
        }
    }

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
            margin: 0.01,
        };
        let measured = compare(&metric, &Options::default()).unwrap();
        let verdict = claim(expect).judge(&measured).unwrap();
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
            Outcome::CannotTell,
        );
        check(Effect::Increase(range(0.0, 0.6)), &noisy, Outcome::Holds);
        check(Effect::Ratio(range(2.0, None)), &noisy, Outcome::Refuted);
        check(
            Effect::Ratio(range(0.0, 2.0)),
            &noisy[..1],
            Outcome::CannotTell,
        );
    }

    #[test]
    fn meaningless_ranges_are_named() {
        let error = |expect| claim(expect).ratio_range().unwrap_err();
        assert!(matches!(
            error(Effect::Ratio(range(None, None))),
            ClaimError::Open { .. }
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

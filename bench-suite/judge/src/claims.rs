//! Does a measured interval bear out what somebody claimed?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::Interval;

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
        self.serialize(f)
    }
}

/// Relative rounding error allowed at the ends of a claimed range: 1 - 0.4 is not quite 0.6 in
/// binary, and an exact 0.6 must still meet it.
const ROUNDING: f64 = 1e-12;

impl Outcome {
    /// Holds the measured interval against the claimed one; both ends belong to the claim, and an
    /// end that is `None` is open.
    pub fn of(measured: Option<Interval>, min: Option<f64>, max: Option<f64>) -> Self {
        let Some(Interval { lo, hi }) = measured else {
            return Self::Inconclusive;
        };
        let low = min.map_or(f64::NEG_INFINITY, |min| min * (1.0 - ROUNDING));
        let high = max.map_or(f64::INFINITY, |max| max * (1.0 + ROUNDING));
        if lo >= low && hi <= high {
            Self::Holds
        } else if hi < low || lo > high {
            Self::Refuted
        } else {
            Self::Inconclusive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(measured: [f64; 2], (min, max): (Option<f64>, Option<f64>), outcome: Outcome) {
        let [lo, hi] = measured;
        assert_eq!(Outcome::of(Some(Interval { lo, hi }), min, max), outcome);
    }

    #[test]
    fn an_exact_value_meets_an_end_despite_rounding() {
        check([0.6; 2], (Some(0.5), Some(1.0 - 0.4)), Outcome::Holds);
        check([0.6; 2], (Some(1.0 - 0.4), Some(0.7)), Outcome::Holds);
        check([0.6; 2], (Some(0.61), Some(0.7)), Outcome::Refuted);
        check([0.6; 2], (None, Some(0.59)), Outcome::Refuted);
        check([0.6; 2], (Some(0.6), None), Outcome::Holds);
    }

    #[test]
    fn an_interval_across_an_end_is_inconclusive() {
        check([1.1, 1.3], (Some(1.2), Some(1.3)), Outcome::Inconclusive);
        check([1.1, 1.3], (Some(1.0), Some(1.6)), Outcome::Holds);
        check([1.1, 1.3], (Some(2.0), None), Outcome::Refuted);
        let none = Outcome::of(None, Some(0.0), None);
        assert_eq!(none, Outcome::Inconclusive);
    }
}

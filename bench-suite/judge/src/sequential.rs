//! Looking again after every block, with the price of looking paid.
//!
//! Whoever looks after every block and stops at the first p ≤ 0.02 is wrong far more
//! often than 2 % of the time. Here the error is a budget that every look spends a part
//! of (Lan and `DeMets` 1983): α(t) says how much may be spent when the fraction t of the
//! blocks, or of the time, is used up, and a look at t gets α(t) less what is spent. The
//! sum of the parts bounds the error whatever the looks have in common (the union
//! bound), so it also holds for t statistics of three blocks, and for families of
//! metrics: at every look Benjamini–Hochberg runs at that look's part, and the false
//! share of all discoveries is at most the sum of the false shares at the looks.
//!
//! The interval of each look is widened in the same way, so that *same within the
//! noise threshold*, too, may be said at the first look that shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, Metric, Verdict};
use crate::dist::{normal_critical, normal_two_sided};
use crate::family::{FamilyError, FamilyOptions, judge_all};

/// Blocks before the first look: with fewer, noise itself is hardly known.
pub const FIRST_LOOK: u32 = 3;

/// Whether to look after this many blocks: after 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, …, each a
/// fifth more than the one before. Looks that lie closer hardly differ from each other, and each
/// would cost a share of the error budget.
#[must_use]
pub fn is_look(blocks: u32) -> bool {
    let mut at = FIRST_LOOK;
    while at < blocks {
        at += at.div_ceil(5);
    }
    at == blocks
}

/// How the error budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// α ln(1 + (e − 1) t): nearly even, so that large effects end a session early.
    #[default]
    Pocock,
    /// 2 − 2 Φ(z / √t): next to nothing early, so that the last look loses little.
    OBrienFleming,
}

impl Spending {
    /// What may be spent up to fraction `t` of the budget, of `alpha` in all.
    #[must_use]
    pub fn spent(self, alpha: f64, t: f64) -> f64 {
        if t <= 0.0 {
            return 0.0;
        }
        let t = t.min(1.0);
        match self {
            Self::Pocock => alpha * ((std::f64::consts::E - 1.0) * t).ln_1p(),
            Self::OBrienFleming => normal_two_sided(normal_critical(alpha) / t.sqrt()),
        }
    }
}

/// The state between looks.
#[derive(Debug, Clone)]
pub struct Sequential {
    options: FamilyOptions,
    spending: Spending,
    /// Fraction of the budget at the look before.
    fraction: f64,
    decided: Vec<Option<Comparison>>,
}

/// What one look came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// One comparison a metric, in their order: for a decided metric the one that
    /// decided it, at whichever look that was.
    pub comparisons: Vec<Comparison>,
    /// Positions of the metrics that are still undecided.
    pub undecided: Vec<usize>,
    /// The part of the error budget that this look spent on *improved* and *regressed*.
    pub alpha_spent: f64,
}

impl Look {
    /// Is every metric decided, so that no further block is needed?
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.undecided.is_empty()
    }
}

/// A look that cannot be taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SequentialError {
    /// The fraction is not after the last look's, or above 1.
    #[error(
        "a look at {fraction} of the budget, expected more than the last look's {last} and \
         at most 1; the budget has to be fixed before the first look"
    )]
    Fraction {
        /// As given.
        fraction: f64,
        /// At the look before.
        last: f64,
    },
    /// Another number of metrics than before.
    #[error("{found} metrics, expected the same {expected} at every look")]
    Metrics {
        /// As given.
        found: usize,
        /// As in the first look.
        expected: usize,
    },
    /// A metric cannot be judged.
    #[error(transparent)]
    Family(#[from] FamilyError),
}

impl Sequential {
    /// For `metrics` metrics; `options.each.alpha` and 1 − `options.each.confidence` are
    /// what all looks together may spend.
    #[must_use]
    pub fn new(metrics: usize, spending: Spending, options: FamilyOptions) -> Self {
        Self {
            options,
            spending,
            fraction: 0.0,
            decided: vec![None; metrics],
        }
    }

    /// Looks at all blocks so far. `fraction`: how much of the budget is used up, by
    /// blocks or by time; it must not depend on what was measured. `metrics`: all of
    /// them, decided or not, each time in the same order.
    ///
    /// # Errors
    /// [`SequentialError`]; the state is then as before.
    pub fn look(&mut self, fraction: f64, metrics: &[Metric]) -> Result<Look, SequentialError> {
        if !(fraction > self.fraction && fraction <= 1.0) {
            return Err(SequentialError::Fraction {
                fraction,
                last: self.fraction,
            });
        }
        if metrics.len() != self.decided.len() {
            return Err(SequentialError::Metrics {
                found: metrics.len(),
                expected: self.decided.len(),
            });
        }
        let part = |alpha: f64| {
            let part =
                self.spending.spent(alpha, fraction) - self.spending.spent(alpha, self.fraction);
            part.max(f64::MIN_POSITIVE)
        };
        let mut options = self.options;
        options.each.alpha = part(self.options.each.alpha);
        let miss = part(1.0 - self.options.each.confidence);
        // 1 - miss must stay below 1 for the interval to have an end.
        options.each.confidence = (1.0 - miss).min(1.0 - f64::EPSILON);
        let judged = judge_all(metrics, &options)?;
        self.fraction = fraction;
        for (kept, new) in self.decided.iter_mut().zip(&judged) {
            if kept.is_none() && new.verdict != Verdict::Inconclusive {
                *kept = Some(new.clone());
            }
        }
        Ok(Look {
            undecided: (0..judged.len())
                .filter(|&i| self.decided[i].is_none())
                .collect(),
            comparisons: self
                .decided
                .iter()
                .zip(judged)
                .map(|(kept, new)| kept.clone().unwrap_or(new))
                .collect(),
            alpha_spent: options.each.alpha,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Block, Direction, Kind};

    fn metric(pairs: &[(f64, f64)]) -> Metric {
        Metric {
            blocks: pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect(),
            direction: Direction::LowerIsBetter,
            kind: Kind::TimeLike,
            threshold: 0.01,
        }
    }

    #[test]
    fn both_spendings_end_at_alpha_and_never_fall() {
        for spending in [Spending::Pocock, Spending::OBrienFleming] {
            assert!((spending.spent(0.02, 1.0) - 0.02).abs() < 1e-9);
            let steps: Vec<f64> = (0..=10)
                .map(|i| spending.spent(0.02, f64::from(i) / 10.0))
                .collect();
            assert!(steps.windows(2).all(|pair| pair[1] >= pair[0]), "{steps:?}");
        }
        // Lan and DeMets (1983): at half the information, alpha 0.05 has spent 0.00557.
        let half = Spending::OBrienFleming.spent(0.05, 0.5);
        assert!((half - 0.005_57).abs() < 1e-5, "{half}");
    }

    #[test]
    fn looks_grow_apart() {
        let looks: Vec<u32> = (0..=40).filter(|&blocks| is_look(blocks)).collect();
        assert_eq!(looks, [3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40]);
    }

    #[test]
    fn a_decision_stays_and_the_rest_goes_on() {
        let slow = [(1.0, 2.0), (1.01, 2.0), (1.0, 2.01), (1.0, 2.02)];
        let noisy = [(1.0, 1.1), (1.1, 1.0), (1.0, 1.2), (1.2, 1.0)];
        let options = FamilyOptions::default();
        let mut looks = Sequential::new(2, Spending::Pocock, options);
        let first = looks.look(0.4, &[metric(&slow), metric(&noisy)]).unwrap();
        assert_eq!(first.undecided, [1]);
        assert_eq!(first.comparisons[0].verdict, Verdict::Regressed);
        let second = looks.look(1.0, &[metric(&noisy), metric(&noisy)]).unwrap();
        assert_eq!(second.comparisons[0], first.comparisons[0]);
        assert!(!second.is_decided());
    }

    #[test]
    fn looks_out_of_order_are_refused_and_change_nothing() {
        let mut looks = Sequential::new(1, Spending::Pocock, FamilyOptions::default());
        let metrics = [metric(&[(1.0, 1.0), (1.0, 1.001)])];
        looks.look(0.5, &metrics).unwrap();
        for fraction in [0.5, 0.2, 1.5, f64::NAN] {
            let refused = looks.look(fraction, &metrics).unwrap_err();
            assert!(matches!(refused, SequentialError::Fraction { .. }));
        }
        let refused = looks.look(0.6, &[]).unwrap_err();
        assert!(matches!(refused, SequentialError::Metrics { .. }));
        looks.look(0.6, &metrics).unwrap();
    }
}

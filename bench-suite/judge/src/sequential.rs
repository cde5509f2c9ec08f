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
//! The interval of each look is made at that part, so that *unchanged*, too, may be said at the
//! first look that shows it.

use crate::compare::{Comparison, Measurement, Options, Verdict};
use crate::family::{FamilyError, judge_all};

/// Blocks before the first look: with fewer, noise itself is hardly known.
pub const FIRST_LOOK: u32 = 3;

/// Whether to look after this many blocks: after 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, …, each a
/// fifth more than the one before. Looks that lie closer hardly differ from each other, and each
/// would cost a share of the error budget.
pub fn is_look(blocks: u32) -> bool {
    let mut at = FIRST_LOOK;
    while at < blocks {
        at += at.div_ceil(5);
    }
    at == blocks
}

/// What may be spent of `alpha` up to fraction `t` of the budget, 0 to 1: Pocock's form,
/// α ln(1 + (e − 1) t), nearly even, so that large effects end a session early.
pub fn spent(alpha: f64, t: f64) -> f64 {
    alpha * ((std::f64::consts::E - 1.0) * t).ln_1p()
}

/// The state between looks.
#[derive(Debug, Clone)]
pub struct Sequential {
    options: Options,
    /// Fraction of the budget at the look before.
    fraction: f64,
    decided: Vec<Option<Comparison>>,
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
        fraction: f64,
        /// At the look before.
        last: f64,
    },
    /// A metric cannot be judged.
    #[error(transparent)]
    Family(#[from] FamilyError),
}

impl Sequential {
    /// For `metrics` metrics; `options.alpha` is what all looks together may spend.
    pub fn new(metrics: usize, options: Options) -> Self {
        Self {
            options,
            fraction: 0.0,
            decided: vec![None; metrics],
        }
    }

    /// Looks at all blocks so far. `fraction`: how much of the budget is used up, by
    /// blocks or by time; it must not depend on what was measured. `metrics`: all of
    /// them, decided or not, each time in the same order. Gives one comparison a metric, in
    /// their order: for a decided metric the one that decided it, at whichever look that was.
    ///
    /// # Errors
    /// [`SequentialError`]; the state is then as before.
    pub fn look(
        &mut self,
        fraction: f64,
        metrics: &[Measurement],
    ) -> Result<Vec<Comparison>, SequentialError> {
        if !(fraction > self.fraction && fraction <= 1.0) {
            return Err(SequentialError::Fraction {
                fraction,
                last: self.fraction,
            });
        }
        let part = |alpha: f64| {
            (spent(alpha, fraction) - spent(alpha, self.fraction)).max(f64::MIN_POSITIVE)
        };
        let options = Options {
            alpha: part(self.options.alpha),
        };
        let judged = judge_all(metrics, &options)?;
        self.fraction = fraction;
        Ok(self
            .decided
            .iter_mut()
            .zip(judged)
            .map(|(decided, new)| {
                if decided.is_none() && new.verdict != Verdict::Inconclusive {
                    *decided = Some(new.clone());
                }
                decided.clone().unwrap_or(new)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Block, Direction, Kind};

    fn metric(pairs: &[(f64, f64)]) -> Measurement {
        Measurement {
            blocks: pairs.iter().map(|&(b, h)| Block::pair(b, h)).collect(),
            direction: Direction::LowerIsBetter,
            kind: Kind::TimeLike,
            threshold: 0.01,
            between: None,
            metric: 0,
            past: None,
        }
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
        let mut looks = Sequential::new(2, Options::default());
        let first = looks.look(0.4, &[metric(&slow), metric(&noisy)]).unwrap();
        assert_eq!(first[0].verdict, Verdict::Regressed);
        assert_eq!(first[1].verdict, Verdict::Inconclusive);
        let second = looks.look(1.0, &[metric(&noisy), metric(&noisy)]).unwrap();
        assert_eq!(second[0], first[0]);
        assert_eq!(second[1].verdict, Verdict::Inconclusive);
    }

    #[test]
    fn looks_out_of_order_are_refused_and_change_nothing() {
        let mut looks = Sequential::new(1, Options::default());
        let metrics = [metric(&[(1.0, 1.0), (1.0, 1.001)])];
        looks.look(0.5, &metrics).unwrap();
        for fraction in [0.5, 0.2, 1.5, f64::NAN] {
            let refused = looks.look(fraction, &metrics).unwrap_err();
            assert!(matches!(refused, SequentialError::Fraction { .. }));
        }
        looks.look(0.6, &metrics).unwrap();
    }
}

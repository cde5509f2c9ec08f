//! The estimate on the log scale: mean of the blocks' log ratios and its standard error.

use super::types::{Interval, Options};
use crate::dist::{t_critical, t_two_sided};

/// Mean log ratio, with all that is needed for intervals and p at any level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Estimate {
    /// Mean of ln(head ÷ base) over the blocks.
    log_ratio: f64,
    /// Standard deviation of one block's log ratio; 0 where unknown.
    block_sd: f64,
    blocks: usize,
}

impl Estimate {
    /// From one ln(head ÷ base) per block; at least one block.
    pub(super) fn of(log_ratios: &[f64], options: &Options) -> Self {
        // Sorted, so that the order of blocks cannot matter even in the last bit.
        let mut sorted = log_ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        // A block's ratio holds two runs, each with a variance of its own.
        let floor = 2.0 * options.noise_floor.powi(2);
        Self {
            log_ratio: mean(&sorted),
            block_sd: variance(&sorted).max(floor).sqrt(),
            blocks: sorted.len(),
        }
    }

    /// The interval that misses with probability `alpha`; `None` if the noise is unknown.
    pub(super) fn interval(&self, alpha: f64) -> Option<Interval> {
        let df = degrees_of_freedom(self.blocks)?;
        let half = t_critical(df, alpha) * self.standard_error(self.blocks);
        Some(Interval {
            lo: ratio(self.log_ratio - half),
            hi: ratio(self.log_ratio + half),
        })
    }

    /// The geometric mean of head ÷ base over the blocks.
    pub(super) fn ratio(&self) -> f64 {
        ratio(self.log_ratio)
    }

    /// p of no change; `None` if the noise is unknown.
    pub(super) fn p_value(&self) -> Option<f64> {
        let df = degrees_of_freedom(self.blocks)?;
        if self.log_ratio == 0.0 {
            return Some(1.0);
        }
        let t = self.log_ratio / self.standard_error(self.blocks);
        Some(t_two_sided(t, df))
    }

    /// Standard error of the mean of `blocks` blocks with the noise seen here.
    pub(super) fn standard_error(&self, blocks: usize) -> f64 {
        self.block_sd / (blocks as f64).sqrt()
    }

    /// Standard deviation of one run's log value, without the part that a block shares.
    pub(super) fn noise(&self) -> f64 {
        self.block_sd / std::f64::consts::SQRT_2
    }
}

/// What this many blocks leave; one block shows no noise.
pub(super) fn degrees_of_freedom(blocks: usize) -> Option<f64> {
    (blocks > 1).then_some(blocks as f64 - 1.0)
}

/// The ratio with this logarithm; the largest there is where it is larger, since infinity has no
/// place in JSON.
fn ratio(log: f64) -> f64 {
    log.exp().min(f64::MAX)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample variance (n − 1 below the line); 0 for fewer than two values, and exactly 0
/// where all are equal.
#[expect(
    clippy::float_cmp,
    reason = "equal values have no variance, not even by rounding"
)]
fn variance(values: &[f64]) -> f64 {
    let Some((first, rest)) = values.split_first() else {
        return 0.0;
    };
    if rest.iter().all(|value| value == first) {
        return 0.0;
    }
    let centre = mean(values);
    values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / rest.len() as f64
}

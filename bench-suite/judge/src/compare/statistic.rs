//! The estimate on the log scale: mean of the blocks' log ratios and its standard error.

use super::types::{Interval, Method, Options};
use crate::dist::{t_critical, t_two_sided};

/// Mean log ratio, with all that is needed for intervals and p at any level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate {
    /// Mean of ln(head ÷ base) over the blocks.
    pub(crate) log_ratio: f64,
    /// Standard deviation of one block's log ratio; 0 where unknown.
    block_sd: f64,
    /// Degrees of freedom of `block_sd`; 0 where unknown.
    df: f64,
    blocks: usize,
    moderated: bool,
}

impl Estimate {
    /// From one ln(head ÷ base) per block; at least one block.
    pub(crate) fn of(log_ratios: &[f64], options: &Options) -> Self {
        // Sorted, so that the order of blocks cannot matter even in the last bit.
        let mut sorted = log_ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let nu = sorted.len() as f64 - 1.0;
        // A block's ratio holds two runs, each with a variance of its own.
        let floor = 2.0 * options.noise_floor.powi(2);
        let observed = variance(&sorted).max(floor);
        let (block_variance, df) = match options.prior {
            Some(prior) => {
                let df = prior.degrees_of_freedom + nu;
                let squares = observed * nu + 2.0 * prior.variance * prior.degrees_of_freedom;
                ((squares / df).max(floor), df)
            }
            None => (observed, nu),
        };
        Self {
            log_ratio: mean(&sorted),
            block_sd: block_variance.sqrt(),
            df,
            blocks: sorted.len(),
            moderated: options.prior.is_some(),
        }
    }

    /// The interval that misses with probability `alpha`; `None` if the noise is unknown.
    pub(crate) fn interval(&self, alpha: f64) -> Option<Interval> {
        let half = self.half_width(alpha)?;
        Some(Interval {
            lo: ratio(self.log_ratio - half),
            hi: ratio(self.log_ratio + half),
        })
    }

    /// The geometric mean of head ÷ base over the blocks.
    pub(super) fn ratio(&self) -> f64 {
        ratio(self.log_ratio)
    }

    /// Half the width of the interval, in log ratio.
    fn half_width(&self, alpha: f64) -> Option<f64> {
        (self.df > 0.0).then(|| t_critical(self.df, alpha) * self.standard_error(self.blocks))
    }

    /// p of no change; `None` if the noise is unknown.
    pub(crate) fn p_value(&self) -> Option<f64> {
        if self.df <= 0.0 {
            return None;
        }
        if self.log_ratio == 0.0 {
            return Some(1.0);
        }
        let t = self.log_ratio / self.standard_error(self.blocks);
        Some(t_two_sided(t, self.df))
    }

    /// Standard error of the mean of `blocks` blocks with the noise seen here.
    pub(super) fn standard_error(&self, blocks: usize) -> f64 {
        self.block_sd / (blocks as f64).sqrt()
    }

    /// Degrees of freedom with `blocks` blocks; a prior's own do not grow.
    pub(super) fn df_with(&self, blocks: usize) -> f64 {
        self.df + blocks as f64 - self.blocks as f64
    }

    pub(crate) fn method(&self) -> Method {
        if self.df <= 0.0 {
            Method::None
        } else if self.moderated {
            Method::ModeratedPairedT
        } else {
            Method::PairedT
        }
    }

    /// Standard deviation of one run's log value, without the part that a block shares.
    pub(super) fn noise(&self) -> f64 {
        self.block_sd / std::f64::consts::SQRT_2
    }
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

//! What this many blocks could have shown, and how many it would take.

use super::statistic::{Estimate, degrees_of_freedom};
use super::types::Options;
use crate::dist::t_critical;

/// More blocks than anybody runs.
const MOST_BLOCKS: usize = 10_000;

/// The relative increase that `blocks` blocks of this noise detect at
/// [`Options::alpha`] with probability [`Options::power`]: the critical value plus the
/// quantile of t at that power, in standard errors (Cohen 1988 gives the normal form).
pub(super) fn detectable(estimate: &Estimate, blocks: usize, options: &Options) -> Option<f64> {
    let df = degrees_of_freedom(blocks)?;
    // One-sided quantile at `power`; below one half it would count against the change.
    let slack = t_critical(df, (2.0 * (1.0 - options.power)).min(1.0));
    let log_change = (t_critical(df, options.alpha) + slack) * estimate.standard_error(blocks);
    let change = log_change.exp_m1();
    change.is_finite().then_some(change)
}

/// The fewest blocks whose minimum detectable change is at most `threshold`.
pub(super) fn blocks_needed(
    estimate: &Estimate,
    threshold: f64,
    options: &Options,
) -> Option<usize> {
    let enough =
        |blocks: usize| detectable(estimate, blocks, options).is_some_and(|c| c <= threshold);
    // It falls with every block, so halving the range finds the first.
    let (mut lo, mut hi) = (2, MOST_BLOCKS);
    if threshold <= 0.0 || !enough(hi) {
        return None;
    }
    while lo < hi {
        let mid = usize::midpoint(lo, hi);
        if enough(mid) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    Some(lo)
}

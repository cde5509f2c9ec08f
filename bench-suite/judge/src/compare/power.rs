//! What this many blocks could have shown, and how many it would take.

use super::evidence::Evidence;
use super::types::{Method, POWER};
use crate::dist::{normal_critical, t_critical};

/// More blocks than anybody runs.
const MOST_BLOCKS: usize = 10_000;

/// The increase of the log ratio that sessions with this many blocks and this noise call a change
/// at `alpha` with probability [`POWER`].
///
/// Half the interval at `alpha` is what these blocks themselves would just have called a change.
/// Another session errs in its mean, and its interval is wider or narrower by chance; the change
/// has to outdo both so often.
pub(super) fn detectable(evidence: &Evidence, alpha: f64) -> f64 {
    let (lo, hi) = evidence.interval(alpha);
    (hi - lo) / 2.0 * margin(evidence.degrees_of_freedom(), alpha)
}

/// How many times half the interval. The noise of few blocks looks smaller than it is more often
/// than not: the median of χ² lies below its mean.
fn margin(df: f64, alpha: f64) -> f64 {
    let t = t_critical(df, alpha);
    // One-sided quantile.
    let z = normal_critical(2.0 * (1.0 - POWER));
    let seen = 1.0 + 1.0 / (4.0 * df);
    seen * (1.0 + z * (1.0 / (t * t) + 1.0 / (2.0 * df)).sqrt())
}

/// The fewest blocks that bring `detectable`, what these blocks detect, down to `threshold`; both
/// as logarithms.
pub(super) fn blocks_needed(
    evidence: &Evidence,
    detectable: f64,
    threshold: f64,
    alpha: f64,
) -> Option<usize> {
    // More blocks do not bring sessions closer.
    if evidence.method() == Method::BetweenSessions {
        return None;
    }
    let of_each = evidence.degrees_of_freedom() / (evidence.blocks() as f64 - 1.0);
    let relative = |blocks: usize| {
        let df = of_each * (blocks as f64 - 1.0);
        t_critical(df, alpha) * margin(df, alpha) / (blocks as f64).sqrt()
    };
    let of_these = relative(evidence.blocks());
    let enough = |blocks| detectable * relative(blocks) <= threshold * of_these;
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

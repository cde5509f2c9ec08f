//! What nobody can beat: the recall of one who knows level and noise beforehand.
//!
//! For normal noise of known standard deviation the best test of the last k points for a
//! shift is their mean (Neyman and Pearson 1933), two-sided because a change may go either
//! way. It spends the whole rate of false alarms on this one question: where the change
//! sits, how large the noise is and what the level was, a detector must find out itself.

use judge::dist::{normal_critical, normal_two_sided};

/// The most that a series of 100 points may alarm without a change.
const FALSE_ALARMS: f64 = 0.04;

/// Recall in percent of a drop by 5 % after `fresh` points, in normal noise of this size.
pub(crate) fn known_noise(cv: f64, fresh: usize) -> f64 {
    let shift = 0.95_f64.ln().abs() / cv * (fresh as f64).sqrt();
    // P(Z ≥ z) from the two-sided tail.
    let upper = |z: f64| {
        let tail = normal_two_sided(z) / 2.0;
        if z < 0.0 { 1.0 - tail } else { tail }
    };
    let critical = normal_critical(FALSE_ALARMS);
    100.0 * (upper(critical - shift) + upper(critical + shift))
}

/// The same for one point of noise drawn from these pools, each in turn, by who knows the
/// pool: a value counts as low if at most so many values of the pool are as low.
pub(crate) fn known_pools(pools: &[Vec<f64>]) -> f64 {
    let each = pools.iter().map(|pool| {
        let mut sorted = pool.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let low = |value: f64| {
            let as_low = sorted.partition_point(|&other| other <= value) as f64;
            as_low <= FALSE_ALARMS / 2.0 * n
        };
        let found = pool.iter().filter(|&&value| low(value + 0.95_f64.ln()));
        found.count() as f64 / n
    });
    100.0 * each.sum::<f64>() / pools.len().max(1) as f64
}

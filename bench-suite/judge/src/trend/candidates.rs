//! Where changes may be: an optimal partition of the normal scores.
//!
//! Values are replaced by the normal quantiles of their ranks, which keeps steps and
//! bounds every wild point, and the scores are cut into levels so that squared error
//! plus a price for every level is smallest (Jackson et al. 2005; the price after Yao
//! 1988). The price is low: what is proposed here still has to pass a test.

use super::constants::{MIN_SEGMENT, PRICE};
use super::robust::normal_scores;
use super::series::Series;

/// Most places that are tried as starts; in longer series a grid of them, later moved to
/// the best place nearby.
const MOST_PLACES: usize = 4000;

/// First points of the levels after the first in `from..to`, ascending, each level of at least
/// [`MIN_SEGMENT`] points.
pub(super) fn candidates(series: &Series, from: usize, to: usize) -> Vec<usize> {
    let n = to - from;
    let scores = normal_scores(&series.y[from..to]);
    let mut sums = vec![0.0; n + 1];
    for (i, score) in scores.iter().enumerate() {
        sums[i + 1] = sums[i] + score;
    }
    let price = PRICE * (n as f64).ln() * step_variance(&scores);
    let stride = series.places.div_ceil(MOST_PLACES).max(1);
    let mut edges = vec![0];
    edges.extend(
        (MIN_SEGMENT..=n.saturating_sub(MIN_SEGMENT))
            .filter(|&i| series.may_start[from + i])
            .step_by(stride),
    );
    edges.push(n);
    // best[e]: lowest cost of the points before edges[e], less the sum of all squares.
    let mut best = vec![f64::INFINITY; edges.len()];
    let mut previous = vec![0; edges.len()];
    best[0] = 0.0;
    for e in 1..edges.len() {
        let end = edges[e];
        for s in 0..e {
            let points = end - edges[s];
            if points < MIN_SEGMENT {
                break;
            }
            let sum = sums[end] - sums[edges[s]];
            let cost = best[s] + price - sum * sum / points as f64;
            if cost < best[e] {
                best[e] = cost;
                previous[e] = s;
            }
        }
    }
    let mut starts = Vec::new();
    let mut e = edges.len() - 1;
    while previous[e] > 0 {
        e = previous[e];
        starts.push(from + edges[e]);
    }
    starts.reverse();
    starts
}

/// Half the mean square of steps from point to point, which levels hardly touch, with
/// the largest one in twenty set aside.
fn step_variance(scores: &[f64]) -> f64 {
    let mut squares: Vec<f64> = scores
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).powi(2))
        .collect();
    squares.sort_by(f64::total_cmp);
    let kept = &squares[..squares.len() - squares.len() / 20];
    let mean = kept.iter().sum::<f64>() / kept.len().max(1) as f64;
    (mean / 2.0).max(1e-9)
}

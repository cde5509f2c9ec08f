//! Levels, scales and autocorrelation that a few wild points cannot move.

use super::constants::{CLIP, SOME};
use crate::dist::normal_critical;

/// MAD to standard deviation for normal noise.
const MAD_TO_SD: f64 = 1.482_602_218_505_602;
/// Smallest scale relative to the level: below it values are equal but for rounding.
const ROUNDING: f64 = 1e-12;

/// Largest autocorrelation that is believed: a hundred points then tell as much as one and a half, and
/// beyond it nothing could ever be told.
pub(super) const MOST_RHO: f64 = 0.97;

/// Median; NaN for an empty slice.
pub(super) fn median(values: &[f64]) -> f64 {
    crate::median(values.iter().copied()).unwrap_or(f64::NAN)
}

/// Distances from the median.
pub(super) fn residuals(values: &[f64]) -> impl Iterator<Item = f64> {
    let centre = median(values);
    values.iter().map(move |value| value - centre)
}

/// A level and what its uncertainty is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Huber's M-estimate of location.
    pub(super) centre: f64,
    /// Standard deviation of one point's influence on `centre`.
    pub(super) sd: f64,
    pub(super) n: usize,
}

/// The scale of residuals: MAD, or where more than half are equal, what a Winsorized
/// standard deviation finds.
pub(super) fn scale(residuals: &[f64], level: f64) -> f64 {
    let mut work: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    let mad = MAD_TO_SD * median(&work);
    let rounding = rounding(level);
    if mad > rounding {
        return mad;
    }
    // At most one in twenty is set aside: quantized values vary in the rest.
    work.sort_by(f64::total_cmp);
    let kept = &work[..work.len() - work.len() / 20];
    let mean_square = kept.iter().map(|r| r * r).sum::<f64>() / kept.len().max(1) as f64;
    mean_square.sqrt().max(rounding)
}

/// What a difference between values around this level may be without meaning anything.
pub(super) fn rounding(level: f64) -> f64 {
    ROUNDING * level.abs().max(f64::MIN_POSITIVE)
}

/// Huber's location with the scale held fixed, from the median on.
pub(super) fn level(values: &[f64], scale: f64) -> Level {
    let n = values.len();
    let mut centre = median(values);
    let bound = CLIP * scale;
    let (mut inside, mut squares) = (n as f64, 0.0);
    for _ in 0..30 {
        let (mut sum, mut count) = (0.0, 0.0);
        squares = 0.0;
        for value in values {
            let residual = (value - centre).clamp(-bound, bound);
            sum += residual;
            squares += residual * residual;
            if (value - centre).abs() < bound {
                count += 1.0;
            }
        }
        inside = f64::max(count, 1.0);
        let step = sum / inside;
        centre += step;
        if step.abs() <= 1e-6 * scale {
            break;
        }
    }
    let df = (n as f64 - 1.0).max(1.0);
    let slope = inside / n.max(1) as f64;
    Level {
        centre,
        sd: (squares / df).sqrt() / slope,
        n,
    }
}

/// Autocorrelation at lag 1, from the spread of differences over one and over two steps
/// that stay within a group: for AR(1) their variances are as 1 to 1 + ρ, whatever the
/// levels do (Chakar, Lebarbier, Lévy-Leduc and Robin 2017; there with medians, here
/// with clipped squares, which scatter less). `None` with fewer than ten differences, and where the
/// noise goes in waves: then it is above 1, which no AR(1) noise has.
pub(super) fn rho_from_differences(
    values: &[f64],
    same_group: impl Fn(usize, usize) -> bool,
) -> Option<f64> {
    let spread = |lag: usize| {
        let differences: Vec<f64> = (lag..values.len())
            .filter(|&i| same_group(i - lag, i))
            .map(|i| values[i] - values[i - lag])
            .collect();
        if differences.len() < SOME {
            return None;
        }
        let bound = CLIP * scale(&differences, 0.0);
        let squares: f64 = differences
            .iter()
            .map(|d| d.clamp(-bound, bound).powi(2))
            .sum();
        Some(squares / differences.len() as f64)
    };
    let (one, two) = (spread(1)?, spread(2)?);
    (one > 0.0)
        .then(|| two / one - 1.0)
        .filter(|rho| *rho < 1.0)
}

/// Lag-1 autocorrelation of residuals, clipped at [`CLIP`] scales; 0 where there is
/// nothing to see.
pub(super) fn rho_from_residuals(residuals: &[f64], scale: f64) -> f64 {
    let bound = CLIP * scale;
    let clipped: Vec<f64> = residuals.iter().map(|r| r.clamp(-bound, bound)).collect();
    let squares: f64 = clipped.iter().map(|r| r * r).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    clipped
        .windows(2)
        .map(|pair| pair[0] * pair[1])
        .sum::<f64>()
        / squares
}

/// n × variance of the mean of n points of AR(1) noise, in units of one point's variance:
/// 1 + 2 Σ (1 − j/n) ρ^j.
pub(super) fn inflation(n: usize, rho: f64) -> f64 {
    if n == 0 || rho <= 0.0 {
        return 1.0;
    }
    let count = n as f64;
    let odds = rho / (1.0 - rho);
    1.0 + 2.0 * odds - 2.0 * odds * (1.0 - rho.powf(count)) / (count * (1.0 - rho))
}

/// The standard normal's quantile: what a value is worth whose rank is at this share.
pub(super) fn normal_score(share: f64) -> f64 {
    if share < 0.5 {
        -normal_critical(2.0 * share)
    } else {
        normal_critical(2.0 * (1.0 - share))
    }
}

/// Normal quantiles of the ranks; equal values share the middle of their ranks.
#[expect(clippy::float_cmp, reason = "tied values are those that are equal")]
pub(super) fn normal_scores(y: &[f64]) -> Vec<f64> {
    let n = y.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| y[a].total_cmp(&y[b]));
    let mut scores = vec![0.0; n];
    for tied in order.chunk_by(|&a, &b| y[a] == y[b]) {
        let before = order.partition_point(|&i| y[i] < y[tied[0]]) as f64;
        let quantile = (before + tied.len() as f64 / 2.0) / n as f64;
        let score = normal_score(quantile);
        for &i in tied {
            scores[i] = score;
        }
    }
    scores
}

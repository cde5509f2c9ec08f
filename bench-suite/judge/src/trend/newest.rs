//! Did the last runs change something? One to four newest points as a new level.

use super::history::Change;
use super::robust;
use super::series::Series;
use super::{MIN_SEGMENT, TrendOptions};
use crate::dist::t_two_sided;

/// Fewest points of the level that the newest points are held against.
const MIN_BASELINE: usize = 10;
/// Points at the end of that level whose noise must not be exceeded by chance either.
const RECENT: usize = 30;
/// Tails of single points are taken to be those of Student's t with so many degrees of
/// freedom: with 4 one point in 200 lies beyond 5.6 scales.
const TAIL_DF: f64 = 4.0;
/// A single point is news only if at most this share of the earlier points lies as far
/// out on its side: where spikes are common, one more is none.
const MOST_AS_FAR: f64 = 0.025;
/// As far out: at least this share of the distance.
const AS_FAR: f64 = 0.9;
/// Two and more points: each counts for at most so many scales, so that one spike among
/// them cannot pass for a level.
const MOST_SCALES: f64 = 4.0;
/// Of two points, each must lie out by so many scales.
const LEAST_OF_TWO: f64 = 2.0;
/// Two and more points are tried at three lengths, with tails that a few clipped points
/// do not have from the normal distribution: p is multiplied by this.
const PRICE: f64 = 10.0;

/// The most significant change among the newest points, after the level from `from` on.
pub(super) fn change(series: &Series, from: usize, options: &TrendOptions) -> Option<Change> {
    (1..MIN_SEGMENT)
        .filter_map(|fresh| test(series, from, fresh))
        .filter(|change| change.p <= options.alpha_newest)
        .min_by(|a, b| a.p.total_cmp(&b.p))
}

fn test(series: &Series, from: usize, fresh: usize) -> Option<Change> {
    let start = series.len().checked_sub(fresh)?;
    if start < from + MIN_BASELINE || !series.may_start[start] {
        return None;
    }
    let (old, new) = (&series.y[from..start], &series.y[start..]);
    let residuals: Vec<f64> = robust::residuals(old).collect();
    let scale = robust::scale(&residuals, old[0]);
    let before = robust::level(old, scale);
    let recent = &residuals[residuals.len().saturating_sub(RECENT)..];
    let spread = before.sd.max(robust::scale(recent, old[0]));
    let rho = series.rho(from, start, &[]);
    let (points, count) = (old.len() as f64, fresh as f64);
    let before_variance = robust::inflation(old.len(), rho) / points;
    let after_variance = robust::inflation(fresh, rho) / count;
    let error = (before_variance + after_variance).sqrt();

    let step = new.iter().sum::<f64>() / count - before.centre;
    let out = |value: f64| step.signum() * (value - before.centre) / spread;
    let p = if step == 0.0 {
        1.0
    } else if fresh == 1 {
        let as_far = old
            .iter()
            .filter(|&&value| out(value) >= AS_FAR * out(new[0]))
            .count();
        if as_far as f64 > MOST_AS_FAR * (points + 1.0) - 1.0 && as_far > 0 {
            1.0
        } else {
            t_two_sided(out(new[0]) / error, TAIL_DF)
        }
    } else {
        let least = new.iter().map(|&v| out(v)).fold(f64::INFINITY, f64::min);
        if fresh == 2 && least < LEAST_OF_TWO {
            1.0
        } else {
            let clipped = new.iter().map(|&v| out(v).clamp(-MOST_SCALES, MOST_SCALES));
            let mean = clipped.sum::<f64>() / count;
            PRICE * t_two_sided(mean / error, points.min(RECENT as f64))
        }
    };
    Some(Change {
        start,
        before: before.centre,
        after: robust::level(new, scale).centre,
        before_se: spread * before_variance.sqrt(),
        after_se: spread * after_variance.sqrt(),
        df: points - 1.0,
        p: p.min(1.0),
    })
}

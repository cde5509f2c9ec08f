//! Did the last runs change something? The newest points against the level before them.
//!
//! Two kinds of evidence, because neither does alone: ranks among the earlier points promise
//! their error rate whatever the noise looks like, but a hundred points say nothing about
//! chances below one in a hundred; distances in units of the noise tell more, but promise
//! only as much as their model holds.

use super::TrendOptions;
use super::history::Change;
use super::robust::{self, TAIL_DF, normal_score};
use super::series::Series;
use crate::dist::t_two_sided;

/// Most points that are tried as a new level; longer ones are found inside the series. Every
/// length is tried, so that this is also the price of several points (Bonferroni).
const LONGEST: usize = 20;
/// Fewest points of the level that the newest points are held against.
const MIN_BASELINE: usize = 10;
/// Points at the end of that level whose noise counts where it is larger than that of all of them.
const RECENT: usize = 30;
/// From how many times the noise of the whole level on they alone are what to rank among: two
/// standard errors above 1, for that of a MAD of n points is 1.17 ÷ √n of it.
const LOUDER: f64 = 1.4;
/// p of a single point is multiplied by this, for two kinds of evidence are tried. They mostly
/// agree: together they alarm 1.1 times as often as ranks alone over all noises that
/// `cargo bench -p judge` draws, and 1.3 times in the worst of them. Bonferroni's 2 would find a
/// drop of 5 % in noise of 1.5 % after one point in 58 % of the series instead of 74.
const PRICE_OF_ONE: f64 = 1.3;
/// A point lies as far out as another from this share of its distance on: spikes vary in height.
const AS_FAR: f64 = 0.9;
/// A point counts for at most this normal score: with 3 recall after two new points in series of 25
/// falls from 85 to 63 %, without it one series in 15 with outliers alarms.
const MOST_SCORE: f64 = 4.0;
/// … and for at most so many units of noise: with 2.5 recall after two points on an H200 falls by
/// 4 points, with 4 skewed noise alarms more often.
const MOST_DISTANCE: f64 = 3.0;

/// The most significant change among the newest points, after the levels that start at `starts`.
pub(super) fn change(series: &Series, starts: &[usize], options: &TrendOptions) -> Option<Change> {
    let from = starts.last().copied().unwrap_or(0);
    (1..=LONGEST)
        .filter_map(|fresh| test(series, from, fresh, options.alpha_newest))
        .min_by(|a, b| a.p.total_cmp(&b.p))
}

/// The change that the last `fresh` points are, where its p is at most `alpha`.
fn test(series: &Series, from: usize, fresh: usize, alpha: f64) -> Option<Change> {
    let start = series.len().checked_sub(fresh)?;
    if start < from + MIN_BASELINE.max(2 * fresh) || !series.may_start[start] {
        return None;
    }
    let (old, new) = (&series.y[from..start], &series.y[start..]);
    let residuals: Vec<f64> = robust::residuals(old).collect();
    let scale = robust::scale(&residuals, old[0]);
    let before = robust::level(old, scale);
    let recent = &residuals[residuals.len().saturating_sub(RECENT)..];
    let spread = before.sd.max(robust::scale(recent, old[0]));
    let step = new.iter().sum::<f64>() / fresh as f64 - before.centre;
    if step == 0.0 {
        return None;
    }
    let out = |values: &[f64]| -> Vec<f64> {
        let distance = |value| step.signum() * (value - before.centre) / spread;
        values.iter().map(|&value| distance(value)).collect()
    };
    // Ranks among points that were quieter make too much of the noise there is now.
    let alike = if spread > LOUDER * before.sd {
        &old[old.len().saturating_sub(RECENT)..]
    } else {
        old
    };
    let evidence = Evidence {
        old: out(alike),
        new: out(new),
        nothing: robust::rounding(before.centre) / spread,
    };
    let variance = |points: usize, rho: f64| robust::inflation(points, rho) / points as f64;
    let p = |rho| {
        let error = (variance(old.len(), rho) + variance(fresh, rho)).sqrt();
        if fresh == 1 {
            evidence.of_one(error, alpha)
        } else {
            let df = (old.len() as f64 * (1.0 - rho) / (1.0 + rho)).max(2.0);
            evidence.of_several(error, df)
        }
    };
    // Autocorrelation only takes away; it is looked at where there is something to take.
    if p(0.0) > alpha {
        return None;
    }
    let rho = series.rho(from, start, &[]);
    let p = p(rho);
    (p <= alpha).then(|| Change {
        start,
        before: before.centre,
        after: robust::level(new, scale).centre,
        before_se: spread * variance(old.len(), rho).sqrt(),
        after_se: spread * variance(fresh, rho).sqrt(),
        df: old.len() as f64 - 1.0,
        p,
    })
}

/// Distances from the old level in units of the noise, above 0 on the side of the new one.
struct Evidence {
    old: Vec<f64>,
    new: Vec<f64>,
    /// Up to here a distance is rounding.
    nothing: f64,
}

impl Evidence {
    /// How far the farthest of the old points lies out on this side.
    fn farthest(&self) -> f64 {
        self.old.iter().copied().fold(self.nothing, f64::max)
    }

    /// p of a single point; `error` is the standard error of its distance.
    ///
    /// The model of the distances is believed only while no larger share of the old points lies as
    /// far out as `alpha` allows on one side: where spikes are common, one more is none.
    fn of_one(&self, error: f64, alpha: f64) -> f64 {
        let (far, places) = (self.new[0], self.old.len() as f64 + 1.0);
        let beyond = |distance: f64| self.old.iter().filter(|&&old| old >= distance).count() as f64;
        // As likely the farthest as each of the others; beyond them by a tail.
        let ranked = match beyond(far) {
            0.0 => 2.0 / places * (self.farthest() / far).powi(TAIL_DF),
            others => 2.0 * (others + 1.0) / places,
        };
        let modelled = if beyond(AS_FAR * far) > (alpha / 2.0 * places).floor() {
            1.0
        } else {
            t_two_sided(far / error, f64::from(TAIL_DF))
        };
        PRICE_OF_ONE * ranked.min(modelled)
    }

    /// p of several points; `error` is the standard error of their mean, with `df` degrees of
    /// freedom.
    fn of_several(&self, error: f64, df: f64) -> f64 {
        let count = self.new.len() as f64;
        let score = self.scores().into_iter().sum::<f64>() / count;
        let clipped = self
            .new
            .iter()
            .map(|v| v.clamp(-MOST_DISTANCE, MOST_DISTANCE));
        let distance = clipped.sum::<f64>() / count;
        let ranked = t_two_sided(score / error, df);
        let modelled = t_two_sided(distance / error, df);
        let price = LONGEST as f64;
        // Where spikes contaminate the ranks, distances tell more; but then ranks must agree.
        (price * ranked).min((price * modelled).max(ranked))
    }

    /// Normal scores of the new points by their rank among the old ones. Beyond the farthest
    /// of those a score grows with the distance.
    fn scores(&self) -> Vec<f64> {
        let mut sorted = self.old.clone();
        sorted.sort_by(f64::total_cmp);
        let (places, farthest) = (sorted.len() as f64 + 1.0, self.farthest());
        let score = |value: f64| {
            let below = sorted.partition_point(|&old| old < value) as f64;
            let not_above = sorted.partition_point(|&old| old <= value) as f64;
            let score = normal_score((f64::midpoint(below, not_above) + 0.5) / places);
            if value > farthest {
                (score * value / farthest).min(MOST_SCORE)
            } else {
                score
            }
        };
        self.new.iter().map(|&value| score(value)).collect()
    }
}

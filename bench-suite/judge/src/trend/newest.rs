//! Did the last runs change something? The newest points against the level before them.
//!
//! Two kinds of evidence, because neither does alone: ranks among the earlier points promise
//! their error rate whatever the noise looks like, but a hundred points say nothing about
//! chances below one in a hundred; distances in units of the noise tell more, but promise
//! only as much as their model holds.

use super::TrendOptions;
use super::history::Change;
use super::robust::{self, normal_score};
use super::series::Series;
use crate::dist::t_two_sided;

/// Most points that are tried as a new level; longer ones are found inside the series.
const LONGEST: usize = 28;
/// Beyond so many every fourth length will do, unless revisions say where a level may start.
const EVERY: usize = 16;
/// Fewest points of the level that the newest points are held against.
const MIN_BASELINE: usize = 10;
/// Points at the end of that level whose noise must not be exceeded by chance either.
const RECENT: usize = 30;

/// From how many times the noise of the whole level on they alone are what to rank among.
const LOUDER: f64 = 1.4;

/// p of a single point is multiplied by this: two kinds of evidence are tried.
const PRICE_OF_ONE: f64 = 1.3;
/// Beyond the earlier points, tails are taken to fall like those of Student's t with so
/// many degrees of freedom.
const TAIL_POWER: i32 = 3;
/// Tails of single points in units of the noise, likewise: with 4 one point in 200 lies
/// beyond 5.6 scales.
const TAIL_DF: f64 = 4.0;
/// That model is believed only while at most this share of the earlier points lies as far
/// out on the same side: where spikes are common, one more is none.
const MOST_AS_FAR: f64 = 0.01;
/// … and while at most that share of them lies beyond so many scales, where the model has 1.6 %.
const MOST_WILD: f64 = 0.03;
/// See [`MOST_WILD`].
const WILD: f64 = 4.0;
/// As far out: at least this share of the distance.
const AS_FAR: f64 = 0.9;

/// p of several points is multiplied by this: many lengths are tried, which overlap.
const PRICE_OF_SEVERAL: f64 = 20.0;
/// A point counts for at most this score, so that one spike cannot pass for a level.
const MOST_SCORE: f64 = 4.0;
/// Of two points each must have this score.
const LEAST_OF_TWO: f64 = 1.0;
/// … and for at most so many scales, where distances are counted.
const MOST_SCALES: f64 = 3.0;

/// Fewer standard errors than this are no change at any price.
const LEAST_ERRORS: f64 = 2.0;

/// The most significant change among the newest points, after the level from `from` on.
pub(super) fn change(series: &Series, from: usize, options: &TrendOptions) -> Option<Change> {
    (1..=LONGEST)
        .filter(|fresh| *fresh <= EVERY || fresh % 4 == 0 || series.repeats)
        .filter_map(|fresh| test(series, from, fresh))
        .filter(|change| change.p <= options.alpha_newest)
        .min_by(|a, b| a.p.total_cmp(&b.p))
}

fn test(series: &Series, from: usize, fresh: usize) -> Option<Change> {
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
    let (points, count) = (old.len() as f64, fresh as f64);
    let step = new.iter().sum::<f64>() / count - before.centre;
    if step == 0.0 {
        return None;
    }
    let out = |values: &[f64]| -> Vec<f64> {
        let distances = values
            .iter()
            .map(|value| step.signum() * (value - before.centre) / spread);
        distances.collect()
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
    let error = |rho: f64| {
        let before = robust::inflation(old.len(), rho) / points;
        (before, robust::inflation(fresh, rho) / count)
    };
    let (before_variance, after_variance, p) = if fresh == 1 {
        let (before, after) = error(series.rho(from, start, &[]));
        (before, after, evidence.of_one((before + after).sqrt()))
    } else {
        // Autocorrelation only takes away; it is looked at where there is something to take.
        let (ranks, distance) = evidence.of_several();
        let (before, after) = error(0.0);
        if ranks.max(distance) < LEAST_ERRORS * (before + after).sqrt() {
            return None;
        }
        let rho = series.rho(from, start, &[]);
        let (before, after) = error(rho);
        let error = (before + after).sqrt();
        let df = (points * (1.0 - rho) / (1.0 + rho)).max(2.0);
        let ranked = t_two_sided(ranks / error, df);
        let modelled = t_two_sided(distance / error, df.min(RECENT as f64));
        // Where spikes contaminate the ranks, distances tell more; but then ranks must agree.
        let p = (PRICE_OF_SEVERAL * ranked).min((PRICE_OF_SEVERAL * modelled).max(ranked));
        (before, after, p)
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

    /// Old points at least so far out.
    fn as_far(&self, distance: f64) -> f64 {
        self.old.iter().filter(|&&old| old >= distance).count() as f64
    }

    /// p of a single point; `error` is the standard error of its distance.
    fn of_one(&self, error: f64) -> f64 {
        let (far, places) = (self.new[0], self.old.len() as f64 + 1.0);
        // As likely the farthest as each of the others; beyond them by a tail.
        let ranked = match self.as_far(far) {
            0.0 => 2.0 / places * (self.farthest() / far).powi(TAIL_POWER),
            others => 2.0 * (others + 1.0) / places,
        };
        let wild = self.old.iter().filter(|old| old.abs() > WILD).count() as f64;
        let modelled = if self.as_far(AS_FAR * far) > (MOST_AS_FAR * places).floor()
            || wild > MOST_WILD * places
        {
            1.0
        } else {
            t_two_sided(far / error, TAIL_DF)
        };
        PRICE_OF_ONE * ranked.min(modelled)
    }

    /// The mean score of several points by their ranks, and their mean distance.
    fn of_several(&self) -> (f64, f64) {
        let count = self.new.len() as f64;
        let scores = self.scores();
        if self.new.len() == 2 && scores.iter().any(|&score| score < LEAST_OF_TWO) {
            return (0.0, 0.0);
        }
        let clipped = self.new.iter().map(|v| v.clamp(-MOST_SCALES, MOST_SCALES));
        let distance = clipped.sum::<f64>() / count;
        (scores.iter().sum::<f64>() / count, distance)
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

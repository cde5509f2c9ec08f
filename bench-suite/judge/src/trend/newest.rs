//! Did the last runs change something? The newest points against the level before them.
//!
//! Two kinds of evidence, because neither does alone: ranks among the earlier points promise
//! their error rate whatever the noise looks like, but a hundred points say nothing about
//! chances below one in a hundred; distances in units of the noise tell more, but promise
//! only as much as their model holds.

use std::ops::Range;

use super::constants::{
    ALPHA_LOUDER, CLIP, FEW, LONGEST, MIN_SEGMENT, MOST_DISTANCE, MOST_SCORE, PRICE_OF_ONE, RECENT,
    SOME, TAIL_DF, as_far, louder_than, noisier_than,
};
use super::history::Change;
use super::model::TrendOptions;
use super::noise;
use super::robust::{self, Level, normal_score};
use super::series::{Series, levels_of};
use crate::dist::t_two_sided;

/// The most significant change among the newest points, after the levels that start at `starts`.
pub(super) fn change(series: &Series, starts: &[usize], options: &TrendOptions) -> Option<Change> {
    let from = starts.last().copied().unwrap_or(0);
    // Shorter levels say less about the noise than their few points look like.
    let long = levels_of(0, from, starts).filter(|level| level.len() >= MIN_SEGMENT);
    let earlier: Vec<f64> = long
        .flat_map(|level| robust::residuals(&series.y[level]))
        .collect();
    let all = |louder_since: Option<usize>| -> Vec<Change> {
        let before = Before {
            starts,
            earlier: &earlier,
            louder_since,
        };
        (1..=LONGEST)
            .filter_map(|fresh| test(series, &before, fresh, options.alpha_newest))
            .collect()
    };
    let found = all(None);
    let start = strongest(&found)?.start;
    // Noise that grew before the change is what to hold it against.
    let louder = noise::louder_since(series, starts, ALPHA_LOUDER);
    let found = match louder {
        Some(since) if since + SOME <= start => all(Some(since)),
        _ => found,
    };
    // It began with the first of the points that lie on its side.
    let best = strongest(&found)?;
    let is_new = |y: &f64| (y - best.before).abs() > (y - best.after).abs();
    let earlier = found.iter().filter(|one| one.start <= best.start);
    earlier
        .filter(|one| series.y[one.start..best.start].iter().all(is_new))
        .min_by_key(|one| one.start)
        .cloned()
}

fn strongest(found: &[Change]) -> Option<&Change> {
    found.iter().min_by(|a, b| a.p.total_cmp(&b.p))
}

/// What the newest points are held against.
struct Before<'a> {
    /// Where levels start; the last one is the newest.
    starts: &'a [usize],
    /// The noise of the levels before that.
    earlier: &'a [f64],
    /// Since when the noise is larger than before.
    louder_since: Option<usize>,
}

/// The change that the last `fresh` points are, where its p is at most `alpha`.
fn test(series: &Series, before: &Before, fresh: usize, alpha: f64) -> Option<Change> {
    let Before {
        starts, earlier, ..
    } = *before;
    let from = starts.last().copied().unwrap_or(0);
    let start = series.len().checked_sub(fresh)?;
    let least = if earlier.len() < SOME {
        SOME.max(2 * fresh)
    } else {
        FEW.max(fresh)
    };
    // What is known of noise that grew lately is known from the points since.
    let known_from = before.louder_since.map_or(0, |since| since + SOME);
    if start < known_from.max(from + least) || !series.may_start[start] {
        return None;
    }
    let louder = before.louder_since.map(|since| start - since);
    let old = Baseline::of(series, from..start, earlier, louder);
    let new = &series.y[start..];
    let step = new.iter().sum::<f64>() / fresh as f64 - old.centre;
    if step == 0.0 {
        return None;
    }
    let variance = |points: usize, rho: f64| robust::inflation(points, rho) / points as f64;
    // A level of few points is not where it seems, and all new points err with it.
    let unsure = if old.is_pooled {
        1.0 + variance(old.n, 0.0)
    } else {
        1.0
    }
    .sqrt();
    let shorter = unsure * old.grew;
    let out = |distance: f64| step.signum() * distance / old.spread;
    let evidence = Evidence {
        old: old.alike(fresh).into_iter().map(out).collect(),
        new: new.iter().map(|y| out(y - old.centre) / shorter).collect(),
        nothing: robust::rounding(old.centre) / old.spread,
    };
    let p = |rho| {
        let share = |points: usize| variance(points, rho) / (unsure * unsure);
        let of_one = evidence.of_one((share(old.n) + share(1)).sqrt(), alpha);
        if fresh == 1 {
            return of_one;
        }
        let df = (old.known as f64 * (1.0 - rho) / (1.0 + rho)).max(2.0);
        let of_several = evidence.of_several([share(old.n), share(fresh)], df);
        // As unlikely as the nearest of them is by itself, all of them are at least; waves have so
        // many tries at it, and more of them last longer.
        if fresh < MIN_SEGMENT {
            of_several.min(fresh as f64 * of_one)
        } else {
            of_several
        }
    };
    // Autocorrelation only takes away; it is looked at where there is something to take.
    if p(0.0) > alpha {
        return None;
    }
    let rho = if old.is_pooled {
        series.rho(0, start, starts)
    } else {
        series.rho(from, start, &[])
    };
    let p = p(rho);
    (p <= alpha).then(|| Change {
        since: start,
        start,
        before: old.centre,
        after: robust::level(new, old.scale).centre,
        before_se: old.spread * variance(old.n, rho).sqrt(),
        after_se: old.spread * variance(fresh, rho).sqrt(),
        df: old.noise.len() as f64 - 1.0,
        p,
    })
}

/// The level that the newest points are held against.
struct Baseline {
    n: usize,
    centre: f64,
    /// Distances from the level; where it is short, after those of the levels before from theirs.
    noise: Vec<f64>,
    is_pooled: bool,
    scale: f64,
    /// How many of the last points to rank among: ranks among points that were quieter make too much of
    /// the noise there is now.
    recent: usize,
    /// How many points tell of the noise there is now.
    known: usize,
    /// The largest standard deviation, that of all the noise or that of late.
    spread: f64,
    /// How many times that the last few points scatter, where it is not one of them alone that does.
    grew: f64,
}

impl Baseline {
    /// Of its noise only the last `louder` points are like that of today, where that is known.
    fn of(series: &Series, level: Range<usize>, earlier: &[f64], louder: Option<usize>) -> Self {
        let old = &series.y[level];
        let is_pooled = old.len() < RECENT && earlier.len() >= SOME;
        let mut residuals: Vec<f64> = earlier.iter().copied().filter(|_| is_pooled).collect();
        let before = residuals.len();
        residuals.extend(robust::residuals(old));
        let scale = robust::scale(&residuals, old[0]);
        let Level { centre, sd, n } = robust::level(old, scale);
        let sd = if is_pooled {
            robust::level(&residuals, scale).sd
        } else {
            sd
        };
        let of_last = |points: usize| {
            let last = &residuals[residuals.len().saturating_sub(points)..];
            let scale = robust::scale(last, old[0]);
            (scale, scale.max(robust::level(last, scale).sd))
        };
        let ((lately, _), (last, _)) = (of_last(RECENT), of_last(SOME));
        let louder = louder.or((last > louder_than(SOME, 3.0) * sd).then_some(SOME));
        let (recent, spread) = match louder {
            Some(louder) => (louder, of_last(louder).1),
            None if lately > louder_than(RECENT, 2.0) * sd => (RECENT, lately),
            None => (residuals.len(), sd.max(lately)),
        };
        // One alone is a glitch; two are nights that scatter more than those before.
        let last = &residuals[residuals.len().saturating_sub(MIN_SEGMENT)..];
        let squares = last.iter().map(|r| (r / spread).powi(2)).sum::<f64>();
        let are_far = last.iter().filter(|r| r.abs() > CLIP * spread).count() > 1;
        let grew = if are_far {
            (squares / last.len() as f64).sqrt()
        } else {
            1.0
        };
        let mut noise = residuals;
        noise.truncate(before);
        noise.extend(old.iter().map(|y| y - centre));
        Self {
            n,
            centre,
            known: if are_far {
                MIN_SEGMENT
            } else {
                louder.unwrap_or(noise.len())
            },
            grew,
            noise,
            is_pooled,
            scale,
            recent,
            spread,
        }
    }
}

impl Baseline {
    /// What to rank among. One point may be a glitch as others were; several are none where those were rare.
    fn alike(&self, fresh: usize) -> Vec<f64> {
        let from = self.noise.len().saturating_sub(self.recent);
        let longest = if fresh > 1 { MIN_SEGMENT - 1 } else { 0 };
        let glitches = noise::glitches(&self.noise, self.scale, longest);
        let all = self.noise.iter().zip(glitches).skip(from);
        let alike = all.filter(|(_, glitch)| !glitch);
        alike.map(|(distance, _)| *distance).collect()
    }
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

    /// p of a single point, the nearest of the new ones; `error` is the standard error of its
    /// distance.
    ///
    /// The model of the distances is believed only while no larger share of the old points lies as
    /// far out, on either side, as `alpha` allows on one: where spikes are common, one more is none.
    fn of_one(&self, error: f64, alpha: f64) -> f64 {
        let far = self.new.iter().copied().fold(f64::INFINITY, f64::min);
        if far <= self.nothing {
            return 1.0;
        }
        let places = self.old.len() as f64 + 1.0;
        let beyond = |distance: f64| self.old.iter().filter(|&&old| old >= distance).count() as f64;
        // As likely the farthest as each of the others; beyond them by a tail.
        let ranked = match beyond(far) {
            0.0 => 2.0 / places * (self.farthest() / far).powi(TAIL_DF),
            others => 2.0 * (others + 1.0) / places,
        };
        let least = as_far() * far;
        let as_far = self.old.iter().filter(|old| old.abs() >= least);
        let is_usual = as_far.count() as f64 > (alpha / 2.0 * places).floor();
        let modelled = if is_usual {
            1.0
        } else {
            t_two_sided(far / error, f64::from(TAIL_DF))
        };
        PRICE_OF_ONE * ranked.min(modelled)
    }

    /// p of several points; `shares` are the variances of the old level and of their mean, in units of
    /// one point's, the old one's with `df` degrees of freedom.
    fn of_several(&self, shares: [f64; 2], df: f64) -> f64 {
        // A level has no points far out on the other side; noise that grew has them on both.
        let is_loud = self.new.iter().any(|distance| *distance < -CLIP);
        let p_of_mean = |values: &[f64]| p_of_mean(values, shares, df, is_loud);
        let ranked = p_of_mean(&self.scores());
        let clipped = self.new.iter();
        let clipped = clipped.map(|v| v.clamp(-MOST_DISTANCE, MOST_DISTANCE));
        let modelled = p_of_mean(&clipped.collect::<Vec<_>>());
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

/// p of the mean of several values, the standard deviation of which is 1 in the noise there was. As
/// many as a level has answer for their own where they scatter more; where noise may have grown and
/// they scatter much more, they alone do (Welch 1947).
fn p_of_mean(values: &[f64], [old, new]: [f64; 2], df: f64, is_loud: bool) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let variance = squares / (count - 1.0);
    // Two levels scatter about their mean as noise does, but step from one to the other once.
    let steps = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
    let but_one = steps.clone().sum::<f64>() - steps.fold(0.0, f64::max);
    let is_level = values.len() >= MIN_SEGMENT;
    let of_noise = if is_level {
        variance.min(but_one / 2.0 / (count - 2.0))
    } else {
        1.0
    };
    let grew = if is_loud { variance } else { of_noise };
    if grew.sqrt() <= noisier_than(values.len()) {
        let error = (old + of_noise.max(1.0) * new).sqrt();
        return t_two_sided(mean / error, df);
    }
    let own = variance * new;
    let welch = (old + own).powi(2) / (old.powi(2) / df + own.powi(2) / (count - 1.0));
    t_two_sided(mean / (old + own).sqrt(), welch)
}

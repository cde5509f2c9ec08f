//! Changes inside the series: candidates, the weakest dropped until all stand.

use super::candidates::candidates;
use super::constants::{A_YEAR, FEW, LONGEST, MIN_SEGMENT, PRICE_OF_RANKS, noisier_than};
use super::robust::{self, Level};
use super::series::{Series, levels_of};
use crate::dist::{normal_two_sided, t_two_sided};

/// A change of level, on the scale of [`Series::y`].
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// First point that has left the old level.
    pub(super) since: usize,
    /// First point of the new level: the same, where it is no slope.
    pub(super) start: usize,
    pub(super) before: f64,
    pub(super) after: f64,
    /// Standard errors of the two levels.
    pub(super) before_se: f64,
    pub(super) after_se: f64,
    pub(super) df: f64,
    pub(super) p: f64,
}

impl Change {
    pub(super) fn step(&self) -> f64 {
        self.after - self.before
    }

    /// How far a point of a slope or after it has moved.
    pub(super) fn moved(&self, place: usize) -> f64 {
        let points = (self.start + 1 - self.since) as f64;
        self.step() * ((place + 1).saturating_sub(self.since) as f64 / points).min(1.0)
    }

    pub(super) fn is_gradual(&self) -> bool {
        self.since < self.start
    }

    pub(super) fn se(&self) -> f64 {
        self.before_se.hypot(self.after_se)
    }
}

/// The changes inside the series, its newest points included or set aside, whichever shows more of
/// them: too few to be a level, they may hide the one that they end.
pub(super) fn changes_but_for_newest(series: &Series, alpha: f64) -> Vec<Change> {
    let whole = changes(series, alpha);
    if series.len() > A_YEAR {
        return whole;
    }
    let known = whole.last().map_or(0, |change| change.start);
    // A level that is cut late and does not stand is what they may hide.
    let late = series.len().saturating_sub(LONGEST).max(known + 1);
    let may_hide = |shorter: &Series| candidates(shorter, 0, shorter.len()).pop() >= Some(late);
    (1..MIN_SEGMENT.min(series.len()))
        .map(|aside| series.without_newest(aside))
        .filter(may_hide)
        // Bonferroni over the searches.
        .map(|shorter| changes(&shorter, alpha / (MIN_SEGMENT as f64 - 1.0)))
        .fold(whole, |best, other| {
            if other.len() > best.len() {
                other
            } else {
                best
            }
        })
}

/// The changes whose p, corrected for the number of places, is at most `alpha`.
pub(super) fn changes(series: &Series, alpha: f64) -> Vec<Change> {
    let n = series.len();
    if n < 2 * MIN_SEGMENT || series.places == 0 {
        return Vec::new();
    }
    let mut found = standing(series, candidates(series, 0, n), alpha);
    // A level far out flattens the scores of its neighbours: what stands is cut once more.
    loop {
        let starts: Vec<usize> = found.iter().map(|change| change.start).collect();
        let levels = levels_of(0, n, &starts).filter(|_| !starts.is_empty());
        let inner = levels.flat_map(|level| candidates(series, level.start, level.end));
        let mut more: Vec<usize> = inner.chain(starts.iter().copied()).collect();
        more.sort_unstable();
        let refined = standing(series, more, alpha);
        if refined.len() <= found.len() {
            return found;
        }
        found = refined;
    }
}

/// Those of the places that pass the tests together.
fn standing(series: &Series, mut starts: Vec<usize>, alpha: f64) -> Vec<Change> {
    let n = series.len();
    let mut tested = Vec::new();
    while !starts.is_empty() {
        let rho = series.rho(0, n, &starts);
        let around = |i: usize| series.around(&starts, i);
        tested = (0..starts.len())
            .map(|i| test(series, around(i), starts[i], rho))
            .collect();
        if let Some(weakest) = weakest(&tested, alpha) {
            starts.remove(weakest);
            tested.clear();
            continue;
        }
        if relocate(series, &mut starts) {
            continue;
        }
        // Ranks have their say once the places are right: a single point on the wrong side
        // takes much of what a few ranks can say.
        for (i, change) in tested.iter_mut().enumerate() {
            let (lo, hi) = series.around(&starts, i);
            let (left, right) = (&series.y[lo..starts[i]], &series.y[starts[i]..hi]);
            change.p = change
                .p
                .max(PRICE_OF_RANKS * ranks_p(left, right, rho))
                .min(1.0);
        }
        match weakest(&tested, alpha) {
            Some(weakest) => {
                starts.remove(weakest);
                tested.clear();
            }
            None => break,
        }
    }
    tested
}

/// The change with the largest p, where that is above `alpha`.
fn weakest(tested: &[Change], alpha: f64) -> Option<usize> {
    (0..tested.len())
        .max_by(|&a, &b| tested[a].p.total_cmp(&tested[b].p))
        .filter(|&i| tested[i].p > alpha)
}

/// Moves every start to where two levels fit their points best; true if any moved. Each
/// move lowers the misfit by more than rounding could, so that moving ends.
fn relocate(series: &Series, starts: &mut [usize]) -> bool {
    let mut moved = false;
    for i in 0..starts.len() {
        let (lo, hi) = series.around(starts, i);
        let start = starts[i];
        let before = robust::median(&series.y[lo..start]);
        let after = robust::median(&series.y[start..hi]);
        // Points that start..other would change sides; gain is what that saves in absolute
        // misfit: all of the step, or the opposite, for a point beyond either level. Said so
        // and not as |y - after| - |y - before|, which is 0 for points so far out that the
        // step is within their rounding: then a start could go to and fro for ever.
        let step = (after - before).abs();
        let toward = (after - before).signum();
        let gain = |y: f64| (toward * ((after - y) - (y - before))).clamp(-step, step);
        let mut best = (start, 0.0);
        let mut total = 0.0;
        let least_after = if hi == series.len() { FEW } else { MIN_SEGMENT };
        for place in start + 1..=hi.saturating_sub(least_after) {
            total += gain(series.y[place - 1]);
            if series.may_start[place] && total > best.1 {
                best = (place, total);
            }
        }
        total = 0.0;
        for place in (lo + MIN_SEGMENT..start).rev() {
            total -= gain(series.y[place]);
            if series.may_start[place] && total > best.1 {
                best = (place, total);
            }
        }
        let points = (hi - lo) as f64;
        let least = f64::EPSILON * points * points * step;
        if best.0 != start && best.1 > least {
            starts[i] = best.0;
            moved = true;
        }
    }
    moved
}

/// Tests the levels lo..mid and mid..hi against each other.
fn test(series: &Series, (lo, hi): (usize, usize), mid: usize, rho: f64) -> Change {
    let (left, right) = (&series.y[lo..mid], &series.y[mid..hi]);
    let residuals: Vec<f64> = robust::residuals(left)
        .chain(robust::residuals(right))
        .collect();
    let scale = robust::scale(&residuals, left[0]);
    let (before, after) = (robust::level(left, scale), robust::level(right, scale));
    let points = (before.n + after.n) as f64;
    let squares = |level: &Level| (level.n as f64 - 1.0) * level.sd.powi(2);
    let pooled = ((squares(&before) + squares(&after)) / (points - 2.0)).sqrt();
    // A level noisier than its neighbour answers for itself; a quiet one borrows noise.
    let se = |level: &Level| {
        level.sd.max(pooled) * (robust::inflation(level.n, rho) / level.n as f64).sqrt()
    };
    let errors = [&before, &after].map(|level| (se(level), level.n as f64));
    let mut df = (points * (1.0 - rho) / (1.0 + rho) - 2.0).max(2.0);
    // The noise of such a level is known from its own few points alone (Welch 1947).
    let is_louder = |level: &Level| level.sd > noisier_than(level.n) * pooled;
    if is_louder(&before) || is_louder(&after) {
        let sum: f64 = errors.iter().map(|(se, _)| se * se).sum();
        let parts: f64 = errors.iter().map(|(se, n)| se.powi(4) / (n - 1.0)).sum();
        df = df.min(sum * sum / parts);
    }
    let mut change = Change {
        since: mid,
        start: mid,
        before: before.centre,
        after: after.centre,
        before_se: errors[0].0,
        after_se: errors[1].0,
        df,
        p: 1.0,
    };
    if change.step() != 0.0 {
        let t = change.step() / change.se();
        // Bonferroni over the places that a change could have been at; where neighbours are alike, over
        // those that tell of another.
        let places = series.places as f64 * (1.0 - rho) / (1.0 + rho);
        change.p = (places.max(1.0) * t_two_sided(t, change.df)).min(1.0);
    }
    change
}

/// Whether some point of one side lies among those of the other.
fn overlap(left: &[f64], right: &[f64]) -> bool {
    let ends = |side: &[f64]| {
        let low = side.iter().copied().fold(f64::INFINITY, f64::min);
        (low, side.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left_low, left_high), (right_low, right_high)) = (ends(left), ends(right));
    left_high >= right_low && right_high >= left_low
}

/// p of van der Waerden's test: the normal scores of all points, one side against the other.
/// Where noise has two modes, a handful of points in the wild one look like a level to
/// whoever measures distances; ranks know how many more there are. 0 where the two sides do
/// not overlap: few ranks cannot say more than that.
fn ranks_p(left: &[f64], right: &[f64], rho: f64) -> f64 {
    if !overlap(left, right) {
        return 0.0;
    }
    let all = [left, right].concat();
    let scores = robust::normal_scores(&all);
    let squares: f64 = scores.iter().map(|score| score * score).sum();
    let variance = squares / (all.len() as f64 - 1.0);
    let (of_left, of_right) = scores.split_at(left.len());
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    let share = |n: usize| robust::inflation(n, rho) / n as f64;
    let error = (variance * (share(left.len()) + share(right.len()))).sqrt();
    normal_two_sided((mean(of_right) - mean(of_left)) / error)
}

//! A level that moves slowly to another: no single place is to blame for it.

use std::ops::Range;

use super::constants::{CLIP, CORNERS, LONGEST, MIN_SEGMENT, PLACE_CRITICAL, SOME};
use super::history::Change;
use super::robust;
use super::series::{Series, levels_of};
use crate::dist::t_two_sided;

/// Corners are tried so many to the length of a slope, and each length is so much longer than the
/// one before: that costs 1 % of what the best corners explain.
const GRID: usize = 8;
/// Rounds of fitting to values whose distance from the fit is clipped.
const ROUNDS: usize = 6;

/// The surest slope among levels that start at `changes`: in place of neighbouring changes in one
/// direction, or within a level. `known` are those that were taken out of the values before.
pub(super) fn slope(
    series: &Series,
    changes: &[Change],
    known: &[Change],
    alpha: f64,
) -> Option<Change> {
    // Where revisions repeat, only a new one changes anything.
    if series.repeats {
        return None;
    }
    let starts: Vec<usize> = changes.iter().map(|change| change.start).collect();
    let mut regions: Vec<Range<usize>> = levels_of(0, series.len(), &starts).collect();
    for first in 0..starts.len() {
        let is_up = |change: &Change| change.step() > 0.0;
        let alike = changes[first..].iter();
        let alike = alike.take_while(|change| is_up(change) == is_up(&changes[first]));
        let (from, _) = series.around(&starts, first);
        let ends = (first..first + alike.count()).map(|last| series.around(&starts, last).1);
        regions.extend(ends.map(|to| from..to));
    }
    let is_new = |found: &Change| {
        let mut known = known.iter();
        known.all(|known| found.start < known.since || known.start < found.since)
    };
    regions
        .into_iter()
        .filter(|region| region.len() >= LONGEST)
        .filter_map(|region| within(series, region, &starts))
        .filter(|found| found.p <= alpha && is_new(found))
        .min_by(|a, b| a.p.total_cmp(&b.p))
}

/// Takes a slope out of the values: those after it move with its end.
pub(super) fn flatten(y: &mut [f64], slope: &Change) {
    for (place, value) in y.iter_mut().enumerate() {
        *value -= slope.moved(place);
    }
}

/// The slope that explains these points best, where no levels explain them better.
fn within(series: &Series, region: Range<usize>, starts: &[usize]) -> Option<Change> {
    let y = &series.y[region.clone()];
    let (from, n) = (region.start, y.len());
    // Values of which most are equal do not move, whatever the others do.
    let middle = robust::median(y);
    let is_equal = |y: &&f64| (**y - middle).abs() <= robust::rounding(middle);
    if 2 * y.iter().filter(is_equal).count() > n {
        return None;
    }
    let sums = Sums::of(y);
    // Over fewer points a step cannot be told from a slope.
    let lengths = std::iter::successors(Some(SOME), |length| Some(length + length / GRID));
    let corners: Vec<[usize; 2]> = lengths
        .take_while(|length| *length < n)
        .flat_map(|length| {
            let firsts = (0..n - length).step_by(length / GRID);
            firsts.chain([n - 1 - length]).map(move |a| [a, a + length])
        })
        // Few newest points beside a level are a step, as long as it may be one.
        .filter(|[a, b]| b + MIN_SEGMENT <= n || b - a >= LONGEST)
        .chain([[0, n - 1]])
        .collect();
    let gain = |corners: &&[usize; 2]| sums.gain(**corners);
    let largest = corners.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    let levels = || levels_of(from, region.end, starts);
    let residuals: Vec<f64> = levels()
        .flat_map(|level| robust::residuals(&series.y[level]))
        .collect();
    let around_levels = noise(&residuals, middle, series.rho(from, region.end, starts));
    // Every place that was chosen costs what a place of a change may.
    let noise = around_levels.min(Fit::of(series, from, y, *largest).noise);
    let worth = |gain: f64, places: usize| gain - PLACE_CRITICAL * noise * places as f64;
    let places = |[a, b]: [usize; 2]| usize::from(a > 0) + usize::from(b < n - 1);
    let of = |corners: &&[usize; 2]| {
        let places = places(**corners);
        worth(
            sums.gain(**corners),
            places + if places > 0 { CORNERS } else { 0 },
        )
    };
    let best = corners.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let steps = (0..n - 1).map(|place| worth(sums.gain([place, place + 1]), 1));
    let of_levels = levels().map(|level| sums.level(level.start - from..level.end - from));
    let levels = worth(of_levels.sum(), levels().count() - 1);
    if of(&best) <= steps.fold(levels, f64::max) {
        return None;
    }
    let fit = Fit::of(series, from, y, *best);
    let tried = if places(*best) == 0 { 1 } else { series.places };
    fit.change(tried as f64)
}

/// The variance of a point, in noise that is autocorrelated.
fn noise(residuals: &[f64], level: f64, rho: f64) -> f64 {
    let sd = robust::level(residuals, robust::scale(residuals, level)).sd;
    sd.powi(2) * (1.0 + rho) / (1.0 - rho)
}

/// Sums over the first points of values that wild points do not move.
struct Sums {
    /// Of the values, less their median.
    plain: Vec<f64>,
    /// … times their place.
    moment: Vec<f64>,
}

impl Sums {
    fn of(y: &[f64]) -> Self {
        let mut sums = Self {
            plain: vec![0.0],
            moment: vec![0.0],
        };
        let (mut plain, mut moment) = (0.0, 0.0);
        let centre = robust::median(y);
        for (place, value) in clipped(y).into_iter().enumerate() {
            plain += value - centre;
            moment += (value - centre) * place as f64;
            sums.plain.push(plain);
            sums.moment.push(moment);
        }
        sums
    }

    fn sum(sums: &[f64], range: Range<usize>) -> f64 {
        sums[range.end] - sums[range.start]
    }

    /// What a level explains of its squares.
    fn level(&self, range: Range<usize>) -> f64 {
        let whole = self.plain.len() - 1;
        let mean = self.plain[whole] / whole as f64;
        let points = range.len() as f64;
        points * (Self::sum(&self.plain, range) / points - mean).powi(2)
    }

    /// What two levels with a slope between these corners explain of the squares; a step, where the
    /// corners are neighbours.
    fn gain(&self, [a, b]: [usize; 2]) -> f64 {
        let n = self.plain.len() - 1;
        let (points, length, after) = (n as f64, (b - a) as f64, (n - b) as f64);
        let shares = (length - 1.0) / 2.0 + after;
        let squares = (length - 1.0) * (2.0 * length - 1.0) / (6.0 * length) + after;
        let rising = Self::sum(&self.moment, a..b) - a as f64 * Self::sum(&self.plain, a..b);
        let product = rising / length + Self::sum(&self.plain, b..n);
        let moved = product - shares * self.plain[n] / points;
        moved.powi(2) / (squares - shares * shares / points)
    }
}

/// Values brought to within the noise of the median of those around them.
fn clipped(y: &[f64]) -> Vec<f64> {
    let around = |place: usize| {
        let from = place.saturating_sub(MIN_SEGMENT / 2 + 1);
        robust::median(&y[from..(place + MIN_SEGMENT / 2 + 2).min(y.len())])
    };
    let medians: Vec<f64> = (0..y.len()).map(around).collect();
    let distances: Vec<f64> = y
        .iter()
        .zip(&medians)
        .map(|(y, median)| y - median)
        .collect();
    let bound = CLIP * robust::scale(&distances, medians[0]);
    let near = distances
        .iter()
        .map(|distance| distance.clamp(-bound, bound));
    medians
        .iter()
        .zip(near)
        .map(|(median, near)| median + near)
        .collect()
}

/// Two levels with a slope between two corners, by least squares with distances clipped.
struct Fit {
    change: Change,
    /// How many points the height is known from.
    spread: f64,
    noise: f64,
    rho: f64,
    points: f64,
}

impl Fit {
    fn of(series: &Series, from: usize, y: &[f64], [a, b]: [usize; 2]) -> Self {
        let n = y.len();
        let share = |place: usize| (place.saturating_sub(a) as f64 / (b - a) as f64).min(1.0);
        let middle = (0..n).map(share).sum::<f64>() / n as f64;
        let at = |place: usize| share(place) - middle;
        let spread: f64 = (0..n).map(|place| at(place).powi(2)).sum();
        let (mut centre, mut height) = (robust::median(y), 0.0);
        let residuals = |centre: f64, height: f64| -> Vec<f64> {
            let fitted = |place| centre + height * at(place);
            y.iter().enumerate().map(|(i, y)| y - fitted(i)).collect()
        };
        let mut left = residuals(centre, height);
        for _ in 0..ROUNDS {
            let bound = CLIP * robust::scale(&left, centre);
            let pulls = left.iter().map(|r| r.clamp(-bound, bound));
            centre += pulls.clone().sum::<f64>() / n as f64;
            height += pulls.enumerate().map(|(i, pull)| at(i) * pull).sum::<f64>() / spread;
            left = residuals(centre, height);
        }
        let change = Change {
            since: from + a + 1,
            start: from + b,
            before: centre - height * middle,
            after: centre + height * (1.0 - middle),
            before_se: 0.0,
            after_se: 0.0,
            df: 1.0,
            p: 1.0,
        };
        let mut flat = series.without_newest(0);
        flatten(&mut flat.y, &change);
        let rho = flat.rho(from, from + n, &[from + a, from + b]);
        Self {
            noise: noise(&left, centre, rho),
            rho,
            spread,
            points: n as f64,
            change,
        }
    }

    /// How sure it is, of so many that were tried.
    fn change(self, tried: f64) -> Option<Change> {
        let error = (self.noise / self.spread).sqrt();
        let df = self.points * (1.0 - self.rho) / (1.0 + self.rho) - 2.0;
        let df = df.max(1.0);
        let step = self.change.step();
        (error > 0.0 && step.abs() > robust::rounding(self.change.before)).then(|| Change {
            before_se: error / 2f64.sqrt(),
            after_se: error / 2f64.sqrt(),
            df,
            p: (tried * t_two_sided(step / error, df)).min(1.0),
            ..self.change
        })
    }
}

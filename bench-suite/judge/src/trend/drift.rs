//! A level that moves slowly: no single place is to blame for it.

use super::history::Change;
use super::model::{Drift, MIN_SEGMENT, PLACE_CRITICAL};
use super::robust;
use super::series::{Series, levels_of};
use crate::dist::t_two_sided;

/// Rounds of fitting a line to values whose distance from it is clipped.
const ROUNDS: usize = 6;

/// Takes out of `changes` those that a straight line explains better than levels do: neighbours in
/// the same direction together, or else each alone. Then the newest level is looked at too.
pub(super) fn drifts(series: &Series, changes: &mut Vec<Change>, alpha: f64) -> Vec<Drift> {
    let mut found = Vec::new();
    let mut place = 0;
    while place < changes.len() {
        let up = changes[place].step() > 0.0;
        let alike = changes[place..]
            .iter()
            .take_while(|change| (change.step() > 0.0) == up);
        let run = alike.count();
        match (1..=run)
            .rev()
            .find_map(|count| line(series, changes, place, count))
        {
            Some((count, drift)) => {
                changes.drain(place..place + count);
                found.push(drift);
            }
            None => place += 1,
        }
    }
    let last = changes.last().map_or(0, |change| change.start);
    let known = found.last().is_some_and(|drift| drift.to == series.len());
    if !known && series.len() - last >= 4 * MIN_SEGMENT {
        found.extend(
            Line::fit(series, last, series.len())
                .drift(&series.y[last..])
                .filter(|drift| drift.p <= alpha),
        );
    }
    found
}

/// The line in place of `count` changes, where it lies closer to the points than their levels.
fn line(series: &Series, changes: &[Change], place: usize, count: usize) -> Option<(usize, Drift)> {
    let starts: Vec<usize> = changes.iter().map(|change| change.start).collect();
    let (from, _) = series.around(&starts, place);
    let (_, to) = series.around(&starts, place + count - 1);
    // Fewer points than a level has are no slope.
    let shortest = levels_of(from, to, &starts).map(|level| level.len()).min();
    if shortest < Some(MIN_SEGMENT) {
        return None;
    }
    let levels: Vec<f64> = levels_of(from, to, &starts)
        .flat_map(|level| {
            let centre = robust::median(&series.y[level.clone()]);
            let scale = robust::scale(
                &robust::residuals(&series.y[level.clone()]).collect::<Vec<_>>(),
                centre,
            );
            let centre = robust::level(&series.y[level.clone()], scale).centre;
            series.y[level].iter().map(move |y| y - centre)
        })
        .collect();
    let line = Line::fit(series, from, to);
    let scale = robust::scale(&levels, series.y[from]);
    let steps = changes[place..place + count].iter();
    let bound = steps.fold(robust::CLIP * scale, |bound, change| {
        bound.max(change.step().abs())
    });
    let misfit = |residuals: &[f64]| -> f64 {
        residuals
            .iter()
            .map(|r| r.clamp(-bound, bound).powi(2))
            .sum()
    };
    // Not a number is no better either.
    // Levels had their places to choose.
    let least = PLACE_CRITICAL * count as f64 * scale * scale;
    let is_closer = misfit(&line.residuals) <= misfit(&levels) + least;
    Some((
        count,
        line.drift(&series.y[from..to]).filter(|_| is_closer)?,
    ))
}

impl Drift {
    /// Takes the slope out of the values.
    pub(super) fn flatten(&self, y: &mut [f64]) {
        let points = (self.to - self.from).saturating_sub(1).max(1) as f64;
        for (i, value) in y[self.from..self.to].iter_mut().enumerate() {
            *value -= (self.after - self.before) * i as f64 / points;
        }
    }

    /// The ends in the series' units, where they were logarithms.
    pub(super) fn in_units(self, log: bool) -> Self {
        let [before, after] = [self.before, self.after].map(|y| if log { y.exp() } else { y });
        Self {
            before,
            after,
            ..self
        }
    }
}

/// A straight line through some points.
struct Line {
    from: usize,
    to: usize,
    centre: f64,
    slope: f64,
    residuals: Vec<f64>,
}

impl Line {
    /// Least squares, with distances clipped.
    fn fit(series: &Series, from: usize, to: usize) -> Self {
        let y = &series.y[from..to];
        let middle = (y.len() as f64 - 1.0) / 2.0;
        let at = |i: usize| i as f64 - middle;
        let spread: f64 = (0..y.len()).map(|i| at(i).powi(2)).sum();
        let centre = robust::median(y);
        let bound = |residuals: &[f64]| robust::CLIP * robust::scale(residuals, centre);
        let mut line = Self {
            from,
            to,
            centre,
            slope: 0.0,
            residuals: y.iter().map(|y| y - centre).collect(),
        };
        for _ in 0..ROUNDS {
            let bound = bound(&line.residuals);
            let pulls: Vec<f64> = line
                .residuals
                .iter()
                .map(|r| r.clamp(-bound, bound))
                .collect();
            line.centre += pulls.iter().sum::<f64>() / y.len() as f64;
            let moment: f64 = pulls.iter().enumerate().map(|(i, pull)| at(i) * pull).sum();
            line.slope += moment / spread.max(f64::MIN_POSITIVE);
            let value = |i: usize| line.centre + line.slope * at(i);
            line.residuals = y.iter().enumerate().map(|(i, y)| y - value(i)).collect();
        }
        line
    }

    /// How sure its slope is, in noise that is autocorrelated.
    fn drift(&self, y: &[f64]) -> Option<Drift> {
        let n = self.residuals.len() as f64;
        // Values of which most are equal do not move, whatever the others do.
        let middle = robust::median(y);
        let is_equal = |y: &&f64| (**y - middle).abs() <= robust::rounding(middle);
        if 2 * y.iter().filter(is_equal).count() > y.len() {
            return None;
        }
        let scale = robust::scale(&self.residuals, self.centre);
        let sd = robust::level(&self.residuals, scale).sd;
        let freed = (2.0 + 4.0 * robust::rho_from_residuals(&self.residuals, scale).max(0.0)) / n;
        let rho = robust::rho_from_residuals(&self.residuals, scale) + freed + 0.5 / n.sqrt();
        let rho = rho.clamp(0.0, robust::MOST_RHO);
        let spread = n * (n * n - 1.0) / 12.0;
        let error = sd * ((1.0 + rho) / (1.0 - rho) / spread).sqrt();
        let df = (n * (1.0 - rho) / (1.0 + rho) - 2.0).max(1.0);
        let ends = [-1.0, 1.0].map(|side| self.centre + side * self.slope * (n - 1.0) / 2.0);
        let [before, after] = ends;
        let moves = (after - before).abs() > robust::rounding(self.centre);
        (error > 0.0 && moves).then(|| Drift {
            from: self.from,
            to: self.to,
            before,
            after,
            p: t_two_sided(self.slope / error, df),
        })
    }
}

//! A series made ready: the scale it is judged on, and where a new level may start.

use std::ops::Range;

use super::constants::MIN_SEGMENT;
use super::model::Point;
use super::{noise, robust, week};

/// Values on the scale they are judged on, and what the revisions say.
pub(super) struct Series {
    /// ln(value) where all values are above 0, so that changes are ratios; else values.
    pub(super) y: Vec<f64>,
    /// Is `y` in logarithms?
    pub(super) log: bool,
    /// May a new level start here? Where revisions repeat, only with a new revision.
    pub(super) may_start: Vec<bool>,
    /// How many places may start a new level.
    pub(super) places: usize,
    /// Runs of equal revisions, numbered.
    run: Vec<usize>,
    /// Are most points repeats of the revision before them?
    pub(super) repeats: bool,
}

impl Series {
    pub(super) fn of(points: &[Point]) -> Self {
        let n = points.len();
        let log = points.iter().all(|point| point.value > 0.0);
        let values = points.iter().map(|point| point.value);
        let mut y: Vec<f64> = values
            .map(|value| if log { value.ln() } else { value })
            .collect();
        week::flatten(&mut y, points);
        let mut run = vec![0; n];
        for i in 1..n {
            run[i] = run[i - 1] + usize::from(points[i].revision != points[i - 1].revision);
        }
        // One revision throughout says nothing about where something else changed.
        let no_revisions = run.last().is_none_or(|&last| last == 0);
        let may_start: Vec<bool> = (0..n)
            .map(|i| i > 0 && (no_revisions || run[i] != run[i - 1]))
            .collect();
        let places = may_start.iter().filter(|&&may| may).count();
        Self {
            y,
            log,
            may_start,
            places,
            repeats: !no_revisions && places < n / 2,
            run,
        }
    }

    /// All but the last points.
    pub(super) fn without_newest(&self, points: usize) -> Self {
        let rest = self.len() - points;
        let may_start = self.may_start[..rest].to_vec();
        Self {
            y: self.y[..rest].to_vec(),
            places: may_start.iter().filter(|&&may| may).count(),
            may_start,
            run: self.run[..rest].to_vec(),
            ..*self
        }
    }

    /// Values that no revision explains.
    pub(super) fn searched_everywhere(y: Vec<f64>) -> Self {
        let n = y.len();
        Self {
            y,
            log: false,
            may_start: (0..n).map(|i| i > 0).collect(),
            places: n.saturating_sub(1),
            run: vec![0; n],
            repeats: false,
        }
    }

    /// Distances from the median of each level.
    pub(super) fn residuals(&self, starts: &[usize]) -> Vec<f64> {
        let levels = levels_of(0, self.len(), starts);
        levels
            .flat_map(|level| robust::residuals(&self.y[level]))
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.y.len()
    }

    /// The bounds of the level that the change at `starts[i]` ends and begins.
    pub(super) fn around(&self, starts: &[usize], i: usize) -> (usize, usize) {
        let lo = if i == 0 { 0 } else { starts[i - 1] };
        (lo, starts.get(i + 1).copied().unwrap_or(self.len()))
    }

    /// Lag-1 autocorrelation of the noise in `from..to`, given the levels that start at
    /// `starts`: from residuals, which too many levels flatter, or where that is larger
    /// the mean of it and an estimate from differences, which no level touches but which
    /// scatters more; plus half a standard error. Too small a value makes false alarms,
    /// too large a one costs power.
    pub(super) fn rho(&self, from: usize, to: usize, starts: &[usize]) -> f64 {
        let values = &self.y[from..to];
        let n = values.len() as f64;
        let mut residuals = Vec::with_capacity(values.len());
        let mut level_of = Vec::with_capacity(values.len());
        let mut levels = 0_usize;
        for level in levels_of(from, to, starts) {
            residuals.extend(robust::residuals(&self.y[level]));
            level_of.resize(residuals.len(), levels);
            levels += 1;
        }
        let scale = robust::scale(&residuals, values.first().copied().unwrap_or(0.0));
        // A single glitch is no waves.
        let glitches = noise::glitches(&residuals, scale, MIN_SEGMENT - 1);
        for (residual, _) in residuals
            .iter_mut()
            .zip(&glitches)
            .filter(|(_, glitch)| **glitch)
        {
            *residual = 0.0;
        }
        let raw = robust::rho_from_residuals(&residuals, scale);
        // Fitting a level to m points takes about (1 + 3 rho) / m off (Marriott and
        // Pope 1954).
        let freed = raw + (1.0 + 3.0 * raw.max(0.0)) * levels as f64 / n;
        let differences = robust::rho_from_differences(values, |i, j| {
            level_of[i] == level_of[j]
                && !(glitches[i] || glitches[j])
                && (!self.repeats || self.run[from + i] == self.run[from + j])
        });
        let rho = differences.map_or(freed, |other| freed.max(f64::midpoint(freed, other)));
        (rho + 0.5 / n.sqrt()).clamp(0.0, robust::MOST_RHO)
    }
}

/// The levels of `from..to` that end and begin at those of `starts` that lie inside.
pub(super) fn levels_of(
    from: usize,
    to: usize,
    starts: &[usize],
) -> impl Iterator<Item = Range<usize>> {
    let inner = starts.iter().copied().filter(move |&s| s > from && s < to);
    inner
        .chain([to])
        .scan(from, |start, end| Some(std::mem::replace(start, end)..end))
}

//! The whole history and the newest end, put together and put into the series' units.

use super::constants::{CLIP, PLACE_CRITICAL};
use super::history::{self, Change};
use super::model::{ChangePoint, Point, TOO_SHORT, Trend, TrendError, TrendOptions};
use super::series::Series;
use super::{newest, robust, slope};
use crate::dist::t_critical;

/// Miss probability of the interval of a change.
const INTERVAL_ALPHA: f64 = 0.05;

/// Finds the change points of one series, given oldest first.
///
/// Where revisions repeat, a change can only sit where the revision changes; a series
/// of one single revision is searched everywhere. Fewer than ten points have none.
///
/// # Errors
/// [`TrendError`] for values or timestamps that are not finite.
pub fn change_points(points: &[Point], options: &TrendOptions) -> Result<Trend, TrendError> {
    check(points)?;
    if points.len() < TOO_SHORT {
        return Ok(Trend {
            too_short: true,
            ..Trend::default()
        });
    }
    let mut series = Series::of(points);
    let mut slopes = Vec::new();
    let mut changes = loop {
        let changes = history::changes_but_for_newest(&series, options.alpha_history);
        let Some(slope) = slope::slope(&series, &changes, &slopes, options.alpha_history) else {
            break changes;
        };
        slope::flatten(&mut series.y, &slope);
        slopes.push(slope);
    };
    let starts_of = |changes: &[Change]| changes.iter().map(|change| change.start).collect();
    let mut starts: Vec<usize> = starts_of(&changes);
    while let Some(newest) = newest::change(&series, &starts, options) {
        starts.push(newest.start);
        changes.push(newest);
    }
    let rho = series.rho(0, series.len(), &starts);
    let steps = changes.iter().enumerate().map(|(place, change)| {
        let (from, to) = series.around(&starts, place);
        let range = range(change, &series, (from, to), rho);
        (change, [from, to], range)
    });
    let slow = slopes.iter();
    let slow = slow.map(|slope| {
        (
            slope,
            [slope.since, slope.start],
            [slope.since, slope.start],
        )
    });
    let mut change_points: Vec<ChangePoint> = steps
        .chain(slow)
        .map(|(change, levels, range)| {
            // Levels are those beside the change.
            let mut change = change.clone();
            let itself = |slope: &Change| change.is_gradual() && slope.start == change.start;
            let others: Vec<&Change> = slopes.iter().filter(|slope| !itself(slope)).collect();
            let (since, start) = (change.since - 1, change.start);
            change.before += others.iter().map(|slope| slope.moved(since)).sum::<f64>();
            change.after += others.iter().map(|slope| slope.moved(start)).sum::<f64>();
            report(&change, &series, points, levels, range)
        })
        .collect();
    change_points.sort_by_key(|found| found.index);
    Ok(Trend {
        change_points,
        too_short: false,
    })
}

/// Where the level may have begun: the places whose misfit is at most [`PLACE_CRITICAL`] noise
/// variances above that of the best one; more where the noise is autocorrelated.
fn range(change: &Change, series: &Series, (from, to): (usize, usize), rho: f64) -> [usize; 2] {
    let y = &series.y;
    let halves = [&y[from..change.start], &y[change.start..to]];
    let residuals: Vec<f64> = halves
        .iter()
        .flat_map(|half| robust::residuals(half))
        .collect();
    let scale = robust::scale(&residuals, y[from]);
    let bound = PLACE_CRITICAL * scale * scale * (1.0 + rho) / (1.0 - rho);
    let far = CLIP * scale;
    let far = far.max(change.step().abs());
    let misfit = |y: f64, level: f64| (y - level).clamp(-far, far).powi(2);
    let price = |i: usize| misfit(y[i], change.before) - misfit(y[i], change.after);
    let mut ends = [change.start; 2];
    let mut total = 0.0;
    for place in (from + 1..change.start).rev() {
        total -= price(place);
        if total > 2.0 * bound {
            break;
        }
        if series.may_start[place] && total <= bound {
            ends[0] = place;
        }
    }
    total = 0.0;
    for place in change.start + 1..to {
        total += price(place - 1);
        if total > 2.0 * bound {
            break;
        }
        if series.may_start[place] && total <= bound {
            ends[1] = place;
        }
    }
    ends
}

fn check(points: &[Point]) -> Result<(), TrendError> {
    for (index, point) in points.iter().enumerate() {
        for (field, value) in [("value", point.value), ("timestamp", point.timestamp)] {
            if !value.is_finite() {
                return Err(TrendError(format!(
                    "point {index}: the {field} is {value}, expected a finite number; leave the \
                     point out"
                )));
            }
        }
    }
    Ok(())
}

/// The value of a level in which every point has the same: the logarithm there and back would
/// lose its last bit.
#[expect(clippy::float_cmp, reason = "constant values are those that are equal")]
fn constant(level: &[Point]) -> Option<f64> {
    let first = level.first()?.value;
    level
        .iter()
        .all(|point| point.value == first)
        .then_some(first)
}

/// The levels of a step go from `from` to `to`.
fn report(
    change: &Change,
    series: &Series,
    points: &[Point],
    [from, to]: [usize; 2],
    range: [usize; 2],
) -> ChangePoint {
    let critical = t_critical(change.df, INTERVAL_ALPHA);
    let plain = |level, found: f64| {
        constant(level).unwrap_or_else(|| if series.log { found.exp() } else { found })
    };
    let (before, after) = (
        plain(&points[from..change.since], change.before),
        plain(&points[change.start..to], change.after),
    );
    let point = &points[change.start];
    // On the linear scale by the delta method for ln(after ÷ before).
    let log_se = if series.log {
        change.se()
    } else {
        (change.before_se / before).hypot(change.after_se / after)
    };
    let ratio = after / before;
    let usable = ratio.is_finite() && before > 0.0 && after > 0.0;
    let half = critical * log_se;
    let ends = [ratio * (-half).exp(), ratio * half.exp()];
    ChangePoint {
        index: change.start,
        timestamp: point.timestamp,
        revision: point.revision.clone(),
        before,
        after,
        range,
        ratio: usable.then_some(ratio),
        interval: (usable && ends[1].is_finite()).then_some(ends),
        p: change.p,
        gradual: change.is_gradual(),
    }
}

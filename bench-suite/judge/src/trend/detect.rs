//! The whole history and the newest end, put together and put into the series' units.

use rayon::prelude::*;

use super::history::{self, Change};
use super::series::Series;
use super::{ChangePoint, Point, Trend, TrendError, TrendOptions, newest};
use crate::dist::t_critical;

/// Miss probability of the interval of a change.
const INTERVAL_ALPHA: f64 = 0.05;

/// Finds the change points of one series, given oldest first.
///
/// Where revisions repeat, a change can only sit where the revision changes; a series
/// of one single revision is searched everywhere. Fewer than ten points have none.
///
/// # Errors
/// [`TrendError`] for values or timestamps that are not finite, and for settings out of
/// range.
pub fn change_points(points: &[Point], options: &TrendOptions) -> Result<Trend, TrendError> {
    check(points, options)?;
    let series = Series::of(points);
    let mut changes = history::changes(&series, options.alpha_history);
    let last_level = changes.last().map_or(0, |change| change.start);
    changes.extend(newest::change(&series, last_level, options));
    let starts: Vec<usize> = changes.iter().map(|change| change.start).collect();
    let change_points = changes
        .iter()
        .enumerate()
        .map(|(place, change)| {
            let (from, to) = series.around(&starts, place);
            let levels = (&points[from..change.start], &points[change.start..to]);
            report(change, &series, &points[change.start], levels)
        })
        .filter(|found| large_enough(found, options.min_change))
        .collect();
    Ok(Trend { change_points })
}

/// [`change_points`] of many series, on all cores; results in the order of the series.
#[must_use]
pub fn change_points_of_many(
    series: &[Vec<Point>],
    options: &TrendOptions,
) -> Vec<Result<Trend, TrendError>> {
    series
        .par_iter()
        .map(|points| change_points(points, options))
        .collect()
}

fn check(points: &[Point], options: &TrendOptions) -> Result<(), TrendError> {
    for (setting, value) in [
        ("alpha_history", options.alpha_history),
        ("alpha_newest", options.alpha_newest),
    ] {
        if !(0.0..1.0).contains(&value) {
            return Err(TrendError::Setting {
                setting,
                value,
                expected: "a number from 0 to below 1",
            });
        }
    }
    if !(options.min_change.is_finite() && options.min_change >= 0.0) {
        return Err(TrendError::Setting {
            setting: "min_change",
            value: options.min_change,
            expected: "a number of at least 0",
        });
    }
    for (index, point) in points.iter().enumerate() {
        for (field, value) in [("value", point.value), ("timestamp", point.timestamp)] {
            if !value.is_finite() {
                return Err(TrendError::NotFinite {
                    index,
                    field,
                    value,
                });
            }
        }
    }
    Ok(())
}

fn large_enough(found: &ChangePoint, min_change: f64) -> bool {
    found
        .ratio
        .is_none_or(|ratio| ratio.ln().abs() >= min_change.ln_1p())
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

/// `point` is the first one of the new level; `levels` are the points before and after.
fn report(
    change: &Change,
    series: &Series,
    point: &Point,
    levels: (&[Point], &[Point]),
) -> ChangePoint {
    let critical = t_critical(change.df, INTERVAL_ALPHA);
    let plain = |level, found: f64| {
        constant(level).unwrap_or_else(|| if series.log { found.exp() } else { found })
    };
    let (before, after) = (
        plain(levels.0, change.before),
        plain(levels.1, change.after),
    );
    // On the linear scale by the delta method for ln(after ÷ before).
    let log_se = if series.log {
        change.se()
    } else {
        (change.before_se / before).hypot(change.after_se / after)
    };
    let ratio = after / before;
    let usable = ratio.is_finite() && ratio > 0.0;
    let half = critical * log_se;
    let ends = [ratio * (-half).exp(), ratio * half.exp()];
    ChangePoint {
        index: change.start,
        timestamp: point.timestamp,
        revision: point.revision.clone(),
        before,
        after,
        ratio: usable.then_some(ratio),
        interval: (usable && ends[1].is_finite()).then_some(ends),
        p: change.p,
    }
}

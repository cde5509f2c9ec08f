//! What did the last run bring to light?

use rayon::prelude::*;

use super::detect::change_points;
use super::model::{ChangePoint, Point, Trend, TrendError, TrendOptions};

/// Nights after which a change that is told again is told as another.
const REMEMBERED: usize = 60;

/// The place in `found.change_points` of the change that the newest point brought to light: the last
/// one, unless the series as it was before, on any night since the change, has it as well.
///
/// A change is news once, whether its own first run showed it or only the third after it did, and
/// whether or not it was in doubt for a night in between.
///
/// # Errors
/// [`TrendError`] as [`change_points`].
pub fn news(
    points: &[Point],
    found: &Trend,
    options: &TrendOptions,
) -> Result<Option<usize>, TrendError> {
    let Some(last) = found.change_points.last() else {
        return Ok(None);
    };
    let first = last.range[0].max(points.len().saturating_sub(REMEMBERED));
    for night in (first + 1..points.len()).rev() {
        let known = change_points(&points[..night], options)?;
        if known
            .change_points
            .iter()
            .any(|change| is_same(change, last))
        {
            return Ok(None);
        }
    }
    Ok(Some(found.change_points.len() - 1))
}

/// Whether they may be one: in the same direction, in ranges that touch.
fn is_same(one: &ChangePoint, other: &ChangePoint) -> bool {
    let touch = one.range[0] <= other.range[1] + 1 && other.range[0] <= one.range[1] + 1;
    touch && (one.after > one.before) == (other.after > other.before)
}

/// The change points of a series, and which of them is [`news`].
///
/// # Errors
/// [`TrendError`] as [`change_points`].
pub fn follow(points: &[Point]) -> Result<(Trend, Option<usize>), TrendError> {
    let options = TrendOptions::default();
    let found = change_points(points, &options)?;
    let news = news(points, &found, &options)?;
    Ok((found, news))
}

/// [`follow`] of many series, on all cores; in their order.
pub fn follow_many(series: &[Vec<Point>]) -> Vec<Result<(Trend, Option<usize>), TrendError>> {
    series.par_iter().map(|points| follow(points)).collect()
}

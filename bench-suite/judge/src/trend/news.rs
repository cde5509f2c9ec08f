//! What did the last run bring to light?

use rayon::prelude::*;

use super::{MIN_SEGMENT, Point, Trend, TrendError, TrendOptions, change_points};

/// The place in `found.change_points` of the change that the newest point brought to light:
/// the last one, unless the same series without its newest point has it as well.
///
/// A change is news once, whether its own first run showed it or only the third after it did.
///
/// # Errors
/// [`TrendError`] as [`change_points`].
pub fn news(
    points: &[Point],
    found: &Trend,
    options: &TrendOptions,
) -> Result<Option<usize>, TrendError> {
    let (Some(last), Some((_, earlier))) = (found.change_points.last(), points.split_last()) else {
        return Ok(None);
    };
    let known = change_points(earlier, options)?;
    let same = known.change_points.iter().any(|change| {
        // A further point may move the place a little, not turn the change around.
        change.index.abs_diff(last.index) <= MIN_SEGMENT
            && (change.after > change.before) == (last.after > last.before)
    });
    Ok((!same).then_some(found.change_points.len() - 1))
}

/// [`news`] of many series, each with what was found in it, on all cores; in their order.
#[must_use]
pub fn news_of_many(
    series: &[Vec<Point>],
    found: &[Trend],
    options: &TrendOptions,
) -> Vec<Result<Option<usize>, TrendError>> {
    series
        .par_iter()
        .zip(found)
        .map(|(points, found)| news(points, found, options))
        .collect()
}

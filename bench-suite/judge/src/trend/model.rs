//! What is read, what is found in it, and how strict the search is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{Direction, Verdict};

/// A series with fewer points says nothing.
pub const TOO_SHORT: usize = super::constants::SOME;

/// One result of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// When it was measured, in seconds since 1970-01-01 UTC.
    #[serde(serialize_with = "whole_if_whole")]
    pub timestamp: f64,
    /// What was measured: a commit, an image ID.
    pub revision: String,
    /// The metric's value; any finite number.
    pub value: f64,
}

/// Puts the points in order of time, oldest first; those of one moment keep their order. Returns how
/// many were older than the point before them.
pub fn put_in_order(points: &mut [Point]) -> usize {
    let pairs = points.array_windows();
    let backwards = pairs.filter(|[one, next]| next.timestamp < one.timestamp);
    let backwards = backwards.count();
    points.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
    backwards
}

/// A change of level, with the point where the new level begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// First point of the new level, from 0 in the series as given.
    pub index: usize,
    #[serde(serialize_with = "whole_if_whole")]
    pub timestamp: f64,
    /// Its revision: the first one seen with the new level.
    pub revision: String,
    /// Level before: a robust mean of the points back to the previous change.
    pub before: f64,
    /// Level after: a robust mean of the points up to the next change.
    pub after: f64,
    /// First and last place where the new level may have begun, at 95 %: the last good point is the
    /// one before the first of them, and the last of them is bad.
    pub range: [usize; 2],
    /// after ÷ before; `None` (null) unless both are above 0: else it means nothing.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `None` where the ratio is.
    pub interval: Option<[f64; 2]>,
    /// p of the change, corrected for the number of places that were looked at.
    pub p: f64,
    /// Whether the level moved slowly, over all of `range`: no single point is to blame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gradual: bool,
}

impl ChangePoint {
    /// Whether it is more than counts as none: as in a comparison, where the whole interval of the
    /// ratio lies beyond the threshold. Where there is no ratio, any change counts.
    pub fn counts(&self, threshold: f64) -> bool {
        is_beyond(self.interval, threshold)
    }

    /// The change as improvement, regression, or neither where the levels are the same.
    pub fn verdict(&self, direction: Direction) -> Verdict {
        Verdict::of_change(self.after - self.before, direction)
    }
}

/// Whether the whole interval of a ratio lies beyond a threshold, on one side; `true` without one.
pub fn is_beyond(interval: Option<[f64; 2]>, threshold: f64) -> bool {
    let bound = threshold.ln_1p();
    interval.is_none_or(|[low, high]| low.ln() > bound || high.ln() < -bound)
}

/// What was found in one series.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// The change points, oldest first.
    pub change_points: Vec<ChangePoint>,
    /// Whether it has fewer points than [`TOO_SHORT`]: nothing was looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_short: bool,
}

/// How strict to be. [`Default`] is what the bars in the README were measured with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrendOptions {
    /// Chance of any false change point inside a stationary series: 0.01.
    pub alpha_history: f64,
    /// Chance of a false one at its newest end: 0.02.
    pub alpha_newest: f64,
}

impl Default for TrendOptions {
    fn default() -> Self {
        Self {
            alpha_history: 0.01,
            alpha_newest: 0.02,
        }
    }
}

/// A value or a timestamp that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrendError(pub(super) String);

/// Whole seconds are written without a fraction, as they were read.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn whole_if_whole<S: serde::Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Every whole number up to here has its own f64.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if seconds.fract() == 0.0 && seconds.abs() <= LARGEST {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        serializer.serialize_i64(*seconds as i64)
    } else {
        serializer.serialize_f64(*seconds)
    }
}

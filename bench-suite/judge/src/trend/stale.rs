//! Missing data is an alarm of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::median;

/// A gap at the end of a series is unusual from this many times its typical step on.
const UNUSUAL_STEPS: f64 = 3.0;
/// Steps looked back on for what is typical.
const RECENT_STEPS: usize = 30;

/// How long ago a series last had a result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Staleness {
    /// Timestamp of the newest result, seconds since 1970-01-01 UTC.
    pub newest: f64,
    /// Seconds since then; 0 if the newest result lies in the future.
    pub age_seconds: f64,
    /// Median of the recent steps between results, in seconds; `None` with fewer than
    /// three results, or where all came at once.
    pub typical_step_seconds: Option<f64>,
    /// The age from which on the series is overdue, in seconds; `None` if nothing says.
    pub limit_seconds: Option<f64>,
    pub overdue: bool,
}

/// How stale is a series at `now`? `None` for a series without results.
///
/// Overdue is an age above `limit_seconds` if given. Else it is an age above three
/// typical steps and above the longest recent step, so that a series measured on
/// working days is not overdue every Monday.
pub fn staleness(timestamps: &[f64], now: f64, limit_seconds: Option<f64>) -> Option<Staleness> {
    let mut times: Vec<f64> = timestamps
        .iter()
        .copied()
        .filter(|t| t.is_finite())
        .collect();
    times.sort_by(f64::total_cmp);
    let &newest = times.last()?;
    let recent = &times[times.len().saturating_sub(RECENT_STEPS + 1)..];
    let steps: Vec<f64> = recent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let typical = median(steps.iter().copied()).filter(|&step| steps.len() >= 2 && step > 0.0);
    let longest = steps.iter().copied().fold(0.0, f64::max);
    let limit = limit_seconds.or(typical.map(|step| (UNUSUAL_STEPS * step).max(longest)));
    let age = (now - newest).max(0.0);
    Some(Staleness {
        newest,
        age_seconds: age,
        typical_step_seconds: typical,
        limit_seconds: limit,
        overdue: limit.is_some_and(|limit| age > limit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    fn daily(days: &[f64]) -> Vec<f64> {
        days.iter().map(|day| day * DAY).collect()
    }

    #[track_caller]
    fn check(days: &[f64], now: f64, limit_days: Option<f64>, overdue: bool) {
        let limit = limit_days.map(|days| days * DAY);
        let stale = staleness(&daily(days), now * DAY, limit).unwrap();
        assert_eq!(stale.overdue, overdue, "{stale:?}");
    }

    #[test]
    fn a_nightly_series_is_overdue_after_three_days() {
        let nightly = [1.0, 2.0, 3.0, 4.0, 5.0];
        check(&nightly, 7.9, None, false);
        check(&nightly, 8.1, None, true);
        check(&nightly, 8.1, Some(7.0), false);
        check(&nightly, 6.1, Some(1.0), true);
        check(&nightly, 0.0, None, false);
    }

    #[test]
    fn a_gap_seen_before_is_not_unusual() {
        check(&[1.0, 2.0, 3.0, 8.0, 9.0, 10.0], 14.5, None, false);
        check(&[1.0, 2.0, 3.0, 8.0, 9.0, 10.0], 15.5, None, true);
    }

    #[test]
    fn too_few_results_have_no_cadence() {
        assert_eq!(staleness(&[], 5.0, None), None);
        check(&[1.0], 1000.0, None, false);
        check(&[1.0, 2.0], 1000.0, None, false);
        check(&[1.0], 1000.0, Some(3.0), true);
        check(&[1.0, 1.0, 1.0], 1000.0, None, false);
    }
}

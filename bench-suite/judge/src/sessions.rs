//! How far sessions lie apart though nothing changed.
//!
//! Runs of one session share its day: temperature, clocks, neighbours. What two sessions differ in
//! is told by many sessions, not by more blocks of two. The history has them.

pub use crate::compare::BetweenSessions;
use crate::trend::{Point, TrendOptions, change_points};

/// Fewer degrees of freedom than this say next to nothing.
const FEWEST: usize = 2;

impl BetweenSessions {
    /// From one point a session, oldest first, the variance pooled over the levels between change
    /// points, so that what changed on purpose is no noise. `None` of fewer than three sessions and
    /// of values that are not above 0.
    pub fn of(points: &[Point]) -> Option<Self> {
        if points.iter().any(|point| point.value <= 0.0) {
            return None;
        }
        let trend = change_points(points, &TrendOptions::default()).ok()?;
        let starts = trend.change_points.iter().map(|change| change.index);
        let ends = starts.clone().chain([points.len()]);
        let (mut squares, mut levels) = (0.0, 0);
        for (from, to) in [0].into_iter().chain(starts).zip(ends) {
            let logs = || points[from..to].iter().map(|point| point.value.ln());
            let mean = logs().sum::<f64>() / (to - from) as f64;
            squares += logs().map(|log| (log - mean).powi(2)).sum::<f64>();
            levels += 1;
        }
        let free = points.len().checked_sub(levels)?;
        (free >= FEWEST).then(|| Self {
            deviation: (squares / free as f64).sqrt(),
            degrees_of_freedom: free as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nights(values: &[f64]) -> Vec<Point> {
        let points = values.iter().enumerate().map(|(i, &value)| Point {
            timestamp: 86_400.0 * i as f64,
            revision: format!("r{i}"),
            value,
        });
        points.collect()
    }

    #[test]
    fn a_step_is_no_noise() {
        let calm = [
            100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 99.0, 100.0,
        ];
        let lower = calm.map(|value| 0.8 * value);
        let one = BetweenSessions::of(&nights(&calm)).unwrap();
        assert!((one.deviation - 0.011_548).abs() < 1e-6, "{one:?}");
        let both: Vec<f64> = calm.into_iter().chain(lower).collect();
        let two = BetweenSessions::of(&nights(&both)).unwrap();
        assert!((two.deviation - one.deviation).abs() < 1e-9, "{two:?}");
        assert_eq!(
            (one.degrees_of_freedom, two.degrees_of_freedom),
            (9.0, 18.0)
        );
    }

    #[test]
    fn two_sessions_or_a_value_of_zero_say_nothing() {
        assert_eq!(BetweenSessions::of(&nights(&[1.0, 1.1])), None);
        assert_eq!(BetweenSessions::of(&nights(&[1.0, 1.1, 0.0, 1.2])), None);
    }
}

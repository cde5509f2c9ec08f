//! Whether a measured window is long enough for the noise of its steps.

use std::fmt;

use judge::median;
use metrics::catalogue;
use record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More steps than this are not worth it; the noise has another remedy.
const WORTHWHILE_STEPS: u64 = 10_000;

/// A measured window that is too short for the noise of its steps: the standard error of its mean
/// step is above half the noise threshold of throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortWindow {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// Coefficient of variation of the steps.
    pub coefficient_of_variation: f64,
    /// The number of steps that would do; `None` where it is more than is worthwhile.
    pub enough_steps: Option<u64>,
}

impl ShortWindow {
    /// Of the successful runs of a cell, each by its median; `None` where the window is long
    /// enough, or nobody knows.
    pub fn of<'a>(runs: impl Iterator<Item = &'a Record>, threshold: Option<f64>) -> Option<Self> {
        let threshold = threshold.unwrap_or(catalogue::THROUGHPUT.threshold);
        let good =
            runs.filter(|run| run.outcome.is_ok() && run.series("step_seconds").nth(1).is_some());
        let of_runs: Vec<(f64, f64, f64)> = good.map(of_run).collect();
        let count = median(of_runs.iter().map(|run| run.0))?;
        let mean = median(of_runs.iter().map(|run| run.1))?;
        let variation = median(of_runs.iter().map(|run| run.2))?;
        if threshold <= 0.0 || variation / count.sqrt() <= threshold / 2.0 {
            return None;
        }
        Some(Self {
            seconds: mean * count,
            coefficient_of_variation: variation,
            enough_steps: enough(variation, threshold),
        })
    }
}

/// Steps, their mean, and their coefficient of variation.
fn of_run(run: &Record) -> (f64, f64, f64) {
    let seconds = || run.series("step_seconds");
    let count = seconds().count() as f64;
    let mean = seconds().sum::<f64>() / count;
    let squares: f64 = seconds().map(|time| (time - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    (count, mean, if mean > 0.0 { deviation / mean } else { 0.0 })
}

/// The least number of two digits at which the standard error is half the threshold.
fn enough(variation: f64, threshold: f64) -> Option<u64> {
    let steps = (2.0 * variation / threshold).powi(2).ceil();
    let worthwhile = steps <= WORTHWHILE_STEPS as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to WORTHWHILE_STEPS"
    )]
    let steps = worthwhile.then_some(steps as u64)?;
    let digit = 10_u64.pow(steps.max(1).ilog10().saturating_sub(1));
    Some(steps.next_multiple_of(digit))
}

/// `measured window 50 ms, CV 12 %: 240 measured steps would do`.
impl fmt::Display for ShortWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variation = 100.0 * self.coefficient_of_variation;
        let (length, unit) = match self.seconds {
            seconds if seconds < 1.0 => (1000.0 * seconds, "ms"),
            seconds => (seconds, "s"),
        };
        let digits = usize::from(length < 10.0);
        let window = format!("measured window {length:.digits$} {unit}, CV {variation:.0} %");
        match self.enough_steps {
            Some(steps) => write!(f, "{window}: {steps} measured steps would do"),
            None => write!(
                f,
                "{window}: it would take more steps than is worthwhile (over {WORTHWHILE_STEPS})"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_that_would_do_are_worked_out_by_hand() {
        // (2 · 0.12 ÷ 0.02)² = 144, to two digits 150.
        assert_eq!(enough(0.12, 0.02), Some(150));
        assert_eq!(enough(0.01, 0.02), Some(1));
        assert_eq!(enough(0.9, 0.02), Some(8100));
        assert_eq!(enough(1.1, 0.02), None);
    }

    #[test]
    fn it_reads_as_words() {
        let mut window = ShortWindow {
            seconds: 0.05,
            coefficient_of_variation: 0.12,
            enough_steps: Some(150),
        };
        let text = "measured window 50 ms, CV 12 %: 150 measured steps would do";
        assert_eq!(window.to_string(), text);
        (window.seconds, window.enough_steps) = (2.345, None);
        let text = "measured window 2.3 s, CV 12 %: it would take more steps than is worthwhile \
                    (over 10000)";
        assert_eq!(window.to_string(), text);
    }
}

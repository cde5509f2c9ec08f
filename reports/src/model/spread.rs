//! Several runs' metrics as a few numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One metric over the successful runs of a cell, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Runs that yielded the metric.
    pub n: usize,
    /// Half of the runs are below; between the two in the middle where their count is even.
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
    pub mean: f64,
    /// Standard deviation of the sample (n − 1) over the mean. `None` with fewer than two runs or
    /// where the mean is 0.
    pub coefficient_of_variation: Option<f64>,
}

impl Spread {
    /// Of the finite values; `None` where there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = values.into_iter().filter(|value| value.is_finite());
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (&minimum, &maximum) = (values.first()?, values.last()?);
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let coefficient_of_variation =
            (n > 1 && mean != 0.0).then(|| (squares / (n - 1) as f64).sqrt() / mean.abs());
        Some(Self {
            n,
            median: judge::median(values.iter().copied())?,
            minimum,
            maximum,
            mean,
            coefficient_of_variation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let spread = Spread::of([4.0, 2.0, 6.0, f64::NAN]).unwrap();
        assert_eq!((spread.n, spread.minimum, spread.maximum), (3, 2.0, 6.0));
        assert!((spread.median - 4.0).abs() < 1e-12 && (spread.mean - 4.0).abs() < 1e-12);
        // Deviations −2, 0, 2: variance 8 / 2 = 4, deviation 2, over 4.
        assert!((spread.coefficient_of_variation.unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn degenerate_cases() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::INFINITY]), None);
        assert_eq!(Spread::of([3.0]).unwrap().coefficient_of_variation, None);
        assert_eq!(
            Spread::of([0.0, 0.0]).unwrap().coefficient_of_variation,
            None
        );
        assert_eq!(
            Spread::of([5.0, 5.0]).unwrap().coefficient_of_variation,
            Some(0.0)
        );
    }
}

//! What other cells, or earlier sessions, say about the variance of a run.
//!
//! Empirical Bayes after Smyth (2004), "Linear models and empirical Bayes methods for
//! assessing differential expression in microarray experiments": true variances are
//! taken to scatter as a scaled inverse chi-squared, and its two parameters are read off
//! the observed variances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::function::gamma::digamma;

/// A variance and how many degrees of freedom it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariancePrior {
    /// Variance of one run's log value, without the part that a block shares.
    pub variance: f64,
    /// Its weight, in degrees of freedom.
    pub degrees_of_freedom: f64,
}

/// The largest weight a fitted prior gets; beyond it the prior is as good as known.
const MOST_DF: f64 = 1e6;

impl VariancePrior {
    /// A prior of this variance and weight; `None` unless both are finite and above 0.
    #[must_use]
    pub fn new(variance: f64, degrees_of_freedom: f64) -> Option<Self> {
        let usable = |x: f64| x.is_finite() && x > 0.0;
        (usable(variance) && usable(degrees_of_freedom)).then_some(Self {
            variance,
            degrees_of_freedom,
        })
    }

    /// Fits the prior to `(variance, degrees of freedom)` of other cells or sessions by
    /// the moments of log variance (Smyth 2004, section 6.2). `None` with fewer than
    /// three usable entries: those with both above 0.
    #[must_use]
    pub fn fit(observed: &[(f64, f64)]) -> Option<Self> {
        let usable: Vec<(f64, f64)> = observed
            .iter()
            .copied()
            .filter(|&(s2, df)| s2.is_finite() && s2 > 0.0 && df.is_finite() && df > 0.0)
            .collect();
        if usable.len() < 3 {
            return None;
        }
        let count = usable.len() as f64;
        // e = ln s² freed of the mean that its own degrees of freedom give it.
        let freed: Vec<f64> = usable
            .iter()
            .map(|&(s2, df)| s2.ln() - digamma(df / 2.0) + (df / 2.0).ln())
            .collect();
        let mean = freed.iter().sum::<f64>() / count;
        let spread = freed.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let expected = usable
            .iter()
            .map(|&(_, df)| trigamma(df / 2.0))
            .sum::<f64>()
            / count;
        let excess = spread - expected;
        if excess <= trigamma(MOST_DF / 2.0) {
            // No more scatter than sampling gives: one common variance.
            return Self::new(mean.exp(), MOST_DF);
        }
        let half_df = inverse_trigamma(excess);
        Self::new(
            (mean + digamma(half_df) - half_df.ln()).exp(),
            2.0 * half_df,
        )
    }
}

/// ψ′(x) for x > 0: the recurrence up to 8, then the asymptotic series
/// (Abramowitz and Stegun 6.4.6, 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series =
        1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r * (1.0 / 30.0 - r * 5.0 / 66.0)));
    sum + 1.0 / x + r / 2.0 + r / x * series
}

/// The x with ψ′(x) = y, y > 0, by bisection on a log scale.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut lo, mut hi) = (1e-8_f64.ln(), MOST_DF.ln());
    for _ in 0..100 {
        let mid = f64::midpoint(lo, hi);
        if trigamma(mid.exp()) > y {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    f64::midpoint(lo, hi).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ψ′(1) = π²/6, ψ′(1/2) = π²/2 (Abramowitz and Stegun 6.4.2, 6.4.4).
    #[test]
    fn trigamma_has_its_known_values() {
        let pi2 = std::f64::consts::PI.powi(2);
        for (x, expect) in [(1.0, pi2 / 6.0), (0.5, pi2 / 2.0), (2.0, pi2 / 6.0 - 1.0)] {
            assert!((trigamma(x) / expect - 1.0).abs() < 1e-10, "{x}");
            assert!((inverse_trigamma(expect) / x - 1.0).abs() < 1e-8, "{x}");
        }
    }

    #[test]
    fn equal_variances_make_a_heavy_prior_and_scattered_ones_a_light_one() {
        let heavy = VariancePrior::fit(&[(1e-4, 8.0); 10]).unwrap();
        assert!(heavy.degrees_of_freedom > 1000.0);
        let scattered: Vec<_> = (0..10).map(|i| (10f64.powi(-i), 8.0)).collect();
        let light = VariancePrior::fit(&scattered).unwrap();
        assert!(light.degrees_of_freedom < 1.0, "{light:?}");
    }

    #[test]
    fn too_little_to_fit_is_none() {
        assert_eq!(VariancePrior::fit(&[(1.0, 4.0), (2.0, 4.0)]), None);
        assert_eq!(VariancePrior::fit(&[(0.0, 4.0); 5]), None);
        assert_eq!(VariancePrior::new(f64::NAN, 1.0), None);
    }
}

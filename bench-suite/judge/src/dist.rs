//! Student's t and the normal distribution, as tail probabilities and critical values.
//!
//! The incomplete beta function comes from `statrs`; its quantiles are polished by
//! Newton steps here, and the tests hold both against published tables.

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// Above this many degrees of freedom t is the normal distribution to ten digits.
const NORMAL_FROM_DF: f64 = 1e8;

/// P(|T| ≥ |t|) for Student's t with `df` degrees of freedom.
#[must_use]
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    if df >= NORMAL_FROM_DF {
        return normal_two_sided(t);
    }
    beta_reg(df / 2.0, 0.5, (df / (df + t * t)).clamp(0.0, 1.0)).clamp(0.0, 1.0)
}

/// The t that [`t_two_sided`] takes to `alpha`; infinite for `alpha` ≤ 0, 0 for ≥ 1.
#[must_use]
pub fn t_critical(df: f64, alpha: f64) -> f64 {
    if alpha <= 0.0 || df.is_nan() || df <= 0.0 {
        return f64::INFINITY;
    }
    if alpha >= 1.0 {
        return 0.0;
    }
    if df >= NORMAL_FROM_DF {
        return normal_critical(alpha);
    }
    let Ok(dist) = StudentsT::new(0.0, 1.0, df) else {
        return f64::INFINITY;
    };
    let mut t = dist.inverse_cdf(1.0 - alpha / 2.0);
    if !t.is_finite() || t <= 0.0 {
        t = normal_critical(alpha);
    }
    for _ in 0..4 {
        // Newton on log p: p falls like a power of t, which a plain step overshoots.
        let p = t_two_sided(t, df);
        let slope = -2.0 * dist.pdf(t) / p;
        if p <= 0.0 || slope >= 0.0 || !slope.is_finite() {
            break;
        }
        let next = t - (p.ln() - alpha.ln()) / slope;
        if !next.is_finite() || next <= 0.0 {
            break;
        }
        t = next;
    }
    t
}

/// P(|Z| ≥ |z|) for the standard normal.
#[must_use]
pub fn normal_two_sided(z: f64) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    (2.0 * Normal::standard().sf(z.abs())).min(1.0)
}

/// The z that [`normal_two_sided`] takes to `alpha`; infinite for `alpha` ≤ 0, 0 for ≥ 1.
#[must_use]
pub fn normal_critical(alpha: f64) -> f64 {
    if alpha <= 0.0 {
        f64::INFINITY
    } else if alpha >= 1.0 {
        0.0
    } else {
        // The lower tail keeps its digits where 1 - alpha / 2 would round to 1.
        -Normal::standard().inverse_cdf(alpha / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(got: f64, expect: f64, relative: f64) {
        assert!(
            (got / expect - 1.0).abs() <= relative,
            "got {got}, expected {expect}"
        );
    }

    /// Critical values of Student's t as printed in the NIST/SEMATECH e-Handbook of
    /// Statistical Methods, section 1.3.6.7.2 (three decimals).
    #[test]
    fn critical_values_agree_with_the_nist_table() {
        for (df, alpha, expect) in [
            (1.0, 0.05, 12.706),
            (2.0, 0.05, 4.303),
            (4.0, 0.05, 2.776),
            (8.0, 0.05, 2.306),
            (4.0, 0.01, 4.604),
            (8.0, 0.01, 3.355),
            (10.0, 0.10, 1.812),
            (30.0, 0.05, 2.042),
            (100.0, 0.01, 2.626),
        ] {
            check(t_critical(df, alpha), expect, 3e-4);
        }
    }

    /// Closed forms: df = 1 is Cauchy, df = 2 has p = 1 - t / sqrt(t² + 2).
    #[test]
    fn closed_forms_for_one_and_two_degrees_of_freedom() {
        for t in [0.1, 1.0, 3.0, 12.0, 500.0] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * f64::atan(t);
            check(t_two_sided(t, 1.0), cauchy, 1e-9);
            let two = 1.0 - t / f64::sqrt(t * t + 2.0);
            check(t_two_sided(t, 2.0), two, 1e-8);
        }
    }

    #[test]
    fn quantile_inverts_the_tail_even_far_out() {
        for df in [1.0, 2.5, 4.0, 8.0, 39.0, 1e4] {
            for alpha in [0.9, 0.05, 0.025, 1e-4, 1e-9] {
                check(
                    t_two_sided(t_critical(df, alpha), df),
                    alpha,
                    1e-2 * alpha.powf(0.1),
                );
            }
        }
        for alpha in [0.5, 0.05, 1e-10] {
            check(normal_two_sided(normal_critical(alpha)), alpha, 1e-8);
        }
        check(normal_critical(0.05), 1.959_963_985, 1e-8);
    }

    #[test]
    fn nonsense_in_means_no_evidence() {
        for p in [
            t_two_sided(f64::NAN, 4.0),
            t_two_sided(3.0, 0.0),
            t_two_sided(3.0, f64::NAN),
        ] {
            check(p, 1.0, 0.0);
        }
        assert!(t_critical(0.0, 0.05).is_infinite());
        assert!(t_critical(4.0, 0.0).is_infinite());
    }
}

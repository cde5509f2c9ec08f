//! Student's t and the normal distribution, as tail probabilities and critical values.
//!
//! The incomplete beta function comes from `statrs`. Its quantiles are found here: those of
//! `statrs` (AS 64) do not end for some arguments, 1.7e7 degrees of freedom and 0.91 among them.
//! The tests hold both against published tables.

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// Above this many degrees of freedom t is the normal distribution to ten digits.
const NORMAL_FROM_DF: f64 = 1e8;
/// Steps to a quantile; ten do nearly always, and halving alone needs no more than this.
const MOST_STEPS: usize = 70;

/// P(|T| ≥ |t|) for Student's t with `df` degrees of freedom.
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
    // Newton's steps on ln p over ln t, which is concave, between what is too small and what is
    // too large.
    let (mut low, mut high) = (f64::MIN_POSITIVE.ln(), f64::MAX.ln());
    let mut ln_t = normal_critical(alpha).ln().clamp(low, high);
    for _ in 0..MOST_STEPS {
        let t = ln_t.exp();
        let p = t_two_sided(t, df);
        let excess = p.ln() - alpha.ln();
        if excess > 0.0 {
            low = ln_t;
        } else {
            high = ln_t;
        }
        let newton = ln_t + excess * p / (2.0 * t * dist.pdf(t));
        let inside = newton > low && newton < high;
        let next = if inside {
            newton
        } else {
            f64::midpoint(low, high)
        };
        let moved = (next - ln_t).abs();
        ln_t = next;
        if moved <= 1e-14 * ln_t.abs().max(1.0) {
            break;
        }
    }
    ln_t.exp()
}

/// P(F ≥ f) for Fisher's F with `above` and `below` degrees of freedom.
pub fn f_upper(f: f64, above: f64, below: f64) -> f64 {
    if !(f > 0.0 && above > 0.0 && below > 0.0) {
        return 1.0;
    }
    let share = below / (below + above * f);
    beta_reg(below / 2.0, above / 2.0, share.clamp(0.0, 1.0))
}

/// P(|Z| ≥ |z|) for the standard normal.
pub fn normal_two_sided(z: f64) -> f64 {
    if z.is_nan() {
        return 1.0;
    }
    (2.0 * Normal::standard().sf(z.abs())).min(1.0)
}

/// The z that [`normal_two_sided`] takes to `alpha`; infinite for `alpha` ≤ 0, 0 for ≥ 1.
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

    /// The square of Student's t is F with 1 degree of freedom above; F(4, 4) has
    /// P = (1 + 3 f) ÷ (1 + f)³.
    #[test]
    fn upper_tails_of_f() {
        check(f_upper(9.0, 1.0, 5.0), t_two_sided(3.0, 5.0), 1e-9);
        check(f_upper(6.0, 4.0, 4.0), 19.0 / 343.0, 1e-9);
        check(f_upper(0.0, 4.0, 4.0), 1.0, 0.0);
    }

    #[test]
    fn quantile_inverts_the_tail_even_far_out() {
        for df in [1.0, 2.5, 4.0, 8.0, 39.0, 1e4, 1.738_991_105_884_086e7] {
            for alpha in [0.910_979_547_929_290_6, 0.9, 0.05, 0.025, 1e-4, 1e-9] {
                check(t_two_sided(t_critical(df, alpha), df), alpha, 1e-7);
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

//! What cells of one metric know of each other's noise: moderated variances.
//!
//! Three blocks know their own noise with two to four degrees of freedom, twelve cells together
//! with some fifty. Smyth (2004), "Linear models and empirical Bayes methods", as in limma: the
//! cells' true variances are taken to scatter as d₀ s₀² ÷ χ²(d₀); s₀² and d₀ come from how the
//! variances that were seen scatter, and each cell's own counts as d more degrees of freedom. Where
//! cells are unlike each other d₀ is small, and each stands nearly by itself.

use statrs::function::gamma::digamma;

use crate::{dist::f_upper, median};

/// A variance, and the degrees of freedom that it is known with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// Of the logarithm of one value.
    pub value: f64,
    /// Above 0.
    pub df: f64,
}

/// Fewer cells than this say too little of how cells scatter.
pub(crate) const FEWEST: usize = 5;

/// d₀ is estimated so many standard errors on the side of caution.
const CAUTION: f64 = 0.5;

/// A cell that is noisier than its prior allows for with this probability has no part in it.
const OUTLYING: f64 = 0.01;

/// Values farther out than so many scales are brought in to there (Huber 1964), so that one wild run
/// neither hides a change nor makes one.
const CLIPPED: f64 = 2.0;

/// A history's variance is known by so many times its degrees of freedom. Values of kurtosis κ have
/// (κ - 1) ÷ 2 times the normal variance of s², so that half is right at 5; four workloads on an H200
/// have 2.2 to 27. Measured by `benches/bars`: with 1 more is false (2.27 % for 2.07 in Skewed noise),
/// and less is found (64.9 % of 1 % for 65.1).
const HEAVY_TAILED: f64 = 0.5;

impl Variance {
    /// Of a run's part in a mean of [`Self::brought_in`] runs, from the logarithms of earlier
    /// sessions, all above 0: about each session's median, with what lies more than 2 scales out
    /// brought in to there. `None` of fewer than three degrees of freedom, and where all values are
    /// equal.
    pub fn of_earlier(sessions: &[Vec<f64>]) -> Option<Self> {
        let off = sessions.iter().flat_map(|values| {
            let logs = || values.iter().map(|value| value.ln());
            let centre = median(logs()).unwrap_or_default();
            logs().map(move |log| log - centre)
        });
        let off: Vec<f64> = off.collect();
        let df = off.len().checked_sub(sessions.len()).filter(|df| *df > 2)? as f64;
        // The median itself is no distance from it.
        let distances = off.iter().map(|off| off.abs()).filter(|off| *off > 0.0);
        let most = CLIPPED * 1.4826 * median(distances)?;
        let squares: f64 = off.iter().map(|off| off.clamp(-most, most).powi(2)).sum();
        // A run that is brought in does not move the mean, and the others move it the more.
        let moving = off.iter().filter(|off| off.abs() < most).count() as f64 / off.len() as f64;
        Some(Self {
            value: squares / df / moving.powi(2),
            df: HEAVY_TAILED * df,
        })
    }

    /// Logarithms with those farther than 2 of its scales from their median brought in to there, and
    /// how many those are.
    pub(crate) fn brought_in(self, logs: &[f64]) -> (Vec<f64>, usize) {
        let centre = median(logs.iter().copied()).unwrap_or_default();
        let most = CLIPPED * self.value.sqrt();
        let far = logs.iter().filter(|log| (**log - centre).abs() > most);
        let inside = |log: &f64| log.clamp(centre - most, centre + most);
        (logs.iter().map(inside).collect(), far.count())
    }

    /// From several variances: what the next one is likely to be. `None` of fewer than [`FEWEST`].
    pub(crate) fn prior(of: &[Self]) -> Option<Self> {
        if of.len() < FEWEST {
            return None;
        }
        let m = of.len() as f64;
        let logs = || of.iter().map(|one| one.typical_log());
        let mean = logs().sum::<f64>() / m;
        let squares: f64 = logs().map(|log| (log - mean).powi(2)).sum();
        let seen = squares / (m - 1.0);
        let by_chance = of.iter().map(|one| trigamma(one.df / 2.0)).sum::<f64>() / m;
        let caution = CAUTION * seen.max(by_chance) * (2.0 / (m - 1.0)).sqrt();
        let df = 2.0 * trigamma_inverse((seen - by_chance).max(0.0) + caution);
        let value = (mean + digamma(df / 2.0) - (df / 2.0).ln()).exp();
        Some(Self { value, df })
    }

    /// The logarithm less what chance takes off it on average: that of s² has mean
    /// ln σ² + ψ(d ÷ 2) - ln(d ÷ 2) and variance ψ′(d ÷ 2).
    pub(crate) fn typical_log(self) -> f64 {
        self.value.ln() - digamma(self.df / 2.0) + (self.df / 2.0).ln()
    }

    /// With what was known before, unless this is far noisier than that.
    pub(crate) fn with(self, prior: Option<Self>) -> Self {
        let prior = prior.filter(|prior| !self.is_above(*prior, OUTLYING));
        prior.map_or(self, |prior| self.and(prior))
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let df = self.df + other.df;
        let value = (self.df * self.value + other.df * other.value) / df;
        Self { value, df }
    }

    /// Whether chance would bring it so far above the other with at most this probability.
    pub(crate) fn is_above(self, other: Self, probability: f64) -> bool {
        f_upper(self.value / other.value, self.df, other.df) < probability
    }
}

/// ψ′, the variance of the logarithm of a gamma variable of this shape.
pub(crate) fn trigamma(x: f64) -> f64 {
    // By ψ′(x) = ψ′(x + 1) + 1 ÷ x² to where the asymptotic series holds to 1e-12.
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 {
        sum += x.powi(-2);
        x += 1.0;
    }
    let y = x.powi(-2);
    sum + (1.0 + y * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))) / x + y / 2.0
}

/// The shape whose ψ′ is `value`, above 0.
fn trigamma_inverse(value: f64) -> f64 {
    // 1 ÷ x < ψ′(x) < 1 ÷ x + 1 ÷ x², so the shape lies between; halving finds it.
    let (mut lo, mut hi) = (value.recip(), value.recip() + value.sqrt().recip() + 1.0);
    while hi - lo > 1e-12 * hi {
        let middle = f64::midpoint(lo, hi);
        if trigamma(middle) > value {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    lo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(got: f64, expect: f64) {
        assert!((got / expect - 1.0).abs() < 1e-9, "{got}, not {expect}");
    }

    #[test]
    fn trigamma_at_known_places() {
        let pi2 = std::f64::consts::PI.powi(2);
        check(trigamma(1.0), pi2 / 6.0);
        check(trigamma(0.5), pi2 / 2.0);
        check(trigamma(2.0), pi2 / 6.0 - 1.0);
        for shape in [0.01, 0.5, 3.0, 1e4] {
            check(trigamma_inverse(trigamma(shape)), shape);
        }
    }

    /// Distances from the sessions' medians in %: -1, 0, 1; -2, 0, 1; and -1, 0, 30, brought in to
    /// 2 · 1.4826 · 1 = 2.9652. (1 + 1 + 4 + 1 + 1 + 8.792) ÷ 6 = 2.7987 %², over (8 ÷ 9)²: 3.5421 %².
    #[test]
    fn earlier_sessions_by_hand() {
        let session = |off: [f64; 3]| off.map(|off| 7.0 * (off / 100.0).exp()).to_vec();
        let off = [[-1.0, 0.0, 1.0], [-2.0, 0.0, 1.0], [30.0, -1.0, 0.0]];
        let known = Variance::of_earlier(&off.map(session)).unwrap();
        assert!((1e4 * known.value - 3.5421).abs() < 1e-3, "{known:?}");
        check(known.df, 3.0);
        assert_eq!(Variance::of_earlier(&[vec![7.0; 9]]), None);
        assert_eq!(Variance::of_earlier(&[vec![7.0, 7.1, 7.2]]), None);
    }

    /// Alike, cells have much to say of each other; unlike, next to nothing; and one that is far
    /// noisier stands alone.
    #[test]
    fn unlike_cells_stand_by_themselves() {
        let of = |values: &[f64]| -> Vec<Variance> {
            let all = values.iter().map(|&value| Variance { value, df: 4.0 });
            all.collect()
        };
        let alike = of(&[0.8, 1.0, 1.2, 0.9, 1.1, 1.0, 0.7, 1.3]);
        let prior = Variance::prior(&alike).unwrap();
        assert!(
            prior.df > 8.0 && (prior.value - 1.2).abs() < 0.1,
            "{prior:?}"
        );
        let unlike = of(&[1e-4, 1.0, 1e2, 1e-2, 10.0, 1e-3, 1e3, 0.1]);
        assert!(Variance::prior(&unlike).unwrap().df < 1.0);
        let noisy = of(&[100.0])[0];
        assert_eq!(noisy.with(Some(prior)), noisy);
        let own = alike[0].with(Some(prior));
        assert!(own.df > 12.0 && own.value > 0.8 && own.value < prior.value);
        assert_eq!(Variance::prior(&alike[..FEWEST - 1]), None);
    }
}

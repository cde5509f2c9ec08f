//! What the blocks say of every possible ratio: three tests, one p.
//!
//! Each test asks whether the logarithm of head ÷ base lies above, or below, a value θ:
//! - Student's t on the blocks' differences keeps its power where blocks drift;
//! - Welch's t (1947) on the two sides has twice the degrees of freedom where they do not;
//! - Mann and Whitney's exact rank test (1947) on the sides does not mind single wild runs.
//!
//! Their one-sided p are put together by Cauchy's combination (Liu and Xie 2020): the sum of
//! weight × cot(π p) is again that of a uniform p, nearly so for small p however the tests
//! depend on each other. Unlike the smallest p times three it charges nothing where the tests
//! agree. As each test's p grows with θ, so does the whole, and the ratios that are not rejected
//! are an interval.

use std::f64::consts::{FRAC_PI_2, PI};

use super::ranks;
use super::types::{Interval, Options};
use crate::dist::t_two_sided;
use crate::sessions::BetweenSessions;

/// How much of the error budget each test has.
const WELCH: f64 = 0.1;
const RANKS: f64 = 0.4;
const PAIRED: f64 = 0.5;

/// The combination is exact for small p alone; at 0.02 tests that depend on each other as these
/// do err up to a tenth more often than it says. Measured by `benches/bars`.
const CORRECTION: f64 = 1.15;

/// The rank test takes both sides to scatter alike. Where one scatters so many times as much as
/// the other, as one that repeats a single value does, the t tests share its budget.
const MOST_UNLIKE: f64 = 8.0;

/// Where the search for an end of the interval gives up; no ratio has such a logarithm.
const FARTHEST: f64 = 1e300;

/// The logarithms of at least two blocks, ready to be asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evidence {
    blocks: usize,
    mean: f64,
    noise: f64,
    /// The sides by themselves.
    welch: StudentT,
    /// Block by block; `None` where the blocks of the sides share nothing.
    paired: Option<StudentT>,
    /// Every head less every base, ascending; `None` where ranks say nothing.
    differences: Option<Vec<f64>>,
}

/// A mean's standard error and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StudentT {
    error: f64,
    df: f64,
}

impl StudentT {
    /// cot(π p) of the one-sided p that the mean lies above by `distance`.
    fn cot_p(self, distance: f64) -> f64 {
        let cot = (FRAC_PI_2 * t_two_sided(distance / self.error, self.df)).tan();
        cot.recip().copysign(distance)
    }
}

impl Evidence {
    /// From the pairs' logarithms; `None` of fewer than two, which show no noise.
    pub(super) fn of(
        pairs: &[(f64, f64)],
        between: Option<BetweenSessions>,
        options: &Options,
    ) -> Option<Self> {
        let blocks = pairs.len();
        if blocks < 2 {
            return None;
        }
        let n = blocks as f64;
        // Sorted, so that the order of blocks cannot matter even in the last bit.
        let sorted = |value: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (base, head) = (sorted(|pair| pair.0), sorted(|pair| pair.1));
        let ratios = sorted(|pair| pair.1 - pair.0);
        let floor = options.noise_floor.powi(2);
        let of_base = variance(&base).max(floor);
        let of_head = variance(&head).max(floor);
        // A block's ratio holds two runs, each with a variance of its own.
        let of_ratios = variance(&ratios).max(2.0 * floor);
        let both = of_base + of_head;
        let like = {
            let (one, other) = (middle(&base), middle(&head));
            one <= MOST_UNLIKE * other && other <= MOST_UNLIKE * one
        };
        let mut welch = StudentT {
            error: (both / n).sqrt(),
            df: (n - 1.0) * both * both / (of_base * of_base + of_head * of_head),
        };
        if let Some(between) = between {
            // Each side is one session. Should its runs scatter more than that, they count, without
            // being better known.
            let error = (2.0 * between.deviation.powi(2)).sqrt();
            let df = between.degrees_of_freedom;
            welch = if error > welch.error {
                StudentT { error, df }
            } else {
                StudentT {
                    df: df.min(welch.df),
                    ..welch
                }
            };
        }
        let differences = (like && between.is_none()).then(|| {
            let mut all: Vec<f64> = head
                .iter()
                .flat_map(|head| base.iter().map(move |base| head - base))
                .collect();
            all.sort_by(f64::total_cmp);
            all
        });
        Some(Self {
            blocks,
            mean: mean(&ratios),
            noise: (of_ratios / 2.0).sqrt(),
            welch,
            paired: between.is_none().then(|| StudentT {
                error: (of_ratios / n).sqrt(),
                df: n - 1.0,
            }),
            differences,
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Whether the noise is that between sessions, which more blocks do not lower.
    pub(super) fn is_between_sessions(&self) -> bool {
        self.paired.is_none()
    }

    /// Those that half the interval is known with: of the combination between those of the paired
    /// t and of Welch's.
    pub(super) fn degrees_of_freedom(&self) -> f64 {
        match self.paired {
            Some(paired) => 1.5 * paired.df,
            None => self.welch.df,
        }
    }

    /// Standard deviation of one run's log value, without the part that a block shares.
    pub(super) fn noise(&self) -> f64 {
        self.noise
    }

    /// The combined cot(π p) that the log ratio lies above `theta`, and below.
    fn cots(&self, theta: f64) -> (f64, f64) {
        let distance = self.mean - theta;
        let welch = self.welch.cot_p(distance);
        let Some(paired) = self.paired else {
            return (welch, -welch);
        };
        let t = WELCH * welch + PAIRED * paired.cot_p(distance);
        let Some(differences) = &self.differences else {
            let t = t / (WELCH + PAIRED);
            return (t, -t);
        };
        // A tie counts for neither side.
        let below = differences.partition_point(|&d| d < theta);
        let above = differences.len() - differences.partition_point(|&d| d <= theta);
        let cot = |u| RANKS / (PI * ranks::upper_tail(self.blocks, u)).tan();
        (t + cot(above), cot(below) - t)
    }

    /// P of an effect this large where the log ratio is `theta`, both directions together.
    pub(super) fn p_value(&self, theta: f64) -> f64 {
        let (above, below) = self.cots(theta);
        (2.0 * one_sided(above.max(below))).min(1.0)
    }

    /// The log ratio for which as much speaks from above as from below: p is 1 there.
    pub(super) fn estimate(&self) -> f64 {
        self.falls(|theta| {
            let (above, below) = self.cots(theta);
            above > below
        })
    }

    /// The log ratios whose p is above `alpha`; the estimate lies among them.
    pub(super) fn interval(&self, alpha: f64) -> (f64, f64) {
        let lo = self.falls(|theta| 2.0 * one_sided(self.cots(theta).0) <= alpha);
        let hi = self.falls(|theta| 2.0 * one_sided(self.cots(theta).1) > alpha);
        (lo, hi)
    }

    /// Where `holds`, true for small log ratios and false for large ones, turns.
    fn falls(&self, holds: impl Fn(f64) -> bool) -> f64 {
        let mut step = self.welch.error;
        let (mut lo, mut hi) = (self.mean - step, self.mean + step);
        while !holds(lo) && step < FARTHEST {
            (lo, hi) = (lo - step, lo);
            step *= 2.0;
        }
        while holds(hi) && step < FARTHEST {
            (lo, hi) = (hi, hi + step);
            step *= 2.0;
        }
        // Far below what a ratio is printed to.
        while hi - lo > 1e-9 * lo.abs().max(1e-3) {
            let middle = f64::midpoint(lo, hi);
            if holds(middle) {
                lo = middle;
            } else {
                hi = middle;
            }
        }
        f64::midpoint(lo, hi)
    }
}

/// The corrected one-sided p of a combined cot(π p).
fn one_sided(cot: f64) -> f64 {
    CORRECTION * 1.0_f64.atan2(cot) / PI
}

/// The interval of ratios with these logarithms.
pub(super) fn ratios((lo, hi): (f64, f64)) -> Interval {
    Interval {
        lo: ratio(lo),
        hi: ratio(hi),
    }
}

/// The ratio with this logarithm; the largest there is where it is larger, since infinity has no
/// place in JSON.
pub(super) fn ratio(log: f64) -> f64 {
    log.exp().min(f64::MAX)
}

/// The range of the sorted values without a quarter of them at either end, so that wild ones do
/// not count.
fn middle(sorted: &[f64]) -> f64 {
    let end = sorted.len() / 4;
    sorted[sorted.len() - 1 - end] - sorted[end]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample variance (n − 1 below the line) of at least two sorted values; exactly 0 where all are
/// equal.
fn variance(sorted: &[f64]) -> f64 {
    if sorted.first() == sorted.last() {
        return 0.0;
    }
    let centre = mean(sorted);
    let squares: f64 = sorted.iter().map(|v| (v - centre).powi(2)).sum();
    squares / (sorted.len() - 1) as f64
}

//! What the runs say of every possible ratio: up to three tests, one p.
//!
//! Each test asks whether the logarithm of head ÷ base lies above, or below, a value θ:
//! - Student's t on the blocks' differences keeps its power where blocks drift;
//! - Welch's t (1947) on the two sides has twice the degrees of freedom where they do not, and
//!   takes runs without a partner too;
//! - Mann and Whitney's exact rank test (1947) on the sides does not mind single wild runs.
//!
//! Where the cells of a metric know each other's noise, one t with their moderated variance stands
//! in place of the first two. One-sided p are put together by Cauchy's combination (Liu and Xie
//! 2020): the sum of weight × cot(π p) is again that of a uniform p, nearly so for small p however
//! the tests depend on each other. Unlike the smallest p times three it charges nothing where the
//! tests agree. As each test's p grows with θ, so does the whole, and the ratios that are not
//! rejected are an interval.

use std::f64::consts::{FRAC_PI_2, PI};

use super::ranks::Tails;
use super::sample::{Kin, Sample, mean, variance};
use super::types::{Interval, Method};
use crate::dist::t_two_sided;
use crate::moderation::Variance;

/// How much of the error budget each test has. Where ranks cannot reach what is asked for, Welch's
/// t has their share.
const WELCH: f64 = 0.1;
const RANKS: f64 = 0.4;
const PAIRED: f64 = 0.5;

/// The combination is exact for small p alone; at 0.02 tests that depend on each other as these
/// do err up to a tenth more often than it says. Measured by `benches/bars`.
const CORRECTION: f64 = 1.15;

/// The rank test takes both sides to scatter alike. Where one scatters so many times as much as
/// the other, as one that repeats a single value does, the t tests have its share.
const MOST_UNLIKE: f64 = 8.0;

/// Where the search for an end of the interval gives up; no ratio has such a logarithm.
const FARTHEST: f64 = 1e300;

/// What at least two runs of either side say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evidence {
    /// The t tests, each with its share of the budget.
    tests: Vec<(f64, StudentT)>,
    ranks: Option<Ranks>,
    blocks: usize,
    noise: f64,
    method: Method,
}

/// A mean with its standard error, and the degrees of freedom of that.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StudentT {
    mean: f64,
    error: f64,
    df: f64,
}

impl StudentT {
    /// Of a mean whose variance is `share` of this one.
    fn of(mean: f64, variance: Variance, share: f64) -> Self {
        Self {
            mean,
            error: (share * variance.value).sqrt(),
            df: variance.df,
        }
    }

    /// cot(π p) of the one-sided p that the mean lies above `theta`.
    fn cot_p(self, theta: f64) -> f64 {
        let distance = self.mean - theta;
        let cot = (FRAC_PI_2 * t_two_sided(distance / self.error, self.df)).tan();
        cot.recip().copysign(distance)
    }
}

/// Every head less every base, ascending, and how likely so many on one side are.
#[derive(Debug, Clone, PartialEq)]
struct Ranks {
    differences: Vec<f64>,
    tails: Tails,
    /// Differences no larger than this are ties, which count for neither side.
    tie: f64,
}

impl Ranks {
    /// `None` where the sides scatter unlike, or where no order of the runs reaches `alpha`.
    fn of(sample: &Sample, alpha: f64) -> Option<Self> {
        let Sample { base, head, .. } = sample;
        let (one, other) = (middle(base), middle(head));
        let is_alike = one <= MOST_UNLIKE * other && other <= MOST_UNLIKE * one;
        let tails = Tails::of(base.len(), head.len());
        if !is_alike || 2.0 * tails.upper(base.len() * head.len()) > alpha {
            return None;
        }
        let all = head
            .iter()
            .flat_map(|head| base.iter().map(move |base| head - base));
        let mut differences: Vec<f64> = all.collect();
        differences.sort_by(f64::total_cmp);
        Some(Self {
            differences,
            tails,
            tie: sample.floor.sqrt(),
        })
    }

    /// cot(π p) that the head lies `theta` above the base, and below.
    fn cots(&self, theta: f64) -> (f64, f64) {
        let all = &self.differences;
        let below = all.partition_point(|&d| d < theta - self.tie);
        let above = all.len() - all.partition_point(|&d| d <= theta + self.tie);
        // A sum of chances may come out above 1, where the cotangent begins anew.
        let cot = |u| (PI * self.tails.upper(u).min(1.0 - 1e-12)).tan().recip();
        (cot(above), cot(below))
    }
}

impl Evidence {
    /// `kin`: what the cells of the metric say; `alpha`: what the p of a single change in the
    /// family has to be.
    pub(crate) fn of(sample: &Sample, kin: Option<&Kin>, alpha: f64) -> Self {
        let ranks = Ranks::of(sample, alpha).filter(|_| sample.between.is_none());
        let (of_welch, all) = match ranks {
            Some(_) => (WELCH, 1.0 - RANKS),
            None => (1.0 - PAIRED, 1.0),
        };
        let ratios = sample.of_ratios();
        let by_blocks = |ratios: Variance| {
            let share = 1.0 / sample.ratios.len() as f64;
            StudentT::of(mean(&sample.ratios), ratios, share)
        };
        let by_sides = || by_sides(sample, kin);
        let tests = match (kin, ratios) {
            _ if sample.between.is_some() => vec![(all, by_sides())],
            (Some(kin), Some(ratios)) if kin.is_paired => {
                vec![(all, by_blocks(ratios.with(kin.ratios)))]
            }
            (None, Some(ratios)) => vec![(PAIRED, by_blocks(ratios)), (of_welch, by_sides())],
            _ => vec![(all, by_sides())],
        };
        let (base, head) = sample.of_sides();
        let noise = ratios.map_or(base.and(head).value, |ratios| ratios.value / 2.0);
        Self {
            tests,
            ranks,
            blocks: sample.base.len().min(sample.head.len()),
            noise: noise.sqrt(),
            method: match (sample.between, kin) {
                (Some(_), _) => Method::BetweenSessions,
                (None, Some(_)) => Method::Moderated,
                (None, None) => Method::Combined,
            },
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    pub(super) fn method(&self) -> Method {
        self.method
    }

    /// Those that half the interval is known with: of a combination between those of its tests.
    pub(super) fn degrees_of_freedom(&self) -> f64 {
        let all = self.tests.iter().map(|(_, test)| test.df);
        all.sum::<f64>() / self.tests.len() as f64
    }

    /// Standard deviation of one run's log value, without the part that a block shares.
    pub(super) fn noise(&self) -> f64 {
        self.noise
    }

    /// The combined cot(π p) that the log ratio lies above `theta`, and below.
    fn cots(&self, theta: f64) -> (f64, f64) {
        let each = self.tests.iter();
        let t: f64 = each.map(|(weight, test)| weight * test.cot_p(theta)).sum();
        let Some(ranks) = &self.ranks else {
            return (t, -t);
        };
        let (above, below) = ranks.cots(theta);
        (RANKS * above + t, RANKS * below - t)
    }

    /// The p of a combined cot(π p), both directions together.
    fn p(&self, cot: f64) -> f64 {
        let is_one = self.tests.len() == 1 && self.ranks.is_none();
        let correction = if is_one { 1.0 } else { CORRECTION };
        (2.0 * correction * 1.0_f64.atan2(cot) / PI).min(1.0)
    }

    /// The smallest α at which [`Self::interval`] lies wholly beyond ± `threshold`, a logarithm, or
    /// wholly within; the p of no change where `threshold` is 0.
    pub(crate) fn p_value(&self, threshold: f64) -> f64 {
        let (above_top, below_top) = self.cots(threshold);
        let (above_bottom, below_bottom) = self.cots(-threshold);
        let beyond = self.p(above_top).min(self.p(below_bottom));
        beyond.min(self.p(above_bottom).max(self.p(below_top)))
    }

    /// The log ratio for which as much speaks from above as from below.
    pub(super) fn estimate(&self) -> f64 {
        self.falls(|theta| {
            let (above, below) = self.cots(theta);
            above > below
        })
    }

    /// The log ratios whose p is above `alpha`; the estimate lies among them.
    pub(super) fn interval(&self, alpha: f64) -> (f64, f64) {
        let lo = self.falls(|theta| self.p(self.cots(theta).0) <= alpha);
        let hi = self.falls(|theta| self.p(self.cots(theta).1) > alpha);
        (lo, hi)
    }

    /// Where `holds`, true for small log ratios and false for large ones, turns.
    fn falls(&self, holds: impl Fn(f64) -> bool) -> f64 {
        let (_, StudentT { mean, error, .. }) = self.tests[0];
        let mut step = error;
        let (mut lo, mut hi) = (mean - step, mean + step);
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

/// The two sides by themselves: with one variance where they are known to scatter alike, or else
/// by Welch; by that between sessions where they are of two.
fn by_sides(sample: &Sample, kin: Option<&Kin>) -> StudentT {
    let past = sample
        .past
        .filter(|_| kin.is_some_and(|kin| kin.is_as_before));
    let (base_runs, head_runs) = sample.sides(past);
    let (base, head) = (
        variance(&base_runs, sample.floor),
        variance(&head_runs, sample.floor),
    );
    let (of_base, of_head) = (
        1.0 / sample.base.len() as f64,
        1.0 / sample.head.len() as f64,
    );
    let share = of_base + of_head;
    let runs = if kin.is_some_and(|kin| kin.is_alike) && !sample.is_unlike() {
        base.and(head)
    } else {
        let (base_part, head_part) = (of_base * base.value, of_head * head.value);
        let both = base_part + head_part;
        Variance {
            value: both / share,
            df: both.powi(2) / (base_part.powi(2) / base.df + head_part.powi(2) / head.df),
        }
    };
    let difference = mean(&head_runs) - mean(&base_runs);
    let Some(between) = sample.between else {
        let known = runs.with(past).with(kin.map(|kin| kin.runs));
        return StudentT::of(difference, known, share);
    };
    // Each side is one session. Should its runs scatter more than that, they count, without being
    // better known.
    let sessions = Variance {
        value: 2.0 * between.deviation.powi(2),
        df: between.degrees_of_freedom,
    };
    if sessions.value > share * runs.value {
        StudentT::of(difference, sessions, 1.0)
    } else {
        let df = sessions.df.min(runs.df);
        StudentT::of(difference, Variance { df, ..runs }, share)
    }
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

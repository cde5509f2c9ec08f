//! What jumps between two values, as an allocator's reserve does or a clock: the values and how often
//! each side has the upper one say all that there is.

use statrs::function::beta::beta_reg;

use super::types::{Comparison, Interval, Kind, Measurement, Method, NOISE_FLOOR};

/// Modes are as far apart as so many times what they scatter by.
const APART: f64 = 10.0;

/// One wild time in this many is no mode of it.
const RARE: usize = 4;

/// Two values, and how many runs of a side have the upper one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Modes {
    lower: f64,
    upper: f64,
    base: (usize, usize),
    head: (usize, usize),
}

impl Modes {
    /// `None` where the values are not two; those of times also where one is rare.
    pub(super) fn of(metric: &Measurement) -> Option<Self> {
        let of_base = || metric.blocks.iter().filter_map(|block| block.base);
        let of_head = || metric.blocks.iter().filter_map(|block| block.head);
        let mut all: Vec<f64> = of_base().chain(of_head()).collect();
        all.sort_by(f64::total_cmp);
        let gap = |place: &usize| all[*place] - all[place - 1];
        let split = (1..all.len()).max_by(|one, other| gap(one).total_cmp(&gap(other)))?;
        let (low, high) = all.split_at(split);
        let middle = |mode: &[f64]| mode[mode.len() / 2];
        let spread = |mode: &[f64]| mode[mode.len() - 1] - mode[0];
        let is_upper = |value: &f64| *value >= high[0];
        let (base, head) = (
            (of_base().filter(is_upper).count(), of_base().count()),
            (of_head().filter(is_upper).count(), of_head().count()),
        );
        let least = match metric.kind {
            Kind::MemoryLike => f64::MIN_POSITIVE,
            Kind::TimeLike => NOISE_FLOOR * low[0],
        };
        let scatter = spread(low).max(spread(high)).max(least);
        let is_common = metric.kind == Kind::MemoryLike
            || metric.between.is_none() && low.len().min(high.len()) * RARE >= all.len();
        let has_ratio = low[0] > 0.0 && (high[high.len() - 1] / low[0]).is_finite();
        (has_ratio && is_common && scatter * APART <= gap(&split)).then(|| Self {
            lower: middle(low),
            upper: middle(high),
            base,
            head,
        })
    }

    /// Whether a side has both: else it may as well be a change.
    pub(crate) fn are_mixed(&self) -> bool {
        let has_both = |(upper, all): (usize, usize)| upper > 0 && upper < all;
        has_both(self.base) || has_both(self.head)
    }

    /// How far the two values are apart, relative.
    pub(crate) fn step(&self) -> f64 {
        self.upper / self.lower - 1.0
    }

    /// The ratio of the mean of the head to that of the base, from the shares of the upper value
    /// between their bounds (Clopper and Pearson 1934), each at a quarter of `alpha`.
    pub(crate) fn conclude(&self, comparison: &mut Comparison, metric: &Measurement, alpha: f64) {
        let mean = |share: f64| self.lower + share * (self.upper - self.lower);
        let share = |(upper, all): (usize, usize)| upper as f64 / all as f64;
        let (base, head) = (
            bounds(self.base, alpha / 4.0),
            bounds(self.head, alpha / 4.0),
        );
        let interval = Interval {
            lo: mean(head.0) / mean(base.1),
            hi: mean(head.1) / mean(base.0),
        };
        comparison.ratio = Some(mean(share(self.head)) / mean(share(self.base)));
        comparison.interval = Some(interval);
        comparison.level = Some(alpha);
        comparison.method = Method::TwoModes;
        comparison.verdict = interval.verdict(metric.threshold, metric.direction);
        let ((in_base, of_base), (in_head, of_head)) = (self.base, self.head);
        comparison.reason = format!(
            "one of two values {:.1} % apart: the upper one in {in_base} of {of_base} runs of the \
             base and {in_head} of {of_head} of the head",
            100.0 * self.step()
        );
    }
}

/// The shares that leave `alpha` for so few, and for so many.
fn bounds((found, all): (usize, usize), alpha: f64) -> (f64, f64) {
    let least = |found: usize| least(found, all, alpha);
    (least(found), 1.0 - least(all - found))
}

/// The share at which so many or more of all have probability `alpha`.
fn least(found: usize, all: usize, alpha: f64) -> f64 {
    let (mut lo, mut hi) = (0.0, if found == 0 { 0.0 } else { 1.0 });
    while hi - lo > 1e-12 {
        let share = f64::midpoint(lo, hi);
        if beta_reg(found as f64, (all - found + 1) as f64, share) < alpha {
            lo = share;
        } else {
            hi = share;
        }
    }
    hi
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of three leave α where p³ = α; ten of ten likewise, and none of ten the other way.
    #[test]
    fn bounds_in_closed_form() {
        let close = |(got, expect): (f64, f64)| assert!((got - expect).abs() < 1e-9, "{got}");
        close((bounds((3, 3), 0.125).0, 0.5));
        close((bounds((3, 3), 0.125).1, 1.0));
        close((bounds((0, 2), 0.25).1, 0.5));
        // One of two: 1 - (1 - p)² = 0.19 at 0.1; 1 - p² = 0.19 at 0.9.
        close((bounds((1, 2), 0.19).0, 0.1));
        close((bounds((1, 2), 0.19).1, 0.9));
    }
}

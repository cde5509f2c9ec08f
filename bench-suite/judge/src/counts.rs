//! Do runs of one side fail more often than those of the other?

use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// How many of them did.
    pub of_them: usize,
    /// How many there were.
    pub all: usize,
}

/// Fisher's exact test (1935): the probability that `more` has at least its share of what both
/// sides had together though neither is more likely to, both directions together.
pub fn p_of_more(less: Count, more: Count) -> f64 {
    let (failed, all) = (less.of_them + more.of_them, less.all + more.all);
    let [all, failed, drawn, seen] = [all, failed, more.all, more.of_them].map(|n| n as u64);
    let Ok(chance) = Hypergeometric::new(all, failed, drawn) else {
        return 1.0;
    };
    let fewer = seen.checked_sub(1);
    (2.0 * fewer.map_or(1.0, |fewer| chance.sf(fewer))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check((base, head): ([usize; 2], [usize; 2]), expect: f64) {
        let count = |[of_them, all]: [usize; 2]| Count { of_them, all };
        let p = p_of_more(count(base), count(head));
        assert!((p - expect).abs() < 1e-9, "{p}, not {expect}");
    }

    /// Nine of ten against none: of 167,960 ways to choose nine failing runs of twenty, ten are
    /// all in the head.
    #[test]
    fn ways_counted_by_hand() {
        check(([0, 10], [9, 10]), 2.0 * 10.0 / 167_960.0);
        check(([0, 3], [3, 3]), 2.0 / 20.0);
        check(([3, 3], [0, 3]), 1.0);
        check(([0, 5], [0, 5]), 1.0);
        check(([1, 2], [2, 2]), 1.0);
    }
}

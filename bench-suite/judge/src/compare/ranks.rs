//! The exact distribution of Mann and Whitney's U (1947).

use crate::dist::normal_two_sided;

/// Largest samples whose distribution is counted out; beyond, the normal one with a correction
/// for continuity is within a tenth of any p above 0.005 and says too much of smaller ones.
const MOST_EXACT: usize = 30;

/// P(U ≥ u) where samples of these sizes have one distribution without ties. With ties this is an
/// upper bound for the number of pairs that are strictly above: had chance broken the ties, U would
/// have been at least that number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tails {
    /// For every u from 0.
    Exact(Vec<f64>),
    /// By mean and standard deviation.
    Normal(f64, f64),
}

impl Tails {
    pub(super) fn of(base: usize, head: usize) -> Self {
        if base.max(head) <= MOST_EXACT {
            return Self::Exact(tails(base, head));
        }
        let (base, head) = (base as f64, head as f64);
        let variance = base * head * (base + head + 1.0) / 12.0;
        Self::Normal(base * head / 2.0, variance.sqrt())
    }

    pub(super) fn upper(&self, u: usize) -> f64 {
        match self {
            Self::Exact(tails) => tails.get(u).copied().unwrap_or(0.0),
            Self::Normal(mean, deviation) => {
                let z = (u as f64 - 0.5 - mean) / deviation;
                let tail = normal_two_sided(z) / 2.0;
                if z > 0.0 { tail } else { 1.0 - tail }
            }
        }
    }
}

/// P(U ≥ u) for every u, by Mann and Whitney's recurrence: the largest of all values is one of
/// the i of one sample, and then above all j of the other, or one of those j.
fn tails(base: usize, head: usize) -> Vec<f64> {
    // Of one sample with no value, U is 0.
    let mut rows = vec![vec![1.0]; head + 1];
    for i in 1..=base {
        let mut row = vec![vec![1.0]];
        for j in 1..=head {
            let all = (i + j) as f64;
            let mut chance = vec![0.0; i * j + 1];
            for (u, p) in rows[j].iter().enumerate() {
                chance[u + j] += i as f64 / all * p;
            }
            for (u, p) in row[j - 1].iter().enumerate() {
                chance[u] += j as f64 / all * p;
            }
            row.push(chance);
        }
        rows = row;
    }
    let mut tails = rows.swap_remove(head);
    for u in (0..tails.len() - 1).rev() {
        tails[u] += tails[u + 1];
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(got: f64, expect: f64) {
        assert!(
            (got - expect).abs() <= 1e-12,
            "got {got}, expected {expect}"
        );
    }

    fn upper_tail(n: usize, u: usize) -> f64 {
        Tails::of(n, n).upper(u)
    }

    /// Of C(10, 5) = 252 orders one has all five above, one has U = 24, and two have U = 23; the
    /// critical value of the printed tables at two-sided 0.05 is 2, at 0.01 it is 0.
    #[test]
    fn orders_counted_by_hand() {
        check(upper_tail(5, 25), 1.0 / 252.0);
        check(upper_tail(5, 24), 2.0 / 252.0);
        check(upper_tail(5, 23), 4.0 / 252.0);
        check(upper_tail(5, 0), 1.0);
        check(upper_tail(2, 4), 1.0 / 6.0);
        // Three against two: of 10 orders one has all six pairs above, and one five.
        check(Tails::of(3, 2).upper(6), 0.1);
        check(Tails::of(2, 3).upper(5), 0.2);
        assert!(2.0 * upper_tail(5, 23) <= 0.05 && 2.0 * upper_tail(5, 22) > 0.05);
        // Critical values for ten and ten: 23 at 0.05, 16 at 0.01.
        assert!(2.0 * upper_tail(10, 77) <= 0.05 && 2.0 * upper_tail(10, 76) > 0.05);
        assert!(2.0 * upper_tail(10, 84) <= 0.01 && 2.0 * upper_tail(10, 83) > 0.01);
    }

    #[test]
    fn large_samples_go_on_where_small_ones_end() {
        let exact = tails(31, 31);
        for (u, p) in exact.iter().enumerate() {
            let normal = upper_tail(31, u);
            let excess = normal / p - 1.0;
            assert!(
                excess > -0.1 && (excess < 0.1 || *p < 0.005),
                "U {u}: {normal}, exactly {p}"
            );
        }
    }
}

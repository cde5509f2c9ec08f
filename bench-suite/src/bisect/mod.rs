//! Which of several images, one after the other, brought a change.
//!
//! The ends are measured against each other first: what moved there is followed. Then one candidate
//! after the other is measured beside the good end, and is bad where it lies beyond half of the
//! change, in logarithms. A candidate that cannot be measured is left out, and its neighbour is
//! taken. At last the two images on either side of the change are measured against each other.
//!
//! Every decision may be wrong, and all of them together at most as often as the search was given:
//! each one spends a part of what is left.

mod state;

pub use state::{
    Asked, BisectError, Bisection, Build, Candidate, Change, Decision, Judgement, STATE, VERSION,
};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure the second candidate beside the first one.
    Measure {
        /// Its number.
        base: usize,
        /// Its number.
        head: usize,
        /// What it is for.
        purpose: Purpose,
    },
    /// The search is over.
    Done(Found),
}

/// What a comparison is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Whether there is a change at all.
    Ends,
    /// On which side of it a candidate lies.
    Side,
    /// How large it is between neighbours.
    Size,
}

/// Between which candidates the change lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The last good one.
    pub good: usize,
    /// The first bad one. Those between the two could not be measured.
    pub bad: usize,
}

impl Bisection {
    /// What is to be done next, out of what was decided.
    #[must_use]
    pub fn next(&self) -> Next {
        let last = self.candidates.len() - 1;
        let measure = |base, head, purpose| Next::Measure {
            base,
            head,
            purpose,
        };
        if self.change.is_none() {
            return measure(0, last, Purpose::Ends);
        }
        let found = self.range();
        let open = self.open();
        let middle = usize::midpoint(found.good, found.bad);
        if let Some(candidate) = open
            .into_iter()
            .min_by_key(|candidate| candidate.abs_diff(middle))
        {
            return measure(0, candidate, Purpose::Side);
        }
        // Two neighbours of which one is an end were measured against each other already.
        let is_known = found.good == 0 || self.size().is_some();
        if is_known {
            Next::Done(found)
        } else {
            measure(found.good, found.bad, Purpose::Size)
        }
    }

    /// The last candidate known to be good, and the first known to be bad.
    #[must_use]
    pub fn range(&self) -> Found {
        let judged = |judgement: Judgement| {
            let sides = self.decisions.iter().filter(|one| one.base == 0);
            sides
                .filter(move |one| one.judgement == judgement)
                .map(|one| one.head)
        };
        let bad = judged(Judgement::Bad).min();
        let bad = bad.unwrap_or(self.candidates.len() - 1);
        Found {
            good: judged(Judgement::Good).max().unwrap_or(0),
            bad,
        }
    }

    /// Candidates within the range that nothing was tried with.
    fn open(&self) -> Vec<usize> {
        let Found { good, bad } = self.range();
        let is_skipped = |candidate: &usize| {
            self.candidates[*candidate].problem.is_some()
                || self
                    .decisions
                    .iter()
                    .any(|one| one.head == *candidate && one.base == 0)
        };
        (good + 1..bad)
            .filter(|candidate| !is_skipped(candidate))
            .collect()
    }

    /// The comparison of the two candidates on either side of the change.
    #[must_use]
    pub fn size(&self) -> Option<&Decision> {
        let Found { good, bad } = self.range();
        let mut all = self.decisions.iter().rev();
        all.find(|one| (one.base, one.head) == (good, bad))
    }

    /// How often the next decision may be wrong: its part of what is left, so that however many
    /// there are, all of them together keep to [`Bisection::error`].
    #[must_use]
    pub fn next_error(&self) -> f64 {
        let spent: f64 = self.decisions.iter().map(|one| one.error).sum();
        let steps = (self.open().len() + 1).next_power_of_two().ilog2();
        // The ends or the size, and one more that is never spent: a candidate that is left out makes
        // the search longer.
        (self.error - spent) / f64::from(steps + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(count: usize) -> Bisection {
        let names = (0..count).map(|number| format!("c{number}"));
        Bisection::new(
            Asked::default(),
            0.05,
            names.map(Candidate::named).collect(),
        )
        .unwrap()
    }

    fn change() -> Change {
        Change {
            suite: "smoke".into(),
            scenario: "one".into(),
            variant: "fp32".into(),
            metric: "throughput_samples_per_second".into(),
            ratio: 0.9,
            threshold: 0.05,
        }
    }

    /// Searches to the end; candidates from `bad` on are bad, and `broken` cannot be measured.
    fn searched(count: usize, bad: usize, broken: &[usize]) -> (Bisection, Found) {
        let mut search = search(count);
        loop {
            let error = search.next_error();
            let (base, head) = match search.next() {
                Next::Done(found) => return (search, found),
                Next::Measure {
                    purpose: Purpose::Ends,
                    base,
                    head,
                } => {
                    search.change = Some(change());
                    (base, head)
                }
                Next::Measure { base, head, .. } => (base, head),
            };
            let judgement = if broken.contains(&head) {
                Judgement::Unmeasured
            } else if head >= bad {
                Judgement::Bad
            } else {
                Judgement::Good
            };
            search.decisions.push(Decision {
                base,
                head,
                judgement,
                error,
                session: String::new(),
                ratio: None,
                interval: None,
                blocks: 3,
                why: None,
            });
            assert!(search.decisions.len() < 2 * count + 4, "{search:?}");
        }
    }

    #[test]
    fn every_culprit_is_found_in_as_many_steps_as_halving_takes() {
        for count in 2..40 {
            for bad in 1..count {
                let (search, found) = searched(count, bad, &[]);
                assert_eq!((found.good, found.bad), (bad - 1, bad));
                let halvings = (count - 1).next_power_of_two().ilog2() as usize;
                assert!(search.decisions.len() <= halvings + 2, "{search:?}");
                // The last decision is of the two neighbours.
                assert!(search.size().is_some(), "{search:?}");
            }
        }
    }

    #[test]
    fn all_decisions_together_keep_to_the_error() {
        for broken in [&[][..], &[3, 4, 5, 6], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            let (search, _) = searched(10, 5, broken);
            let spent: f64 = search.decisions.iter().map(|one| one.error).sum();
            assert!(spent < search.error, "{spent}");
            assert!(search.decisions.iter().all(|one| one.error > 0.0));
        }
    }

    #[test]
    fn what_cannot_be_measured_widens_what_is_found() {
        let (_, found) = searched(9, 5, &[4]);
        assert_eq!((found.good, found.bad), (3, 5));
        let (_, found) = searched(9, 5, &[4, 5, 6]);
        assert_eq!((found.good, found.bad), (3, 7));
        let (_, found) = searched(9, 5, &(1..8).collect::<Vec<_>>());
        assert_eq!((found.good, found.bad), (0, 8));
    }
}

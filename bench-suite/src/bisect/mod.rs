//! Which of several images, one after the other, brought a change.
//!
//! The ends are measured beside each other first: what moved there is followed. Then one candidate
//! after the other, the bad end before the others, is held against half of the change, in
//! logarithms, beside the good end: beyond it it is bad, on this side of it good. That the bad end
//! is beyond guards against a change that looked larger than it is. A candidate that cannot be
//! measured is left out, and its neighbour is taken. At last the two images on either side of the
//! change are measured against each other.
//!
//! Where the bad end does not run at all and the good one does, that is what is followed: a candidate
//! all of whose runs fail likewise is bad, and one of which none does is good.
//!
//! Every decision may be wrong, and all of them together at most as often as the search was given:
//! each one spends a part of what is left.

mod state;

pub use state::{
    Asked, BisectError, Bisection, Candidate, Change, Decision, Followed, Judgement, Purpose,
    STATE, VERSION,
};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Measure the second candidate beside the first one.
    Measure {
        base: usize,
        head: usize,
        purpose: Purpose,
    },
    Done(Found),
    /// The bad end is not beyond half of what the ends first showed, or does not fail as it did.
    Refuted,
}

/// Between which candidates the change lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub good: usize,
    /// The first bad one. Those between the two could not be measured.
    pub bad: usize,
}

impl Bisection {
    /// What is to be done next, out of what was decided.
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
        match self.side_of(last) {
            None => return measure(0, last, Purpose::Side),
            Some(Judgement::Bad) => {}
            Some(Judgement::Good | Judgement::Unmeasured) => return Next::Refuted,
        }
        let found = self.range();
        let middle = usize::midpoint(found.good, found.bad);
        let nearest = self.open().into_iter();
        if let Some(candidate) = nearest.min_by_key(|candidate| candidate.abs_diff(middle)) {
            return measure(0, candidate, Purpose::Side);
        }
        // Beside the good end the first bad one was measured already.
        if found.good == 0 || self.size().is_some() {
            Next::Done(found)
        } else {
            measure(found.good, found.bad, Purpose::Size)
        }
    }

    /// On which side a candidate was found to be.
    fn side_of(&self, candidate: usize) -> Option<Judgement> {
        let mut sides = self.decisions.iter();
        let side = sides.find(|one| one.purpose == Purpose::Side && one.head == candidate);
        side.map(|one| one.judgement)
    }

    /// The last candidate known to be good, and the first known to be bad.
    pub fn range(&self) -> Found {
        let all = 0..self.candidates.len();
        let judged = |wanted: Judgement| {
            let all = all.clone();
            all.filter(move |candidate| self.side_of(*candidate) == Some(wanted))
        };
        Found {
            good: judged(Judgement::Good).max().unwrap_or(0),
            bad: judged(Judgement::Bad)
                .min()
                .unwrap_or(self.candidates.len() - 1),
        }
    }

    /// Candidates within the range that nothing was tried with.
    fn open(&self) -> Vec<usize> {
        let Found { good, bad } = self.range();
        let is_open = |candidate: &usize| self.side_of(*candidate).is_none();
        (good + 1..bad).filter(is_open).collect()
    }

    /// The comparison of the two candidates on either side of the change.
    pub fn size(&self) -> Option<&Decision> {
        let Found { good, bad } = self.range();
        let mut all = self.decisions.iter().rev();
        all.find(|one| (one.base, one.head) == (good, bad))
    }

    /// How often the next decision may be wrong: its part of what is left, so that however many
    /// there are, all of them together keep to [`Bisection::error`].
    pub fn next_error(&self) -> f64 {
        let spent: f64 = self.decisions.iter().map(|one| one.error).sum();
        let steps = (self.open().len() + 1).next_power_of_two().ilog2();
        let last = self.candidates.len() - 1;
        let ends = u32::from(self.change.is_none()) + u32::from(self.side_of(last).is_none());
        // The size, and one more that is never spent: a candidate that is left out makes the search
        // longer.
        (self.error - spent) / f64::from(ends + steps + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(count: usize) -> Bisection {
        let candidates = (0..count).map(|number| Candidate {
            name: format!("c{number}"),
            image: format!("c{number}"),
        });
        Bisection::new(Asked::default(), 0.05, candidates.collect()).unwrap()
    }

    fn change() -> Change {
        Change {
            suite: "smoke".into(),
            scenario: "one".into(),
            variant: "fp32".into(),
            followed: Followed::Metric {
                name: "throughput_samples_per_second".into(),
                ratio: 0.9,
            },
        }
    }

    /// Searches to the end; candidates from `bad` on are bad, and `broken` cannot be measured.
    fn searched(count: usize, bad: usize, broken: &[usize]) -> (Bisection, Found) {
        let mut search = search(count);
        loop {
            let error = search.next_error();
            let (base, head, purpose) = match search.next() {
                Next::Done(found) => return (search, found),
                Next::Refuted => panic!("the bad end is bad: {search:?}"),
                Next::Measure {
                    base,
                    head,
                    purpose,
                } => (base, head, purpose),
            };
            if purpose == Purpose::Ends {
                search.change = Some(change());
            }
            let judgement = if broken.contains(&head) {
                Judgement::Unmeasured
            } else if head >= bad {
                Judgement::Bad
            } else {
                Judgement::Good
            };
            search.decisions.push(Decision {
                purpose,
                base,
                head,
                judgement,
                error,
                session: String::new(),
                ratio: None,
                interval: None,
                blocks: 3,
                failed: None,
                why: None,
            });
            assert!(search.decisions.len() < 2 * count + 5, "{search:?}");
        }
    }

    #[test]
    fn every_culprit_is_found_in_as_many_steps_as_halving_takes() {
        for count in 2..40 {
            for bad in 1..count {
                let (search, found) = searched(count, bad, &[]);
                assert_eq!((found.good, found.bad), (bad - 1, bad));
                // Ends, the bad end's side, and the size besides.
                let halvings = (count - 1).next_power_of_two().ilog2() as usize;
                assert!(search.decisions.len() <= halvings + 3, "{search:?}");
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
    fn a_bad_end_that_is_not_beyond_half_ends_the_search() {
        let mut search = search(4);
        search.change = Some(change());
        let decision = |judgement| Decision {
            purpose: Purpose::Side,
            base: 0,
            head: 3,
            judgement,
            error: 0.01,
            session: String::new(),
            ratio: None,
            interval: None,
            blocks: 3,
            failed: None,
            why: None,
        };
        for judgement in [Judgement::Good, Judgement::Unmeasured] {
            search.decisions = vec![decision(judgement)];
            assert_eq!(search.next(), Next::Refuted);
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

//! Bisection over batches, led by what the attempts took.

/// What an attempt at a batch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Fits,
    TooLarge,
    Neither(String),
}

/// Where a search stands. Whatever fits, smaller ones are taken to fit too.
#[derive(Debug)]
pub(super) struct Search {
    most: u32,
    budget: u64,
    /// Largest that is known to fit; 0: none yet.
    fits: u32,
    /// Smallest that is known not to; `None`: none yet.
    too_large: Option<u32>,
    /// The two largest that fit and what they took.
    taken: Vec<(u32, u64)>,
    grain: Grain,
    /// Whether the next attempt halves the gap, and is not placed by what the others took.
    halves: bool,
    is_over: bool,
}

/// Where a search begins: low enough for most budgets, and not so low that what cannot run with
/// one sample (batch normalisation of tiny images) ends it.
const FIRST: u32 = 4;
#[derive(Debug, Clone, Copy)]
pub(super) struct Grain {
    /// Before anything was too large, an attempt is at most so many times the last one, however little
    /// that took: what is far too large may take the machine's time as well.
    most_growth: u32,
    /// The gap that is left open, as a share of what fits: 1 ÷ this; 0: none.
    gap: u32,
}

impl Grain {
    /// Down to one sample, for a limit that stands still.
    pub(super) const FINE: Self = Self {
        most_growth: 8,
        gap: 0,
    };
    /// To a sixteenth, for a limit that gives way: what the kernel can take back from a full
    /// container depends on the moment.
    pub(super) const COARSE: Self = Self {
        most_growth: 2,
        gap: 16,
    };
}

impl Search {
    pub(super) fn new(most: u32, budget: u64, grain: Grain) -> Self {
        Self {
            most: most.max(1),
            budget,
            fits: 0,
            too_large: None,
            taken: Vec::new(),
            grain,
            halves: false,
            is_over: false,
        }
    }

    /// The next batch to try; `None` when nothing is left to find out.
    pub(super) fn next(&self) -> Option<u32> {
        if self.is_over || self.fits == self.most {
            return None;
        }
        let expected = self.expected();
        match self.too_large {
            None if self.fits == 0 => Some(FIRST.min(self.most)),
            None => {
                let double = self.fits.saturating_mul(2);
                let most = self.fits.saturating_mul(self.grain.most_growth);
                let next = expected.map_or(double, |batch| batch.clamp(double, most));
                Some(next.min(self.most))
            }
            Some(too_large) if too_large - self.fits <= self.gap() => None,
            Some(too_large) => match expected.filter(|_| !self.halves) {
                Some(batch) => Some(batch.clamp(self.fits + 1, too_large - 1)),
                None => Some(self.fits + (too_large - self.fits) / 2),
            },
        }
    }

    /// The gap that ends the search.
    fn gap(&self) -> u32 {
        self.fits.checked_div(self.grain.gap).unwrap_or(0).max(1)
    }

    /// The largest that fits if memory goes on to grow as between the two largest that did.
    fn expected(&self) -> Option<u32> {
        let &[(less, least), (more, most)] = &self.taken[..] else {
            return None;
        };
        let growth = most.checked_sub(least).filter(|growth| *growth > 0)?;
        let room = u128::from(self.budget.saturating_sub(most));
        let further = room * u128::from(more - less) / u128::from(growth);
        Some(more.saturating_add(u32::try_from(further).unwrap_or(u32::MAX)))
    }

    /// Takes in what a try says, and the memory that it took where that is known.
    pub(super) fn take(&mut self, batch: u32, answer: &Answer, bytes: Option<u64>) {
        // Every other try halves, so that no odd growth of memory makes the search long.
        self.halves = self.too_large.is_some() && !self.halves;
        match answer {
            Answer::Fits => {
                self.fits = self.fits.max(batch);
                self.taken.extend(bytes.map(|bytes| (batch, bytes)));
                if self.taken.len() > 2 {
                    self.taken.remove(0);
                }
            }
            Answer::TooLarge => {
                self.too_large = Some(self.too_large.map_or(batch, |known| known.min(batch)));
            }
            Answer::Neither(_) => self.is_over = true,
        }
    }

    /// Smallest batch that is known to be too large.
    pub(super) fn too_large(&self) -> Option<u32> {
        self.too_large
    }

    pub(super) fn largest(&self) -> Option<u32> {
        (self.fits > 0).then_some(self.fits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is found, and in how many attempts, where the memory of a batch is `bytes`.
    fn run(limit: u32, most: u32, bytes: impl Fn(u32) -> Option<u64>) -> (Option<u32>, usize) {
        let budget = bytes(limit).unwrap_or_default();
        let mut search = Search::new(most, budget, Grain::FINE);
        let mut attempts = 0;
        while let Some(batch) = search.next() {
            assert!((1..=most).contains(&batch), "{batch} of {most}");
            let answer = if batch <= limit {
                Answer::Fits
            } else {
                Answer::TooLarge
            };
            search.take(batch, &answer, bytes(batch));
            attempts += 1;
            assert!(attempts < 60);
        }
        (search.largest(), attempts)
    }

    proptest! {
        #[test]
        fn the_limit_is_found_in_few_tries(limit in 0_u32..70_000, most in 1_u32..=65_536) {
            let (largest, attempts) = run(limit, most, |_| None);
            prop_assert_eq!(largest.unwrap_or(0), limit.min(most));
            prop_assert!(attempts <= 32, "{} attempts", attempts);
        }

        #[test]
        fn memory_that_grows_evenly_makes_them_fewer(
            limit in 8_u32..60_000,
            fixed in 0_u64..1 << 34,
            each in 1_u64..1 << 30,
        ) {
            let bytes = |batch| Some(fixed + each * u64::from(batch));
            let (largest, attempts) = run(limit, 65_536, bytes);
            prop_assert_eq!(largest, Some(limit));
            prop_assert!(attempts <= 10, "{} attempts", attempts);
        }

        #[test]
        fn whatever_memory_does_the_limit_is_found(
            limit in 1_u32..60_000,
            most in 1_u32..=65_536,
            odd in proptest::collection::vec(0_u64..1 << 40, 7),
        ) {
            let bytes = |batch: u32| Some(odd[batch as usize % 7]);
            let (largest, attempts) = run(limit, most, bytes);
            prop_assert_eq!(largest.unwrap_or(0), limit.min(most));
            prop_assert!(attempts <= 48, "{} attempts", attempts);
        }
    }

    #[test]
    fn a_wall_that_gives_way_is_found_to_a_sixteenth() {
        for limit in 1..3000 {
            let mut search = Search::new(65_536, 1 << 30, Grain::COARSE);
            let mut attempts = 0;
            while let Some(batch) = search.next() {
                let answer = if batch <= limit {
                    Answer::Fits
                } else {
                    Answer::TooLarge
                };
                search.take(batch, &answer, None);
                attempts += 1;
            }
            let found = search.largest().unwrap();
            assert!(
                found <= limit && limit - found <= found / 16,
                "{found} of {limit}"
            );
            assert!(attempts <= 16, "{attempts} for {limit}");
        }
    }

    #[test]
    fn a_failure_of_another_kind_ends_the_search() {
        let mut search = Search::new(64, 1 << 30, Grain::FINE);
        search.take(4, &Answer::Fits, None);
        search.take(8, &Answer::Neither("crash".into()), None);
        assert_eq!((search.next(), search.largest()), (None, Some(4)));
    }
}

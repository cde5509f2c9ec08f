//! Bisection over batches.

/// What a try at a batch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It fits.
    Fits,
    /// Memory ran out.
    TooLarge,
    /// Something else failed, in words.
    Neither(String),
}

/// Where a search stands. Whatever fits, smaller ones are taken to fit too.
#[derive(Debug)]
pub(super) struct Search {
    most: u32,
    /// Largest that is known to fit; 0: none yet.
    fits: u32,
    /// Smallest that is known not to; `None`: none yet.
    too_large: Option<u32>,
    is_over: bool,
}

/// Where a search begins: low enough for most budgets, and not so low that what cannot run with
/// one sample (batch normalisation of tiny images) ends it.
const FIRST: u32 = 4;

impl Search {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most: most.max(1),
            fits: 0,
            too_large: None,
            is_over: false,
        }
    }

    /// The next batch to try; `None` when nothing is left to find out.
    pub(super) fn next(&self) -> Option<u32> {
        if self.is_over || self.fits == self.most {
            return None;
        }
        match self.too_large {
            None if self.fits == 0 => Some(FIRST.min(self.most)),
            None => Some(self.fits.saturating_mul(2).min(self.most)),
            Some(too_large) if too_large - self.fits <= 1 => None,
            Some(too_large) => Some(self.fits + (too_large - self.fits) / 2),
        }
    }

    /// Takes in what a try says.
    pub(super) fn take(&mut self, batch: u32, answer: &Answer) {
        match answer {
            Answer::Fits => self.fits = self.fits.max(batch),
            Answer::TooLarge => {
                self.too_large = Some(self.too_large.map_or(batch, |known| known.min(batch)));
            }
            Answer::Neither(_) => self.is_over = true,
        }
    }

    /// Largest batch that fits.
    pub(super) fn largest(&self) -> Option<u32> {
        (self.fits > 0).then_some(self.fits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(limit: u32, most: u32) -> (Option<u32>, usize) {
        let mut search = Search::new(most);
        let mut tries = 0;
        while let Some(batch) = search.next() {
            assert!((1..=most).contains(&batch), "{batch} of {most}");
            let answer = if batch <= limit {
                Answer::Fits
            } else {
                Answer::TooLarge
            };
            search.take(batch, &answer);
            tries += 1;
            assert!(tries < 50);
        }
        (search.largest(), tries)
    }

    proptest! {
        #[test]
        fn the_limit_is_found_in_few_tries(limit in 0_u32..70_000, most in 1_u32..=65_536) {
            let (largest, tries) = run(limit, most);
            prop_assert_eq!(largest.unwrap_or(0), limit.min(most));
            prop_assert!(tries <= 32, "{} tries", tries);
        }
    }

    #[test]
    fn a_failure_of_another_kind_ends_the_search() {
        let mut search = Search::new(64);
        search.take(4, &Answer::Fits);
        search.take(8, &Answer::Neither("crash".into()));
        assert_eq!((search.next(), search.largest()), (None, Some(4)));
    }
}

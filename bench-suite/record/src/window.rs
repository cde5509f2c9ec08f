//! Windows of time.

use std::collections::BTreeMap;

use protocol::Phase;

/// A stretch of a run, in seconds since its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Window {
    /// Whenever.
    pub const ALWAYS: Self = Self {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    /// The window of a phase; `None` where its time is not known.
    pub fn of(
        phase: Phase,
        began: &BTreeMap<Phase, f64>,
        seconds: &BTreeMap<Phase, f64>,
    ) -> Option<Self> {
        let from = *began.get(&phase)?;
        Some(Self {
            from,
            to: from + seconds.get(&phase)?,
        })
    }

    /// From the run's start to the end of the measured steps. What comes after, such as timing a
    /// large matrix product, is no part of what is measured.
    #[must_use]
    pub fn up_to_the_end(self) -> Self {
        Self {
            from: f64::NEG_INFINITY,
            ..self
        }
    }

    /// Whether a moment lies within.
    pub fn holds(self, seconds: f64) -> bool {
        (self.from..=self.to).contains(&seconds)
    }
}

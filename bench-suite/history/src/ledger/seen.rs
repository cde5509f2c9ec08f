//! What a night shows, and what it makes of the ledger.

use judge::{
    compare::{Direction, Verdict},
    trend::{self, ChangePoint, Trend},
};

use super::{Change, Place, group::Fresh};
use crate::SeriesKey;

/// What is seen of one gated series.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub key: &'a SeriesKey,
    pub direction: Direction,
    /// The largest relative change that counts as none.
    pub threshold: f64,
    /// Its points, oldest first.
    pub points: &'a [trend::Point],
    /// What each of them is, in the same order.
    pub places: &'a [Place],
    pub found: &'a Trend,
    /// The change that the newest point brought to light, by its index.
    pub news: Option<usize>,
    /// Whether its results stopped coming.
    pub overdue: bool,
}

/// What became of the ledger, by IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Night {
    pub opened: Vec<String>,
    /// Entries of a change that is more than twice as large as it was told.
    pub worsened: Vec<String>,
    /// Entries that were fixed, and are not any more.
    pub reopened: Vec<String>,
    /// Entries of which an acceptance ran out.
    pub expired: Vec<String>,
    /// Entries whose levels are back.
    pub fixed: Vec<String>,
    /// Entries that fail a gate: open, and no newer result has come since they were found.
    pub failing: Vec<String>,
    /// Entries that are open since earlier nights.
    pub open: Vec<String>,
}

impl Seen<'_> {
    pub(super) fn is_regressed(&self, change: &ChangePoint) -> bool {
        change.verdict(self.direction) == Verdict::Regressed && change.counts(self.threshold)
    }

    /// The last good place, the first bad one.
    pub(super) fn range(&self, change: &ChangePoint) -> [&Place; 2] {
        let [first, last] = change.range;
        [&self.places[first.saturating_sub(1)], &self.places[last]]
    }

    pub(super) fn fresh(&self, change: &ChangePoint) -> Fresh {
        let [last_good, first_bad] = self.range(change).map(Clone::clone);
        Fresh {
            change: Change {
                key: self.key.clone(),
                before: Some(rounded(change.before)),
                after: Some(rounded(change.after)),
                interval: change.interval.map(|ends| ends.map(rounded)),
                fixed: None,
            },
            last_good,
            first_bad,
            worsens: None,
        }
    }
}

/// Six digits: more would change with every night.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

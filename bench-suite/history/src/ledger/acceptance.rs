//! Who accepted what, why, and until when.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};

use super::{Change, Entry, State};
use crate::{
    HistoryError,
    error::{names, refused},
    key::matches,
};

/// A regression that somebody wants as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    pub by: String,
    pub why: String,
    /// The last day on which it holds, in UTC; `None` where it holds for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
    /// For these cells alone, by patterns with `*`; all where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
    /// For these metrics alone, as for cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
}

impl Acceptance {
    /// Whether it is for this change, on whatever day.
    pub fn is_for(&self, change: &Change) -> bool {
        let fits = |patterns: &[String], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
        };
        fits(&self.cells, &change.key.cell()) && fits(&self.metrics, &change.key.metric)
    }

    /// The moment from which it does not hold any more.
    pub(super) fn end(&self) -> Option<Timestamp> {
        let next = self.until?.tomorrow().ok()?;
        let midnight = next.to_zoned(TimeZone::UTC).ok()?;
        Some(midnight.timestamp())
    }

    /// Whether it held once and does not any more.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= now)
    }
}

impl Entry {
    /// What there is to say against an acceptance of it.
    pub(super) fn check_acceptance(&self, acceptance: &Acceptance) -> Result<(), HistoryError> {
        for (field, text) in [("by", &acceptance.by), ("why", &acceptance.why)] {
            if text.trim().is_empty() {
                return refused(format!(
                    "{}: the acceptance's `{field}` is empty; name who accepts, and why",
                    self.id
                ));
            }
        }
        let whole = acceptance.cells.is_empty() && acceptance.metrics.is_empty();
        if !whole && !self.series.iter().any(|change| acceptance.is_for(change)) {
            let series: Vec<String> = self.series.iter().map(Change::name).collect();
            return refused(format!(
                "{}: the acceptance fits none of the entry's series; expected one of {}",
                self.id,
                names(&series)
            ));
        }
        if self.state(Timestamp::now()) == State::Fixed {
            return refused(format!("{} is fixed; there is nothing to accept", self.id));
        }
        Ok(())
    }
}

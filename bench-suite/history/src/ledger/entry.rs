//! An entry: what moved at one point, and what became of it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Acceptance;
use crate::{Attributes, PointFilter, SeriesKey, series::changed_attributes};

/// Series that changed for the worse at one point, or a runner that went silent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name, which stays.
    pub id: String,
    pub what: Kind,
    /// Of which points it is: those of a branch, for example.
    #[serde(default, skip_serializing_if = "PointFilter::is_empty")]
    pub points: PointFilter,
    /// The newest result when the gate last failed for it; newer ones do not fail for it again.
    pub failed: Timestamp,
    /// The machine whose results stopped coming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The last point before; the last result of a runner that went silent.
    pub last_good: Place,
    /// The first point that is worse for sure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_bad: Option<Place>,
    /// What changed; of a silent runner the series that lack results, none where all of its do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Change>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Acceptance>,
    /// Since when a silent runner has results again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Levels changed for the worse.
    Regressed,
    /// Results have stopped coming.
    NoNewResult,
}

/// What an entry is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Somebody should look at it.
    Open,
    /// Somebody wants it so.
    Accepted,
    /// All of its levels are back.
    Fixed,
}

/// A point of a series, and what it was measured with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// When its session began; its own time for a point from elsewhere.
    pub time: Timestamp,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    #[serde(flatten)]
    pub attributes: Arc<Attributes>,
}

impl Place {
    /// What is otherwise at another place: name, value here, value there.
    pub fn changes_to<'p>(
        &'p self,
        next: &'p Self,
    ) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
        changed_attributes(&self.attributes, &next.attributes)
    }
}

/// A change of level in one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    #[serde(flatten)]
    pub key: SeriesKey,
    /// Level before, to six digits; `None` where results stopped coming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// 95 % interval of after ÷ before, where that means something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// First point of the level that is as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Timestamp>,
}

impl Change {
    /// after ÷ before, where both are above 0.
    pub fn ratio(&self) -> Option<f64> {
        let (before, after) = self.before.zip(self.after)?;
        (before > 0.0 && after > 0.0).then_some(after / before)
    }

    /// Cell and metric.
    pub fn name(&self) -> String {
        format!("{} · {}", self.key.cell(), self.key.metric)
    }
}

impl Entry {
    /// The change of this series, where it is of such points.
    pub(super) fn member(&mut self, points: &PointFilter, key: &SeriesKey) -> Option<&mut Change> {
        let is_of_these = self.what == Kind::Regressed && self.points == *points;
        let mut series = self.series.iter_mut();
        series.find(|change| is_of_these && change.key == *key)
    }

    /// Whether all that it is about is over.
    pub fn is_fixed(&self) -> bool {
        match self.what {
            Kind::NoNewResult => self.fixed.is_some(),
            Kind::Regressed => self.series.iter().all(|change| change.fixed.is_some()),
        }
    }

    pub fn state(&self, now: Timestamp) -> State {
        if self.is_fixed() {
            return State::Fixed;
        }
        let all = if self.series.is_empty() {
            let mut whole = self.accepted.iter().filter(|one| !one.has_expired(now));
            whole.any(|acceptance| acceptance.cells.is_empty() && acceptance.metrics.is_empty())
        } else {
            self.open(now).next().is_none()
        };
        if all { State::Accepted } else { State::Open }
    }

    /// The changes that are neither fixed nor accepted.
    pub fn open(&self, now: Timestamp) -> impl Iterator<Item = &Change> {
        self.series.iter().filter(move |change| {
            let mut accepted = self.accepted.iter();
            change.fixed.is_none()
                && !accepted.any(|one| !one.has_expired(now) && one.is_for(change))
        })
    }

    /// Whether its range and another's share a place where a new level may have begun.
    pub(super) fn overlaps(&self, good: Timestamp, bad: Timestamp) -> bool {
        let first_bad = self.first_bad.as_ref();
        first_bad.is_some_and(|first_bad| self.last_good.time < bad && good < first_bad.time)
    }

    /// Whether they overlap or lie side by side.
    pub(super) fn touches(&self, good: Timestamp, bad: Timestamp) -> bool {
        let first_bad = self.first_bad.as_ref();
        first_bad.is_some_and(|first_bad| self.last_good.time <= bad && good <= first_bad.time)
    }
}

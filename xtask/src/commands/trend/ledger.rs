//! The gate's memory: what the series show held against the ledger, and the ledger as it is shown.

use std::path::PathBuf;

use history::{Entry, Kind, LedgerFile, Night, PointFilter, Seen, SeriesKey, State};
use jiff::Timestamp;
use reports::{
    format::Quantity,
    trend::{AttributeChange, Entry as Shown, Failure, Moved, Spot, Standing},
};

use super::followed::{Followed, label};
use crate::error::Result;

/// The ledger in its file, and what the night did to it.
pub(super) struct Kept {
    file: LedgerFile,
    night: Night,
    now: Timestamp,
}

impl Kept {
    pub(super) fn open(path: PathBuf, is_written: bool) -> Result<Self> {
        let file = if is_written {
            LedgerFile::open(path)
        } else {
            LedgerFile::look_at(path)
        };
        Ok(Self {
            file: file?,
            night: Night::default(),
            now: Timestamp::now(),
        })
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.file.ledger.entries()
    }

    /// Holds the gated series against it, and says of each series which entries it is in and why the
    /// gate fails it.
    pub(super) fn update(&mut self, points: &PointFilter, all: &mut [Followed]) {
        let gated = all.iter().filter(|one| one.gated);
        let seen: Vec<Seen> = gated.map(Followed::seen).collect();
        self.night = self.file.ledger.update(points, &seen, self.now);
    }

    /// Says of each series which entries it is in and, where a gate was asked, why it fails.
    pub(super) fn tell(&self, points: &PointFilter, all: &mut [Followed]) {
        for one in all.iter_mut() {
            one.fails.clear();
            one.entries.clear();
            let stale = one.staleness.is_some_and(|staleness| staleness.overdue);
            let about = self
                .entries()
                .iter()
                .filter(|entry| entry.points == *points && is_about(entry, &one.series.key, stale));
            for entry in about {
                one.entries.push(entry.id.clone());
                let mut open = entry.open(self.now);
                let fails = self.night.failing.contains(&entry.id)
                    && (entry.series.is_empty() || open.any(|open| open.key == one.series.key));
                if fails && one.gated {
                    one.fails.push(match entry.what {
                        Kind::Regressed => Failure::Regressed,
                        Kind::NoNewResult => Failure::NoNewResult,
                    });
                }
            }
        }
    }

    /// The entries as reports show them: those of these points.
    pub(super) fn shown(&self, points: &PointFilter) -> Vec<Shown> {
        let entries = self.entries().iter();
        let entries = entries.filter(|entry| entry.points == *points);
        entries
            .map(|entry| shown(entry, self.standing(entry), self.now))
            .collect()
    }

    fn standing(&self, entry: &Entry) -> Standing {
        let is_in = |list: &[String]| list.contains(&entry.id);
        if is_in(&self.night.failing) {
            Standing::Failing
        } else if is_in(&self.night.fixed) {
            Standing::JustFixed
        } else {
            usual(entry, self.now)
        }
    }

    pub(super) fn save(mut self) -> Result<()> {
        Ok(self.file.save()?)
    }
}

impl Followed {
    fn seen(&self) -> Seen<'_> {
        Seen {
            key: &self.series.key,
            direction: self.series.direction,
            threshold: self.threshold,
            points: &self.points,
            places: &self.places,
            found: &self.found,
            news: self.news,
            overdue: self.staleness.is_some_and(|staleness| staleness.overdue),
        }
    }
}

fn is_about(entry: &Entry, key: &SeriesKey, stale: bool) -> bool {
    match entry.what {
        Kind::NoNewResult if entry.series.is_empty() => {
            stale && !entry.is_fixed() && entry.machine.as_deref() == Some(&key.machine)
        }
        _ => entry.series.iter().any(|change| change.key == *key),
    }
}

/// What it is on a night that says nothing about it.
pub(crate) fn usual(entry: &Entry, now: Timestamp) -> Standing {
    match entry.state(now) {
        State::Open => Standing::Open,
        State::Accepted => Standing::Accepted,
        State::Fixed => Standing::Fixed,
    }
}

pub(crate) fn shown(entry: &Entry, standing: Standing, now: Timestamp) -> Shown {
    let spot = |place: &history::Place| Spot {
        time: place.time.as_duration().as_secs_f64(),
        revision: place.revision.clone(),
    };
    let silent = entry.machine.clone().map(|machine| {
        let age = now.duration_since(entry.last_good.time);
        (machine, age.as_secs_f64())
    });
    let first_bad = entry.first_bad.as_ref();
    let changes = first_bad.into_iter().flat_map(|bad| {
        let changes = entry.last_good.changes_to(bad);
        changes.map(|(attribute, before, after)| AttributeChange {
            index: 0,
            attribute: attribute.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        })
    });
    Shown {
        id: entry.id.clone(),
        standing,
        silent,
        last_good: spot(&entry.last_good),
        first_bad: first_bad.map(spot),
        attribute_changes: changes.collect(),
        series: entry.series.iter().map(moved).collect(),
        acceptances: entry
            .accepted
            .iter()
            .map(|one| accepted(one, now))
            .collect(),
    }
}

fn moved(change: &history::Change) -> Moved {
    let key = &change.key;
    let (name, place) = if key.machine == SeriesKey::ELSEWHERE {
        (key.cell(), String::new())
    } else {
        let place = [key.track.as_str(), &key.suite, &key.machine].join(" · ");
        (format!("{} · {}", key.cell(), label(key)), place)
    };
    Moved {
        name,
        place,
        quantity: Quantity::of_metric(&key.metric),
        levels: change
            .before
            .zip(change.after)
            .map(|(before, after)| [before, after]),
        interval: change.interval,
        is_fixed: change.fixed.is_some(),
    }
}

/// `accepted by ada until 2027-01-01 for metric peak_*: the new cache costs it`.
fn accepted(one: &history::Acceptance, now: Timestamp) -> String {
    let until = one.until.map_or_else(String::new, |day| {
        let expired = if one.has_expired(now) {
            ", expired"
        } else {
            ""
        };
        format!(" until {day}{expired}")
    });
    let only = [("cell", &one.cells), ("metric", &one.metrics)];
    let only = only
        .into_iter()
        .filter(|(_, patterns)| !patterns.is_empty());
    let only: Vec<String> = only
        .map(|(word, patterns)| format!("{word} {}", patterns.join(" or ")))
        .collect();
    let only = match &only[..] {
        [] => String::new(),
        some => format!(" for {}", some.join(", ")),
    };
    format!("accepted by {}{until}{only}: {}", one.by, one.why)
}

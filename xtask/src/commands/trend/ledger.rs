//! The gate's memory: what the series show held against the ledger, and the ledger as it is shown.

use std::path::PathBuf;

use history::{Entry, Kind, LedgerFile, Night, PointFilter, Seen, SeriesKey};
use jiff::Timestamp;
use reports::trend::{Entry as Shown, Failure, Standing};

use super::followed::Followed;
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
        let shown = |entry: &Entry| Shown {
            standing: self.standing(entry),
            kept: entry.clone(),
            now: self.now,
        };
        entries.map(shown).collect()
    }

    fn standing(&self, entry: &Entry) -> Standing {
        let is_in = |list: &[String]| list.contains(&entry.id);
        if is_in(&self.night.failing) {
            Standing::Failing
        } else if is_in(&self.night.fixed) {
            Standing::JustFixed
        } else {
            entry.state(self.now).into()
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

//! Regressions kept in mind: found once, told once, and remembered until they are fixed or accepted.
//!
//! A [`Ledger`] is a list of entries, each with an ID that stays. [`Ledger::update`] holds what a night
//! shows against it; [`LedgerFile`] keeps it in a TOML file that a repository can hold.

mod acceptance;
mod entry;
mod file;
pub(crate) mod format;
mod group;
mod known;
mod night;
mod returned;
mod seen;
mod silence;

pub use acceptance::Acceptance;
pub use entry::{Change, Entry, Kind, Place, State};
pub use file::LedgerFile;
pub use seen::{Night, Seen};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{HistoryError, PointFilter, error::names};

/// Regressions and silent runners, by ID.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    pub(crate) entries: Vec<Entry>,
    pub(crate) followed: Vec<Followed>,
}

/// Since when points are followed: what changed before is no news.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Followed {
    #[serde(default, skip_serializing_if = "PointFilter::is_empty")]
    pub(crate) points: PointFilter,
    pub(crate) since: Timestamp,
}

impl Ledger {
    /// Its entries, in order of their IDs.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this ID.
    pub fn entry(&self, id: &str) -> Result<&Entry, HistoryError> {
        let found = self.entries.iter().find(|entry| entry.id == id);
        found.ok_or_else(|| self.unknown(id))
    }

    /// Accepts an entry, or what of it the acceptance is for.
    pub fn accept(&mut self, id: &str, acceptance: Acceptance) -> Result<&Entry, HistoryError> {
        let unknown = self.unknown(id);
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        let entry = entry.ok_or(unknown)?;
        entry.check_acceptance(&acceptance)?;
        if !entry.accepted.contains(&acceptance) {
            entry.accepted.push(acceptance);
        }
        Ok(entry)
    }

    /// Takes every acceptance of an entry back; returns how many there were.
    pub fn withdraw(&mut self, id: &str) -> Result<usize, HistoryError> {
        let unknown = self.unknown(id);
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        Ok(std::mem::take(&mut entry.ok_or(unknown)?.accepted).len())
    }

    /// Since when these points are followed: from now on, where they were not before.
    fn since(&mut self, points: &PointFilter, newest: Timestamp) -> Timestamp {
        let mut followed = self.followed.iter();
        let known = followed
            .find(|one| one.points == *points)
            .map(|one| one.since);
        known.unwrap_or_else(|| {
            self.followed.push(Followed {
                points: points.clone(),
                since: newest,
            });
            newest
        })
    }

    fn unknown(&self, id: &str) -> HistoryError {
        let known: Vec<String> = self.entries.iter().map(|entry| entry.id.clone()).collect();
        let known = match &known[..] {
            [] => "it is empty".to_owned(),
            known => format!("it has {}", names(known)),
        };
        HistoryError::Refused(format!("the ledger has no entry {id}; {known}"))
    }
}

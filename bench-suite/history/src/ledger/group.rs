//! One cause is one entry: changes whose ranges share a place are put together.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Change, Entry, Kind, Ledger, Place};
use crate::PointFilter;

/// A change that no entry has yet.
#[derive(Debug, Clone)]
pub(super) struct Fresh {
    pub(super) change: Change,
    pub(super) last_good: Place,
    pub(super) first_bad: Place,
    /// The place of the entry that it makes worse.
    pub(super) worsens: Option<usize>,
}

impl Ledger {
    /// Puts it into the entry that it shares a place with, or else into one of its own; returns the
    /// ID where that is new.
    pub(super) fn take(
        &mut self,
        points: &PointFilter,
        fresh: Fresh,
        failed: Timestamp,
    ) -> Option<String> {
        let Fresh {
            change,
            last_good,
            first_bad,
            worsens: _,
        } = fresh;
        let fits = |entry: &&mut Entry| {
            // What was accepted was so for what was known then.
            entry.what == Kind::Regressed
                && entry.points == *points
                && entry.accepted.is_empty()
                && !entry.is_fixed()
                && entry.overlaps(last_good.time, first_bad.time)
                && !entry.series.iter().any(|known| known.key == change.key)
        };
        if let Some(entry) = self.entries.iter_mut().find(fits) {
            // All of them moved at one point, so that it lies in the range of each.
            if last_good.time > entry.last_good.time {
                entry.last_good = last_good;
            }
            let bad = entry.first_bad.as_ref();
            if bad.is_none_or(|bad| first_bad.time < bad.time) {
                entry.first_bad = Some(first_bad);
            }
            entry.series.push(change);
            entry.series.sort_by(|a, b| a.key.cmp(&b.key));
            return None;
        }
        let id = self.free_id(
            Kind::Regressed,
            points,
            first_bad.time,
            &change.key.to_string(),
        );
        self.entries.push(Entry {
            id: id.clone(),
            what: Kind::Regressed,
            points: points.clone(),
            failed,
            machine: None,
            last_good,
            first_bad: Some(first_bad),
            series: vec![change],
            accepted: Vec::new(),
            fixed: None,
        });
        Some(id)
    }

    /// An ID that no entry has: the same for whoever finds the same.
    pub(super) fn free_id(
        &self,
        what: Kind,
        points: &PointFilter,
        time: Timestamp,
        name: &str,
    ) -> String {
        let mut try_number = 0_u32;
        loop {
            let about = format!("{what:?} {points:?} {time} {name} {try_number}");
            let digest = Sha256::digest(about.as_bytes());
            let id = format!(
                "R{:02x}{:02x}{:02x}{:02x}",
                digest[0], digest[1], digest[2], digest[3]
            );
            if self.entries.iter().all(|entry| entry.id != id) {
                return id;
            }
            try_number += 1;
        }
    }
}

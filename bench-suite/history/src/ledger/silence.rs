//! Runners whose results stopped coming: one entry a machine.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Change, Entry, Kind, Ledger, Night, Place, Seen};
use crate::PointFilter;

impl Ledger {
    pub(super) fn hear_silence(&mut self, points: &PointFilter, seen: &[Seen], night: &mut Night) {
        let mut machines: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
        for one in seen {
            machines.entry(&one.key.machine).or_default().push(one);
        }
        for (machine, all) in machines {
            let overdue: Vec<&Seen> = all.iter().copied().filter(|one| one.overdue).collect();
            let known = self.entries.iter_mut().find(|entry| {
                entry.what == Kind::NoNewResult
                    && entry.points == *points
                    && entry.machine.as_deref() == Some(machine)
                    && entry.fixed.is_none()
            });
            let whole = overdue.len() == all.len();
            let series = if whole { Vec::new() } else { changes(&overdue) };
            match (known, newest(&overdue)) {
                (Some(entry), Some(last)) => {
                    // The silence goes on, perhaps of others.
                    entry.series = series;
                    entry.failed = entry.failed.max(last.time);
                }
                (Some(entry), None) => {
                    entry.fixed = newest(&all).map(|place| place.time);
                    night.fixed.push(entry.id.clone());
                }
                (None, Some(last)) => {
                    let id = self.free_id(Kind::NoNewResult, points, last.time, machine);
                    night.opened.push(id.clone());
                    self.entries.push(Entry {
                        id,
                        what: Kind::NoNewResult,
                        points: points.clone(),
                        failed: last.time,
                        machine: Some(machine.to_owned()),
                        last_good: last,
                        first_bad: None,
                        series,
                        accepted: Vec::new(),
                        fixed: None,
                    });
                }
                (None, None) => {}
            }
        }
    }
}

fn changes(overdue: &[&Seen]) -> Vec<Change> {
    let change = |one: &&Seen| Change {
        key: one.key.clone(),
        before: None,
        after: None,
        interval: None,
        fixed: None,
    };
    overdue.iter().map(change).collect()
}

/// The newest result of all of them.
fn newest(all: &[&Seen]) -> Option<Place> {
    let last = all.iter().filter_map(|one| one.places.last());
    last.max_by_key(|place| place.time).cloned()
}

/// The newest result of those that an entry is about.
pub(super) fn newest_of(entry: &Entry, seen: &[Seen]) -> Option<Timestamp> {
    let about: Vec<&Seen> = seen.iter().filter(|one| is_about(entry, one)).collect();
    newest(&about).map(|place| place.time)
}

fn is_about(entry: &Entry, one: &Seen) -> bool {
    match entry.what {
        Kind::NoNewResult if entry.series.is_empty() => {
            entry.machine.as_deref() == Some(&one.key.machine)
        }
        _ => entry.series.iter().any(|change| change.key == *one.key),
    }
}

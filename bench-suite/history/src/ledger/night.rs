//! What a night shows, held against what the ledger knows.

use jiff::Timestamp;
use judge::{compare::Options, family::q_values};

use super::{Ledger, Night, Seen, State, group::Fresh, known::Known, silence::newest_of};
use crate::PointFilter;

impl Ledger {
    /// Holds what the gated series show against what is known. Entries open for changes that none has
    /// and that are sure among all series, as in a comparison; they close where levels return.
    pub fn update(&mut self, points: &PointFilter, seen: &[Seen], now: Timestamp) -> Night {
        let mut night = Night::default();
        let newest = seen.iter().filter_map(|one| one.places.last());
        let Some(newest) = newest.map(|place| place.time).reduce(Timestamp::max) else {
            return night;
        };
        let since = self.since(points, newest);
        let entries = self.entries.iter();
        let fixed_before = entries.map(|entry| (entry.id.clone(), entry.is_fixed()));
        let fixed_before: Vec<(String, bool)> = fixed_before.collect();
        for fresh in self.unknown_changes(points, seen, since) {
            match fresh.worsens {
                Some(place) => night.worsened.push(self.worsen(place, fresh)),
                None => night.opened.extend(self.take(points, fresh, newest)),
            }
        }
        for entry in &mut self.entries {
            // Its series may be of several machines.
            let newest = newest_of(entry, seen);
            let fails = night.opened.contains(&entry.id) || night.worsened.contains(&entry.id);
            entry.failed = newest.filter(|_| fails).unwrap_or(entry.failed);
        }
        self.follow(points, seen);
        for (id, was_fixed) in fixed_before {
            let entry = self.entries.iter().find(|entry| entry.id == id);
            match (was_fixed, entry.is_some_and(super::Entry::is_fixed)) {
                (false, true) => night.fixed.push(id),
                (true, false) => night.reopened.push(id),
                _ => {}
            }
        }
        self.hear_silence(points, seen, &mut night);
        self.sum_up(points, seen, now, &mut night);
        self.entries.sort_by(|a, b| a.id.cmp(&b.id));
        night
    }

    /// The changes that no entry has, the surest first. What an entry has already is brought up to
    /// date.
    fn unknown_changes(
        &mut self,
        points: &PointFilter,
        seen: &[Seen],
        since: Timestamp,
    ) -> Vec<Fresh> {
        let mut unknown: Vec<(f64, Option<Fresh>)> = Vec::new();
        for one in seen {
            let before = unknown.len();
            for (place, change) in one.found.change_points.iter().enumerate() {
                let [_, bad] = one.range(change);
                let is_new = bad.time > since || one.news == Some(place);
                if !one.is_regressed(change) || !is_new {
                    continue;
                }
                let worsens = match self.knows(points, one, change) {
                    Known::Told => continue,
                    Known::Less(place) => Some(place),
                    Known::Not => None,
                };
                let fresh = Fresh {
                    worsens,
                    ..one.fresh(change)
                };
                unknown.push((change.p, Some(fresh)));
            }
            if unknown.len() == before {
                unknown.push((1.0, None));
            }
        }
        let p: Vec<f64> = unknown.iter().map(|(p, _)| *p).collect();
        let q = q_values(&p);
        let sure = unknown.into_iter().zip(q);
        let sure = sure.filter(|(_, q)| *q <= Options::default().alpha);
        let mut sure: Vec<_> = sure.map(|(found, _)| found).collect();
        sure.sort_by(|a, b| a.0.total_cmp(&b.0));
        sure.into_iter().filter_map(|(_, fresh)| fresh).collect()
    }

    /// Acceptances that ran out, what fails, and what is open.
    fn sum_up(&mut self, points: &PointFilter, seen: &[Seen], now: Timestamp, night: &mut Night) {
        let entries = self.entries.iter_mut();
        for entry in entries.filter(|entry| entry.points == *points) {
            let Some(newest) = newest_of(entry, seen) else {
                continue;
            };
            if entry.state(now) != State::Open {
                continue;
            }
            let ends = entry.accepted.iter();
            let ends = ends.filter(|one| one.has_expired(now));
            let end = ends
                .filter_map(super::Acceptance::end)
                .reduce(Timestamp::max);
            if let Some(end) = end.filter(|end| *end > entry.failed) {
                entry.failed = end.max(newest);
                night.expired.push(entry.id.clone());
            }
            let list = if newest <= entry.failed {
                &mut night.failing
            } else {
                &mut night.open
            };
            list.push(entry.id.clone());
        }
    }
}

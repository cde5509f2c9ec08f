//! What a night shows, held against what the ledger knows.

use jiff::Timestamp;
use judge::{
    compare::{Direction, Options, Verdict},
    family::q_values,
    trend::{self, ChangePoint, Trend},
};

use super::{Change, Ledger, Place, State, Time, group::Fresh, silence::newest_of};
use crate::{PointFilter, SeriesKey};

/// Of so much of a change that is gone the level has returned.
const RETURNED: f64 = 0.75;
/// Where less is gone it has not; from here on it has where what is left is within the noise
/// threshold.
const HALF: f64 = 0.5;
/// A change that was told is another from so many times its size on.
const MUCH_LARGER: f64 = 2.0;
/// Levels are alike up to this share of a change.
const ALIKE: f64 = 0.5;
/// Fewer points of a level say nothing about a return.
const LEAST_POINTS: usize = 3;

/// What is seen of one gated series.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The series.
    pub key: &'a SeriesKey,
    /// Which way it improves.
    pub direction: Direction,
    /// The largest relative change that counts as none.
    pub threshold: f64,
    /// Its points, oldest first.
    pub points: &'a [trend::Point],
    /// What each of them is, in the same order.
    pub places: &'a [Place],
    /// What was found in it.
    pub found: &'a Trend,
    /// The change that the newest point brought to light, by its index.
    pub news: Option<usize>,
    /// Whether its results stopped coming.
    pub overdue: bool,
}

/// What became of the ledger, by IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Night {
    /// Entries that are new.
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

/// What an entry knows of a change.
enum Known {
    /// All.
    Told,
    /// Much less than there is to it; the place of its entry.
    Less(usize),
    /// Nothing.
    Not,
}

impl Seen<'_> {
    fn is_regressed(&self, change: &ChangePoint) -> bool {
        change.verdict(self.direction) == Verdict::Regressed && counts(change.ratio, self.threshold)
    }

    /// The last good place, the first bad one.
    fn range(&self, change: &ChangePoint) -> [&Place; 2] {
        let [first, last] = change.range;
        [&self.places[first.saturating_sub(1)], &self.places[last]]
    }

    fn fresh(&self, change: &ChangePoint) -> Fresh {
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
            best: self.places[change.index].time,
            worsens: None,
        }
    }

    /// The newest level, where it has points enough, and where it begins: after the last change
    /// since a place, or else there.
    fn newest_level(&self, since: Time) -> Option<(f64, usize)> {
        let first = self.places.iter().position(|place| place.time >= since)?;
        let last = self.found.change_points.last().map_or(0, |last| last.index);
        let start = first.max(last);
        let values = self.points[start..].iter().map(|point| point.value);
        let level = judge::median(values)?;
        (self.points.len() >= start + LEAST_POINTS).then_some((level, start))
    }

    /// Whether it got better anywhere after a moment.
    fn improved_after(&self, time: Time) -> bool {
        let mut changes = self.found.change_points.iter();
        changes.any(|change| {
            self.places[change.index].time > time
                && change.verdict(self.direction) == Verdict::Improved
        })
    }
}

impl Ledger {
    /// Holds what the gated series show against what is known. Entries open for changes that none has
    /// and that are sure among all series, as in a comparison; they close where levels return.
    pub fn update(&mut self, points: &PointFilter, seen: &[Seen], now: Timestamp) -> Night {
        let mut night = Night::default();
        let newest = seen.iter().filter_map(|one| one.places.last());
        let Some(newest) = newest.map(|place| place.time).reduce(Time::max) else {
            return night;
        };
        let since = self.since(points, newest);
        let fixed_before: Vec<(String, bool)> = self
            .entries
            .iter()
            .map(|entry| (entry.id.clone(), entry.is_fixed()))
            .collect();
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
    fn unknown_changes(&mut self, points: &PointFilter, seen: &[Seen], since: Time) -> Vec<Fresh> {
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
        let sure = unknown
            .into_iter()
            .zip(q)
            .filter(|(_, q)| *q <= Options::default().alpha);
        let mut sure: Vec<_> = sure.map(|(found, _)| found).collect();
        sure.sort_by(|a, b| a.0.total_cmp(&b.0));
        sure.into_iter().filter_map(|(_, fresh)| fresh).collect()
    }

    /// Whether an entry has this change. The size is told anew where it is known twice as well.
    fn knows(&mut self, points: &PointFilter, one: &Seen, change: &ChangePoint) -> Known {
        let [good, bad] = one.range(change).map(|place| place.time);
        let members: Vec<(usize, usize)> = self.members(points, one.key).collect();
        let touching = members.iter().copied();
        let touching = touching.filter(|&(entry, _)| self.entries[entry].touches(good, bad));
        let known = touching.min_by(|&(a, _), &(b, _)| {
            let far = |entry: usize| {
                let first_bad = self.entries[entry].first_bad.as_ref();
                first_bad.map_or(f64::INFINITY, |place| {
                    (place.time.seconds() - bad.seconds()).abs()
                })
            };
            far(a).total_cmp(&far(b))
        });
        if let Some((entry, member)) = known {
            let is_accepted = !self.entries[entry].accepted.is_empty();
            let told = &mut self.entries[entry].series[member];
            if is_much_larger(change, told) {
                // What was accepted was the smaller one.
                return if is_accepted {
                    Known::Not
                } else {
                    Known::Less(entry)
                };
            }
            let width = |ends: Option<[f64; 2]>| ends.map_or(f64::INFINITY, |[a, b]| (b / a).ln());
            if width(change.interval) <= width(told.interval) / 2.0 {
                let fresh = one.fresh(change).change;
                (told.before, told.after) = (fresh.before, fresh.after);
                told.interval = fresh.interval;
            }
            return Known::Told;
        }
        // A weak change wanders: one between the same levels is no second one.
        let wandered = members.into_iter().any(|(entry, member)| {
            let entry = &self.entries[entry];
            let told = &entry.series[member];
            told.fixed.is_none()
                && is_between(change, told)
                && !one.found.change_points.iter().any(|other| {
                    let [good, bad] = one.range(other).map(|place| place.time);
                    one.is_regressed(other) && entry.touches(good, bad)
                })
        });
        if wandered { Known::Told } else { Known::Not }
    }

    /// Tells a change anew that is much larger than it was told; returns the ID of its entry.
    fn worsen(&mut self, entry: usize, fresh: Fresh) -> String {
        let entry = &mut self.entries[entry];
        let mut series = entry.series.iter_mut();
        if let Some(told) = series.find(|told| told.key == fresh.change.key) {
            *told = fresh.change;
        }
        if let [_] = entry.series[..] {
            (entry.last_good, entry.first_bad) = (fresh.last_good, Some(fresh.first_bad));
        }
        entry.id.clone()
    }

    /// Says of every member whether its level is back.
    fn follow(&mut self, points: &PointFilter, seen: &[Seen]) {
        for one in seen {
            let members: Vec<(usize, usize)> = self.members(points, one.key).collect();
            for (entry, member) in members {
                let entry = &mut self.entries[entry];
                let Some(bad) = entry.first_bad.as_ref().map(|place| place.time) else {
                    continue;
                };
                let range = (entry.last_good.time, bad);
                let member = &mut entry.series[member];
                let level = one.newest_level(bad);
                let start = level.map_or(one.places.len() - 1, |(_, start)| start);
                let gone = match level {
                    _ if !counts(member.ratio(), one.threshold) => 1.0,
                    Some((level, _)) => gone(member, level, one.threshold),
                    None => continue,
                };
                if gone >= RETURNED && member.fixed.is_none() {
                    member.fixed = Some(one.places[start].time);
                } else if gone < HALF && member.fixed.is_some() && !one.improved_after(range.0) {
                    // It was no return: the change is found as it was.
                    let mut changes = one.found.change_points.iter();
                    let still = changes.any(|change| {
                        let [good, bad] = one.range(change).map(|place| place.time);
                        one.is_regressed(change) && range.0 <= bad && good <= range.1
                    });
                    member.fixed = member.fixed.filter(|_| !still);
                }
            }
        }
    }

    /// Acceptances that ran out, what fails, and what is open.
    fn sum_up(&mut self, points: &PointFilter, seen: &[Seen], now: Timestamp, night: &mut Night) {
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.points == *points)
        {
            let Some(newest) = newest_of(entry, seen) else {
                continue;
            };
            if entry.state(now) != State::Open {
                continue;
            }
            let ends = entry.accepted.iter();
            let ends = ends.filter(|one| one.has_expired(now));
            let end = ends.filter_map(super::Acceptance::end).reduce(Time::max);
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

/// Whether a change is more than the noise threshold; where there is no ratio, any is.
fn counts(ratio: Option<f64>, threshold: f64) -> bool {
    ratio.is_none_or(|ratio| ratio.ln().abs() > threshold.ln_1p())
}

/// Six digits: more would change with every night.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Whether what was told is less than half of a change.
fn is_much_larger(change: &ChangePoint, told: &Change) -> bool {
    match (change.ratio, told.ratio(), told.before.zip(told.after)) {
        (Some(now), Some(then), _) => now.ln().abs() > MUCH_LARGER * then.ln().abs(),
        (_, _, Some((before, after))) => {
            (change.after - change.before).abs() > MUCH_LARGER * (after - before).abs()
        }
        _ => false,
    }
}

/// Whether a change has about the levels of another.
fn is_between(change: &ChangePoint, told: &Change) -> bool {
    told.before.zip(told.after).is_some_and(|(before, after)| {
        let near = |level: f64, told: f64| (level - told).abs() < ALIKE * (after - before).abs();
        near(change.before, before) && near(change.after, after)
    })
}

/// How much of a change is gone at this level: 1 where all of it is.
fn gone(told: &Change, level: f64, threshold: f64) -> f64 {
    let Some((before, after)) = told.before.zip(told.after) else {
        return 0.0;
    };
    let gone = (level - after) / (before - after);
    let within = (level - before).abs() <= threshold * before.abs();
    if within && gone >= HALF { 1.0 } else { gone }
}

//! Whether levels are back.

use jiff::Timestamp;
use judge::{compare::Verdict, trend::is_beyond};

use super::{Change, Ledger, Seen};
use crate::PointFilter;

/// Of so much of a change that is gone the level has returned.
const RETURNED: f64 = 0.75;
/// Where less is gone it has not; from here on it has where what is left is within the noise
/// threshold.
const HALF: f64 = 0.5;
/// Fewer points of a level say nothing about a return.
const LEAST_POINTS: usize = 3;

impl Seen<'_> {
    /// The newest level, where it has points enough, and where it begins: after the last change
    /// since a place, or else there.
    fn newest_level(&self, since: Timestamp) -> Option<(f64, usize)> {
        let first = self.places.iter().position(|place| place.time >= since)?;
        let last = self.found.change_points.last().map_or(0, |last| last.index);
        let start = first.max(last);
        let values = self.points[start..].iter().map(|point| point.value);
        let level = judge::median(values)?;
        (self.points.len() >= start + LEAST_POINTS).then_some((level, start))
    }

    /// Whether it got better anywhere after a moment.
    fn improved_after(&self, time: Timestamp) -> bool {
        let mut changes = self.found.change_points.iter();
        changes.any(|change| {
            self.places[change.index].time > time
                && change.verdict(self.direction) == Verdict::Improved
        })
    }
}

impl Ledger {
    /// Says of every member whether its level is back.
    pub(super) fn follow(&mut self, points: &PointFilter, seen: &[Seen]) {
        for one in seen {
            for entry in &mut self.entries {
                let good = entry.last_good.time;
                let Some(bad) = entry.first_bad.as_ref().map(|place| place.time) else {
                    continue;
                };
                let Some(told) = entry.member(points, one.key).cloned() else {
                    continue;
                };
                let still = entry.own(&told, one).is_some();
                let Some(member) = entry.member(points, one.key) else {
                    continue;
                };
                let level = one.newest_level(bad);
                let start = level.map_or(one.places.len() - 1, |(_, start)| start);
                let gone = match level {
                    _ if !is_beyond(member.interval, one.threshold) => 1.0,
                    Some((level, _)) => gone(member, level, one.threshold),
                    None => continue,
                };
                if gone >= RETURNED && member.fixed.is_none() {
                    member.fixed = Some(one.places[start].time);
                } else if gone < HALF && member.fixed.is_some() && !one.improved_after(good) {
                    // It was no return: the change is found as it was.
                    member.fixed = member.fixed.filter(|_| !still);
                }
            }
        }
    }
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

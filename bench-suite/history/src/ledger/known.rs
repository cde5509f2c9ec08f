//! Whether an entry has a change already.

use judge::trend::ChangePoint;

use super::{Change, Entry, Ledger, Seen, group::Fresh};
use crate::PointFilter;

/// A change that was told is another from so many times its size on.
const MUCH_LARGER: f64 = 2.0;
/// Levels are alike up to this share of a change.
const ALIKE: f64 = 0.5;

/// What the entries know of a change.
pub(super) enum Known {
    Told,
    /// Much less than there is to it; the place of its entry.
    Less(usize),
    Not,
}

impl Entry {
    /// Which change of a series an entry is about: of those that touch it the nearest in size, or else
    /// one between the same levels, for weak changes wander. What was fixed is back with like size.
    pub(super) fn own<'c>(&self, told: &Change, one: &Seen<'c>) -> Option<&'c ChangePoint> {
        let changes = one.found.change_points.iter();
        let changes = changes.filter(|change| one.is_regressed(change));
        let apart = |change: &ChangePoint| times_as_large(change, told).ln().abs();
        let touching = changes.clone().filter(|change| {
            let [good, bad] = one.range(change).map(|place| place.time);
            self.touches(good, bad)
        });
        let nearest = touching.min_by(|a, b| apart(a).total_cmp(&apart(b)));
        if told.fixed.is_some() {
            return nearest.filter(|change| apart(change) <= MUCH_LARGER.ln());
        }
        nearest.or_else(|| changes.into_iter().find(|change| is_between(change, told)))
    }
}

impl Ledger {
    /// Whether an entry has this change. The size is told anew where it is known twice as well.
    pub(super) fn knows(
        &mut self,
        points: &PointFilter,
        one: &Seen,
        change: &ChangePoint,
    ) -> Known {
        let mut known = Known::Not;
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let member = entry.member(points, one.key).cloned();
            let Some(told) = member.filter(|told| entry.own(told, one) == Some(change)) else {
                continue;
            };
            if times_as_large(change, &told) > MUCH_LARGER {
                // What was accepted was the smaller one.
                if entry.accepted.is_empty() {
                    known = Known::Less(place);
                }
                continue;
            }
            let width = |ends: Option<[f64; 2]>| ends.map_or(f64::INFINITY, |[a, b]| (b / a).ln());
            let is_sharper = width(change.interval) <= width(told.interval) / 2.0;
            if let Some(told) = entry.member(points, one.key).filter(|_| is_sharper) {
                let fresh = one.fresh(change).change;
                (told.before, told.after) = (fresh.before, fresh.after);
                told.interval = fresh.interval;
            }
            return Known::Told;
        }
        known
    }

    /// Tells a change anew that is much larger than it was told; returns the ID of its entry.
    pub(super) fn worsen(&mut self, entry: usize, fresh: Fresh) -> String {
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
}

/// How many times as large as it was told a change is.
fn times_as_large(change: &ChangePoint, told: &Change) -> f64 {
    match (change.ratio, told.ratio(), told.before.zip(told.after)) {
        (Some(now), Some(then), _) => (now.ln() / then.ln()).abs(),
        (_, _, Some((before, after))) => ((change.after - change.before) / (after - before)).abs(),
        _ => 1.0,
    }
}

/// Whether a change has about the levels of another.
fn is_between(change: &ChangePoint, told: &Change) -> bool {
    told.before.zip(told.after).is_some_and(|(before, after)| {
        let near = |level: f64, told: f64| (level - told).abs() < ALIKE * (after - before).abs();
        near(change.before, before) && near(change.after, after)
    })
}

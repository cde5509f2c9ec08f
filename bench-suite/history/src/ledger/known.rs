//! Whether an entry has a change already.

use judge::trend::ChangePoint;

use super::{Change, Ledger, Seen, group::Fresh};
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

impl Ledger {
    /// Whether an entry has this change. The size is told anew where it is known twice as well.
    pub(super) fn knows(
        &mut self,
        points: &PointFilter,
        one: &Seen,
        change: &ChangePoint,
    ) -> Known {
        let [good, bad] = one.range(change).map(|place| place.time);
        let mut wandered = false;
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let touches = entry.touches(good, bad);
            // A weak change wanders: one between the same levels is no second one.
            let is_there = one.found.change_points.iter().any(|other| {
                let [good, bad] = one.range(other).map(|place| place.time);
                one.is_regressed(other) && entry.touches(good, bad)
            });
            let is_accepted = !entry.accepted.is_empty();
            let Some(told) = entry.member(points, one.key) else {
                continue;
            };
            if !touches {
                wandered |= told.fixed.is_none() && !is_there && is_between(change, told);
                continue;
            }
            if is_much_larger(change, told) {
                // What was accepted was the smaller one.
                return if is_accepted {
                    Known::Not
                } else {
                    Known::Less(place)
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
        if wandered { Known::Told } else { Known::Not }
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

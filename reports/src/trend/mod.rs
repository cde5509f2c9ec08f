//! Series over time with their changes of level, as a page and as text.
//!
//! What a series is called, how its values are written and which way is better come from the
//! caller; where levels change, from [`judge::trend`].

mod axis;
mod forms;
mod picture;

use judge::{
    compare::{Direction, Verdict},
    trend::{ChangePoint, Point, Staleness},
};

pub use forms::{html, line, markdown, text};

use serde::Serialize;

use crate::format::{self, Quantity, UNKNOWN};

/// One series, with what was found in it.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its heading: the cell, or the name of a series from elsewhere.
    pub title: String,
    /// What else identifies it: metric, image, machine.
    pub subtitle: String,
    /// How its values are written.
    pub quantity: Quantity,
    /// The unit of its values where `quantity` is a plain number.
    pub unit: String,
    /// Which way it improves, where that is known.
    pub direction: Option<Direction>,
    /// The largest relative change that counts as none; 0 where any counts.
    pub threshold: f64,
    /// Its points, oldest first.
    pub points: Vec<Point>,
    /// Where its level changes, oldest first.
    pub changes: Vec<ChangePoint>,
    /// Changes at which the GPU changed as well.
    pub gpu_changes: Vec<GpuChange>,
    /// The change that the newest point brought to light, by its index in `changes`.
    pub news: Option<usize>,
    /// How long ago its newest result was, where that was asked.
    pub staleness: Option<Staleness>,
    /// What has taken its place, such as `image torch-2.11.0-cu130`: then nobody waits for a new
    /// result of it.
    pub successor: Option<String>,
}

/// A change of level with the GPU: the new level may be the GPU's and not the revision's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuChange {
    /// [`ChangePoint::index`], the first point of the new level.
    pub index: usize,
    /// UUID of the GPU of the point before.
    pub before: String,
    /// UUID of the GPU from there on.
    pub after: String,
}

/// How much of what is on the page calls for somebody, gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// The last run made it regressed.
    Regressed,
    /// Results have stopped coming.
    Stale,
    /// The last run changed it otherwise.
    News,
    /// It changed before.
    Changed,
    /// Nothing happened.
    Quiet,
}

impl Series {
    /// What a change is: improved or regressed, where anybody can know.
    #[must_use]
    pub fn verdict(&self, change: &ChangePoint) -> Option<Verdict> {
        let log_ratio = change.ratio?.ln();
        Some(Verdict::of_change(log_ratio, self.direction?))
    }

    /// Whether a change is smaller than what counts as one.
    #[must_use]
    pub fn is_within_threshold(&self, change: &ChangePoint) -> bool {
        let size = change.ratio.map(|ratio| ratio.ln().abs());
        size.is_some_and(|size| size <= self.threshold.ln_1p())
    }

    /// Whether results have stopped coming that should come.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.successor.is_none() && self.staleness.is_some_and(|staleness| staleness.overdue)
    }

    /// Whether the last run made it regressed by more than counts as no change.
    fn has_regressed(&self, change: &ChangePoint) -> bool {
        self.successor.is_none()
            && self.verdict(change) == Some(Verdict::Regressed)
            && !self.is_within_threshold(change)
    }

    /// What is to be said beside its changes: that nothing has come since the newest result, or
    /// what took over; and where the GPU changed with the level.
    fn remark(&self) -> Option<String> {
        let newest = match (&self.successor, &self.staleness) {
            (Some(successor), _) => Some(format!("superseded by {}", format::clean(successor))),
            (None, Some(staleness)) if staleness.overdue => Some(overdue(staleness)),
            _ => None,
        };
        let gpus = self.gpu_changes.iter().map(|gpu| {
            format::clean(&format!(
                "at point {} the GPU changed from {} to {}, which may be the cause",
                gpu.index, gpu.before, gpu.after
            ))
        });
        let remarks: Vec<String> = newest.into_iter().chain(gpus).collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    fn urgency(&self) -> Urgency {
        let news = self.news.and_then(|index| self.changes.get(index));
        match news {
            Some(change) if self.has_regressed(change) => Urgency::Regressed,
            _ if self.is_stale() => Urgency::Stale,
            Some(_) if self.successor.is_none() => Urgency::News,
            _ if self.changes.is_empty() => Urgency::Quiet,
            _ => Urgency::Changed,
        }
    }

    fn value(&self, value: f64) -> String {
        if self.unit.is_empty() {
            self.quantity.write(value)
        } else {
            format!("{} {}", format::significant(value, 5), self.unit)
        }
    }
}

/// `no result for 5.2 days; usually every 1.0 days`.
fn overdue(staleness: &Staleness) -> String {
    const DAY: f64 = 86_400.0;
    let pace = staleness
        .typical_step_seconds
        .map_or_else(String::new, |step| {
            format!("; usually every {:.1} days", step / DAY)
        });
    format!(
        "no result for {:.1} days{pace}",
        staleness.age_seconds / DAY
    )
}

/// Seconds since 1970 as people read them, in UTC.
#[must_use]
pub fn time(seconds: f64) -> String {
    written(seconds, "%Y-%m-%d %H:%M")
}

fn written(seconds: f64, form: &str) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates; an odd time is shown as it is"
    )]
    let whole = seconds as i64;
    jiff::Timestamp::from_second(whole).map_or_else(
        |_| format!("{seconds:.3e} s"),
        |time| time.strftime(form).to_string(),
    )
}

fn ratio(found: &ChangePoint) -> String {
    found
        .ratio
        .map_or_else(|| UNKNOWN.to_owned(), format::change)
}

fn interval(found: &ChangePoint) -> String {
    found.interval.map_or_else(
        || UNKNOWN.to_owned(),
        |[low, high]| format::interval(low, high),
    )
}

/// The start of a revision, for eyes.
fn revision(found: &ChangePoint) -> String {
    const ENOUGH: usize = 12;
    let clean = format::clean(&found.revision);
    let is_hash = clean.len() >= 20 && clean.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash || clean.chars().count() > 3 * ENOUGH {
        clean.chars().take(ENOUGH).collect()
    } else {
        clean
    }
}

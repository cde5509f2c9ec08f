//! A series with its changes of level, and what is to be said of it.
//!
//! What a series is called, how its values are written and which way is better come from the
//! caller; where levels change, from [`judge::trend`].

use std::fmt;

use judge::{
    compare::{Direction, Verdict},
    trend::{ChangePoint, Point, Staleness, TOO_SHORT, Trend},
};
use record::MethodDifference;
use serde::Serialize;

use crate::{
    charts::written,
    words::{
        format::{self, Quantity, UNKNOWN, short},
        lists::grouped,
    },
};

/// One series, with what was found in it.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its heading: the cell, or the name of a series from elsewhere.
    pub title: String,
    /// What else identifies it: metric, image, machine.
    pub subtitle: String,
    /// How its values are written.
    pub quantity: Quantity,
    /// Which way it improves, where that is known.
    pub direction: Option<Direction>,
    /// The largest relative change that counts as none; 0 where any counts.
    pub threshold: f64,
    /// Its points, oldest first.
    pub points: Vec<Point>,
    pub found: Trend,
    /// What was upgraded or replaced with a change.
    pub attribute_changes: Vec<AttributeChange>,
    /// Where another method took over: it begins or ends there.
    pub methods: MethodChanges,
    /// The change that the newest point brought to light, by its index among them.
    pub news: Option<usize>,
    /// How long ago its newest result was, where that was asked.
    pub staleness: Option<Staleness>,
    pub gated: bool,
    /// Why the gate fails it; empty where it does not.
    pub fails: Vec<Failure>,
    /// Entries of the ledger that it is in, by ID; why it fails is told there.
    pub entries: Vec<String>,
}

/// Why a gate fails a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The last run brought a change for the worse to light.
    Regressed,
    /// Results have stopped coming.
    NoNewResult,
}

/// A change of level with another driver, image or GPU: these may be the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttributeChange {
    /// [`ChangePoint::index`], the first point of the new level.
    pub index: usize,
    /// What was changed, such as `driver` or `image_id`.
    pub attribute: String,
    pub before: String,
    pub after: String,
}

impl AttributeChange {
    /// With the change at this index; of each its name, and its value before and after.
    pub fn all<'c>(
        index: usize,
        changes: impl Iterator<Item = (&'c str, &'c str, &'c str)>,
    ) -> Vec<Self> {
        let one = |(attribute, before, after): (&str, &str, &str)| Self {
            index,
            attribute: attribute.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        changes.map(one).collect()
    }

    pub(super) fn word(&self) -> &str {
        match self.attribute.as_str() {
            "gpu" => "GPU",
            "image_id" => "image ID",
            "load" => "CPU load of others",
            other => other,
        }
    }
}

/// How much of what is on the page calls for somebody, gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// The last run made it regressed.
    Regressed,
    /// Results have stopped coming.
    Stale,
    /// The last run changed it otherwise.
    News,
    /// It changed before, or drifts.
    Changed,
    Quiet,
}

impl Series {
    /// Its heading, with what else identifies it.
    pub(super) fn name(&self) -> String {
        match self.subtitle.as_str() {
            "" => self.title.clone(),
            subtitle => format!("{} · {subtitle}", self.title),
        }
    }

    /// What a change is: improved or regressed, where anybody can know.
    pub fn verdict(&self, change: &ChangePoint) -> Option<Verdict> {
        Some(change.verdict(self.direction?))
    }

    pub(super) fn changes(&self) -> &[ChangePoint] {
        &self.found.change_points
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.found.change_points.is_empty()
    }

    /// Whether a change is smaller than what counts as one.
    pub fn is_within_threshold(&self, change: &ChangePoint) -> bool {
        !change.counts(self.threshold)
    }

    /// Whether results have stopped coming that should come.
    pub fn is_stale(&self) -> bool {
        self.staleness.is_some_and(|staleness| staleness.overdue)
    }

    /// Whether the last run made it regressed by more than counts as no change.
    fn has_regressed(&self, change: &ChangePoint) -> bool {
        self.verdict(change) == Some(Verdict::Regressed) && !self.is_within_threshold(change)
    }

    /// What is to be said beside its changes: what each came with, drift, and that nothing
    /// has come since the newest result.
    pub(super) fn remark(&self) -> Option<String> {
        let stale = self.staleness.as_ref().filter(|_| self.is_stale());
        let found = &self.found;
        let mut remarks: Vec<String> = stale.map(overdue).into_iter().collect();
        if let (Some(change), true) = (&self.methods.after, self.is_stale()) {
            remarks.push(format!("goes on as another series; {change}"));
        }
        if !self.entries.is_empty() {
            remarks.push(format!("in the ledger: {}", self.entries.join(", ")));
        }
        for change in &found.change_points {
            if let Some(cause) = self.cause(change) {
                remarks.push(format!("{} from {cause}", ratio(change)));
            }
            if change.gradual {
                remarks.push(self.drifted(change));
            }
        }
        if found.too_short {
            let points = self.points.len();
            remarks.push(format!(
                "too short to judge: {points} of {TOO_SHORT} points"
            ));
        }
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    /// Where it is now and since when, and where it changed most.
    pub(super) fn newest(&self) -> Option<String> {
        let told = |change: &ChangePoint| {
            let [ratio, interval] = [ratio(change), interval(change)];
            let first = self.first_of(change);
            format!("{ratio} ({interval}) at {first}, {}", self.word(change))
        };
        let newest = self.changes().last()?;
        let size = |change: &&ChangePoint| change.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        let largest = self.changes().iter();
        let largest = largest.max_by(|one, other| size(one).total_cmp(&size(other)));
        let largest = largest.filter(|largest| largest.index != newest.index);
        let largest = largest.map(|largest| format!(" The largest change: {}.", told(largest)));
        Some(format!(
            "{} since {}: {}.{}",
            self.value(newest.after),
            time(newest.timestamp),
            told(newest),
            largest.unwrap_or_default()
        ))
    }

    /// `driver 570.86 to 580.12`: what a change came with.
    pub(super) fn cause(&self, change: &ChangePoint) -> Option<String> {
        causes(self.changed_with(change))
    }

    /// `drift from 100 to 105 over 60 points`.
    fn drifted(&self, drift: &ChangePoint) -> String {
        let [before, after] = [drift.before, drift.after].map(|level| self.value(level));
        format!(
            "drift from {before} to {after} over {} points, gradual: no single revision accounts for it",
            drift.index + 2 - drift.range[0]
        )
    }

    /// The last good point and the first bad one, between which the level changed, by revision, or
    /// by time where that is the same.
    pub(crate) fn between(&self, change: &ChangePoint) -> (String, String) {
        let [first, last] = change.range;
        let ends = [first.saturating_sub(1), last].map(|place| self.points.get(place));
        let [Some(good), Some(bad)] = ends else {
            return (UNKNOWN.to_owned(), revision(change));
        };
        if good.revision == bad.revision {
            return (time(good.timestamp), time(bad.timestamp));
        }
        (short(&good.revision), short(&bad.revision))
    }

    /// The first point of a new level, by revision, or by time where that is the same as before.
    pub(crate) fn first_of(&self, change: &ChangePoint) -> String {
        let before = change.index.checked_sub(1);
        let before = before.and_then(|place| self.points.get(place));
        match before {
            Some(before) if before.revision == change.revision => time(change.timestamp),
            _ => revision(change),
        }
    }

    pub(super) fn changed_with(
        &self,
        change: &ChangePoint,
    ) -> impl Iterator<Item = &AttributeChange> {
        let all = self.attribute_changes.iter();
        all.filter(move |with| with.index == change.index)
    }

    pub(crate) fn urgency(&self) -> Urgency {
        let news = self.news.and_then(|index| self.changes().get(index));
        match news {
            Some(change) if self.has_regressed(change) => Urgency::Regressed,
            _ if self.is_stale() => Urgency::Stale,
            Some(_) => Urgency::News,
            _ if self.is_quiet() => Urgency::Quiet,
            _ => Urgency::Changed,
        }
    }

    /// Whether a change is for the better or the worse, and whether it counts.
    pub(crate) fn word(&self, change: &ChangePoint) -> String {
        let word = match self.verdict(change) {
            Some(Verdict::Improved) => "improved",
            Some(Verdict::Regressed) => "regressed",
            _ => "changed",
        };
        if self.is_within_threshold(change) {
            return format!("{word} within the noise threshold");
        }
        word.to_owned()
    }

    pub(crate) fn value(&self, value: f64) -> String {
        self.quantity.write(value)
    }
}

/// `driver 570.86 to 580.12, GPU GPU-a1 to GPU-b2`.
pub(super) fn causes<'c>(changes: impl Iterator<Item = &'c AttributeChange>) -> Option<String> {
    let told = changes.map(|with| {
        let [before, after] = [&with.before, &with.after].map(|value| short(value));
        format!("{} {before} to {after}", with.word())
    });
    Some(told.collect::<Vec<_>>().join(", ")).filter(|told| !told.is_empty())
}

/// `no result for 5.2 days; usually every 1.0 days`.
pub(super) fn overdue(staleness: &Staleness) -> String {
    let days = |seconds: f64| format!("{:.1} days", seconds / 86_400.0);
    let pace = staleness.typical_step_seconds.map(days);
    let pace = pace.map(|days| format!("; usually every {days}"));
    let age = days(staleness.age_seconds);
    format!("no result for {age}{}", pace.unwrap_or_default())
}

/// Seconds since 1970 as people read them, in UTC.
pub fn time(seconds: f64) -> String {
    written(seconds, "%Y-%m-%d %H:%M")
}

pub(crate) fn ratio(found: &ChangePoint) -> String {
    format::known(found.ratio.map(format::change))
}

pub(super) fn interval(found: &ChangePoint) -> String {
    let interval = found.interval;
    format::known(interval.map(|[low, high]| format::interval(low, high)))
}

pub(super) fn revision(found: &ChangePoint) -> String {
    short(&found.revision)
}

/// Where a series begins and ends for its method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MethodChanges {
    /// It begins where one of another method ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<MethodChange>,
    /// One of another method begins where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<MethodChange>,
}

impl MethodChanges {
    /// Whether no other method comes before or after it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One method taking over from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MethodChange {
    /// What differs: the base is the method before. Empty where the settings are not known.
    pub differences: Vec<MethodDifference>,
}

/// `method: limits.memory 8.0 GiB → 16.0 GiB; --ignore method.limits.memory follows both as one`.
impl fmt::Display for MethodChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.differences.iter().map(|one| {
            let MethodDifference { key, base, head } = one;
            format!("{key} {base} → {head}")
        });
        let told: Vec<String> = told.collect();
        let told = match &told[..] {
            [] => "another, with settings that are not in the history".to_owned(),
            told => told.join(", "),
        };
        let ignoring = MethodDifference::ignoring(&self.differences);
        write!(f, "method: {told}; {ignoring} follows both as one")
    }
}

/// A line for each change of method, with how many series begin with it.
pub(super) fn begun(all: &[Series]) -> Vec<String> {
    let changes = all
        .iter()
        .filter_map(|series| series.methods.before.as_ref());
    let changes = grouped(changes.map(|change| (change, ())));
    let line = |(change, series): (&MethodChange, Vec<()>)| {
        let count = series.len();
        let begin = if count == 1 { "begins" } else { "begin" };
        format!("{count} series {begin} where another method ended; {change}")
    };
    changes.into_iter().map(line).collect()
}

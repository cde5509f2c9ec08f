//! Series and their points.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, Unit};
use judge::{
    compare::{Direction, Kind},
    trend,
};
use record::Method;
use serde::Serialize;

use crate::{Attributes, SeriesKey};

/// A series and what is known of it without its points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesInfo {
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The settings of its method; `None` where they are not known.
    #[serde(rename = "method_settings", skip_serializing_if = "Option::is_none")]
    pub settings: Option<Method>,
    /// What it is joined with, the oldest first, where [`crate::join`] put series together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedMethod>,
    pub unit: String,
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none: what the suite of the newest session sets, else
    /// the metric's own.
    #[serde(skip)]
    pub threshold: Option<f64>,
    /// Runs that it has a value of.
    pub points: u64,
    /// When the oldest of them began, in seconds since 1970-01-01 UTC.
    pub oldest: Option<f64>,
    /// When the newest of them began.
    pub newest: Option<f64>,
}

/// The method of a series that another one is joined with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JoinedMethod {
    /// Its fingerprint, as in [`SeriesKey::method`].
    pub method: String,
    /// Its settings; `None` where they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Method>,
}

/// A series with its points, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub info: SeriesInfo,
    pub points: Vec<Point>,
}

/// What one point stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// The median of a session's runs, at the time of the first of them. What a trend reads: runs
    /// of one session say nothing about change over time.
    #[default]
    Session,
    Run,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// When it was measured, in seconds since 1970-01-01 UTC.
    pub timestamp: f64,
    /// In the series' unit.
    pub value: f64,
    pub origin: Arc<Origin>,
}

/// What points of one cell and session share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    pub session: String,
    /// When the session began, in seconds since 1970-01-01 UTC.
    pub session_began: f64,
    /// What was measured: a commit, an image ID.
    pub revision: String,
    /// What it was measured with.
    pub attributes: Arc<Attributes>,
}

impl Point {
    /// The attributes that the next point has otherwise: name, value here, value there. What is not
    /// known of both is left out, and so is the ID where the image itself is another.
    pub fn changes_to<'p>(
        &'p self,
        next: &'p Self,
    ) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
        changed_attributes(&self.origin.attributes, &next.origin.attributes)
    }
}

/// The attributes that are otherwise there than here.
pub(crate) fn changed_attributes<'p>(
    here: &'p Attributes,
    there: &'p Attributes,
) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
    let changed = move |name: &str| {
        let pair = here.get(name).zip(there.get(name));
        pair.filter(|(here, there)| here != there)
    };
    let other_image = changed("image").or(changed("libtorch")).is_some();
    let names = here.keys().map(String::as_str);
    names
        .filter(move |name| !(other_image && *name == "image_id"))
        .filter_map(move |name| {
            let (here, there) = changed(name)?;
            Some((name, here.as_str(), there.as_str()))
        })
}

/// Seconds since 1970-01-01 UTC, to a thousandth of one; the first or last moment of the calendar beyond
/// it.
pub fn moment(seconds: f64) -> Timestamp {
    let rounded = SignedDuration::try_from_secs_f64(seconds)
        .and_then(|duration| duration.round(Unit::Millisecond))
        .and_then(Timestamp::from_duration);
    let end = if seconds < 0.0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    rounded.unwrap_or(end)
}

impl From<Point> for trend::Point {
    fn from(point: Point) -> Self {
        Self {
            timestamp: point.timestamp,
            revision: point.origin.revision.clone(),
            value: point.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_it_was_written() {
        for (seconds, text) in [
            (1_763_700_011.0, "\"2025-11-21T04:40:11Z\""),
            (1_763_700_011.123_456_7, "\"2025-11-21T04:40:11.123Z\""),
            (0.0, "\"1970-01-01T00:00:00Z\""),
            (-1.5, "\"1969-12-31T23:59:58.5Z\""),
            (1e150, "\"9999-12-30T22:00:00.999999999Z\""),
        ] {
            let time = moment(seconds);
            let written = serde_json::to_string(&time).unwrap();
            assert_eq!(written, text);
            assert_eq!(serde_json::from_str::<Timestamp>(&written).unwrap(), time);
        }
    }
}

//! When something was, as people and programs read it.

use std::fmt;

use jiff::{SignedDuration, Timestamp, Unit};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds since 1970-01-01 UTC, to a thousandth; written as in ISO 8601 where there is such a date.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Time(f64);

impl Time {
    /// These seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn of(seconds: f64) -> Self {
        let rounded = (seconds * 1000.0).round() / 1000.0;
        Self(if rounded.is_finite() {
            rounded
        } else {
            seconds
        })
    }

    /// Seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0
    }

    /// The later of both.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    fn date(self) -> Option<Timestamp> {
        let duration = SignedDuration::try_from_secs_f64(self.0).ok()?;
        Timestamp::from_duration(duration.round(Unit::Millisecond).ok()?).ok()
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self::of(time.as_duration().as_secs_f64())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.date() {
            Some(date) => date.fmt(f),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.date() {
            Some(date) => serializer.serialize_str(&date.to_string()),
            None => serializer.serialize_f64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a time such as \"2026-11-21T03:00:00Z\""
        )]
        enum Written {
            Date(Timestamp),
            Seconds(f64),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Date(date) => date.into(),
            Written::Seconds(seconds) => Self::of(seconds),
        })
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
            (1e150, "1e+150"),
        ] {
            let time = Time::of(seconds);
            let written = serde_json::to_string(&time).unwrap();
            assert_eq!(written, text);
            assert_eq!(serde_json::from_str::<Time>(&written).unwrap(), time);
        }
        let wrong = serde_json::from_str::<Time>("\"yesterday\"").unwrap_err();
        assert!(wrong.to_string().contains("2026-11-21T03:00:00Z"));
    }
}

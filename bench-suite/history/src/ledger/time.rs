//! When something was, as people and programs read it.

use std::fmt;

use jiff::{SignedDuration, Timestamp, Unit};
use serde::{Deserialize, Serialize};

/// A moment, to a thousandth of a second; written as in ISO 8601.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(Timestamp);

impl Time {
    /// These seconds since 1970-01-01 UTC; the first or last moment of the calendar beyond it.
    #[must_use]
    pub fn of(seconds: f64) -> Self {
        let rounded = SignedDuration::try_from_secs_f64(seconds)
            .and_then(|duration| duration.round(Unit::Millisecond))
            .and_then(Timestamp::from_duration);
        let end = if seconds < 0.0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        Self(rounded.unwrap_or(end))
    }

    /// Seconds since 1970-01-01 UTC.
    pub fn seconds(self) -> f64 {
        self.0.as_duration().as_secs_f64()
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self::of(time.as_duration().as_secs_f64())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
            let time = Time::of(seconds);
            let written = serde_json::to_string(&time).unwrap();
            assert_eq!(written, text);
            assert_eq!(serde_json::from_str::<Time>(&written).unwrap(), time);
        }
    }
}

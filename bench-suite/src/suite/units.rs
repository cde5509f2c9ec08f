//! Metrics as people write them: `90s`, `4GiB`.

use std::time::Duration;

use bytesize::ByteSize;
use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// A stretch of time, written `90s`, `5min`, `1h 30min`; from 1 ms to a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const LONGEST: Duration = Duration::from_hours(7 * 24);
        let expected = "a time with its unit, from 1ms to 7d, such as 90s or 5min";
        scalar(deserializer, expected, false, |value| {
            let range = Duration::from_millis(1)..=LONGEST;
            stretch(value).filter(|time| range.contains(time)).map(Time)
        })
    }
}

/// A stretch of time as in [`Time`], or none of it: `0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait(pub(super) Duration);

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const LONGEST: Duration = Duration::from_hours(24);
        let expected = "a time with its unit, from 0s to 24h, such as 30s or 5min";
        scalar(deserializer, expected, false, |value| {
            stretch(value).filter(|time| *time <= LONGEST).map(Wait)
        })
    }
}

/// A number of bytes, written `512MiB`, `4GiB`, `64MB`, or as a plain whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a size above 0, such as 512MiB or 4GiB";
        scalar(deserializer, expected, true, |value| {
            let size = || Some(value.as_str()?.parse::<ByteSize>().ok()?.as_u64());
            let bytes = value.as_u64().or_else(size)?;
            (1..=i64::MAX as u64)
                .contains(&bytes)
                .then_some(Bytes(bytes))
        })
    }
}

/// One scalar, by whatever `read` makes of it.
pub(super) fn scalar<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    takes_numbers: bool,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<T, D::Error> {
    use de::{Error as _, Unexpected};
    let value = Value::deserialize(deserializer)?;
    read(&value).ok_or_else(|| match &value {
        Value::String(text) => D::Error::invalid_value(Unexpected::Str(text), &expected),
        Value::Number(number) => {
            let got = format!("integer `{number}`");
            let got = Unexpected::Other(&got);
            if takes_numbers {
                D::Error::invalid_value(got, &expected)
            } else {
                D::Error::invalid_type(got, &expected)
            }
        }
        Value::Bool(value) => D::Error::invalid_type(Unexpected::Bool(*value), &expected),
        Value::Null => D::Error::invalid_type(Unexpected::Unit, &expected),
        Value::Array(_) => D::Error::invalid_type(Unexpected::Seq, &expected),
        Value::Object(_) => D::Error::invalid_type(Unexpected::Map, &expected),
    })
}

fn stretch(value: &Value) -> Option<Duration> {
    Duration::try_from(value.as_str()?.parse::<SignedDuration>().ok()?).ok()
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time with its unit, from 1ms to 7d, such as 90s, 5min, 1h 30min",
            "examples": ["90s", "5min"],
        })
    }
}

impl JsonSchema for Wait {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Wait".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time with its unit, from 0s to 24h, such as 30s, 5min",
            "examples": ["30s", "5min"],
        })
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size above 0, such as 512MiB or 4GiB",
            "anyOf": [
                { "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGTP]i?)?[bB]?$" },
                { "type": "integer", "minimum": 1 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        let time = |text: &str| from_value::<Time>(json!(text)).unwrap().0;
        assert_eq!(time("90s"), Duration::from_secs(90));
        assert_eq!(time("1h 30min"), Duration::from_mins(90));
        assert_eq!(time("1.5s"), Duration::from_millis(1500));
        let wait = |text: &str| from_value::<Wait>(json!(text)).unwrap().0;
        assert_eq!(wait("0s"), Duration::ZERO);
        assert_eq!(wait("5min"), Duration::from_mins(5));
        assert!(from_value::<Wait>(json!("-1s")).is_err());
        let bytes = |text: &str| from_value::<Bytes>(json!(text)).unwrap().0;
        assert_eq!(bytes("64MiB"), 64 << 20);
        assert_eq!(bytes("1.5 GiB"), 3 << 29);
        assert_eq!(bytes("10MB"), 10_000_000);
        assert_eq!(from_value::<Bytes>(json!(4096)).unwrap(), Bytes(4096));
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        for bad in [
            json!("90"),
            json!("-5s"),
            json!("0s"),
            json!("8d"),
            json!(90),
            json!("soon"),
        ] {
            let error = from_value::<Time>(bad.clone()).unwrap_err().to_string();
            assert!(error.contains("a time with its unit"), "{bad}: {error}");
        }
        for bad in [
            json!("0"),
            json!(0),
            json!(-4),
            json!("4 potatoes"),
            json!(""),
            json!(1e30),
        ] {
            let error = from_value::<Bytes>(bad.clone()).unwrap_err().to_string();
            assert!(error.contains("a size above 0"), "{bad}: {error}");
        }
    }
}

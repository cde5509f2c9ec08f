//! Quantities as people write them: `90s`, `4GiB`, and whole numbers within bounds.

use std::{ops::RangeInclusive, time::Duration};

use bytesize::ByteSize;
use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use strict_yaml::{Spot, YamlError};

use super::axes::schema_of;

/// A stretch of time, written `90s`, `5min`, `1h 30min`, from so many milliseconds to so many hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch<const LEAST: u64, const MOST: u64>(pub(crate) Duration);

/// From 1 ms to a week.
pub(crate) type Time = Stretch<1, { 7 * 24 }>;
/// From none to a day.
pub(super) type Wait = Stretch<0, 24>;

impl<const LEAST: u64, const MOST: u64> Stretch<LEAST, MOST> {
    fn expected() -> String {
        let range = match (LEAST, MOST) {
            (0, hours) => format!("0s to {hours}h"),
            (least, hours) => format!("{least}ms to {}d", hours / 24),
        };
        format!("from {range}, such as 90s or 5min")
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Stretch<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = format!("a time with its unit, {}", Self::expected());
        scalar(deserializer, &expected, false, |value| {
            let time: SignedDuration = value.as_str()?.parse().ok()?;
            let range = Duration::from_millis(LEAST)..=Duration::from_hours(MOST);
            let time = Duration::try_from(time).ok();
            time.filter(|time| range.contains(time)).map(Stretch)
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

impl From<Time> for Duration {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl From<Time> for Option<Duration> {
    fn from(time: Time) -> Self {
        Some(time.0)
    }
}

impl From<Bytes> for u64 {
    fn from(Bytes(bytes): Bytes) -> Self {
        bytes
    }
}

impl From<Bytes> for Option<u64> {
    fn from(Bytes(bytes): Bytes) -> Self {
        Some(bytes)
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

impl<const LEAST: u64, const MOST: u64> JsonSchema for Stretch<LEAST, MOST> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        if LEAST == 0 { "Wait" } else { "Time" }.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": format!("A time with its unit, {}", Self::expected()),
            "examples": ["90s", "5min"],
        })
    }
}

schema_of!(Bytes as "Bytes", _ => json_schema!({
    "description": "A size above 0, such as 512MiB or 4GiB",
    "anyOf": [
        { "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGTP]i?)?[bB]?$" },
        { "type": "integer", "minimum": 1 },
    ],
}));

/// Whether the number at this key is within these.
pub(super) fn within(
    at: &Spot<'_>,
    key: &str,
    got: u32,
    range: RangeInclusive<u32>,
) -> Result<(), YamlError> {
    if range.contains(&got) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let message = format!("a value out of range: {got}");
    let expected = format!("expected a whole number from {least} to {most}");
    Err(at.key(key).expecting(message, expected, None))
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
        let refusals = [
            json!("90"),
            json!("-5s"),
            json!("0s"),
            json!("8d"),
            json!(90),
            json!("soon"),
        ]
        .map(|bad| from_value::<Time>(bad).unwrap_err().to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        invalid value: string "90", expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        invalid value: string "-5s", expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        invalid value: string "0s", expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        invalid value: string "8d", expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        invalid type: integer `90`, expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        invalid value: string "soon", expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        "#);
        let refusals = [
            json!("0"),
            json!(0),
            json!(-4),
            json!("4 potatoes"),
            json!(""),
            json!(1e30),
        ]
        .map(|bad| from_value::<Bytes>(bad).unwrap_err().to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        invalid value: string "0", expected a size above 0, such as 512MiB or 4GiB
        invalid value: integer `0`, expected a size above 0, such as 512MiB or 4GiB
        invalid value: integer `-4`, expected a size above 0, such as 512MiB or 4GiB
        invalid value: string "4 potatoes", expected a size above 0, such as 512MiB or 4GiB
        invalid value: string "", expected a size above 0, such as 512MiB or 4GiB
        invalid value: integer `1e+30`, expected a size above 0, such as 512MiB or 4GiB
        "#);
    }
}

//! Values that are written as text in files.

use std::ops::RangeInclusive;

/// Why a text is no value of its type, and what would be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// The number in plain digits behind `prefix`, where it is one of `range`.
pub(crate) fn numbered(text: &str, prefix: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let digits = text.strip_prefix(prefix)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|number| is_plain && range.contains(number))
}

/// Why a name can be none of a `kind`; `None` where it can.
pub(crate) fn unnamed(kind: &str, name: &str, most: usize) -> Option<String> {
    let letters = name.chars().count();
    if name.trim().is_empty() {
        Some(format!("a {kind} whose name is blank"))
    } else if letters > most {
        Some(format!(
            "a {kind} whose name has {letters} letters; expected at most {most}"
        ))
    } else {
        None
    }
}

/// Parsing by a function that gives `None` where the text is no such value; the error quotes it.
macro_rules! read_by {
    ($type:ty, $unknown:literal, $read:expr) => {
        impl std::str::FromStr for $type {
            type Err = crate::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let read: fn(&str) -> Option<Self> = $read;
                read(text).ok_or_else(|| crate::text::ParseError(format!($unknown, text)))
            }
        }
    };
}
pub(crate) use read_by;

/// Serde and schema for a type that `Display` writes and `FromStr` reads.
macro_rules! text_form {
    ($type:ty, $description:literal, $pattern:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                })
            }
        }
    };
}
pub(crate) use text_form;

//! Sequences whose length differs from step to step.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    Positive,
    text::{numbered, read_by},
};

/// Lengths of sequences, both ends included: `16-512`, or `{min: 16, max: 512}` in a suite. Each
/// step draws one length from it, uniformly, out of the run's seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LengthRange {
    shortest: Positive,
    longest: Positive,
}

impl LengthRange {
    /// `None` where the first is not below the second.
    pub fn new(shortest: Positive, longest: Positive) -> Option<Self> {
        (shortest < longest).then_some(Self { shortest, longest })
    }

    /// The shortest length.
    pub fn shortest(self) -> u32 {
        self.shortest.get()
    }

    /// The longest length.
    pub fn longest(self) -> u32 {
        self.longest.get()
    }

    /// Whether a step may have this length.
    pub fn contains(self, length: u32) -> bool {
        (self.shortest()..=self.longest()).contains(&length)
    }
}

read_by!(
    LengthRange,
    "`{}` is no range of lengths; expected MIN-MAX from 1 to 65536 with MIN below MAX, such as \
     16-512",
    |text| {
        let (shortest, longest) = text.split_once('-')?;
        let end = |text| numbered(text, "", 1..=65_536).and_then(Positive::new);
        Self::new(end(shortest)?, end(longest)?)
    }
);

impl fmt::Display for LengthRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shortest, self.longest)
    }
}

impl Serialize for LengthRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LengthRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = LengthRange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a range of lengths, such as 16-512 or {min: 16, max: 512}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<LengthRange, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<LengthRange, A::Error> {
                let Ends { min, max } =
                    Ends::deserialize(de::value::MapAccessDeserializer::new(map))?;
                self.visit_str(&format!("{min}-{max}"))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A range as a suite may write it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Ends {
    /// The shortest length.
    #[schemars(range(min = 1, max = 65536))]
    min: Positive,
    /// The longest length.
    #[schemars(range(min = 1, max = 65536))]
    max: Positive,
}

impl JsonSchema for LengthRange {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LengthRange".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let ends = Ends::json_schema(generator);
        schemars::json_schema!({
            "anyOf": [{ "type": "string", "pattern": r"^[0-9]+-[0-9]+$" }, ends],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_in_both_forms_and_write_in_one() {
        for text in [r#""16-512""#, r#"{"min":16,"max":512}"#] {
            let range: LengthRange = serde_json::from_str(text).unwrap();
            assert_eq!((range.shortest(), range.longest()), (16, 512));
            assert_eq!(serde_json::to_string(&range).unwrap(), r#""16-512""#);
            assert!(range.contains(16) && range.contains(512));
            assert!(!range.contains(15) && !range.contains(513));
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_would_be() {
        let no_range = |text| {
            format!(
                "`{text}` is no range of lengths; expected MIN-MAX from 1 to 65536 with MIN below \
                 MAX, such as 16-512"
            )
        };
        for (text, expect) in [
            (r#""16""#, no_range("16")),
            (r#""512-16""#, no_range("512-16")),
            (r#""16-16""#, no_range("16-16")),
            (r#""0-16""#, no_range("0-16")),
            (r#""16-65537""#, no_range("16-65537")),
            (r#""+16-17""#, no_range("+16-17")),
            (r#""""#, no_range("")),
            (r#"{"min":20,"max":10}"#, no_range("20-10")),
            (r#"{"min":20}"#, "missing field `max`".to_owned()),
            (
                r#"{"min":1,"max":2,"mean":1}"#,
                "unknown field `mean`, expected `min` or `max`".to_owned(),
            ),
            (
                "128",
                "invalid type: integer `128`, expected a range of lengths, such as 16-512 or \
                 {min: 16, max: 512}"
                    .to_owned(),
            ),
        ] {
            let error = serde_json::from_str::<LengthRange>(text).unwrap_err();
            let place = format!(" at line {} column {}", error.line(), error.column());
            assert_eq!(error.to_string(), expect + &place);
        }
    }
}

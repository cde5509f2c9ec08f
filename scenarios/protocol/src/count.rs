//! Numbers of things.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole number from 1 to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Count<const MAX: u32>(u32);

/// A whole number from 1 to 65536.
pub type Positive = Count<65_536>;

impl<const MAX: u32> Count<MAX> {
    /// One.
    pub const ONE: Self = Self(1);

    /// `None` where the number is outside 1 to `MAX`.
    pub fn new(value: u32) -> Option<Self> {
        (1..=MAX).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl<const MAX: u32> Default for Count<MAX> {
    fn default() -> Self {
        Self::ONE
    }
}

impl<const MAX: u32> fmt::Display for Count<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for Count<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        u32::try_from(value)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| {
                serde::de::Error::invalid_value(
                    serde::de::Unexpected::Signed(value),
                    &format!("a whole number from 1 to {MAX}").as_str(),
                )
            })
    }
}

impl<const MAX: u32> JsonSchema for Count<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": MAX })
    }
}

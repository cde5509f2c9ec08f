//! How many processes a run has: one number, or several that are an axis.

use protocol::MOST_RANKS;
use schemars::json_schema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use strict_yaml::{Spot, YamlError};

use super::{
    axes::schema_of,
    program::Program,
    scenario::{ScenarioVariant, Work},
    units::within,
};

/// The axis that a list of counts is, and the place of the count in a program's command.
pub const RANKS_AXIS: &str = "ranks";

/// `ranks:` as written in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RanksFile {
    counts: Vec<u32>,
    is_list: bool,
}

impl Default for RanksFile {
    fn default() -> Self {
        Self {
            counts: vec![1],
            is_list: false,
        }
    }
}

impl<'de> Deserialize<'de> for RanksFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_list = value.is_array();
        let counts = match value {
            Value::Array(items) => items,
            item => vec![item],
        };
        let count = |item: &Value| item.as_u64().and_then(|count| u32::try_from(count).ok());
        let counts: Option<Vec<u32>> = counts.iter().map(count).collect();
        let counts = counts.ok_or_else(|| {
            D::Error::custom("expected a whole number, or a list of such, as in [1, 2, 4]")
        })?;
        Ok(Self { counts, is_list })
    }
}

schema_of!(RanksFile as "Ranks", _ => {
    let one = serde_json::json!({ "type": "integer", "minimum": 1, "maximum": MOST_RANKS });
    json_schema!({
        "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }],
    })
});

impl RanksFile {
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// `at`: the scenario.
    pub(super) fn check(&self, at: &Spot<'_>) -> Result<(), YamlError> {
        let mut counts = self.counts.iter().enumerate();
        let repeated = counts.any(|(place, count)| self.counts[..place].contains(count));
        if repeated || self.counts.is_empty() {
            let expected = "expected each count once";
            return Err(at
                .key(RANKS_AXIS)
                .expecting("no set of counts", expected, None));
        }
        let mut counts = self.counts.iter();
        counts.try_for_each(|&count| within(at, RANKS_AXIS, count, 1..=MOST_RANKS))
    }

    /// Each variant once for every count.
    pub(super) fn spread(&self, variants: Vec<ScenarioVariant>) -> Vec<ScenarioVariant> {
        let with = |one: &ScenarioVariant, count: u32| {
            let mut one = one.clone();
            one.ranks = count;
            if self.is_list {
                one.axes.set(RANKS_AXIS, count);
            }
            if let Work::Program { program, .. } = &mut one.work {
                fill(program, count);
            }
            one
        };
        let counts = |one: ScenarioVariant| self.counts.iter().map(move |&count| with(&one, count));
        variants.into_iter().flat_map(counts).collect()
    }
}

/// Puts the count where a program's command and variables name it.
fn fill(program: &mut Program, count: u32) {
    let place = format!("{{{RANKS_AXIS}}}");
    let texts = program.file.command.iter_mut();
    for text in texts.chain(program.file.environment.values_mut()) {
        *text = text.replace(&place, &count.to_string());
    }
}

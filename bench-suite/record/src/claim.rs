//! What somebody claimed, as a suite carries it and its session keeps it.

use std::collections::BTreeMap;
use std::fmt;

use protocol::{Model, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A claim about an effect between two cells, or about a value of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The claim in words: "AMP saves 30–50 % of peak memory".
    pub statement: String,
    /// Who said so, as a reader can find it.
    pub source: String,
    /// The quantity it is about, by its name in records: `peak_allocated_bytes`.
    pub metric: String,
    /// Scenarios that it is about; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<String>,
    /// Models that it is about; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Model>,
    /// The task that it is about; none named: every task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The cell without the treatment; `None` for a claim about a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<CellChoice>,
    /// The cell with it.
    pub treated: CellChoice,
    /// What is claimed.
    pub expect: Expectation,
}

/// Cells by image and some of their axes. The two cells of a pair are the same in everything that
/// neither choice names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellChoice {
    /// The image's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image's libtorch: `2.6` is every 2.6.x.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<String>,
    /// Axis to value.
    #[serde(flatten)]
    pub axes: BTreeMap<String, String>,
}

impl CellChoice {
    /// Whether it names an image, by name or by libtorch.
    #[must_use]
    pub fn names_an_image(&self) -> bool {
        self.image.is_some() || self.libtorch.is_some()
    }

    /// Whether a libtorch of this version is meant.
    #[must_use]
    pub fn fits_libtorch(&self, version: Option<&str>) -> bool {
        let Some(wanted) = &self.libtorch else {
            return true;
        };
        version.is_some_and(|version| {
            version
                .strip_prefix(wanted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
        })
    }
}

impl fmt::Display for CellChoice {
    /// As in `libtorch=2.6 precision=fp32`; `as it is` where nothing is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = self.image.iter().map(|image| ("image", image));
        let libtorch = self.libtorch.iter().map(|version| ("libtorch", version));
        let axes = self.axes.iter().map(|(axis, value)| (axis.as_str(), value));
        let words: Vec<String> = image
            .chain(libtorch)
            .chain(axes)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if words.is_empty() {
            f.write_str("as it is")
        } else {
            f.write_str(&words.join(" "))
        }
    }
}

/// What is claimed; both ends belong to the range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// treated ÷ baseline.
    Ratio(Range),
    /// 1 − treated ÷ baseline: 0.3 to 0.5 is "saves 30–50 %".
    Saving(Range),
    /// treated ÷ baseline − 1: 0.2 to 0.3 is "costs 20–30 % more".
    Increase(Range),
    /// The value itself, in the quantity's unit; without a baseline.
    Value(Range),
}

impl Expectation {
    /// Its range.
    #[must_use]
    pub fn range(&self) -> Range {
        match *self {
            Self::Ratio(range)
            | Self::Saving(range)
            | Self::Increase(range)
            | Self::Value(range) => range,
        }
    }
}

/// A range of numbers; an end left out is open.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Smallest number that bears the claim out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest number that bears the claim out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_for_its_releases() {
        let choice = CellChoice {
            libtorch: Some("2.6".into()),
            ..CellChoice::default()
        };
        for (version, fits) in [
            (Some("2.6.0"), true),
            (Some("2.6"), true),
            (Some("2.6+cpu"), true),
            (Some("2.60.0"), false),
            (Some("2.5.1"), false),
            (None, false),
        ] {
            assert_eq!(choice.fits_libtorch(version), fits, "{version:?}");
        }
        assert!(CellChoice::default().fits_libtorch(None));
    }

    #[test]
    fn choices_read_as_they_are_written() {
        let json = r#"{"libtorch":"2.6","precision":"fp32","batch":"64"}"#;
        let choice: CellChoice = serde_json::from_str(json).unwrap();
        assert_eq!(choice.to_string(), "libtorch=2.6 batch=64 precision=fp32");
        let again = serde_json::to_string(&choice).unwrap();
        assert_eq!(serde_json::from_str::<CellChoice>(&again).unwrap(), choice);
        assert_eq!(CellChoice::default().to_string(), "as it is");
    }
}

//! What somebody claimed, as a suite carries it and its session keeps it.

use std::collections::BTreeMap;
use std::fmt;

use protocol::Axes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Workload;

/// A claim about an effect between two cells, or about a value of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Claim")]
pub struct Claim<C = CellChoice> {
    /// The claim in words: "AMP saves 30–50 % of peak memory".
    pub statement: String,
    /// The source, as a reader can find it.
    pub source: String,
    /// The metric it is about, by its name in records: `peak_allocated_bytes`.
    pub metric: String,
    /// Scenarios that it is about; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<String>,
    /// Models that it is about; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<protocol::Model>")]
    pub models: Vec<String>,
    /// The task that it is about; none named: every task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<protocol::Task>")]
    pub task: Option<String>,
    /// The cell without the treatment; left out for a claim about a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<C>,
    /// The cell with it.
    pub treated: C,
    /// What is claimed.
    pub expect: Expectation,
}

impl<C> Claim<C> {
    /// Whether it is about this scenario.
    pub fn concerns(&self, scenario: &str, workload: &Workload) -> bool {
        let is_named = |names: &[String], own: Option<&str>| {
            names.is_empty() || names.iter().any(|name| Some(name.as_str()) == own)
        };
        is_named(&self.scenarios, Some(scenario))
            && is_named(&self.models, workload.model())
            && is_named(self.task.as_slice(), workload.task())
    }

    /// The same claim with its cells read by `read`, which is told each cell's key.
    pub fn read_cells<D, E>(
        self,
        read: impl Fn(&'static str, C) -> Result<D, E>,
    ) -> Result<Claim<D>, E> {
        let baseline = self.baseline.map(|cell| read("baseline", cell));
        Ok(Claim {
            baseline: baseline.transpose()?,
            treated: read("treated", self.treated)?,
            statement: self.statement,
            source: self.source,
            metric: self.metric,
            scenarios: self.scenarios,
            models: self.models,
            task: self.task,
            expect: self.expect,
        })
    }
}

/// Cells by scenario, image and some of their axes. The two cells of a pair are the same in everything
/// that neither choice names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CellChoice")]
pub struct CellChoice<V = String> {
    /// The scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The image's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image's libtorch: `2.6` is every 2.6.x.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<String>,
    /// Axis to value.
    #[serde(flatten)]
    pub axes: BTreeMap<String, V>,
}

/// A cell that a choice may mean.
#[derive(Debug, Clone, Copy)]
pub struct ChosenCell<'a> {
    /// Its scenario.
    pub scenario: &'a str,
    /// Its image, and the image's libtorch; `None` in a suite, which leaves the image open.
    pub image: Option<(&'a str, Option<&'a str>)>,
    /// The choice on every axis.
    pub axes: &'a Axes,
}

impl CellChoice {
    /// Whether it names an image, by name or by libtorch.
    pub fn names_an_image(&self) -> bool {
        self.image.is_some() || self.libtorch.is_some()
    }

    /// Whether this cell is meant; of one whose image is open, whether it may be.
    pub fn fits(&self, cell: ChosenCell<'_>) -> bool {
        let mut axes = self.axes.iter();
        let scenario = self.scenario.as_deref();
        let mut image = cell.image.into_iter();
        scenario.is_none_or(|wanted| wanted == cell.scenario)
            && image.all(|(name, libtorch)| self.fits_image(name, libtorch))
            && axes.all(|(axis, value)| cell.axes.get(axis) == Some(value))
    }

    /// Whether two cells, one of this choice and one of `other`, make a pair: they differ in
    /// something, and in nothing but what the choices name.
    pub fn pairs(&self, own: ChosenCell<'_>, other: &Self, others: ChosenCell<'_>) -> bool {
        let named = self.names_an_image();
        // Where the images are open, choices that name some mean two of them.
        let same_image = own.image == others.image && !(named && own.image.is_none());
        let same_scenario = own.scenario == others.scenario;
        (same_scenario || self.scenario.is_some())
            && (same_image || named)
            && !(same_scenario && same_image && own.axes == others.axes)
            && self.alike(own.axes, other, others.axes)
    }

    /// Whether an image of this name and version of libtorch is meant.
    fn fits_image(&self, name: &str, libtorch: Option<&str>) -> bool {
        let is_release = |wanted: &String| {
            let rest = libtorch.and_then(|version| version.strip_prefix(wanted.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
        };
        self.image.as_ref().is_none_or(|wanted| wanted == name)
            && self.libtorch.as_ref().is_none_or(is_release)
    }

    /// Whether two variants, one of this choice and one of `other`, are the same in every axis that
    /// neither names; between two scenarios, whose workloads may differ, in those that both have.
    fn alike(&self, own: &Axes, other: &Self, others: &Axes) -> bool {
        let named = |axis| self.axes.contains_key(axis) || other.axes.contains_key(axis);
        let is_shared = |axis| own.contains_key(axis) && others.contains_key(axis);
        let mut axes = own.keys().chain(others.keys());
        axes.all(|axis| {
            named(axis)
                || own.get(axis) == others.get(axis)
                || self.scenario != other.scenario && !is_shared(axis)
        })
    }
}

impl fmt::Display for CellChoice {
    /// As in `libtorch=2.6 precision=fp32`; `as it is` where nothing is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = self.scenario.iter().map(|name| ("scenario", name));
        let image = self.image.iter().map(|image| ("image", image));
        let libtorch = self.libtorch.iter().map(|version| ("libtorch", version));
        let axes = self.axes.iter().map(|(axis, value)| (axis.as_str(), value));
        let words = scenario.chain(image).chain(libtorch).chain(axes);
        let words: Vec<String> = words
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match &*words.join(" ") {
            "" => f.write_str("as it is"),
            words => f.write_str(words),
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
    /// The value itself, in the metric's unit; without a baseline.
    Value(Range),
}

impl Expectation {
    /// Its range, as given.
    pub fn range(&self) -> Range {
        match *self {
            Self::Ratio(range)
            | Self::Saving(range)
            | Self::Increase(range)
            | Self::Value(range) => range,
        }
    }

    /// Its range as treated ÷ baseline, checked; that of a value as it is.
    pub fn ratio_range(&self) -> Result<Range, RangeError> {
        let Range { min, max } = self.range();
        if min.is_none() && max.is_none() {
            let open = "the claim has no range; give min, max or both";
            return Err(RangeError(open.to_owned()));
        }
        let ratio = |value: f64| match self {
            Self::Ratio(_) | Self::Value(_) => value,
            Self::Saving(_) => 1.0 - value,
            Self::Increase(_) => 1.0 + value,
        };
        for (end, value) in [("min", min), ("max", max)] {
            if let Some(value) = value
                && !(value.is_finite() && ratio(value) >= 0.0)
            {
                return Err(RangeError(format!(
                    "{end} is {value}; expected a finite number that leaves treated ÷ baseline at \
                     0 or above (a saving is at most 1; 30 % is written 0.3)"
                )));
            }
        }
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            return Err(RangeError(format!(
                "min {min} is above max {max}; swap them"
            )));
        }
        let (min, max) = (min.map(ratio), max.map(ratio));
        Ok(match self {
            Self::Saving(_) => Range { min: max, max: min },
            _ => Range { min, max },
        })
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

/// `0.5 to 0.7`, `at least 0.5`, `at most 0.7`; ratios to four decimals, bytes as whole numbers.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: f64| {
            let digits = if value.abs() >= 10_000.0 { 0 } else { 4 };
            format!("{value:.digits$}")
        };
        match (self.min.map(number), self.max.map(number)) {
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("anything"),
        }
    }
}

/// A range that means nothing: why, and what was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct RangeError(String);

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
            assert_eq!(choice.fits_image("any", version), fits, "{version:?}");
        }
        assert!(CellChoice::<String>::default().fits_image("any", None));
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

    #[test]
    fn ranges_are_checked_and_read_as_ratios() {
        let range = |min: Option<f64>, max: Option<f64>| Range { min, max };
        let saving = Expectation::Saving(range(Some(0.25), Some(0.5)));
        assert_eq!(saving.ratio_range(), Ok(range(Some(0.5), Some(0.75))));
        let increase = Expectation::Increase(range(Some(0.25), None));
        assert_eq!(increase.ratio_range(), Ok(range(Some(1.25), None)));
        let open = Expectation::Ratio(range(None, None));
        let why = |of: Expectation| of.ratio_range().unwrap_err().to_string();
        insta::assert_snapshot!(why(open), @"the claim has no range; give min, max or both");
        let reversed = Expectation::Ratio(range(Some(2.0), Some(1.0)));
        assert_eq!(why(reversed), "min 2 is above max 1; swap them");
        let percent = Expectation::Saving(range(Some(30.0), Some(50.0)));
        insta::assert_snapshot!(why(percent), @"min is 30; expected a finite number that leaves treated ÷ baseline at 0 or above (a saving is at most 1; 30 % is written 0.3)");
        let nan = Expectation::Ratio(range(Some(f64::NAN), Some(1.0)));
        insta::assert_snapshot!(why(nan), @"min is NaN; expected a finite number that leaves treated ÷ baseline at 0 or above (a saving is at most 1; 30 % is written 0.3)");
    }
}

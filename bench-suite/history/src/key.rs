//! What identifies a series, and how to ask for several.

use std::fmt;

use metrics::{Metric, Rows};
use serde::{Deserialize, Serialize};
use wildmatch::WildMatchPattern;

/// What identifies a series: metrics with different keys are never put together. Image, driver and
/// whatever else is upgraded are attributes of a point.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct SeriesKey {
    /// The machine's name, or that of its class where the user named one;
    /// [`SeriesKey::ELSEWHERE`] for a series from a file.
    pub machine: String,
    /// The GPU, such as `NVIDIA H200`, with its index behind it where the machine has several
    /// (`NVIDIA H200 #3`); the CPU's model for runs on the CPU.
    pub device: String,
    /// The line of images that is followed, such as `main` or `torch-cu`.
    pub track: String,
    pub suite: String,
    pub scenario: String,
    /// The choice on every axis.
    pub variant: String,
    /// How it was measured, as far as the session tells; empty where it tells nothing.
    pub method: String,
    pub metric: String,
}

impl SeriesKey {
    /// The machine of series that were measured elsewhere.
    pub const ELSEWHERE: &str = "imported";

    /// The key of a series from a file.
    pub fn elsewhere(name: &str) -> Self {
        Self {
            machine: Self::ELSEWHERE.into(),
            scenario: name.into(),
            metric: "value".into(),
            ..Self::default()
        }
    }

    /// Scenario and variant, as reports write them.
    pub fn cell(&self) -> String {
        record::cell_name(&self.scenario, &self.variant)
    }

    /// What it has in common with the series of other methods.
    #[must_use]
    pub fn without_method(&self) -> Self {
        Self {
            method: String::new(),
            ..self.clone()
        }
    }

    /// The parts with their names, in order.
    pub fn parts(&self) -> [(&'static str, &str); 8] {
        [
            ("machine", &self.machine),
            ("device", &self.device),
            ("track", &self.track),
            ("suite", &self.suite),
            ("scenario", &self.scenario),
            ("variant", &self.variant),
            ("method", &self.method),
            ("metric", &self.metric),
        ]
    }
}

impl fmt::Display for SeriesKey {
    /// On one line, without control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().map(|(_, part)| part);
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts
            .join(" / ")
            .chars()
            .try_for_each(|letter| match letter {
                letter if letter.is_control() => write!(f, "{}", letter.escape_unicode()),
                letter => write!(f, "{letter}"),
            })
    }
}

/// Which series to take. A part that is `None` takes all; `*` matches any characters,
/// as in `peak_*`. Everything else stands for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesFilter {
    pub machine: Option<String>,
    pub device: Option<String>,
    pub track: Option<String>,
    pub suite: Option<String>,
    pub scenario: Option<String>,
    pub variant: Option<String>,
    pub metric: Option<String>,
    /// Of the metrics that fail a gate, and of these; `None` takes all.
    pub gated_or: Option<Vec<String>>,
}

impl SeriesFilter {
    /// Its patterns, with the names of the parts.
    pub fn patterns(&self) -> [(&'static str, Option<&str>); 7] {
        [
            ("machine", self.machine.as_deref()),
            ("device", self.device.as_deref()),
            ("track", self.track.as_deref()),
            ("suite", self.suite.as_deref()),
            ("scenario", self.scenario.as_deref()),
            ("variant", self.variant.as_deref()),
            ("metric", self.metric.as_deref()),
        ]
    }

    pub(crate) fn takes_metric(&self, name: &str, rows: &Rows) -> bool {
        let is_gated = || rows.named(name).is_some_and(Metric::is_gated);
        let others = self.gated_or.as_ref();
        fits(self.metric.as_deref(), Some(name))
            && others.is_none_or(|others| others.iter().any(|other| other == name) || is_gated())
    }

    pub fn takes(&self, key: &SeriesKey) -> bool {
        let parts = key.parts();
        self.patterns().into_iter().all(|(name, pattern)| {
            let part = parts.iter().find(|(part, _)| *part == name);
            fits(pattern, part.map(|(_, text)| *text))
        })
    }
}

/// Which points of a series to take, by patterns as in [`SeriesFilter`]. Points of which it is not
/// known are left out where it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

impl PointFilter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether the text, where there is one, fits the pattern, where there is one.
pub(crate) fn fits(pattern: Option<&str>, text: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| text.is_some_and(|text| matches(pattern, text)))
}

/// Whether the text fits the pattern, where `*` matches any characters.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    // Nothing else has a meaning: no text has a NUL in it.
    WildMatchPattern::<'*', '\0'>::new(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expect: bool) {
        assert_eq!(matches(pattern, text), expect, "{pattern:?} on {text:?}");
    }

    #[test]
    fn stars_stand_for_any_run_of_characters() {
        check("", "", true);
        check("", "a", false);
        check("*", "", true);
        check("*", "a/b c", true);
        check("peak_*", "peak_allocated_bytes", true);
        check("peak_*", "run_peak_allocated_bytes", false);
        check("*_bytes", "peak_allocated_bytes", true);
        check("*peak*bytes", "run_peak_allocated_bytes", true);
        check("a*a", "a", false);
        check("a*a", "aa", true);
        check("a*b*c", "a-b-c-b", false);
        check("a**c", "abc", true);
        check("?[a]", "?[a]", true);
        check("?", "a", false);
        check("µ*·", "µ über ·", true);
    }

    #[test]
    fn a_key_reads_on_one_line_without_control_characters() {
        let key = SeriesKey::elsewhere("rocks\u{1b}[2Jdb\n");
        assert_eq!(
            key.to_string(),
            "imported / rocks\\u{1b}[2Jdb\\u{a} / value"
        );
    }
}

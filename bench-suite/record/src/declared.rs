//! Metrics that a suite declares beside the built-in ones.

use protocol::bad_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most metrics that the suites of a session may declare.
pub const MOST_DECLARED: usize = 64;

/// Declares every unit once: its name, its sign, and what it counts.
macro_rules! units {
    ($($name:ident, $sign:literal, $about:literal;)*) => {
        /// What a metric is counted in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Unit {
            $(#[doc = $about] $name,)*
        }

        impl Unit {
            /// The unit's sign, such as `s`.
            pub fn sign(self) -> &'static str {
                match self { $(Self::$name => $sign,)* }
            }
        }
    };
}

units! {
    SamplesPerSecond, "samples/s", "Samples a second.";
    StepsPerSecond, "steps/s", "Steps a second.";
    TokensPerSecond, "tokens/s", "Tokens a second.";
    RequestsPerSecond, "requests/s", "Requests a second.";
    BytesPerSecond, "bytes/s", "Bytes a second.";
    OperationsPerSecond, "operations/s", "Operations a second.";
    Seconds, "s", "Seconds.";
    Bytes, "bytes", "Bytes.";
    Count, "count", "Times that something happened, or things that there are.";
    Joules, "J", "Joules.";
    Watts, "W", "Watts.";
    Ratio, "ratio", "A share, from 0 to 1.";
    Plain, "", "A number without a unit, such as a loss.";
}

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
}

/// A metric that a suite declares, or a program that says which way it improves: the workload yields a
/// value of this name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclaredMetric {
    /// The name of the value that the workload yields.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9_]*$"), length(max = 64))]
    pub name: String,
    /// A few words for people; the name where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub label: Option<String>,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// The largest relative change that counts as none.
    #[serde(default = "usual_threshold")]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub threshold: f64,
    /// Whether a regression fails a gate.
    #[serde(default)]
    pub gate: bool,
}

fn usual_threshold() -> f64 {
    0.02
}

impl DeclaredMetric {
    /// One that a program says how to compare: with the usual threshold, and without a gate.
    pub fn reported(name: &str, unit: Unit, better: Better) -> Self {
        Self {
            name: name.to_owned(),
            label: None,
            unit,
            better,
            threshold: usual_threshold(),
            gate: false,
        }
    }

    /// What is wrong with it, with the key that is: `name`, `label` or `threshold`.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_label = |label: &String| {
            !label.trim().is_empty()
                && label.chars().count() <= 64
                && crate::printable(label) == label.as_str()
        };
        if let Some(why) = bad_name(&self.name) {
            return Some(("name", why));
        }
        if !self.label.as_ref().is_none_or(is_label) {
            return Some(("label", "expected 1 to 64 letters that print"));
        }
        let is_share = (0.0..1.0).contains(&self.threshold);
        (!is_share).then_some((
            "threshold",
            "expected a share from 0 to below 1; 2 % is written 0.02",
        ))
    }
}

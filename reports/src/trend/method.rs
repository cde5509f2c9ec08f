//! Series that go on by another method, and are another series there.

use std::fmt;

use record::MethodDifference;
use serde::Serialize;

use super::series::Series;
use crate::words::lists::grouped;

/// Where a series begins and ends for its method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MethodChanges {
    /// It begins where one of another method ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<MethodChange>,
    /// One of another method begins where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<MethodChange>,
}

impl MethodChanges {
    /// Whether no other method comes before or after it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One method taking over from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MethodChange {
    /// What differs: the base is the method before. Empty where the settings are not known.
    pub differences: Vec<MethodDifference>,
}

/// `method: limits.memory 8.0 GiB → 16.0 GiB; --ignore method.limits.memory follows both as one`.
impl fmt::Display for MethodChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.differences.iter().map(|one| {
            let MethodDifference { key, base, head } = one;
            format!("{key} {base} → {head}")
        });
        let told: Vec<String> = told.collect();
        let told = match &told[..] {
            [] => "another, with settings that the history does not know".to_owned(),
            told => told.join(", "),
        };
        let ignoring = MethodDifference::ignoring(&self.differences);
        write!(f, "method: {told}; {ignoring} follows both as one")
    }
}

/// A line for each change of method, with how many series begin with it.
pub(super) fn begun(all: &[Series]) -> Vec<String> {
    let changes = all
        .iter()
        .filter_map(|series| series.methods.before.as_ref());
    let changes = grouped(changes.map(|change| (change, ())));
    let line = |(change, series): (&MethodChange, Vec<()>)| {
        let count = series.len();
        let begin = if count == 1 { "begins" } else { "begin" };
        format!("{count} series {begin} where another method ended; {change}")
    };
    changes.into_iter().map(line).collect()
}

//! Whether two sides were measured in the same way: limits, threads, steps, seed, engine. What
//! differs there differs in the metrics.

use std::{collections::BTreeMap, str::FromStr};

use record::{Method, MethodDifference};

use crate::{
    CompareError, Warning,
    side::{Cell, Runs, Side},
};

/// A setting of the method that two sides may differ in: `method.limits.cpus`; or all below a key:
/// `method.limits`, `method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodKey(String);

impl MethodKey {
    fn covers(&self, key: &str) -> bool {
        let rest = key.strip_prefix(self.0.as_str());
        self.0.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl FromStr for MethodKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = match text.strip_prefix("method") {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('.').filter(|key| !key.is_empty()),
            None => None,
        };
        let key = key.map(|key| Self(key.to_owned()));
        let is_known = |key: &Self| {
            key.0.starts_with("limits.ulimits.") || Method::KEYS.iter().any(|one| key.covers(one))
        };
        key.filter(is_known).ok_or_else(|| {
            let keys = Method::KEYS.map(|key| format!("method.{key}"));
            format!("expected method, or one of {}", keys.join(", "))
        })
    }
}

/// Warnings about differences that are ignored; an error where one is not. `common` holds the
/// cells that are compared, with the runs of base and head.
pub(crate) fn check(
    base: &Side<'_>,
    head: &Side<'_>,
    common: &[(&Cell, &Runs<'_>, &Runs<'_>)],
    ignore: &[MethodKey],
) -> Result<Vec<Warning>, CompareError> {
    let mut found: BTreeMap<String, MethodDifference> = BTreeMap::new();
    for (_, base_runs, head_runs) in common {
        if let (Some(one), Some(other)) = (base.method(base_runs), head.method(head_runs)) {
            for difference in one.differences(&other) {
                found.entry(difference.key.clone()).or_insert(difference);
            }
        }
    }
    let is_ignored = |found: &MethodDifference| ignore.iter().any(|key| key.covers(&found.key));
    let (ignored, differences): (Vec<_>, Vec<_>) = found.into_values().partition(is_ignored);
    if !differences.is_empty() {
        return Err(CompareError::MethodsDiffer { differences });
    }
    let warning = |difference| Warning::MethodIgnored { difference };
    Ok(ignored.into_iter().map(warning).collect())
}

//! Whether two sides were measured in the same way: limits, threads, steps, seed, engine. What
//! differs there differs in the metrics.

use std::collections::BTreeMap;

use record::{MethodDifference, MethodKey};

use crate::{
    CompareError, Warning,
    side::{Cell, Runs, Side},
};

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
    let is_ignored = |found: &MethodDifference| MethodKey::any_covers(ignore, &found.key);
    let (ignored, differences): (Vec<_>, Vec<_>) = found.into_values().partition(is_ignored);
    if !differences.is_empty() {
        return Err(CompareError::MethodsDiffer { differences });
    }
    let warning = |difference| Warning::MethodIgnored { difference };
    Ok(ignored.into_iter().map(warning).collect())
}

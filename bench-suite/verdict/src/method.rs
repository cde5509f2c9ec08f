//! Whether two sides were measured in the same way: limits, threads, steps, seed, engine. What
//! differs there differs in the metrics.

use std::collections::BTreeMap;

use record::{MethodDifference, MethodKey};

use crate::{
    CompareError, Warning,
    side::{Cell, Runs},
};

/// Warnings about differences that are ignored; an error where one is not. `common` holds the
/// cells that are compared, with the runs of base and head.
pub(crate) fn check<'a>(
    common: &[(&Cell, &Runs<'a>, &Runs<'a>)],
    ignore: &[MethodKey],
) -> Result<Vec<Warning>, CompareError> {
    let mut found: BTreeMap<String, MethodDifference> = BTreeMap::new();
    for (_, base_runs, head_runs) in common {
        let first = |runs: &Runs<'a>| runs.values().next().map(|run| &run.method);
        if let Some((one, other)) = first(base_runs).zip(first(head_runs)) {
            for difference in one.differences(other) {
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

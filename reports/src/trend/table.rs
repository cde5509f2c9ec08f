//! The changes of one series as rows.

use judge::compare::Verdict;

use super::{Series, interval, ratio, revision, time};
use crate::format;

pub(super) const HEADS: [&str; 9] = [
    "point",
    "time",
    "revision",
    "before",
    "after",
    "change",
    "95 % interval",
    "p",
    "verdict",
];

/// One row a change; the first three columns are names.
pub(super) fn rows(series: &Series) -> Vec<[String; 9]> {
    let changes = series.changes.iter().enumerate();
    changes
        .map(|(place, found)| {
            let verdict = match series.verdict(found) {
                Some(Verdict::Improved) => "improved",
                Some(Verdict::Regressed) => "regressed",
                _ => "changed",
            };
            let within = if series.is_within_threshold(found) {
                " within the noise threshold"
            } else {
                ""
            };
            let news = if series.news == Some(place) {
                ", new"
            } else {
                ""
            };
            let mut gpus = series.gpu_changes.iter();
            let gpu = if gpus.any(|gpu| gpu.index == found.index) {
                ", on another GPU"
            } else {
                ""
            };
            [
                found.index.to_string(),
                time(found.timestamp),
                revision(found),
                series.value(found.before),
                series.value(found.after),
                ratio(found),
                interval(found),
                format!("{:.1e}", found.p),
                format!("{verdict}{within}{news}{gpu}"),
            ]
            .map(|cell| format::clean(&cell))
        })
        .collect()
}

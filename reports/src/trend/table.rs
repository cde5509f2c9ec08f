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
                Some(Verdict::Better) => "better",
                Some(Verdict::Worse) => "worse",
                _ => "changed",
            };
            let within = if series.is_within_margin(found) {
                " within the margin"
            } else {
                ""
            };
            let news = if series.news == Some(place) {
                ", new"
            } else {
                ""
            };
            let mut cards = series.card_changes.iter();
            let card = if cards.any(|card| card.index == found.index) {
                ", on another card"
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
                format!("{verdict}{within}{news}{card}"),
            ]
            .map(|cell| format::clean(&cell))
        })
        .collect()
}

//! What the judge says of two sides: in a picture, in words and in a table.

use verdict::MetricVerdict;

use crate::{
    charts::{Entry, Key},
    document::{Cell, Kind, Mark},
    svg::{Look, Shape, ink::Ink},
    words::{
        comparison::{effect, interval, of_medians},
        format::{self, UNKNOWN},
    },
};

/// `+3.10 % (+2.20 … +4.00 %)`.
pub(super) fn value(found: &MetricVerdict) -> String {
    let change = effect(found);
    match &*interval(found) {
        UNKNOWN => format!("{change}, no interval"),
        "exact" => format!("{change}, exact"),
        ends => format!("{change} ({ends})"),
    }
}

pub(super) fn columns(
    entry: Entry,
    found: &MetricVerdict,
    word: String,
    [verdict, change, ends]: [&'static str; 3],
) -> Entry {
    let threshold = format!("threshold {}", format::share(found.comparison.threshold));
    let word = Cell::from(word).marked(found.comparison.verdict.into());
    let medians = of_medians(found).unwrap_or_default();
    let numbers = [
        (change, Cell::from(effect(found)).noted(medians)),
        (ends, Cell::from(interval(found)).noted(threshold)),
    ];
    entry
        .with(Kind::Word, [(verdict, word)])
        .with(Kind::Number, numbers)
}

pub(super) fn look(mark: Mark) -> Look {
    match mark {
        Mark::Bad => Look::of(Ink::Danger, Shape::Diamond),
        Mark::Good => Look::of(Ink::Series(2), Shape::Disc),
        Mark::Unknown => Look::of(Ink::Muted, Shape::Triangle).hollow(true),
        _ => Look::of(Ink::Text, Shape::Square).hollow(true),
    }
}

pub(super) fn legend(has_claims: bool, is_choice: bool) -> Vec<Key> {
    let ([bad, good], behind) = match (has_claims, is_choice) {
        (true, _) => (["refuted", "holds"], "claimed range"),
        (_, true) => (["worse", "better"], "noise threshold"),
        _ => (["regressed", "improved"], "noise threshold"),
    };
    let marks = [
        (Mark::Bad, bad),
        (Mark::Good, good),
        (Mark::Same, "unchanged"),
        (Mark::Unknown, "inconclusive"),
    ];
    let marks = marks.into_iter();
    let marks = marks.filter(|(mark, _)| !has_claims || *mark != Mark::Same);
    let marks = marks.map(|(mark, word)| Key::mark(look(mark), word));
    marks.chain([Key::area(Ink::Grid, behind)]).collect()
}

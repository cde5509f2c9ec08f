//! The words of a comparison, which all its forms share.

use judge::compare::Verdict;
use protocol::Axis;
use verdict::{CellVerdicts, MetricVerdict, Origin, Verdicts};

use super::{GRAVEST_FIRST, came_to};
use crate::{
    format::{self, UNKNOWN, plural, share},
    metric,
    model::Change,
};

/// What was compared with what.
pub(super) fn headline(verdicts: &Verdicts) -> String {
    format!(
        "{} against {}",
        side(&verdicts.head, &verdicts.base),
        side(&verdicts.base, &verdicts.head)
    )
}

/// The base, and the head.
pub(crate) fn sides(verdicts: &Verdicts) -> (String, String) {
    (
        side(&verdicts.base, &verdicts.head),
        side(&verdicts.head, &verdicts.base),
    )
}

/// The base, then the head.
pub(crate) fn arrow(verdicts: &Verdicts) -> String {
    let (base, head) = sides(verdicts);
    format!("{base} → {head}")
}

/// A verdict in one sentence.
pub(crate) fn change_of(change: &Change) -> String {
    let Change {
        cell,
        metric,
        found,
    } = change;
    let interval = match interval(found) {
        known if known == UNKNOWN => String::new(),
        known => format!(" ({known})"),
    };
    format!("{}, {cell}: {}{interval}", metric.label, effect(found))
}

/// The image, with what else tells it from the other side.
fn side(of: &Origin, other: &Origin) -> String {
    let mut name = of.image.clone();
    if let Some(choice) = &of.choice {
        name += &format!(" with {choice}");
    }
    if of.session != other.session {
        name += &format!(" @ {}", of.session);
    }
    name
}

/// `9 gated metrics in 2 cells: 2 regressed, 1 improved, 3 inconclusive, 3 unchanged.`
pub(super) fn tally(verdicts: &Verdicts) -> String {
    let gated = || {
        verdicts
            .all()
            .filter(|(_, found)| found.gated)
            .map(|(_, found)| found)
    };
    let mut counts: Vec<String> = GRAVEST_FIRST
        .iter()
        .map(|(verdict, _)| {
            let count = gated().filter(|found| came_to(found, *verdict)).count();
            format!("{count} {verdict}")
        })
        .collect();
    match gated()
        .filter(|found| found.not_measured_in.is_some())
        .count()
    {
        0 => {}
        missing => counts.push(format!("{missing} measured on one side only")),
    }
    let cells = plural(verdicts.cells.len(), "cell", "cells");
    let metrics = plural(gated().count(), "gated metric", "gated metrics");
    let tally = format!("{metrics} in {cells}: {}.", counts.join(", "));
    match verdicts.cells.iter().filter_map(lost).count() {
        0 => tally,
        count => format!(
            "{tally} {} in the head.",
            plural(count, "cell fails", "cells fail")
        ),
    }
}

/// Of a cell that works in the base and never in the head: what that is for a gate, and why.
pub(super) fn lost(cell: &CellVerdicts) -> Option<(Verdict, String)> {
    let head = &cell.failures.as_ref()?.head;
    let why = format!("works in the base, fails in the head: runs failed {head}");
    Some((cell.lost()?, why))
}

/// How many runs of a cell failed, on which side, and why; `None` where none did.
pub(super) fn failures(cell: &CellVerdicts) -> Option<String> {
    let failures = cell.failures.as_ref()?;
    Some(format!(
        "runs failed: base {}, head {}",
        failures.base, failures.head
    ))
}

pub(crate) fn cell_name(cell: &CellVerdicts) -> String {
    if cell.name.is_empty() {
        // Read from a file of an older version.
        return spelled(&format!("{} · {}", cell.scenario, cell.variant));
    }
    spelled(&cell.name)
}

/// A cell's name with each axis as the tables say it: `adamw`, not `optimizer=adamw`.
pub(crate) fn spelled(name: &str) -> String {
    let word = |word: &str| {
        let (axis, value) = word.split_once('=')?;
        Some(
            Axis::in_names()
                .find(|known| known.name == axis)?
                .label(value),
        )
    };
    let words = name
        .split(' ')
        .map(|one| word(one).unwrap_or_else(|| one.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// The metric in words for people.
pub(super) fn label(found: &MetricVerdict) -> String {
    metric::label(&found.metric)
}

/// A value of the metric with its unit.
pub(super) fn value(found: &MetricVerdict, value: Option<f64>) -> String {
    metric::known(&found.metric, value)
}

/// The effect that was judged, `+1.20 %`: the estimate.
pub(crate) fn effect(found: &MetricVerdict) -> String {
    found
        .comparison
        .ratio
        .map_or_else(|| UNKNOWN.to_owned(), format::change)
}

/// The change from one median to the other, where it contradicts the estimate: it lies outside of
/// the interval, or points in the other direction, for a median leaves the pairing out.
pub(crate) fn of_medians(found: &MetricVerdict) -> Option<String> {
    let (base, head) = found.base.zip(found.head)?;
    let ratio = Some(head / base).filter(|ratio| ratio.is_finite())?;
    let comparison = &found.comparison;
    let is_inside = comparison.interval?.contains(ratio);
    let is_turned = (ratio - 1.0) * (comparison.ratio? - 1.0) < 0.0;
    (!is_inside || is_turned).then(|| format!("medians {}", format::change(ratio)))
}

/// Both sides and both changes as a sentence.
pub(super) fn change(found: &MetricVerdict) -> String {
    let (base, head) = (value(found, found.base), value(found, found.head));
    match of_medians(found) {
        Some(medians) => format!("{base} to {head} ({medians}), estimated {}", effect(found)),
        None => format!("{base} to {head}, {}", effect(found)),
    }
}

/// Its interval, `+0.90 … +1.50 %`.
pub(crate) fn interval(found: &MetricVerdict) -> String {
    let interval = found.comparison.interval;
    interval.map_or_else(
        || UNKNOWN.to_owned(),
        |ends| format::interval(ends.lo, ends.hi),
    )
}

/// A minimum detectable change, as long as it means something.
pub(super) fn detectable_change(least: f64) -> String {
    if least > 1.0 {
        "more than 100 %".to_owned()
    } else {
        share(least)
    }
}

/// A number of blocks that is more than are worth it, in words; `None` for others.
fn blocks_in_words(blocks: usize) -> Option<String> {
    let most = judge::compare::WORTHWHILE_BLOCKS;
    (blocks > most).then(|| format!("more blocks than are worth it (over {most})"))
}

/// Why a metric is inconclusive, and what would help.
pub(super) fn what_would_help(found: &MetricVerdict) -> Option<String> {
    let comparison = &found.comparison;
    if !came_to(found, Verdict::Inconclusive) {
        return None;
    }
    let detectable = comparison.minimum_detectable_change;
    let detectable =
        detectable.map(|least| format!("detectable change {}", detectable_change(least)));
    let needed = comparison.blocks_needed.map(|blocks| {
        let threshold = share(comparison.threshold);
        match blocks_in_words(blocks) {
            Some(words) => format!("{words} for the noise threshold of {threshold}"),
            None => format!("about {blocks} blocks needed for the noise threshold of {threshold}"),
        }
    });
    let words: Vec<String> = detectable.into_iter().chain(needed).collect();
    Some(if words.is_empty() {
        comparison.reason.clone()
    } else {
        words.join("; ")
    })
}

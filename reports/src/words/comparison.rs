//! A comparison in words, which all its forms share.

use judge::compare::{Direction, Verdict};
use metrics::{Metric, Unit};
use protocol::Axis;
use verdict::{CellVerdicts, Failures, MetricVerdict, Origin, Verdicts};

use crate::words::{
    format::{self, UNKNOWN, plural, share},
    metric,
};

/// All verdicts, the gravest first, with the title of their table.
pub(crate) const GRAVEST_FIRST: [(Verdict, &str); 4] = [
    (Verdict::Regressed, "Regressed"),
    (Verdict::Improved, "Improved"),
    (Verdict::Inconclusive, "Inconclusive"),
    (Verdict::Unchanged, "Unchanged"),
];

/// What one side is against the other: a verdict of versions; of two design choices, neither is a
/// regression of the other.
pub(crate) fn word(verdict: Verdict, metric: &Metric, is_choice: bool) -> String {
    let is_more = match (verdict, metric.direction) {
        (Verdict::Improved, Direction::HigherIsBetter)
        | (Verdict::Regressed, Direction::LowerIsBetter) => true,
        (Verdict::Improved | Verdict::Regressed, _) => false,
        _ => return verdict.to_string(),
    };
    if !is_choice {
        return verdict.to_string();
    }
    let word = match (metric.unit, is_more) {
        (Unit::Bytes | Unit::Joules | Unit::Watts, true) => "more",
        (Unit::Bytes | Unit::Joules | Unit::Watts, false) => "less",
        (Unit::Count | Unit::Ratio | Unit::Plain, true) => "higher",
        (Unit::Count | Unit::Ratio | Unit::Plain, false) => "lower",
        (unit, is_more) if is_more == (unit != Unit::Seconds) => "faster",
        _ => "slower",
    };
    word.to_owned()
}

/// Whether the metric was measured on both sides and came to this verdict.
pub(crate) fn came_to(found: &MetricVerdict, verdict: Verdict) -> bool {
    found.not_measured_in.is_none() && found.comparison.verdict == verdict
}

pub(crate) fn headline(verdicts: &Verdicts) -> String {
    let (base, head) = sides(verdicts);
    format!("{head} against {base}")
}

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
pub(crate) fn tally(verdicts: &Verdicts) -> String {
    let gated = || verdicts.all().filter(|(_, found)| found.gated);
    let counts = GRAVEST_FIRST.map(|(verdict, _)| {
        let own = gated().filter(|(_, found)| came_to(found, verdict));
        format!("{} {verdict}", own.count())
    });
    let mut counts = counts.to_vec();
    let missing = gated().filter(|(_, found)| found.not_measured_in.is_some());
    let missing = Some(missing.count()).filter(|missing| *missing > 0);
    counts.extend(missing.map(|missing| format!("{missing} measured on one side only")));
    let cells = plural(verdicts.cells.len(), "cell", "cells");
    let metrics = plural(gated().count(), "gated metric", "gated metrics");
    let tally = format!("{metrics} in {cells}: {}.", counts.join(", "));
    let fails = |cell: &&CellVerdicts| cell.lost() == Some(Verdict::Regressed);
    match verdicts.cells.iter().filter(fails).count() {
        0 => tally,
        count => format!(
            "{tally} {} in the head.",
            plural(count, "cell fails", "cells fail")
        ),
    }
}

/// Of a cell that fails in the head, always or far more often than in the base, or was not measured
/// there: what that is for a gate, and why.
pub(crate) fn lost(cell: &CellVerdicts) -> Option<(Verdict, String)> {
    let verdict = cell.lost()?;
    let Failures { base, head, .. } = cell.failures.as_ref()?;
    let why = match verdict {
        // What is no fault of an image says nothing of one.
        Verdict::Inconclusive => format!("not measured in the head: runs failed {head}"),
        _ if head.all() => format!("works in the base, fails in the head: runs failed {head}"),
        _ => format!("fails more often in the head: runs failed {head}, in the base {base}"),
    };
    Some((verdict, why))
}

/// How many runs of a cell failed, on which side, and why; `None` where none did.
pub(crate) fn failures(cell: &CellVerdicts) -> Option<String> {
    let Failures { base, head, .. } = cell.failures.as_ref()?;
    Some(format!("runs failed: base {base}, head {head}"))
}

pub(crate) fn cell_name(cell: &CellVerdicts) -> String {
    if cell.name.is_empty() {
        // Read from a file of an older version.
        return spelled(&record::cell_name(&cell.scenario, &cell.variant));
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

pub(crate) fn label(found: &MetricVerdict) -> String {
    metric::label(&found.metric)
}

pub(crate) fn value(found: &MetricVerdict, value: Option<f64>) -> String {
    metric::known(&found.metric, value)
}

/// The effect that was judged, `+1.20 %`: the estimate.
pub(crate) fn effect(found: &MetricVerdict) -> String {
    format::known(found.comparison.ratio.map(format::change))
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
pub(crate) fn change(found: &MetricVerdict) -> String {
    let (base, head) = (value(found, found.base), value(found, found.head));
    match of_medians(found) {
        Some(medians) => format!("{base} to {head} ({medians}), estimated {}", effect(found)),
        None => format!("{base} to {head}, {}", effect(found)),
    }
}

/// Its interval, `+0.90 … +1.50 %`.
pub(crate) fn interval(found: &MetricVerdict) -> String {
    let interval = found.comparison.interval;
    format::known(interval.map(|ends| format::interval(ends.lo, ends.hi)))
}

/// The same behind a change: ` [0.90, 1.50]`, or `, exact`; nothing where there is none.
pub(crate) fn bracketed(found: &MetricVerdict) -> String {
    match &*interval(found) {
        UNKNOWN => String::new(),
        "exact" => ", exact".to_owned(),
        ends => {
            let mut ends = ends.replace(" … ", ", ");
            // Beside a factor a change without its sign would be read as a share.
            if !ends.contains('×') {
                ends = ends.replace('+', "");
            }
            format!(" [{}]", ends.strip_suffix(" %").unwrap_or(&ends))
        }
    }
}

/// A minimum detectable change, as long as it means something.
pub(crate) fn detectable_change(least: f64) -> String {
    if least > 1.0 {
        "more than 100 %".to_owned()
    } else {
        share(least)
    }
}

/// Why a metric is inconclusive, and what would help.
pub(crate) fn what_would_help(found: &MetricVerdict) -> Option<String> {
    let comparison = &found.comparison;
    if !came_to(found, Verdict::Inconclusive) {
        return None;
    }
    let detectable = comparison.minimum_detectable_change;
    let detectable =
        detectable.map(|least| format!("detectable change {}", detectable_change(least)));
    let needed = comparison.blocks_needed.map(|blocks| {
        let threshold = share(comparison.threshold);
        let twice = format!("twice the noise threshold of {threshold}");
        let most = judge::compare::WORTHWHILE_BLOCKS;
        if blocks > most {
            return format!("more blocks than is worthwhile (over {most}) for {twice}");
        }
        format!("about {blocks} blocks detect {twice}")
    });
    let words: Vec<String> = detectable.into_iter().chain(needed).collect();
    Some(if words.is_empty() {
        comparison.reason.clone()
    } else {
        words.join("; ")
    })
}

#[cfg(test)]
mod tests {
    use metrics::catalogue;

    use super::*;

    #[test]
    fn design_choices_are_no_regressions() {
        let check = |verdict, metric, version: &str, choice: &str| {
            assert_eq!(word(verdict, metric, false), version);
            assert_eq!(word(verdict, metric, true), choice);
        };
        let memory = &catalogue::PEAK_RESERVED;
        check(
            Verdict::Regressed,
            &catalogue::THROUGHPUT,
            "regressed",
            "slower",
        );
        check(
            Verdict::Improved,
            &catalogue::STEP_MEDIAN,
            "improved",
            "faster",
        );
        check(Verdict::Regressed, memory, "regressed", "more");
        check(Verdict::Improved, memory, "improved", "less");
        check(Verdict::Unchanged, memory, "unchanged", "unchanged");
        check(
            Verdict::Inconclusive,
            memory,
            "inconclusive",
            "inconclusive",
        );
    }
}

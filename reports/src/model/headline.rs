//! What a reader wants first: what was asked, what was compared, and what it came to.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use verdict::{FailOn, Gate, MetricVerdict, Verdicts};

use super::{
    answers,
    changes::{self, Change},
    effects,
    report::{Counts, GateOutcome, Headline},
    versions,
    view::View,
};
use crate::words::{
    comparison,
    format::{self, plural},
    lists::{grouped, unique},
};

pub(super) fn of(view: &View) -> Headline {
    let sessions = &view.report.sessions;
    let suites = sessions.iter().flat_map(|session| session.suites.keys());
    let asked = sessions
        .iter()
        .flat_map(|session| session.questions.values());
    let changes = changes::of(view);
    let comparisons = || sessions.iter().flat_map(|session| &session.comparisons);
    let [worst, best] = effects::told(&changes, comparisons());
    let clean = |texts: Vec<String>| texts.iter().map(|text| format::clean(text)).collect();
    let comparisons: Vec<&Verdicts> = comparisons().collect();
    let steps = Some(&*changes).filter(|_| !versions::of(view).is_empty());
    Headline {
        suites: unique(suites.map(|suite| format::clean(suite))),
        questions: unique(asked.map(|asked| format::clean(&asked.question))),
        compared: format::clean(&compared(view)),
        counts: (!changes.is_empty()).then(|| count(&changes)),
        failed: sessions.iter().map(|session| session.failed).sum(),
        gate: gate(&comparisons, steps, FailOn::Regressed),
        answers: clean(answers::of(view, &changes)),
        worst: clean(worst),
        best: clean(best),
    }
}

/// Of one comparison, with a gate as strict as `fail_on`.
pub(crate) fn of_comparison(verdicts: &Verdicts, fail_on: FailOn) -> Headline {
    let changes: Vec<Change> = changes::of_comparison(verdicts, false).collect();
    let [worst, best] = effects::told(&changes, [verdicts].into_iter());
    Headline {
        counts: Some(count(&changes)),
        gate: gate(&[verdicts], None, fail_on),
        worst,
        best,
        ..Headline::default()
    }
}

fn count(changes: &[Change]) -> Counts {
    let of = |wanted| {
        let found = changes.iter().filter(|change| change.verdict() == wanted);
        found.count()
    };
    Counts {
        regressed: of(Verdict::Regressed),
        improved: of(Verdict::Improved),
        unchanged: of(Verdict::Unchanged),
        inconclusive: of(Verdict::Inconclusive),
    }
}

/// `torch-2.10 → torch-2.11, torch-2.12`, or `varied in torch-2.11: precision (fp32, tf32)`.
fn compared(view: &View) -> String {
    let sessions = &view.report.sessions;
    let comparisons = || sessions.iter().flat_map(|session| &session.comparisons);
    // What is held against the same base stands beside it, and the base once.
    let arrows = grouped(comparisons().map(comparison::sides)).into_iter();
    let arrows = arrows.map(|(base, heads)| format!("{base} → {}", heads.join(", ")));
    let arrows: Vec<String> = arrows.collect();
    if !arrows.is_empty() {
        return arrows.join("; ");
    }
    let images: BTreeSet<&str> = view
        .report
        .cells
        .iter()
        .map(|cell| cell.image.as_str())
        .collect();
    let images = Vec::from_iter(images).join(", ");
    if sessions.len() > 1 {
        return format!("{} sessions side by side, {images}", sessions.len());
    }
    let varied = varied(view);
    if varied.is_empty() {
        return images;
    }
    format!("{} in {images}", varied.join("; "))
}

fn varied(view: &View) -> Vec<String> {
    const SHOWN: usize = 4;
    let values = view.groups.iter().flat_map(|group| {
        let names: BTreeSet<&String> = group.rows.iter().flat_map(|row| row.axes.keys()).collect();
        let values = names.into_iter().map(|name| {
            let rows = group.rows.iter();
            let values = rows.map(|row| row.axes.get(name).map_or("none", String::as_str));
            (name, unique(values))
        });
        values.filter(|(_, values)| values.len() > 1)
    });
    let written = |(axis, values): (&String, Vec<Vec<&str>>)| {
        let values = unique(values.concat()).into_iter().map(str::to_owned);
        let shown = format::few(values.collect(), SHOWN, ", ", "");
        format!("{} ({shown})", axis.replace('_', " "))
    };
    grouped(values).into_iter().map(written).collect()
}

/// Whether a gate passes that looks at all of these; `None` where nothing is compared. Of versions it
/// looks at each against the one before it, as the `steps` are.
pub(crate) fn gate(
    comparisons: &[&Verdicts],
    steps: Option<&[Change]>,
    fail_on: FailOn,
) -> Option<GateOutcome> {
    if comparisons.is_empty() {
        return None;
    }
    let read = comparisons.iter().map(|one| Gate::read(one, fail_on));
    let read: Vec<Gate> = read.collect();
    let lost: usize = read.iter().map(|gate| gate.lost.len()).sum();
    let (gated, failing): (Vec<&MetricVerdict>, usize) = if let Some(steps) = steps {
        let gated = steps.iter().filter(|one| one.found.gated && !one.is_choice);
        let failing = gated.clone().map(Change::verdict);
        let failing = failing.filter(|one| *one == Verdict::Regressed).count();
        (gated.map(|change| &change.found).collect(), failing)
    } else {
        let all = comparisons.iter().flat_map(|verdicts| verdicts.all());
        let gated = all.filter(|(_, found)| found.gated);
        let failing = read.iter().map(|gate| gate.failing.len()).sum();
        (gated.map(|(_, found)| found).collect(), failing)
    };
    let from_to = steps.map_or("", |_| " from one version to the next");
    let what = match fail_on {
        FailOn::Regressed => "regressed",
        FailOn::Inconclusive => "regressed or inconclusive",
    };
    let metrics = plural(gated.len(), "gated metric", "gated metrics");
    let mut why = Vec::new();
    if failing > 0 {
        why.push(format!("{failing} of {metrics} {what}{from_to}"));
    }
    if lost > 0 {
        let cells = plural(lost, "cell fails", "cells fail");
        why.push(format!("{cells} in the head that work in the base"));
    }
    let passed = why.is_empty();
    let measured = gated.iter().filter(|found| found.not_measured_in.is_none());
    let measured = measured.map(|found| found.comparison.verdict);
    let open = measured.clone().filter(|one| *one == Verdict::Inconclusive);
    let (open, measured) = (open.count(), measured.count());
    let is_empty = passed && open == measured;
    if passed {
        why.push(match (measured, open) {
            (0, _) => "no gated metric has values of base and head".to_owned(),
            (1, 1) => format!("{metrics} is inconclusive{from_to}"),
            _ if is_empty => format!("all of {metrics} are inconclusive{from_to}"),
            (_, 0) => format!("none of {metrics} {what}{from_to}"),
            _ => format!("0 of {metrics} {what}{from_to}, {open} inconclusive"),
        });
    }
    Some(GateOutcome {
        passed,
        is_empty,
        why: why.join(", "),
    })
}

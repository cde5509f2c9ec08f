//! What a reader wants first: what was asked, what was compared, and what it came to.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{FailOn, Gate, Verdicts};

use super::{Change, Source, View, answers, changes};
use crate::{
    comparison,
    format::{self, plural},
};

/// The head of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// The suites.
    pub suites: Vec<String>,
    /// What they ask.
    pub questions: Vec<String>,
    /// What was compared with what, or what was varied.
    pub compared: String,
    /// How many verdicts of each kind there are, on the metrics that the report is about; `None`
    /// where nothing was judged.
    pub counts: Option<Counts>,
    /// Runs that failed, and were not expected to.
    pub failed: usize,
    /// Whether the gate passes; `None` where no images or values of an axis are compared.
    pub gate: Option<GateOutcome>,
    /// The worst of all cells, in a sentence.
    pub worst: Option<String>,
    /// What the session says to the question, in sentences.
    pub answers: Vec<String>,
}

/// How many verdicts of each kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Changed for the worse.
    pub regressed: usize,
    /// Changed for the better.
    pub improved: usize,
    /// Within the noise threshold.
    pub unchanged: usize,
    /// Neither shown.
    pub inconclusive: usize,
}

/// Whether a gate passes, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateOutcome {
    /// Whether nothing fails it.
    pub passed: bool,
    /// Why.
    pub why: String,
}

pub(super) fn of(view: &View, sources: &[Source]) -> Headline {
    let sessions = &view.report.sessions;
    let unique = |words: Vec<&String>| {
        let mut found: Vec<String> = Vec::new();
        for word in words.into_iter().map(|word| format::clean(word)) {
            if !found.contains(&word) {
                found.push(word);
            }
        }
        found
    };
    let suites = sessions.iter().flat_map(|session| session.suites.keys());
    let asked = sessions
        .iter()
        .flat_map(|session| session.questions.values());
    let changes = changes::of(view);
    let comparisons: Vec<&Verdicts> = sessions
        .iter()
        .flat_map(|session| &session.comparisons)
        .collect();
    Headline {
        suites: unique(suites.collect()),
        questions: unique(asked.map(|asked| &asked.question).collect()),
        compared: format::clean(&compared(view)),
        counts: (!changes.is_empty()).then(|| count(&changes)),
        failed: sessions.iter().map(|session| session.failed).sum(),
        gate: gate(&comparisons, FailOn::Regressed),
        answers: answers::of(view, sources, &changes)
            .iter()
            .map(|answer| format::clean(answer))
            .collect(),
        worst: worst(view, &changes).map(|worst| format::clean(&worst)),
    }
}

/// How many of these there are of each verdict.
pub(crate) fn count(changes: &[Change]) -> Counts {
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
    let mut arrows: Vec<String> = Vec::new();
    let mut last_base = None;
    for (base, head) in comparisons().map(comparison::sides) {
        match arrows.last_mut() {
            // What is held against the same base stands beside it, and the base once.
            Some(arrow) if last_base.as_ref() == Some(&base) => {
                arrow.push_str(", ");
                arrow.push_str(&head);
            }
            _ => arrows.push(format!("{base} → {head}")),
        }
        last_base = Some(base);
    }
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
        return format!(
            "{} side by side, {images}",
            plural(sessions.len(), "session", "sessions")
        );
    }
    let varied = varied(view);
    if varied.is_empty() {
        return images;
    }
    format!("{} in {images}", varied.join("; "))
}

/// The axes in which variants of one scenario differ, with their values.
fn varied(view: &View) -> Vec<String> {
    const SHOWN: usize = 4;
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for group in &view.groups {
        let rows: Vec<_> = group.rows.iter().map(|row| row.variant.axes()).collect();
        let names: BTreeSet<&String> = rows.iter().flat_map(|axes| axes.keys()).collect();
        for name in names {
            let values: Vec<&str> = rows
                .iter()
                .map(|axes| axes.get(name).map_or("none", String::as_str))
                .collect();
            if values.iter().all(|value| *value == values[0]) {
                continue;
            }
            let place = axes.iter().position(|(known, _)| known == name);
            let place = place.unwrap_or_else(|| {
                axes.push((name.clone(), Vec::new()));
                axes.len() - 1
            });
            for value in values {
                if !axes[place].1.iter().any(|known| known == value) {
                    axes[place].1.push(value.to_owned());
                }
            }
        }
    }
    let written = |(axis, values): &(String, Vec<String>)| {
        let more = values.len().saturating_sub(SHOWN);
        let more = (more > 0).then(|| format!("{more} more"));
        let shown: Vec<String> = values.iter().take(SHOWN).cloned().chain(more).collect();
        format!("{} ({})", axis.replace('_', " "), shown.join(", "))
    };
    axes.iter().map(written).collect()
}

/// Whether a gate passes that looks at all of these; `None` where nothing is compared.
pub(crate) fn gate(comparisons: &[&Verdicts], fail_on: FailOn) -> Option<GateOutcome> {
    if comparisons.is_empty() {
        return None;
    }
    let gates: Vec<Gate> = comparisons
        .iter()
        .map(|verdicts| Gate::read(verdicts, fail_on))
        .collect();
    let failing: usize = gates.iter().map(|gate| gate.failing.len()).sum();
    let lost: usize = gates.iter().map(|gate| gate.lost.len()).sum();
    let judged = comparisons.iter().flat_map(|verdicts| verdicts.all());
    let judged = judged.filter(|(_, found)| found.gated).count();
    let what = match fail_on {
        FailOn::Regressed => "regressed",
        FailOn::Inconclusive => "regressed or inconclusive",
    };
    let mut why = Vec::new();
    if failing > 0 {
        let metrics = plural(judged, "gated metric", "gated metrics");
        why.push(format!("{failing} of {metrics} {what}"));
    }
    if lost > 0 {
        let cells = plural(lost, "cell fails", "cells fail");
        why.push(format!("{cells} in the head that work in the base"));
    }
    let passed = why.is_empty();
    if passed {
        let metrics = plural(judged, "gated metric", "gated metrics");
        why.push(format!("none of {metrics} {what}"));
    }
    Some(GateOutcome {
        passed,
        why: why.join(", "),
    })
}

/// The largest change for the worse, or else a cell whose runs all fail.
fn worst(view: &View, changes: &[Change]) -> Option<String> {
    let sessions = view.report.sessions.iter();
    let mut lost = sessions
        .flat_map(|session| &session.comparisons)
        .flat_map(|verdicts| &verdicts.cells)
        .filter(|cell| cell.lost() == Some(Verdict::Regressed));
    if let Some(cell) = lost.next() {
        let name = comparison::cell_name(cell);
        return Some(format!(
            "Worst: {name} works in the base and fails in the head."
        ));
    }
    let of = |wanted| changes.iter().find(move |one| one.verdict() == wanted);
    if let Some(worst) = of(Verdict::Regressed) {
        return Some(format!("Worst: {}.", comparison::change_of(worst)));
    }
    let mut failed = view.report.cells.iter().filter(|cell| cell.failed > 0);
    failed.next().map(|cell| {
        let runs = plural(cell.runs, "run", "runs");
        let name = comparison::spelled(&cell.cell);
        format!("Worst: {} of {runs} of {name} failed.", cell.failed)
    })
}

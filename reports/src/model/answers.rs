//! What a session says to the question of its suite, in sentences: what was judged by the metrics
//! that answer it, what failed as expected, whether bits were equal, whether a limit held.

use std::{collections::BTreeSet, mem};

use judge::{
    claims::Outcome,
    compare::{Comparison, Verdict},
};
use metrics::{Metric, catalogue};
use record::{Record, SuiteQuestion, YesWhen};
use verdict::{ClaimFound, ClaimPair};

use super::{
    changes::Change,
    group::{Group, Row},
    report::CellSummary,
    slow,
    view::View,
};
use crate::words::{
    claims,
    comparison::detectable_change,
    format::{self, plural},
    lists::grouped,
    metric,
};

const NAMED: usize = 4;
/// Runs that lie apart by this factor are told by their range as well.
const WIDE: f64 = 1.5;
/// Characters of a message; the failed runs stand below with the whole of theirs.
const MESSAGE: usize = 240;

pub(super) fn of(view: &View, changes: &[Change]) -> Vec<String> {
    let mut asked = questions(view);
    // What the cells come to is yes or no to one question, not to several.
    let yes_when = asked.next().filter(|_| asked.next().is_none());
    let yes_when = yes_when.and_then(|asked| asked.yes_when);
    let asks = |when| yes_when == Some(when);
    let named = view.asked();
    let mut limits = limits(view, asks(YesWhen::Fits));
    let mut bits = bits(view, asks(YesWhen::SameBits));
    let decided = match yes_when {
        None => Vec::new(),
        Some(YesWhen::Fits) => mem::take(&mut limits),
        Some(YesWhen::SameBits) => mem::take(&mut bits),
        Some(YesWhen::Succeeds) => Vec::from_iter(succeeds(view)),
        Some(YesWhen::Changes) => Vec::from_iter(changed(named.first().copied(), changes)),
        Some(YesWhen::ClaimsHold) => Vec::from_iter(claims_hold(view)),
    };
    // What the first sentence says is not said again.
    let is_told = |one: &&Change| asks(YesWhen::Changes) && named.first() == Some(&one.metric);
    let others: Vec<&Change> = changes.iter().filter(|one| !is_told(one)).collect();
    let values = by_metric(view, &named, &others);
    let images = across_cells(view);
    let slow = slow::of(view);
    [decided, values, limits, images, bits, failing(view), slow].concat()
}

fn questions<'a>(view: &'a View) -> impl Iterator<Item = &'a SuiteQuestion> {
    let sessions = view.report.sessions.iter();
    sessions.flat_map(|session| session.questions.values())
}

/// A sentence of which the first word says whether it is so, where that is asked.
fn yes_or_no(asked: bool, is_so: bool, sentence: &str) -> String {
    match (asked, is_so) {
        (false, _) => upper(sentence),
        (true, true) => format!("Yes: {sentence}"),
        (true, false) => format!("No: {sentence}"),
    }
}

/// Whether every run passes; open while there are cells without one.
fn succeeds(view: &View) -> Option<String> {
    let cells = &view.report.cells;
    let runs: usize = cells.iter().map(|cell| cell.runs).sum();
    let all = plural(runs, "run", "runs");
    let bad = || (0..cells.len()).filter(|&cell| cells[cell].failed > 0);
    let failed: usize = bad().map(|cell| cells[cell].failed).sum();
    if failed > 0 {
        let names = bad().map(|cell| view.name_of(cell));
        let names = format::first_few(names.collect(), NAMED);
        return Some(format!("No: {failed} of {all} failed ({names})."));
    }
    let is_whole = runs > 0 && cells.iter().all(|cell| cell.runs > 0);
    let cells = plural(cells.len(), "cell", "cells");
    is_whole.then(|| format!("Yes: {all} of {cells}, none failed."))
}

/// Whether all claims hold, and the first that does not.
fn claims_hold(view: &View) -> Option<String> {
    let sessions = view.report.sessions.iter();
    let found: Vec<&ClaimFound> = sessions.flat_map(|session| &session.claims).collect();
    let those = |outcome| {
        let all = found.iter().filter(|one| one.is_measured());
        all.filter(|one| one.outcome == outcome).collect::<Vec<_>>()
    };
    let (refuted, holding) = (those(Outcome::Refuted), those(Outcome::Holds).len());
    let all = plural(found.len(), "claim", "claims");
    let word = match refuted.first() {
        Some(one) => format!("No: “{}” is refuted;", one.claim.statement),
        None if holding == found.len() => "Yes:".to_owned(),
        None => "Not decided:".to_owned(),
    };
    let verb = if holding == 1 { "holds" } else { "hold" };
    (!found.is_empty()).then(|| format!("{word} {holding} of {all} {verb}."))
}

/// Whether the metric that answers changed, or where there is none one that a gate looks at.
fn changed(first: Option<&Metric>, changes: &[Change]) -> Option<String> {
    let is_asked = |one: &&Change| first.map_or(one.found.gated, |first| one.metric == first);
    let is_change = |one: &Change| matches!(one.verdict(), Verdict::Regressed | Verdict::Improved);
    let mut own: Vec<&Change> = changes.iter().filter(is_asked).collect();
    let mut word = "No";
    if own.iter().any(|one| is_change(one)) {
        word = "Yes";
        let told = own.clone();
        let is_told = |metric| {
            told.iter()
                .any(|one| one.metric == metric && is_change(one))
        };
        own.retain(|one| is_told(one.metric));
    } else if own.iter().any(|one| one.verdict() == Verdict::Inconclusive) {
        word = "Not decided";
    }
    let told = Metric::compared().filter_map(|metric| {
        let told = verdicts(own.iter().copied().filter(|one| one.metric == metric))?;
        Some(format!("{} {told}", metric.label))
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then(|| format!("{word}: {told}."))
}

/// How many comparisons came to each verdict, and how far those went; where nothing is decided, how
/// far they would have to go.
fn verdicts<'a>(own: impl Iterator<Item = &'a Change>) -> Option<String> {
    let own: Vec<&Change> = own.collect();
    let all = plural(own.len(), "comparison", "comparisons");
    let order = [
        Verdict::Regressed,
        Verdict::Improved,
        Verdict::Unchanged,
        Verdict::Inconclusive,
    ];
    let told = order.into_iter().filter_map(|verdict| {
        let of_verdict = || own.iter().filter(|one| one.verdict() == verdict);
        let word = of_verdict().next()?.word();
        let ends = |of: fn(&Comparison) -> Option<f64>| {
            let found = of_verdict().filter_map(|one| of(&one.found.comparison));
            let ends = found.map(|value| (value, value));
            ends.reduce(|(low, high), (lo, hi)| (low.min(lo), high.max(hi)))
        };
        let range = match verdict {
            Verdict::Unchanged => None,
            Verdict::Inconclusive => ends(|found| found.minimum_detectable_change).map(|it| {
                format!(
                    " (detectable change {})",
                    range(it.0, it.1, detectable_change)
                )
            }),
            _ => ends(|found| found.ratio)
                .map(|(low, high)| format!(" ({})", range(low, high, format::change))),
        };
        let count = of_verdict().count();
        Some(format!(
            "{word} in {count} of {all}{}",
            range.unwrap_or_default()
        ))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then_some(told)
}

/// `low to high`, or one of them where they are written alike.
fn range(low: f64, high: f64, write: impl Fn(f64) -> String) -> String {
    match (write(low), write(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}

/// What the metrics that a suite names came to: verdicts where cells were compared by them, else
/// their values.
fn by_metric(view: &View, named: &[&'static Metric], changes: &[&Change]) -> Vec<String> {
    let said = named.iter().flat_map(|&metric| {
        let own = || changes.iter().copied().filter(|one| one.metric == metric);
        let is_open = own().all(|one| one.verdict() == Verdict::Inconclusive);
        // The values of the first metric are told in any case: a change alone says of no limit
        // whether it holds. So are those that no verdict speaks for.
        let values = (is_open || Some(&metric) == named.first()).then(|| values(view, metric));
        let told = values.flatten().into_iter().chain(verdicts(own()));
        told.map(|told| format!("{}: {told}.", upper(metric.label)))
    });
    said.collect()
}

/// The medians of a metric, each cell's where they are few, else those of each scenario.
fn values(view: &View, metric: &Metric) -> Option<String> {
    let cells = &view.report.cells;
    let write = |value: f64| metric::value(metric.name, value);
    let of_scenario = |group: &Group| {
        let medians = group.cells().filter_map(|cell| view.median(cell, metric));
        let ends = medians.map(|median| (median, median));
        let (low, high) = ends.reduce(|(low, high), (lo, hi)| (low.min(lo), high.max(hi)))?;
        Some(format!("{} ({})", range(low, high, write), group.scenario))
    };
    let of_cell = |cell: usize| {
        let spread = cells[cell].metrics.get(metric)?;
        let (low, high) = (spread.minimum, spread.maximum);
        let wide = (high > low * WIDE).then(|| format!(", {}", range(low, high, write)));
        let name = view.name_of(cell);
        let wide = wide.unwrap_or_default();
        Some(format!("{} ({name}{wide})", write(spread.median)))
    };
    let mut told: Vec<String> = (0..cells.len()).filter_map(of_cell).collect();
    if told.len() > NAMED {
        told = view.groups.iter().filter_map(of_scenario).collect();
        let more = told.len().saturating_sub(NAMED);
        told.truncate(NAMED);
        told.extend((more > 0).then(|| format!("and {more} more scenarios")));
    }
    (!told.is_empty()).then(|| told.join(", "))
}

/// What claims about two images or two scenarios come to: where there are some, these ran for their
/// sake.
fn across_cells(view: &View) -> Vec<String> {
    let sessions = view.report.sessions.iter();
    let claims = sessions.flat_map(|session| &session.claims);
    let told = claims.flat_map(|found| {
        let alike = claims::alike(found).into_iter();
        let is_of_two = |pairs: &Vec<&ClaimPair>| {
            pairs[0].is_across_images() || found.claim.treated.scenario.is_some()
        };
        let alike = alike.filter(is_of_two);
        alike.map(|pairs| {
            let pair = pairs[0];
            let (measured, claimed) = (
                claims::measured(&found.claim, pair),
                claims::claimed(&found.claim),
            );
            let (statement, place) = (&found.claim.statement, claims::where_of(found, &pairs));
            let outcome = upper(&pair.verdict.outcome.to_string());
            format!("{outcome}: “{statement}”: {measured} measured, {claimed} claimed ({place}).")
        })
    });
    told.take(NAMED).collect()
}

fn upper(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + rest.as_str()
}

/// A limit on memory as it stands in a method, with the metric that it holds down.
const LIMITS: [(&str, &str, &Metric); 2] = [
    (
        "limits.gpu_memory",
        "of the GPU",
        &catalogue::RUN_PROCESS_PEAK,
    ),
    (
        "limits.allocator_memory",
        "for the allocator",
        &catalogue::RUN_PEAK_RESERVED,
    ),
];

/// Whether what ran under a limit of a GPU's memory fits, and by how much: a sentence for all cells
/// that end alike.
fn limits(view: &View, asked: bool) -> Vec<String> {
    let cells = 0..view.report.cells.len();
    let said = cells.flat_map(|cell| {
        LIMITS.iter().filter_map(move |(key, what, metric)| {
            let run = view.runs[cell].first()?;
            let limit = run.method.bytes(key)?;
            let within = format!("{} {what}", format::bytes(limit));
            let summary = &view.report.cells[cell];
            let found = if summary.ok < summary.runs {
                let (failed, runs) = (summary.runs - summary.ok, summary.runs);
                let runs = plural(runs, "run", "runs");
                let told = format!("{failed} of {runs} failed within {within}");
                yes_or_no(asked, false, &told)
            } else {
                let peak = summary.metrics.get(metric)?.maximum;
                let spare = format::bytes(limit - peak);
                let peak = (peak <= limit).then(|| format::bytes(peak))?;
                let unit = within.split(' ').nth(1).unwrap_or_default();
                let peak = peak.strip_suffix(unit).unwrap_or(&peak).trim_end();
                yes_or_no(
                    asked,
                    true,
                    &format!("{peak} of {within}, {spare} to spare"),
                )
            };
            Some((found, view.name_of(cell)))
        })
    });
    let sentence = |(found, names)| format!("{found} ({}).", format::first_few(names, NAMED));
    grouped(said).into_iter().map(sentence).collect()
}

fn is_deterministic(row: &Row) -> bool {
    row.axes.get("deterministic").map(String::as_str) == Some("true")
}

/// The losses of a run's measured steps, to the bit.
fn losses(run: &Record) -> Option<Vec<u64>> {
    let losses = run.series.get("loss")?.iter();
    let losses = losses.map(|loss| Some((*loss)?.to_bits()));
    losses
        .collect::<Option<Vec<u64>>>()
        .filter(|all| !all.is_empty())
}

/// Whether deterministic runs have the same losses to the bit: those of a cell, and those of cells
/// that differ only in how they execute.
fn bits(view: &View, asked: bool) -> Vec<String> {
    let of_cell = |cell: usize| -> Vec<Vec<u64>> {
        let runs = view.good_runs(cell).into_iter();
        runs.filter_map(losses).collect()
    };
    let deterministic = |group: &Group| -> Vec<usize> {
        let lanes = group.lanes().filter(|(row, _)| is_deterministic(row));
        lanes.map(|(_, cell)| cell).collect()
    };
    let (mut same, mut all, mut others) = (0, 0, Vec::new());
    let mut across = Vec::new();
    for group in &view.groups {
        for cell in deterministic(group) {
            let runs = of_cell(cell);
            if runs.len() < 2 {
                continue;
            }
            all += 1;
            if runs.iter().all(|run| *run == runs[0]) {
                same += 1;
            } else {
                others.push(view.name_of(cell));
            }
        }
        across.extend(executions(view, group, &of_cell));
    }
    let mut said = Vec::new();
    if all > 0 {
        let cells = plural(all, "deterministic cell", "deterministic cells");
        let bits = "the losses of all runs are the same to the bit";
        let told = match &others[..] {
            [] => format!("in each of {cells} {bits}."),
            [only] => format!("in {same} of {cells} {bits}; not in {only}."),
            [first, rest @ ..] => {
                let more = rest.len();
                format!("in {same} of {cells} {bits}; not in {first} and {more} more.")
            }
        };
        said.push(yes_or_no(asked, others.is_empty(), &told));
    }
    said.extend(across);
    said
}

/// Whether deterministic variants that differ in their execution alone have the same losses.
fn executions(
    view: &View,
    group: &Group,
    losses: &impl Fn(usize) -> Vec<Vec<u64>>,
) -> Option<String> {
    let rows: Vec<&Row> = group
        .rows
        .iter()
        .filter(|row| is_deterministic(row))
        .collect();
    let first = rows.first()?;
    let rest_of = |row: &Row| row.axes.without("execution");
    let alike = rows.iter().filter(|row| rest_of(row) == rest_of(first));
    let cells: Vec<usize> = alike.filter_map(|row| row.cells.first().copied()).collect();
    let runs: BTreeSet<Vec<u64>> = cells.iter().flat_map(|cell| losses(*cell)).collect();
    if cells.len() < 2 || runs.is_empty() {
        return None;
    }
    let names = cells.iter().filter_map(|cell| {
        let axes = &view.report.cells[*cell].axes;
        axes.get("execution").cloned()
    });
    let names = names.collect::<Vec<_>>().join(" and ");
    let word = if runs.len() == 1 {
        "the same"
    } else {
        "not the same"
    };
    Some(format!(
        "{}: the losses of {names} are {word} to the bit.",
        group.scenario
    ))
}

/// Cells of which every run fails, with the reason, and those beside them that end well.
fn failing(view: &View) -> Vec<String> {
    let cells = || view.report.cells.iter().enumerate();
    let told = |(index, cell): (usize, &CellSummary)| {
        let mut failures = view.report.failures.iter();
        let failure = failures.find(|one| {
            (&one.cell, &one.image, &one.session) == (&cell.cell, &cell.image, &cell.session)
        })?;
        let message = failure.message.lines().next().unwrap_or_default();
        let message = format::shortened(message.trim_end_matches('.'), MESSAGE);
        let end = if message.ends_with('…') { "" } else { "." };
        let as_expected = if failure.expected { " as expected" } else { "" };
        let (name, runs) = (view.name_of(index), plural(cell.runs, "run", "runs"));
        let (failed, reason) = (cell.runs, failure.reason.word());
        Some(format!(
            "{name} fails in {failed} of {runs}{as_expected}, {reason}: {message}{end}"
        ))
    };
    let failing = cells().filter(|(_, cell)| cell.runs > 0 && cell.ok == 0);
    let mut said: Vec<String> = failing.filter_map(told).take(NAMED).collect();
    let well = cells().filter(|(_, cell)| cell.ok > 0 && cell.ok == cell.runs);
    let well: Vec<String> = well.map(|(index, _)| view.name_of(index)).collect();
    if !said.is_empty() && !well.is_empty() {
        let well = format::first_few(well, NAMED);
        said.push(format!("Every run ended well of {well}."));
    }
    said
}

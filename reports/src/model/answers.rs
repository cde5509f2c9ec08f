//! What a session says to the question of its suite, in sentences: what was judged by the metrics
//! that answer it, what failed as expected, whether bits were equal, whether a limit held.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use metrics::{Metric, catalogue};
use record::{Method, Record};

use super::{Change, Group, Row, Source, View};
use crate::{
    format::{self, plural},
    metric,
};

/// Cells named in one sentence.
const NAMED: usize = 4;
/// Characters of a message; the failed runs stand below with the whole of theirs.
const MESSAGE: usize = 240;

pub(super) fn of(view: &View, sources: &[Source], changes: &[Change]) -> Vec<String> {
    let mut answers = limits(view, sources);
    answers.extend(by_metric(view, changes));
    answers.extend(bits(view));
    answers.extend(failing(view));
    answers
}

/// What the metrics that a suite names came to: verdicts where cells were compared by them, else
/// their values.
fn by_metric(view: &View, changes: &[Change]) -> Vec<String> {
    let sessions = view.report.sessions.iter();
    let asked = sessions.flat_map(|session| session.questions.values());
    let mut named: Vec<&Metric> = Vec::new();
    for metric in asked.flat_map(|asked| &asked.answered_by) {
        named.extend(Metric::named(metric).filter(|metric| !named.contains(metric)));
    }
    // The values of the first metric are told in any case: a change alone says of no limit
    // whether it holds.
    let first = named.first().copied();
    let first = first.filter(|metric| changes.iter().any(|one| one.metric == *metric));
    let first = first.and_then(|metric| values(view, metric));
    let said = named.into_iter().filter_map(|metric| {
        let own: Vec<_> = changes.iter().filter(|one| one.metric == metric).collect();
        if own.is_empty() {
            return values(view, metric);
        }
        let told = [
            Verdict::Regressed,
            Verdict::Improved,
            Verdict::Unchanged,
            Verdict::Inconclusive,
        ];
        let told = told.into_iter().filter_map(|verdict| {
            let of_verdict = own.iter().filter(|one| one.verdict() == verdict);
            let count = of_verdict.clone().count();
            let ratios = of_verdict.filter_map(|one| one.found.comparison.ratio);
            let ratios: Vec<f64> = ratios.collect();
            let (low, high) = (
                ratios.iter().copied().fold(f64::INFINITY, f64::min),
                ratios.iter().copied().fold(0.0, f64::max),
            );
            let is_shown = matches!(verdict, Verdict::Regressed | Verdict::Improved);
            let range = match (format::change(low), format::change(high)) {
                _ if !is_shown || ratios.is_empty() => String::new(),
                (low, high) if low == high => format!(" ({low})"),
                (low, high) => format!(" ({low} to {high})"),
            };
            let cells = plural(own.len(), "cell", "cells");
            (count > 0).then(|| format!("{verdict} in {count} of {cells}{range}"))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        Some(format!("{}: {told}.", upper(metric.label)))
    });
    first.into_iter().chain(said).collect()
}

/// The medians of a metric, each cell's where they are few, else those of each scenario.
fn values(view: &View, metric: &Metric) -> Option<String> {
    let cells = 0..view.report.cells.len();
    let known = cells.filter_map(|cell| {
        let median = view.report.cells[cell].metrics.median(metric)?;
        Some((view.name_in(&view.short_name(cell), cell), median))
    });
    let known: Vec<(String, f64)> = known.collect();
    let write = |value: f64| metric::value(metric.name, value);
    if known.len() > NAMED {
        let of_scenario = |group: &Group| {
            let medians = group.cells();
            let medians = medians.filter_map(|cell| view.report.cells[cell].metrics.median(metric));
            let medians: Vec<f64> = medians.collect();
            let low = medians.iter().copied().reduce(f64::min)?;
            let high = medians.iter().copied().reduce(f64::max)?;
            let range = match (write(low), write(high)) {
                (low, high) if low == high => low,
                (low, high) => format!("{low} to {high}"),
            };
            Some(format!("{range} ({})", group.scenario))
        };
        let all: Vec<String> = view.groups.iter().filter_map(of_scenario).collect();
        let more = all.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("and {more} more scenarios"));
        let told: Vec<String> = all.into_iter().take(NAMED).chain(more).collect();
        return Some(format!("{}: {}.", upper(metric.label), told.join(", ")));
    }
    let told: Vec<String> = known
        .iter()
        .map(|(name, value)| format!("{} ({name})", write(*value)))
        .collect();
    (!told.is_empty()).then(|| format!("{}: {}.", upper(metric.label), told.join(", ")))
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
fn limits(view: &View, sources: &[Source]) -> Vec<String> {
    let cells = 0..view.report.cells.len();
    let said = cells.flat_map(|cell| {
        LIMITS.iter().filter_map(move |(key, what, metric)| {
            let run = view.runs[cell].first()?;
            let limit = method(sources, run).bytes(key)?;
            let within = format!("{} {what}", format::bytes(limit));
            let summary = &view.report.cells[cell];
            let found = if summary.ok < summary.runs {
                let (failed, runs) = (summary.runs - summary.ok, summary.runs);
                let runs = plural(runs, "run", "runs");
                format!("Does not fit within {within}, {failed} of {runs} failed")
            } else {
                let peak = summary.metrics.get(metric)?.maximum;
                let spare = format::bytes(limit - peak);
                let peak = (peak <= limit).then(|| format::bytes(peak))?;
                format!("Fits within {within} with {spare} to spare, {peak} at most")
            };
            Some((found, view.name_in(&view.short_name(cell), cell)))
        })
    });
    let mut alike: Vec<(String, Vec<String>)> = Vec::new();
    for (found, name) in said {
        match alike.iter_mut().find(|(other, _)| *other == found) {
            Some((_, names)) => names.push(name),
            None => alike.push((found, vec![name])),
        }
    }
    let sentence = |(found, names)| format!("{found}: {}.", format::first_few(names, NAMED));
    alike.into_iter().map(sentence).collect()
}

/// How a run was measured, as far as its record or session tells.
pub(crate) fn method(sources: &[Source], run: &Record) -> Method {
    let mut sessions = sources.iter().map(|source| &source.session);
    let session = sessions.find(|session| session.session == run.session);
    session.map_or_else(|| run.method.clone(), |session| Method::of(session, run))
}

/// The losses of a run's measured steps, to the bit.
fn losses(run: &Record) -> Option<Vec<u64>> {
    let losses = run.steps.iter().map(|step| Some(step.loss?.to_bits()));
    losses
        .collect::<Option<Vec<u64>>>()
        .filter(|all| !all.is_empty())
}

/// Whether deterministic runs have the same losses to the bit: those of a cell, and those of cells
/// that differ only in how they execute.
fn bits(view: &View) -> Vec<String> {
    let of_cell = |cell: usize| -> Vec<Vec<u64>> {
        let runs = view.good_runs(cell).into_iter();
        runs.filter_map(losses).collect()
    };
    let deterministic = |group: &Group| -> Vec<usize> {
        let lanes = group.lanes().filter(|(row, _)| row.variant.deterministic);
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
                others.push(view.name_in(&view.short_name(cell), cell));
            }
        }
        across.extend(executions(view, group, &of_cell));
    }
    let mut said = Vec::new();
    if all > 0 {
        let cells = plural(all, "deterministic cell", "deterministic cells");
        let bits = "the losses of all runs are the same to the bit";
        said.push(match others.split_first() {
            None => format!("In each of {cells} {bits}."),
            Some((first, rest)) => {
                let more = (!rest.is_empty()).then(|| format!(" and {} more", rest.len()));
                format!(
                    "In {same} of {cells} {bits}; not in {first}{}.",
                    more.unwrap_or_default()
                )
            }
        });
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
        .filter(|row| row.variant.deterministic)
        .collect();
    let (first, rest) = rows.split_first()?;
    let rest_of = |row: &Row| row.variant.without("execution");
    let is_alike = |row: &&&Row| {
        rest_of(row) == rest_of(first) && row.variant.execution != first.variant.execution
    };
    let alike: Vec<&Row> = rest.iter().filter(is_alike).copied().collect();
    let cells = [*first].into_iter().chain(alike.iter().copied());
    let cells: Vec<usize> = cells.filter_map(|row| row.cells.first().copied()).collect();
    let runs: BTreeSet<Vec<u64>> = cells.iter().flat_map(|cell| losses(*cell)).collect();
    if cells.len() < 2 || runs.is_empty() {
        return None;
    }
    let names = cells.iter().filter_map(|cell| {
        let mut axes = view.report.cells[*cell].variant.axes();
        axes.remove("execution")
    });
    let names = names.collect::<Vec<_>>().join(" and ");
    let word = if runs.len() == 1 {
        "the same"
    } else {
        "different"
    };
    Some(format!(
        "{}: the losses of {names} are {word} to the bit.",
        group.scenario
    ))
}

/// Cells of which every run fails, with the reason, and those beside them that end well.
fn failing(view: &View) -> Vec<String> {
    let cells = || view.report.cells.iter().enumerate();
    let mut said: Vec<String> = Vec::new();
    for (index, cell) in cells().filter(|(_, cell)| cell.runs > 0 && cell.ok == 0) {
        if said.len() == NAMED {
            break;
        }
        let mut failures = view.report.failures.iter();
        let failure = failures.find(|one| {
            one.cell == cell.cell && one.image == cell.image && one.session == cell.session
        });
        let Some(failure) = failure else { continue };
        let name = view.name_in(&view.short_name(index), index);
        let message = failure.message.lines().next().unwrap_or_default();
        let message = format::shortened(message.trim_end_matches('.'), MESSAGE);
        let end = if message.ends_with('…') { "" } else { "." };
        let as_expected = if failure.expected { " as expected" } else { "" };
        said.push(format!(
            "{name} fails in {} of {}{as_expected}, {}: {message}{end}",
            cell.runs,
            plural(cell.runs, "run", "runs"),
            failure.reason.word()
        ));
    }
    if said.is_empty() {
        return said;
    }
    let well = cells().filter(|(_, cell)| cell.ok > 0 && cell.ok == cell.runs);
    let well: Vec<String> = well
        .map(|(index, _)| view.name_in(&view.short_name(index), index))
        .collect();
    if !well.is_empty() {
        let well = format::first_few(well, NAMED);
        said.push(format!("Every run ended well of {well}."));
    }
    said
}

//! The top of a report: what was found, in plain sentences. What is said to differ is what the
//! judge says; the rest describes.

use std::collections::BTreeSet;

use judge::median;
use metrics::{Metric, catalogue};
use protocol::Device;
use verdict::Best;

use super::{
    group::Group,
    report::{CellSummary, SessionSummary},
    view::View,
};
use crate::words::{
    claims,
    comparison::{self, effect},
    format::{self, Quantity, plural},
};

/// Variants that a sentence names.
const NAMED: usize = 3;
/// More scenarios than this are left to the table.
const MOST_SCENARIOS: usize = 6;

pub(super) fn of(view: &View) -> Vec<String> {
    let groups = view.groups.iter().take(MOST_SCENARIOS);
    let sessions = view.report.sessions.iter();
    let mut comparisons = sessions.flat_map(|session| &session.comparisons).peekable();
    // What a session compares is its answer; its variants among each other are another matter.
    let is_compared = comparisons.peek().is_some();
    let mut sentences = vec![extent(view)];
    sentences.extend(comparisons.map(comparison::sentence));
    sentences.extend(groups.filter_map(|group| match group.workload.is_idle() {
        true => idle(view, group),
        _ if is_compared => None,
        _ => best(view, group),
    }));
    let claims = view.report.sessions.iter().map(|session| &session.claims);
    sentences.extend(
        claims
            .filter(|claims| !claims.is_empty())
            .map(|claims| claims::tally(claims)),
    );
    sentences.extend(noise(view));
    sentences.extend(harness(view));
    sentences
}

fn extent(view: &View) -> String {
    let (sessions, cells) = (&view.report.sessions, &view.report.cells);
    let runs: usize = sessions.iter().map(|session| session.runs).sum();
    let failed: usize = sessions.iter().map(|session| session.failed).sum();
    let expected: usize = cells.iter().map(|cell| cell.expected).sum();
    let images: BTreeSet<&str> = cells.iter().map(|cell| cell.image.as_str()).collect();
    let is_like =
        |one: &SessionSummary, other: &SessionSummary| one.hosts.keys().eq(other.hosts.keys());
    let place = match &sessions[..] {
        [] => return "No session was given.".to_owned(),
        [only] => machine(only),
        [first, rest @ ..] if rest.iter().all(|other| is_like(first, other)) => {
            format!("{}, in {} sessions", machine(first), sessions.len())
        }
        _ => format!("several machines, in {} sessions", sessions.len()),
    };
    if cells.is_empty() {
        return format!("No cell was planned and no run recorded, on {place}.");
    }
    let ended = match (runs, failed) {
        (0, _) => "No run has been recorded.".to_owned(),
        (1, 0) => "The only run succeeded.".to_owned(),
        (_, 0) => format!("All {runs} runs succeeded."),
        (1, _) => "The only run failed.".to_owned(),
        _ if failed == runs => format!("All {runs} runs failed."),
        _ => format!(
            "{} of {runs} runs succeeded, {failed} failed.",
            runs - failed
        ),
    };
    let ended = match expected {
        0 => ended,
        _ if failed == 0 && expected == runs => {
            "All runs failed as their suite expects.".to_owned()
        }
        _ => format!("{ended} Of these, {expected} failed as their suite expects."),
    };
    format!(
        "{} of {} in {} on {place}. {ended}",
        plural(cells.len(), "cell", "cells"),
        plural(view.groups.len(), "scenario", "scenarios"),
        plural(images.len(), "image", "images"),
    )
}

fn machine(session: &SessionSummary) -> String {
    let (name, gpu) = session.device_name();
    let work = match session.device {
        Device::Cpu => format!("the CPU ({name})"),
        Device::Cuda(_) if gpu.is_none() => session.device.to_string(),
        Device::Cuda(_) => name.to_owned(),
    };
    format!("{work} of {}", session.machine_names())
}

/// The fastest variant of a scenario and the one that takes the least memory, as far as the judge
/// tells them from the others.
fn best(view: &View, group: &Group) -> Option<String> {
    let cells: Vec<usize> = group.cells().collect();
    let speeds = cells
        .iter()
        .filter(|&&cell| view.median(cell, &catalogue::THROUGHPUT).is_some());
    if let [only] = speeds.collect::<Vec<_>>()[..] {
        let speed = view.median(*only, &catalogue::THROUGHPUT)?;
        let speed = Quantity::Throughput.write(speed);
        return Some(format!("{} ran at {speed}.", group.scenario));
    }
    let memory = view.memory_of(group);
    let find = |metric| view.pairs.best(&cells, metric, &view.report.cells);
    let (speed, size) = (find(&catalogue::THROUGHPUT)?, find(memory));
    let fastest = Leader {
        best: &speed,
        metric: &catalogue::THROUGHPUT,
        unit: "",
        words: [
            "fastest is",
            "are equally fast",
            "faster than",
            "shown to be the fastest",
            "highest",
        ],
    };
    let size = size.as_ref().map(|best| Leader {
        best,
        metric: memory,
        unit: memory.label.trim_start_matches("peak "),
        words: [
            "least memory takes",
            "take the same memory",
            "less than",
            "shown to take the least memory",
            "lowest",
        ],
    });
    let told = [Some(fastest), size].into_iter().flatten();
    let told: Vec<String> = told.filter_map(|one| one.told(view)).collect();
    Some(format!("{}: {}.", group.scenario, told.join("; ")))
}

/// The best by one metric, and how that is said.
struct Leader<'a> {
    best: &'a Best,
    metric: &'static Metric,
    /// What follows the value.
    unit: &'static str,
    /// `fastest is`, `are equally fast`, `faster than`, `shown to be the fastest`, `highest`.
    words: [&'static str; 5],
}

impl Leader<'_> {
    fn told(&self, view: &View) -> Option<String> {
        let (best, metric) = (self.best, self.metric);
        let of = |cell: usize| view.median(cell, metric);
        let value = Quantity::from(metric.unit).write(of(best.leader)?);
        let value = format!("{value} {}", self.unit);
        let value = value.trim_end();
        let names = |cells: &[usize]| named(view, cells);
        let leader = names(&[best.leader]);
        let [is, equal, beats, shown, extreme] = self.words;
        if !best.undecided.is_empty() {
            let apart = best.undecided.iter().take(NAMED).map(|&cell| {
                let found = view.pairs.between(cell, best.leader, metric);
                let apart = found.map_or_else(String::new, |found| {
                    format!(" ({}{})", effect(&found), comparison::bracketed(&found))
                });
                names(&[cell]) + &apart
            });
            let rest = best.undecided.iter().skip(NAMED).chain(&best.equal);
            let rest: Vec<usize> = rest.copied().collect();
            let rest = Some(names(&rest)).filter(|rest| !rest.is_empty());
            let others = apart.chain(rest).collect::<Vec<_>>().join(", ");
            return Some(format!(
                "no variant is {shown}: {leader} has the {extreme} median, {value}; not decided \
                 against {others}"
            ));
        }
        if best.equal.is_empty() {
            return Some(format!("{is} {leader}, {value}"));
        }
        let is_same = best.equal.iter().all(|cell| of(*cell) == of(best.leader));
        let within = if is_same {
            ""
        } else {
            " within the noise threshold"
        };
        let rest = if best.beaten.is_empty() {
            String::new()
        } else {
            format!(", {beats} the others")
        };
        let all = names(&[&[best.leader], &best.equal[..]].concat());
        Some(format!("{all} {equal}{within}{rest}, {leader} {value}"))
    }
}

/// These cells of a scenario by their variant, those of a long list counted.
fn named(view: &View, cells: &[usize]) -> String {
    let name = |&cell: &usize| {
        let label = view.place(cell).map_or("", |(_, row)| &row.label);
        view.name_in(label, cell)
    };
    let mut names: Vec<String> = cells.iter().take(NAMED).map(name).collect();
    if cells.len() > NAMED {
        names.push(format!("{} more", cells.len() - NAMED));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// What a scenario takes that computes nothing, in each contender.
fn idle(view: &View, group: &Group) -> Option<String> {
    let takes = |index: usize| {
        let cell = &view.report.cells[index];
        let resident = cell.metrics.median(&catalogue::RUN_HOST_PEAK_RESIDENT)?;
        let mut text = format!("{} of host memory", format::bytes(resident));
        if let Some(context) = cell.metrics.median(&catalogue::CONTEXT) {
            text += &format!(", {} of the GPU", format::bytes(context));
        }
        if let Some(share) = cell.cpu_share() {
            text += &format!(", {} of a CPU", format::share(share));
        }
        Some(view.name_in(&text, index))
    };
    let told: Vec<String> = group.cells().filter_map(takes).collect();
    (!told.is_empty()).then(|| format!("{} takes {}.", group.scenario, told.join("; ")))
}

fn noise(view: &View) -> Option<String> {
    let variation = |(index, cell): (usize, &CellSummary)| {
        let spread = cell.metrics.get(&catalogue::THROUGHPUT)?;
        Some((spread.coefficient_of_variation?, index))
    };
    let cells = view.report.cells.iter().enumerate();
    let spreads: Vec<(f64, usize)> = cells.filter_map(variation).collect();
    let &(largest, cell) = spreads.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let middle = median(spreads.iter().map(|(variation, _)| *variation))?;
    let varied = match spreads.len() {
        1 => format::share(largest),
        _ => format!(
            "{} in the median cell and by {} in the noisiest, {}",
            format::share(middle),
            format::share(largest),
            view.short_name(cell),
        ),
    };
    Some(format!(
        "From run to run, throughput varied by {varied} (coefficient of variation)."
    ))
}

fn harness(view: &View) -> Option<String> {
    let cells = view.report.cells.iter();
    let caused = cells.filter_map(|cell| Some(cell.time?.harness_caused?.median));
    let middle = median(caused.collect::<Vec<_>>())?;
    Some(format!(
        "A run takes {} besides CUDA start, model build, warm-up, measured steps and calibration \
         (median of the cells).",
        format::seconds(middle)
    ))
}

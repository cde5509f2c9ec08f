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
    comparison::{self, effect},
    format::{self, Quantity, plural},
};

const NAMED: usize = 3;
/// More scenarios than this are left to the table.
const MOST_SCENARIOS: usize = 6;

pub(super) fn of(view: &View) -> Vec<String> {
    let groups = view.groups.iter().take(MOST_SCENARIOS);
    let sessions = view.report.sessions.iter();
    // What a session compares is its answer; its variants among each other are another matter.
    let mut sessions = sessions.map(|session| &session.comparisons);
    let is_compared = sessions.any(|comparisons| !comparisons.is_empty());
    let mut sentences = vec![extent(view)];
    let told = |group: &&Group| !is_compared && !group.workload.is_idle();
    sentences.extend(groups.filter(told).filter_map(|group| best(view, group)));
    sentences.extend(noise(view));
    sentences
}

fn extent(view: &View) -> String {
    let (sessions, cells) = (&view.report.sessions, &view.report.cells);
    let runs: usize = sessions.iter().map(|session| session.runs).sum();
    let failed: usize = sessions.iter().map(|session| session.failed).sum();
    let expected: usize = cells.iter().map(|cell| cell.expected).sum();
    let images: BTreeSet<&str> = cells.iter().map(|cell| cell.image.as_str()).collect();
    let [first, rest @ ..] = &sessions[..] else {
        return "No session was given.".to_owned();
    };
    let is_one = rest
        .iter()
        .all(|one| one.hosts.keys().eq(first.hosts.keys()));
    let machines = is_one.then(|| machine(first));
    let mut place = machines.unwrap_or_else(|| "several machines".to_owned());
    if !rest.is_empty() {
        place += &format!(", in {} sessions", sessions.len());
    }
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
        .filter_map(|&cell| view.median(cell, &catalogue::THROUGHPUT));
    if let [speed] = speeds.collect::<Vec<_>>()[..] {
        let speed = Quantity::Throughput.write(speed);
        return Some(format!("{} ran at {speed}.", group.scenario));
    }
    let memory = view.memory_of(group);
    let find = |metric| view.pairs.best(&cells, metric, &view.report.cells);
    let (speed, size) = (find(&catalogue::THROUGHPUT)?, find(memory));
    let fastest = leader(view, &speed, &catalogue::THROUGHPUT, "fastest", "highest");
    let least = format!("least {}", memory.label.trim_start_matches("peak "));
    let least = size.and_then(|size| leader(view, &size, memory, &least, "lowest"));
    let told = [fastest, least].into_iter().flatten().collect::<Vec<_>>();
    Some(format!("{}: {}.", group.scenario, told.join("; ")))
}

/// `fastest is amp-fp16, 2844 samples/s`, as far as that is decided.
fn leader(
    view: &View,
    best: &Best,
    metric: &'static Metric,
    word: &str,
    extreme: &str,
) -> Option<String> {
    let of = |cell: usize| view.median(cell, metric);
    let value = Quantity::from(metric.unit).write(of(best.leader)?);
    let first = named(view, &[best.leader]);
    if best.undecided.is_empty() {
        let all = named(view, &[&[best.leader], &best.equal[..]].concat());
        return Some(match &best.equal[..] {
            [] => format!("{word} is {all}, {value}"),
            equal if equal.iter().all(|cell| of(*cell) == of(best.leader)) => {
                format!("{word} are {all} alike, {value}")
            }
            _ => format!("{word} are {all} within the noise threshold, {first} {value}"),
        });
    }
    let apart = best.undecided.iter().take(NAMED).map(|&cell| {
        let found = view.pairs.between(cell, best.leader, metric);
        let apart = found.map(|found| {
            let interval = comparison::bracketed(&found);
            format!(" ({}{interval})", effect(&found))
        });
        named(view, &[cell]) + &apart.unwrap_or_default()
    });
    let rest = best.undecided.iter().skip(NAMED).chain(&best.equal);
    let rest = named(view, &rest.copied().collect::<Vec<_>>());
    let others = apart.chain(Some(rest).filter(|rest| !rest.is_empty()));
    let others = others.collect::<Vec<_>>().join(", ");
    Some(format!(
        "{word} is not decided: {first} has the {extreme} median, {value}, against {others}"
    ))
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

fn noise(view: &View) -> Option<String> {
    let variation = |(index, cell): (usize, &CellSummary)| {
        let spread = cell.metrics.get(&catalogue::THROUGHPUT)?;
        Some((spread.coefficient_of_variation?, index))
    };
    let cells = view.report.cells.iter().enumerate();
    let spreads: Vec<(f64, usize)> = cells.filter_map(variation).collect();
    let &(largest, cell) = spreads.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let middle = median(spreads.iter().map(|(variation, _)| *variation))?;
    let [middle, largest] = [middle, largest].map(format::share);
    let varied = if spreads.len() == 1 {
        largest
    } else {
        let name = view.short_name(cell);
        format!("{middle} in the median cell and by {largest} in the noisiest, {name}")
    };
    Some(format!(
        "From run to run, throughput varied by {varied} (coefficient of variation)."
    ))
}

//! The top of a report: what was found, in plain sentences. Descriptive only; whether a
//! difference is one is the judge's business.

use std::collections::BTreeSet;

use judge::median;
use metrics::catalogue;
use protocol::{Device, Task};

use super::{Group, SessionSummary, View};
use crate::{
    columns::cpu_share,
    format::{self, Quantity, plural},
};

/// More scenarios than this are left to the table.
const MOST_SCENARIOS: usize = 6;

pub(super) fn of(view: &View) -> Vec<String> {
    let groups = view.groups.iter().take(MOST_SCENARIOS);
    let mut sentences = vec![extent(view)];
    sentences.extend(groups.filter_map(|group| match group.task {
        Task::Idle => idle(view, group),
        _ => best(view, group),
    }));
    sentences.extend(against_the_first(view));
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
        |one: &SessionSummary, other: &SessionSummary| one.machine.name == other.machine.name;
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
    let machine = &session.machine;
    let work = match session.device {
        Device::Cpu => format!("the CPU ({})", machine.cpu.model),
        Device::Cuda(index) => {
            let named = machine.gpus.iter().find(|gpu| gpu.index == index);
            let gpu = named.or(machine.gpus.first());
            gpu.map_or_else(|| session.device.to_string(), |gpu| gpu.name.clone())
        }
    };
    format!("{work} of {}", machine.name)
}

/// The fastest and the smallest variant of a scenario.
fn best(view: &View, group: &Group) -> Option<String> {
    let name = |cell: usize| {
        let row = group.lanes().find(|(_, other)| *other == cell);
        view.name_in(
            &row.map_or_else(String::new, |(row, _)| row.label.clone()),
            cell,
        )
    };
    let known = |read: &dyn Fn(usize) -> Option<f64>| -> Vec<(usize, f64)> {
        group
            .cells()
            .filter_map(|cell| Some((cell, read(cell)?)))
            .collect()
    };
    let by_value = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
    let speeds = known(&|cell| view.throughput(cell));
    let (&(cell, fastest), &(_, slowest)) = speeds
        .iter()
        .max_by(by_value)
        .zip(speeds.iter().min_by(by_value))?;
    let (scenario, speed) = (&group.scenario, Quantity::Throughput.write(fastest));
    if speeds.len() == 1 {
        return Some(format!("{scenario} ran at {speed}."));
    }
    let mut text = format!("{scenario}: fastest is {} with {speed}", name(cell));
    if slowest > 0.0 && fastest / slowest >= 1.005 {
        let ratio = format::significant(fastest / slowest, 3);
        text += &format!(" ({ratio} × the slowest)");
    }
    let footprint = group.footprint(view);
    let sizes = known(&|cell| footprint.of(&view.report.cells[cell]));
    if let Some(&(small, bytes)) = sizes.iter().min_by(by_value) {
        let memory = format!("{} {}", format::bytes(bytes), footprint.word);
        text += &if small == cell {
            format!("; it also takes the least memory, {memory}")
        } else {
            format!("; least memory takes {}, {memory}", name(small))
        };
    }
    Some(text + ".")
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
        if let Some(share) = cpu_share(cell) {
            text += &format!(", {} of a CPU", format::share(share));
        }
        Some(view.name_in(&text, index))
    };
    let told: Vec<String> = group.cells().filter_map(takes).collect();
    (!told.is_empty()).then(|| format!("{} takes {}.", group.scenario, told.join("; ")))
}

/// Each contender beside the first, over the cells that both have.
fn against_the_first(view: &View) -> Vec<String> {
    let of = |cells: &[usize], contender: usize| {
        let mut cells = cells.iter().copied();
        view.throughput(cells.find(|&cell| view.contender_of(cell) == contender)?)
    };
    let beside = |index: usize| {
        let rows = view.groups.iter().flat_map(|group| &group.rows);
        let logs: Vec<f64> = rows
            .filter_map(|row| Some((of(&row.cells, index)? / of(&row.cells, 0)?).ln()))
            .filter(|log| log.is_finite())
            .collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (!logs.is_empty()).then(|| {
            format!(
                "{} ran at {} × the throughput of {} (geometric mean of the medians of {}; \
                 `compare` says whether that is a difference).",
                view.contenders[index].label,
                format::significant(mean.exp(), 4),
                view.contenders[0].label,
                plural(logs.len(), "shared cell", "shared cells"),
            )
        })
    };
    (1..view.contenders.len()).filter_map(beside).collect()
}

fn noise(view: &View) -> Option<String> {
    let variation = |(index, cell): (usize, &super::CellSummary)| {
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

//! The top of a report: what was found, in plain sentences. Descriptive only; whether a
//! difference is one is the judge's business.

use judge::median;
use metrics::catalogue;
use std::collections::BTreeSet;

use protocol::{Device, Task};

use super::{Group, SessionSummary, View};
use crate::{
    columns::cpu_share,
    format::{self, plural},
};

/// More scenarios than this are left to the table.
const MOST_SCENARIOS: usize = 6;

pub(super) fn of(view: &View) -> Vec<String> {
    let mut sentences = vec![extent(view)];
    sentences.extend(
        view.groups
            .iter()
            .take(MOST_SCENARIOS)
            .filter_map(|group| best(view, group)),
    );
    sentences.extend(against_the_first(view));
    sentences.extend(noise(view));
    sentences.extend(harness(view));
    sentences
}

fn extent(view: &View) -> String {
    let report = &view.report;
    let runs: usize = report.sessions.iter().map(|session| session.runs).sum();
    let failed: usize = report.sessions.iter().map(|session| session.failed).sum();
    let images: BTreeSet<&str> = report
        .cells
        .iter()
        .map(|cell| cell.image.as_str())
        .collect();
    let what = format!(
        "{} of {} in {}",
        plural(report.cells.len(), "cell", "cells"),
        plural(view.groups.len(), "scenario", "scenarios"),
        plural(images.len(), "image", "images"),
    );
    let place = match &report.sessions[..] {
        [] => return "No session was given.".to_owned(),
        [only] => machine(only),
        [first, rest @ ..] => {
            let sessions = report.sessions.len();
            if rest
                .iter()
                .all(|other| other.machine.name == first.machine.name)
            {
                format!("{}, in {sessions} sessions", machine(first))
            } else {
                format!("several machines, in {sessions} sessions")
            }
        }
    };
    if report.cells.is_empty() {
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
    format!("{what} on {place}. {ended}")
}

fn machine(session: &SessionSummary) -> String {
    let machine = &session.machine;
    let gpu = match session.device {
        Device::Cuda(index) => machine
            .gpus
            .iter()
            .find(|gpu| gpu.index == index)
            .or(machine.gpus.first())
            .map(|gpu| gpu.name.clone()),
        Device::Cpu => None,
    };
    let work = match session.device {
        Device::Cpu => format!("the CPU ({})", machine.cpu.model),
        Device::Cuda(_) => gpu.unwrap_or_else(|| session.device.to_string()),
    };
    format!("{work} of {}", machine.name)
}

/// The fastest and the smallest variant of a scenario.
fn best(view: &View, group: &Group) -> Option<String> {
    if group.task == Task::Idle {
        return idle(view, group);
    }
    let several = view.contenders.len() > 1;
    let name = |row: usize, cell: usize| {
        let label = &group.rows[row].label;
        let contender = &view.contenders[view.contender_of(cell)].label;
        if several {
            format!("{label} in {contender}")
        } else {
            label.clone()
        }
    };
    let cells: Vec<(usize, usize)> = group
        .rows
        .iter()
        .enumerate()
        .flat_map(|(row, variant)| variant.cells.iter().map(move |cell| (row, *cell)))
        .collect();
    let throughput = |cell: usize| {
        let metrics = &view.report.cells[cell].metrics;
        metrics
            .get(&catalogue::THROUGHPUT)
            .map(|spread| spread.median)
    };
    let measured: Vec<(usize, usize, f64)> = cells
        .iter()
        .filter_map(|&(row, cell)| Some((row, cell, throughput(cell)?)))
        .collect();
    let by_speed = |a: &&(usize, usize, f64), b: &&(usize, usize, f64)| a.2.total_cmp(&b.2);
    let &(row, cell, fastest) = measured.iter().max_by(by_speed)?;
    let scenario = &group.scenario;
    let speed = format::Quantity::Throughput.write(fastest);
    if measured.len() == 1 {
        return Some(format!("{scenario} ran at {speed}."));
    }
    let &(_, _, slowest) = measured.iter().min_by(by_speed)?;
    let mut text = format!("{scenario}: fastest is {} with {speed}", name(row, cell));
    if slowest > 0.0 && fastest / slowest >= 1.005 {
        text += &format!(
            " ({} × the slowest)",
            format::significant(fastest / slowest, 3)
        );
    }
    let footprint = group.footprint(view);
    let least = cells
        .iter()
        .filter_map(|&(row, cell)| Some((row, cell, footprint.of(&view.report.cells[cell])?)))
        .min_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((small_row, small_cell, bytes)) = least {
        let memory = format!("{} {}", format::bytes(bytes), footprint.word);
        text += &if small_cell == cell {
            format!("; it also takes the least memory, {memory}")
        } else {
            format!(
                "; least memory takes {}, {memory}",
                name(small_row, small_cell)
            )
        };
    }
    Some(text + ".")
}

/// What a scenario takes that computes nothing, in each contender.
fn idle(view: &View, group: &Group) -> Option<String> {
    let several = view.contenders.len() > 1;
    let taken: Vec<String> = group
        .cells()
        .filter_map(|index| {
            let cell = &view.report.cells[index];
            let resident = cell.metrics.get(&catalogue::RUN_HOST_PEAK_RESIDENT)?.median;
            let mut text = format!("{} of host memory", format::bytes(resident));
            if let Some(context) = cell.metrics.get(&catalogue::CONTEXT) {
                text += &format!(", {} of the GPU", format::bytes(context.median));
            }
            if let Some(share) = cpu_share(cell) {
                text += &format!(", {} of a CPU", format::share(share));
            }
            if several {
                text += &format!(" in {}", view.contenders[view.contender_of(index)].label);
            }
            Some(text)
        })
        .collect();
    (!taken.is_empty()).then(|| format!("{} takes {}.", group.scenario, taken.join("; ")))
}

/// Each contender beside the first, over the cells that both have.
fn against_the_first(view: &View) -> Vec<String> {
    let Some((first, others)) = view.contenders.split_first() else {
        return Vec::new();
    };
    let of = |cells: &[usize], contender: usize| -> Option<f64> {
        let cell = cells
            .iter()
            .find(|cell| view.contender_of(**cell) == contender)?;
        let metrics = &view.report.cells[*cell].metrics;
        metrics
            .get(&catalogue::THROUGHPUT)
            .map(|spread| spread.median)
    };
    others
        .iter()
        .zip(1..)
        .filter_map(|(other, index)| {
            let logs: Vec<f64> = view
                .groups
                .iter()
                .flat_map(|group| &group.rows)
                .filter_map(|row| Some((of(&row.cells, index)? / of(&row.cells, 0)?).ln()))
                .filter(|log| log.is_finite())
                .collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            (!logs.is_empty()).then(|| {
                format!(
                    "{} ran at {} × the throughput of {} (geometric mean of the medians of {}; \
                     `compare` says whether that is a difference).",
                    other.label,
                    format::significant(mean.exp(), 4),
                    first.label,
                    plural(logs.len(), "shared cell", "shared cells"),
                )
            })
        })
        .collect()
}

fn noise(view: &View) -> Option<String> {
    let spreads: Vec<(f64, usize)> = view
        .report
        .cells
        .iter()
        .enumerate()
        .filter_map(|(index, cell)| {
            let spread = cell.metrics.get(&catalogue::THROUGHPUT)?;
            Some((spread.coefficient_of_variation?, index))
        })
        .collect();
    let &(largest, cell) = spreads.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let middle = median(spreads.iter().map(|(variation, _)| *variation))?;
    if spreads.len() == 1 {
        return Some(format!(
            "From run to run, throughput varied by {} (coefficient of variation).",
            format::share(largest)
        ));
    }
    Some(format!(
        "From run to run, throughput varied by {} in the median cell and by {} in the noisiest, {} \
         (coefficient of variation).",
        format::share(middle),
        format::share(largest),
        view.short_name(cell),
    ))
}

fn harness(view: &View) -> Option<String> {
    let caused = view
        .report
        .cells
        .iter()
        .filter_map(|cell| Some(cell.time?.harness_caused?.median));
    let caused: Vec<f64> = caused.collect();
    let middle = median(caused.iter().copied())?;
    Some(format!(
        "A run takes {} besides CUDA start, model build, warm-up, measured steps and calibration \
         (median of the cells).",
        format::seconds(middle)
    ))
}

//! What to know before believing the metrics.

use metrics::catalogue;
use std::collections::{BTreeMap, BTreeSet};

use record::Record;

use super::{CellSummary, Source, View};
use crate::format::{self, plural};

/// Fewer successful runs than this say little about the spread.
const FEW: usize = 3;
/// A coefficient of variation above this is worth a word.
const NOISY: f64 = 0.03;
/// At most so many cells are named.
const NAMED: usize = 3;

pub(super) fn of(view: &View, sources: &[Source]) -> Vec<String> {
    let mut warnings = Vec::new();
    for source in sources {
        warnings.extend(cut_off(source));
    }
    warnings.extend(different_machines(sources));
    warnings.extend(few_runs(view));
    warnings.extend(noisy(view));
    warnings.extend(memory_differs(view));
    let good: Vec<&Record> = view
        .runs
        .iter()
        .flatten()
        .copied()
        .filter(|run| run.outcome.is_ok())
        .collect();
    warnings.extend(contaminated(view));
    warnings.extend(throttled(&good));
    warnings.extend(shared_gpu(&good));
    warnings.extend(skipped_steps(&good));
    warnings.extend(other_libtorch(sources));
    warnings.extend(missing_isolation(view));
    warnings.extend(notes_of_runs(view));
    warnings
}

fn cut_off(source: &Source) -> Vec<String> {
    let name = &source.session.session;
    let mut found = Vec::new();
    if !source.session.complete {
        let planned = source.session.cells.len() * source.session.blocks as usize;
        let done = source.records.records.len();
        found.push(format!(
            "Session {name} is not complete: {done} of {planned} planned runs have a record. \
             `bench --resume` goes on with it."
        ));
    }
    if source.records.torn_after.is_some() {
        found.push(format!(
            "The last line of the records of session {name} was cut off while it was written; it is \
             left out."
        ));
    }
    found
}

fn different_machines(sources: &[Source]) -> Option<String> {
    let machines: BTreeSet<_> = sources
        .iter()
        .map(|source| {
            let machine = &source.session.machine;
            let gpu = machine.gpus.first().map(|gpu| gpu.uuid.clone());
            (machine.name.clone(), machine.driver_version.clone(), gpu)
        })
        .collect();
    (machines.len() > 1).then(|| {
        "The sessions ran on different machines, GPUs or drivers: differences between them are \
         not differences between images."
            .to_owned()
    })
}

fn few_runs(view: &View) -> Option<String> {
    let cells = cells_that(view, |cell| cell.ok > 0 && cell.ok < FEW);
    let measured = view.report.cells.iter().filter(|cell| cell.ok > 0).count();
    if cells.is_empty() {
        return None;
    }
    if cells.len() == measured {
        return Some(format!(
            "No cell has {FEW} or more successful runs: too few to say anything about the spread."
        ));
    }
    Some(format!(
        "{} fewer than {FEW} successful runs, too few to say anything about the spread: {}.",
        plural(cells.len(), "cell has", "cells have"),
        named(view, &cells)
    ))
}

fn noisy(view: &View) -> Option<String> {
    let cells = cells_that(view, |cell| {
        let spread = cell.metrics.get(&catalogue::THROUGHPUT);
        spread.and_then(|spread| spread.coefficient_of_variation) > Some(NOISY)
    });
    (!cells.is_empty()).then(|| {
        format!(
            "Throughput varies by more than {} from run to run in {}: {}.",
            format::share(NOISY),
            plural(cells.len(), "cell", "cells"),
            named(view, &cells)
        )
    })
}

fn memory_differs(view: &View) -> Option<String> {
    let cells = cells_that(view, |cell| {
        let spread = cell.metrics.get(&catalogue::PEAK_ALLOCATED);
        spread.is_some_and(|spread| spread.maximum > spread.minimum)
    });
    (!cells.is_empty()).then(|| {
        format!(
            "Peak allocated memory is not the same in every run of {}: {}.",
            plural(cells.len(), "cell", "cells"),
            named(view, &cells)
        )
    })
}

fn cells_that(view: &View, is: impl Fn(&CellSummary) -> bool) -> Vec<usize> {
    let cells = view.report.cells.iter().enumerate();
    cells
        .filter(|(_, cell)| is(cell))
        .map(|(index, _)| index)
        .collect()
}

fn named(view: &View, cells: &[usize]) -> String {
    let mut names: Vec<String> = cells
        .iter()
        .take(NAMED)
        .map(|&cell| {
            let name = view.short_name(cell);
            if view.contenders.len() > 1 {
                format!(
                    "{name} in {}",
                    view.contenders[view.contender_of(cell)].label
                )
            } else {
                name
            }
        })
        .collect();
    if cells.len() > NAMED {
        names.push(format!("and {} more", cells.len() - NAMED));
    }
    names.join("; ")
}

/// Attempts that something else on the machine contaminated: no failures of the workload.
fn contaminated(view: &View) -> Option<String> {
    let contaminated = &view.report.contaminated;
    let repeated = contaminated
        .iter()
        .filter(|one| one.last_outcome.is_ok())
        .count();
    (!contaminated.is_empty()).then(|| {
        format!(
            "{} by something else on the machine, and left out of every metric; {repeated} of them \
             repeated with success.",
            plural(
                contaminated.len(),
                "attempt was contaminated",
                "attempts were contaminated"
            )
        )
    })
}

fn throttled(good: &[&Record]) -> Option<String> {
    // A GPU that idles between two kernels is held back by nothing.
    let held_back = |reason: &&String| !reason.to_lowercase().contains("idle");
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for run in good {
        for reason in run.monitor.gpu_throttle_reasons.iter().filter(held_back) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let words: Vec<_> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} in {}", plural(*count, "run", "runs")))
        .collect();
    (!words.is_empty()).then(|| format!("The GPU held its clocks back: {}.", words.join(", ")))
}

fn shared_gpu(good: &[&Record]) -> Option<String> {
    let count = good
        .iter()
        .filter(|run| !run.monitor.other_gpu_processes.is_empty())
        .count();
    (count > 0).then(|| {
        format!(
            "Other processes used the GPU during {}.",
            plural(count, "run", "runs")
        )
    })
}

fn skipped_steps(good: &[&Record]) -> Option<String> {
    let skipped = |run: &&&Record| {
        let scaler = run
            .metrics
            .as_ref()
            .and_then(|metrics| metrics.summary.scaler);
        scaler.is_some_and(|scaler| scaler.skipped_while_measuring > 0)
    };
    let count = good.iter().filter(skipped).count();
    (count > 0).then(|| {
        format!(
            "The loss scaler skipped measured optimizer steps in {}; those steps are cheaper.",
            plural(count, "run", "runs")
        )
    })
}

fn other_libtorch(sources: &[Source]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for source in sources {
        for record in &source.records.records {
            let facts = source
                .session
                .images
                .iter()
                .find(|image| image.name == record.image);
            if let (Some(facts), Some(workload)) = (facts, &record.workload)
                && !facts.libtorch_version.is_empty()
                && plain(&facts.libtorch_version) != plain(&workload.libtorch_version)
            {
                found.insert(format!(
                    "Image {} was taken for libtorch {}, its workload says {}.",
                    facts.name, facts.libtorch_version, workload.libtorch_version
                ));
            }
        }
    }
    found.into_iter().collect()
}

/// `2.11.0` of `2.11.0+cu130`.
fn plain(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

fn missing_isolation(view: &View) -> Option<String> {
    let mut missing: BTreeSet<&str> = BTreeSet::new();
    let mut count = 0;
    for run in view.runs.iter().flatten() {
        let of_run = &run.isolation.missing;
        if !of_run.is_empty() {
            count += 1;
            missing.extend(of_run.iter().map(String::as_str));
        }
    }
    (count > 0).then(|| {
        let without = if missing.is_empty() {
            String::new()
        } else {
            let words: Vec<_> = missing.into_iter().collect();
            format!(", without {}", words.join(", "))
        };
        format!(
            "{} in no container{without}.",
            plural(count, "run was", "runs were")
        )
    })
}

fn notes_of_runs(view: &View) -> Vec<String> {
    let mut notes: BTreeMap<&str, usize> = BTreeMap::new();
    for run in view.runs.iter().flatten() {
        for note in &run.notes {
            *notes.entry(note).or_default() += 1;
        }
    }
    notes
        .into_iter()
        .map(|(note, count)| format!("{note} ({})", plural(count, "run", "runs")))
        .collect()
}

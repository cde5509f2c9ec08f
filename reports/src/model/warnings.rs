//! What to know before believing the metrics.

use std::collections::{BTreeMap, BTreeSet};

use metrics::catalogue;
use record::Record;
use verdict::ShortWindow;

use super::{report::CellSummary, source::Source, view::View};
use crate::words::format::{self, plural};

/// Fewer successful runs than this say little about the spread.
const FEW: usize = 3;
/// A coefficient of variation above this is worth a word.
const NOISY: f64 = 0.03;
const NAMED: usize = 3;

pub(super) fn of(view: &View, sources: &[Source]) -> Vec<String> {
    let mut warnings = Vec::from_iter(missing_isolation(view));
    warnings.extend(sources.iter().flat_map(cut_off));
    warnings.extend(different_machines(sources));
    warnings.extend(of_cells(view));
    warnings.extend(short_windows(view, sources));
    warnings.extend(of_runs(view, sources));
    warnings.extend(other_libtorch(sources));
    warnings.extend(told(view, |run| &run.warnings));
    warnings
}

/// What runs say of themselves, each with how many say it.
pub(super) fn told<'a>(view: &View<'a>, words: impl Fn(&'a Record) -> &'a [String]) -> Vec<String> {
    let found = tally(view, |_| true, words).into_iter();
    let found = found.map(|(text, count)| format!("{text} ({})", runs(count)));
    found.collect()
}

fn runs(count: usize) -> String {
    plural(count, "run", "runs")
}

fn cut_off(source: &Source) -> Vec<String> {
    let (session, name) = (&source.session, &source.session.session);
    let planned = session.planned();
    let done = source.records.records.len();
    let incomplete = (!session.complete).then(|| {
        format!(
            "Session {name} is not complete: {done} of {planned} planned runs have a record. \
             `bench --resume` goes on with it."
        )
    });
    let left_out = source.records.left_out().into_iter();
    let left_out = left_out.map(|what| format!("Session {name}: {what}."));
    incomplete.into_iter().chain(left_out).collect()
}

fn different_machines(sources: &[Source]) -> Option<String> {
    let machines = sources.iter().map(|source| {
        let machine = source.session.machine();
        let gpu = machine.gpus.first().map(|gpu| &gpu.uuid);
        (source.session.machine_names(), &machine.driver_version, gpu)
    });
    let machines: BTreeSet<_> = machines.collect();
    (machines.len() > 1).then(|| {
        "The sessions ran on different machines, GPUs or drivers: differences between them are \
         not differences between images."
            .to_owned()
    })
}

/// Cells whose measured window is too short for the noise of its steps.
fn short_windows(view: &View, sources: &[Source]) -> Option<String> {
    let cells = view.report.cells.iter().enumerate();
    let working = cells.filter(|(_, summary)| !summary.workload.is_idle());
    let found = working.filter_map(|(cell, summary)| {
        let runs = view.runs[cell].iter().copied();
        let window = ShortWindow::of(runs, threshold(summary, sources))?;
        Some(format!("{}: {window}", named(view, &[cell])))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| {
        let shown = format::first_few(found, NAMED);
        format!("Too short for their noise: {shown}.")
    })
}

/// The noise threshold of throughput that a cell's suite sets.
fn threshold(cell: &CellSummary, sources: &[Source]) -> Option<f64> {
    let sessions = sources.iter().map(|source| &source.session);
    let mut own = sessions.filter(|session| session.session == cell.session);
    let plan = own.next()?.cells.iter().find(|plan| {
        (&plan.image, &plan.suite, &plan.scenario, &plan.axes)
            == (&cell.image, &cell.suite, &cell.scenario, &cell.axes)
    })?;
    plan.thresholds.get(catalogue::THROUGHPUT.name).copied()
}

fn of_cells(view: &View) -> Vec<String> {
    let that = |is: &dyn Fn(&CellSummary) -> bool| -> Vec<usize> {
        let cells = view.report.cells.iter().enumerate();
        let cells = cells.filter(|(_, cell)| is(cell));
        cells.map(|(index, _)| index).collect()
    };
    let few = that(&|cell| cell.ok > 0 && cell.ok < FEW);
    let noisy = that(&|cell| {
        let spread = cell.metrics.get(&catalogue::THROUGHPUT);
        spread.and_then(|spread| spread.coefficient_of_variation) > Some(NOISY)
    });
    let memory = that(&|cell| {
        let spread = cell.metrics.get(&catalogue::PEAK_ALLOCATED);
        spread.is_some_and(|spread| spread.maximum > spread.minimum)
    });
    let mut found = Vec::new();
    if !few.is_empty() && few.len() == that(&|cell| cell.ok > 0).len() {
        found.push(format!(
            "No cell has {FEW} or more successful runs: too few to estimate the spread."
        ));
    } else if !few.is_empty() {
        found.push(format!(
            "{} fewer than {FEW} successful runs, too few to estimate the spread: {}.",
            plural(few.len(), "cell has", "cells have"),
            named(view, &few)
        ));
    }
    let varies = format!(
        "Throughput varies by more than {} from run to run in",
        format::share(NOISY)
    );
    let differs = "Peak allocated memory is not the same in every run of";
    let graphs = "Peak allocated is less than half of what warm-up took, with as much reserved: memory \
                  into which CUDA graphs are replayed is reserved and not counted as allocated. Read \
                  peak reserved in";
    let replayed = that(&is_replayed);
    for (cells, what) in [
        (noisy, varies.as_str()),
        (memory, differs),
        (replayed, graphs),
    ] {
        if !cells.is_empty() {
            let count = plural(cells.len(), "cell", "cells");
            found.push(format!("{what} {count}: {}.", named(view, &cells)));
        }
    }
    found
}

/// Whether a program's measured steps allocate far less than warm-up did, with what that took still
/// reserved, as with `torch.compile(mode="reduce-overhead")`.
fn is_replayed(cell: &CellSummary) -> bool {
    let median = |metric| cell.metrics.median(metric);
    let held = median(&catalogue::RUN_PEAK_ALLOCATED).zip(median(&catalogue::PEAK_RESERVED));
    let held = held.map(|(run, reserved)| run.min(reserved) / 2.0);
    let allocated = median(&catalogue::PEAK_ALLOCATED);
    cell.workload.model().is_none() && allocated.zip(held).is_some_and(|(own, held)| own < held)
}

fn named(view: &View, cells: &[usize]) -> String {
    let name = |&cell: &usize| view.name_of(cell);
    format::first_few(cells.iter().map(name).collect(), NAMED)
}

/// In how many of these runs each of these words stands.
fn tally<'a>(
    view: &View<'a>,
    is: impl Fn(&Record) -> bool,
    words: impl Fn(&'a Record) -> &'a [String],
) -> BTreeMap<&'a str, usize> {
    let mut found = BTreeMap::new();
    let chosen = view.runs.iter().flatten().filter(|run| is(run));
    for word in chosen.flat_map(|run| words(run)) {
        *found.entry(word.as_str()).or_default() += 1;
    }
    found
}

/// What went on beside the runs or within them.
fn of_runs(view: &View, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    // Attempts that something else on the machine contaminated: no failures of the workload.
    let contaminated = &view.report.contaminated;
    if !contaminated.is_empty() {
        let repeated = contaminated.iter().filter(|one| one.last_outcome.is_ok());
        let attempts = plural(contaminated.len(), "attempt was", "attempts were");
        found.push(format!(
            "{attempts} contaminated by something else on the machine, and left out of every \
             metric; {} of them repeated with success.",
            repeated.count()
        ));
    }
    let is_ok = |run: &Record| run.outcome.is_ok();
    let reasons = tally(view, is_ok, |run| {
        let gpu = run.monitor.gpus.first();
        gpu.map_or(&[], |gpu| &gpu.throttle_reasons[..])
    });
    // A GPU that idles between two kernels is held back by nothing.
    let reasons = reasons.iter();
    let reasons = reasons.filter(|(reason, _)| !reason.to_lowercase().contains("idle"));
    let reasons = reasons.map(|(reason, count)| format!("{reason} in {}", runs(*count)));
    let reasons: Vec<_> = reasons.collect();
    if !reasons.is_empty() {
        let reasons = reasons.join(", ");
        found.push(format!("The GPU held its clocks back: {reasons}."));
    }
    let busy = sources.iter().flat_map(|source| {
        let good = source.records.records.iter().filter(|run| is_ok(run));
        good.filter_map(|run| source.session.others(run))
    });
    let busy: Vec<_> = busy.filter(|others| others.is_much).collect();
    if let Some(most) = busy.iter().max_by(|a, b| a.used.total_cmp(&b.used)) {
        found.push(format!(
            "{} {}: times depend on what these did.",
            format::others_used(most.used, most.cpus),
            runs(busy.len())
        ));
    }
    let mut told = |is: fn(&Record) -> bool, words: &str| {
        let good = view.runs.iter().flatten().filter(|run| is_ok(run));
        let count = good.filter(|run| is(run)).count();
        found.extend((count > 0).then(|| words.replace("{}", &runs(count))));
    };
    told(
        |run| run.monitor.is_shared(),
        "Other processes used the GPU during {}.",
    );
    told(
        |run| run.value("skipped_steps_count") > Some(0.0),
        "The loss scaler skipped measured optimizer steps in {}; those steps are cheaper.",
    );
    found
}

fn other_libtorch(sources: &[Source]) -> BTreeSet<String> {
    let other = |source: &Source, record: &Record| {
        let mut images = source.session.images.iter();
        let facts = images.find(|image| image.name == record.image)?;
        let taken = &facts.libtorch_version;
        let told = &record.started.as_ref()?.libtorch_version;
        let differs = !taken.is_empty() && plain(taken) != plain(told);
        let name = &facts.name;
        differs.then(|| {
            format!("Image {name} was taken for libtorch {taken}, its workload reports {told}.")
        })
    };
    let told = sources.iter().flat_map(|source| {
        let records = source.records.records.iter();
        records.filter_map(|record| other(source, record))
    });
    told.collect()
}

/// `2.11.0` of `2.11.0+cu130`.
fn plain(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

fn missing_isolation(view: &View) -> Option<String> {
    Some(match not_isolated(view)? {
        (true, count, missing) => {
            format!("Not isolated: {count} in no container, without {missing}.")
        }
        (false, count, missing) => format!("Partly isolated: {count} without {missing}."),
    })
}

/// Whether runs were in no container at all, how many were not isolated, and what was missing.
pub(crate) fn not_isolated(view: &View) -> Option<(bool, String, String)> {
    let words = tally(view, |_| true, |run| &run.isolation.missing);
    let words: Vec<&str> = words.into_keys().collect();
    let runs = view.runs.iter().flatten();
    let count = runs.filter(|run| !run.isolation.missing.is_empty()).count();
    let is_whole = words.contains(&"file system");
    let count = (count > 0).then(|| plural(count, "run was", "runs were"))?;
    Some((is_whole, count, words.join(", ")))
}

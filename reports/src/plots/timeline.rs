//! The memory of a run over time, by phase: what NVML sees of the process and of the GPU, and the
//! allocator's peaks within the measured steps.

use metrics::catalogue;
use protocol::Phase;
use record::{Reason, Record, Sampled, Series};

use super::{
    memory, monitor,
    plot::{Drawing, Plot},
    stacked::Limit,
};
use crate::{
    charts::{Axis, Chart, Entry, Key, Layer, Panel, Reading, Spot},
    document::Kind,
    facets,
    model::{Group, View},
    svg::{Dashes, Look, Shape, ink::Ink},
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "timeline",
    title: "Memory over a run",
    about: "Of each scenario the run that took the most of the GPU, and one of each cell that ran out \
            of memory, as NVML saw it from outside, ten times a second. Upright lines part the \
            phases, as near as their lengths allow; warm-up is shaded lightly, calibration darker, for \
            no metric counts it. Level lines within the measured steps are the allocator's peaks. Two \
            marks are the process's peaks as the metrics have them: within the measured steps, and of \
            the whole run without calibration, where \
            that is more. Where either is above the line, no sample fell on it. A limit of the \
            allocator is drawn above what the process has outside of it, which it does not count.",
    answers: &["peak_allocated_bytes", "process_peak_bytes"],
    is_detail: false,
    draw,
};

const HEIGHT: f64 = 170.0;
const MOST: usize = 160;
const FAILED: usize = 2;
const SCENARIOS: usize = 24;
/// The GPU's size or a limit is drawn up to so many times the peak.
const NEAR: f64 = 1.6;

const PROCESS: Ink = Ink::Series(0);
const ALL: Ink = Ink::Series(6);
const MEASURED: Look = Look::of(Ink::Text, Shape::Disc);
const WHOLE_RUN: Look = Look::of(Ink::Text, Shape::Diamond);

fn draw(view: &View) -> Drawing {
    let groups = view.groups.iter().filter(|group| !group.workload.is_idle());
    let most = if view.is_large() {
        SCENARIOS / 3
    } else {
        SCENARIOS
    };
    let charts = groups.take(most).flat_map(|group| {
        let limits = memory::limits(view, group);
        let runs = chosen(view, group).into_iter();
        let charts = runs.filter_map(move |(label, cell, run)| {
            // The line is the whole process: a limit of the allocator ends as far above it as what
            // the allocator does not hold.
            let limits = limits.iter();
            let limits = limits.map(|limit| (limit, limit.end(&view.report.cells[cell])));
            let limits: Vec<Drawn> = limits.collect();
            Some(Chart {
                row: facets::row_of(view, cell),
                heading: format!("{} {}", group.scenario, format::clean(&label)),
                ..chart(run, &limits)?
            })
        });
        charts.collect::<Vec<_>>()
    });
    let legend = vec![
        Key::of(PROCESS, "―", "process, by NVML"),
        Key::of(ALL, "╌", "all processes on the GPU"),
        Key::of(Ink::Series(2), "―", "peak reserved by the allocator"),
        Key::of(Ink::Series(3), "┈", "peak allocated in tensors"),
        Key::mark(MEASURED, "peak of the process, measured steps"),
        Key::mark(WHOLE_RUN, "peak of the process, whole run"),
        Key::of(Ink::Danger, "―", "the GPU's size, or a limit"),
    ];
    (legend, charts.collect())
}

/// A limit, and where it is drawn.
type Drawn<'a> = (&'a Limit, f64);

fn process(run: &Record) -> Option<&Series> {
    let series = run.monitor.get(Sampled::GpuProcessBytes)?;
    (series.samples.len() > 1).then_some(series)
}

/// The most that the process took in the whole run, without calibration.
fn peak(run: &Record) -> f64 {
    let peaks = [&catalogue::RUN_PROCESS_PEAK, &catalogue::PROCESS_PEAK];
    let peak = peaks.into_iter().find_map(|metric| metric.of(run));
    peak.unwrap_or(0.0)
}

/// The run with the greatest peak, then one of each cell that ran out of memory.
fn chosen<'a>(view: &View<'a>, group: &Group) -> Vec<(String, usize, &'a Record)> {
    let runs = group.lanes().flat_map(|(row, cell)| {
        let name = view.name_in(&row.label, cell);
        let runs = view.good_runs(cell).into_iter();
        let runs = runs.filter(|run| process(run).is_some());
        runs.map(move |run| (name.clone(), cell, run))
    });
    let greatest = runs.max_by(|(.., one), (.., other)| peak(one).total_cmp(&peak(other)));
    let failed = group.lanes().filter_map(|(row, cell)| {
        let mut runs = view.runs[cell].iter().copied();
        let run = runs.find(|run| run.outcome.reason() == Some(Reason::OutOfMemory))?;
        let name = view.name_in(&row.label, cell);
        Some((format!("{name}, out of memory"), cell, run))
    });
    greatest.into_iter().chain(failed.take(FAILED)).collect()
}

fn chart(run: &Record, limits: &[Drawn]) -> Option<Chart> {
    process(run)?;
    let told = match run.shortage {
        Some(shortage) => format!(
            "{} asked for, {} free of {}, {} held by the allocator",
            format::bytes(shortage.requested_bytes as f64),
            format::bytes(shortage.free_bytes as f64),
            format::bytes(shortage.capacity_bytes as f64),
            format::bytes(shortage.reserved_bytes as f64)
        ),
        None => format!("at most {} without calibration", format::bytes(peak(run))),
    };
    let first = Entry::new("process", told.clone());
    let phases = phases(run).into_iter();
    let phases = phases.map(|(phase, from, to)| entry(run, phase, (from, to)));
    let entries = [first].into_iter().chain(phases).collect();
    Some(Chart {
        subtitle: format!("run {}", format::clean(&run.run)),
        note: run.shortage.as_ref().map(|_| format!("{told}.")),
        ..Chart::panels(entries, (1, HEIGHT), vec![panel(run, limits)])
    })
}

fn entry(run: &Record, phase: Phase, (from, to): (f64, f64)) -> Entry {
    let most = |series: Option<&Series>| {
        let samples = series?.samples.iter();
        let within = samples.filter(|sample| (from..=to).contains(&sample.0));
        within.map(|sample| sample.1).reduce(f64::max)
    };
    let [process, all] = [process(run), run.monitor.get(Sampled::GpuUsedBytes)]
        .map(|series| most(series).map(format::bytes));
    let seconds = format::seconds(to - from);
    let value = match &process {
        Some(most) => format!("{seconds}, process at most {most}"),
        None => seconds.clone(),
    };
    Entry::new(word(phase), value)
        .with(Kind::Name, [("phase", word(phase).into())])
        .numbers([
            ("from", Some(format::seconds(from))),
            ("for", Some(seconds)),
            ("process, at most", process),
            ("GPU, at most", all),
        ])
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::ProcessStart => "process start",
        Phase::CudaStart => "CUDA start",
        Phase::ModelBuild => "model",
        Phase::Data => "data",
        Phase::Warmup => "warm-up",
        Phase::Measure => "measured steps",
        Phase::Profile => "profiled steps",
        Phase::Teardown => "teardown",
        Phase::Calibrate => "calibration",
    }
}

/// The phases that passed, in the order in which they began.
fn phases(run: &Record) -> Vec<(Phase, f64, f64)> {
    let phases = run.phase_seconds.keys();
    let mut found: Vec<(Phase, f64, f64)> = phases
        .filter_map(|phase| {
            let (from, to) = monitor::stretch_of(run, *phase)?;
            Some((*phase, from, to))
        })
        .collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    found
}

fn panel(run: &Record, limits: &[Drawn]) -> Panel {
    let all = run.monitor.get(Sampled::GpuUsedBytes);
    let all = all.map(|series| ("all processes", series, (ALL, 1.8, Dashes::Long)));
    let own = process(run).map(|series| ("process", series, (PROCESS, 1.8, Dashes::None)));
    let series = || all.into_iter().chain(own);
    let greatest = series().map(|(_, series, _)| series.maximum);
    let greatest = greatest.fold(peak(run), f64::max);
    let limits = limits.iter().filter(|(_, end)| *end <= NEAR * greatest);
    let most = limits.clone().map(|(_, end)| *end).fold(greatest, f64::max);
    let last = series().filter_map(|(_, series, _)| series.samples.last());
    let end = last.map(|sample| sample.0).fold(run.wall_seconds, f64::max);
    let mut layers = of_phases(run);
    layers.extend(limits.map(|(limit, end)| {
        let beside = match limit.beside {
            Some(_) => ", and what is outside the allocator",
            None => "",
        };
        let hint = format!("{}: {}{beside}", limit.name, format::bytes(limit.value));
        Layer::limit(*end).hinted(hint)
    }));
    layers.extend(series().map(|(name, series, look)| monitor::trace(name, series, MOST, look)));
    layers.extend(of_allocator(run));
    layers.extend(peaks(run));
    let seconds = "Time since the run's start";
    Panel {
        reading: Some(Reading(String::new(), "s")),
        ..Panel::of(
            Axis::linear(seconds, Quantity::Seconds, (0.0, end)),
            Axis::linear("memory", Quantity::Bytes, (0.0, most * 1.15)),
            layers,
        )
    }
}

/// A line where each phase begins, with its name; what is no measured step is shaded.
fn of_phases(run: &Record) -> Vec<Layer> {
    let phases = phases(run);
    let shade = |(phase, from, to): &(Phase, f64, f64)| {
        let opacity = match phase {
            Phase::Warmup => 0.15,
            Phase::Profile | Phase::Calibrate => 0.45,
            _ => return None,
        };
        let area = Layer::area(Some((*from, *to)), None, (Ink::Axis, opacity));
        Some(area.hinted(word(*phase)))
    };
    let begin = |(phase, from, _): &(Phase, f64, f64)| {
        Layer::moment(*from, Ink::Grid, word(*phase).to_owned())
    };
    // What is measured, and what is not, is named before the rest.
    let mut named: Vec<_> = phases.iter().collect();
    named.sort_by_key(|(phase, ..)| match phase {
        Phase::Measure => 0,
        Phase::Warmup => 1,
        Phase::Profile | Phase::Calibrate => 2,
        _ => 3,
    });
    let shades = phases.iter().filter_map(shade);
    shades.chain(named.into_iter().map(begin)).collect()
}

/// The allocator's peaks within the measured steps.
fn of_allocator(run: &Record) -> Vec<Layer> {
    let Some((from, to)) = monitor::stretch_of(run, Phase::Measure) else {
        return Vec::new();
    };
    let peaks = [
        (Ink::Series(2), Dashes::None, &catalogue::PEAK_RESERVED),
        (Ink::Series(3), Dashes::Dots, &catalogue::PEAK_ALLOCATED),
    ];
    let line = |(ink, dashes, metric): (Ink, Dashes, &metrics::Metric)| {
        let value = metric.of(run)?;
        let line = Layer::line(None, vec![(from, value), (to, value)], (ink, 2.2, dashes));
        Some(line.hinted(format!("{}: {}", metric.label, format::bytes(value))))
    };
    peaks.into_iter().filter_map(line).collect()
}

/// The peaks of the process as the metrics have them, each where the samples of its window are
/// highest.
fn peaks(run: &Record) -> Vec<Layer> {
    // What comes after the measured steps counts for none of them.
    let after = [Phase::Profile, Phase::Calibrate];
    let after = after
        .into_iter()
        .find_map(|phase| monitor::stretch_of(run, phase));
    let measured = monitor::stretch_of(run, Phase::Measure);
    let whole = &catalogue::RUN_PROCESS_PEAK;
    let mark = |metric: &metrics::Metric, what: &str, look, is_within: &dyn Fn(f64) -> bool| {
        let samples = process(run)?.samples.iter();
        let within = samples.filter(|sample| is_within(sample.0));
        let highest = within.max_by(|one, other| one.1.total_cmp(&other.1))?;
        let value = metric.of(run)?;
        let mark = Layer::mark(Spot {
            label: format!("{what} {}", format::bytes(value)),
            ..Spot::of((highest.0, value), 8.0, look)
        });
        Some(mark.hinted(format!("{}: {}", metric.label, format::bytes(value))))
    };
    let in_steps = mark(&catalogue::PROCESS_PEAK, "measured", MEASURED, &|time| {
        measured.is_some_and(|(from, to)| (from..=to).contains(&time))
    });
    // Where nothing beyond the measured steps took more, one mark says both.
    let is_more = whole.of(run) > catalogue::PROCESS_PEAK.of(run);
    let in_run = mark(whole, "whole run", WHOLE_RUN, &|time| {
        is_more && after.is_none_or(|(from, _)| time < from)
    });
    in_steps.into_iter().chain(in_run).collect()
}

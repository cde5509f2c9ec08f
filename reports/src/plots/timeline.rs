//! The memory of a run over time, by phase: what NVML sees of the process and of the GPU, and the
//! allocator's peaks within the measured steps.

use metrics::catalogue;
use protocol::{Phase, Task};
use record::{Reason, Record, Series, thinned};

use super::{Drawing, Key, Picture, Plot, memory, monitor};
use crate::{
    document::{Kind, Table, columns, known},
    format::{self, Quantity},
    measure,
    model::{Group, View},
    svg::{
        Anchor, Area, Canvas, Dashes, Panel, SMALL, Svg, axis,
        ink::Ink,
        rows::{NARROW, WIDTH},
        scale::{Scale, extent},
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "timeline",
    title: "Memory over a run",
    about: "Of each scenario the run with the median throughput of the cell that takes the most of \
            the GPU, and one of each cell that ran out of memory, as NVML saw it from outside, ten \
            times a second. Within the measured steps level lines show the allocator's peaks. The \
            upright lines part the phases, as near as their lengths tell; the greatest value of the \
            process is labelled. The red line is the GPU's size or a limit where it is near.",
    answers: &["peak_allocated_bytes", "process_peak_bytes"],
    is_detail: false,
    draw,
};

const HEIGHT: f64 = 230.0;
/// Samples drawn of one line.
const MOST: usize = 160;
/// Runs that ran out of memory, of one scenario.
const FAILED: usize = 2;
/// Scenarios that are drawn.
const SCENARIOS: usize = 24;
/// The GPU's size or a limit is drawn up to so many times the peak.
const NEAR: f64 = 1.6;

fn draw(view: &View) -> Picture {
    let groups = view.groups.iter().filter(|group| group.task != Task::Idle);
    let most = if view.is_large() {
        SCENARIOS / 3
    } else {
        SCENARIOS
    };
    let drawings: Vec<Drawing> = groups
        .take(most)
        .flat_map(|group| {
            let runs = chosen(view, group).into_iter();
            runs.filter_map(|(label, run)| drawing(view, group, &label, run))
        })
        .collect();
    let key = |ink, sign, label: &str| Key {
        ink,
        sign,
        label: label.to_owned(),
    };
    Picture {
        legend: vec![
            key(Ink::Series(0), "―", "process, by NVML"),
            key(Ink::Series(6), "╌", "all processes on the GPU"),
            key(Ink::Series(2), "―", "peak reserved by the allocator"),
            key(Ink::Series(3), "┈", "peak allocated in tensors"),
            key(Ink::Danger, "―", "the GPU's size, or a limit"),
        ],
        drawings,
    }
}

fn process(run: &Record) -> Option<&Series> {
    let series = run.monitor.gpu_process_bytes.as_ref()?;
    (series.samples.len() > 1).then_some(series)
}

/// The cell with the greatest peak, then those that ran out of memory.
fn chosen<'a>(view: &View<'a>, group: &Group) -> Vec<(String, &'a Record)> {
    let peak = |cell: usize| {
        let metrics = &view.report.cells[cell].metrics;
        metrics.median(&catalogue::PROCESS_PEAK).unwrap_or(0.0)
    };
    let label = |cell: usize| {
        let row = group.lanes().find(|(_, other)| *other == cell);
        view.name_in(
            &row.map_or_else(String::new, |(row, _)| row.label.clone()),
            cell,
        )
    };
    let largest = group.cells().max_by(|a, b| peak(*a).total_cmp(&peak(*b)));
    let largest = largest.and_then(|cell| {
        let run = monitor::middle_run(view, cell)?;
        Some((label(cell), run))
    });
    let failed = group.cells().filter_map(|cell| {
        let mut runs = view.runs[cell].iter().copied();
        let run = runs.find(|run| run.outcome.reason() == Some(Reason::OutOfMemory))?;
        Some((format!("{}, out of memory", label(cell)), run))
    });
    largest.into_iter().chain(failed.take(FAILED)).collect()
}

fn drawing(view: &View, group: &Group, label: &str, run: &Record) -> Option<Drawing> {
    process(run)?;
    let limits = memory::limits(view, group);
    let (svg, narrow) = (sheet(run, &limits, WIDTH), sheet(run, &limits, NARROW));
    let rows: Vec<_> = phases(run)
        .into_iter()
        .map(|(phase, from, to)| {
            let most = |series: Option<&Series>| {
                let samples = series?.samples.iter();
                let within = samples.filter(|sample| (from..=to).contains(&sample.0));
                let values: Vec<f64> = within.map(|sample| sample.1).collect();
                (!values.is_empty()).then(|| extent(&values).1)
            };
            let bytes = |value: Option<f64>| known(value.map(format::bytes));
            vec![
                word(phase).into(),
                format::seconds(from).into(),
                format::seconds(to - from).into(),
                bytes(most(process(run))),
                bytes(most(run.monitor.gpu_used_bytes.as_ref())),
            ]
        })
        .collect();
    let mut heads = columns(Kind::Name, &["phase"]);
    let numbers = ["from", "for", "process, at most", "GPU, at most"];
    heads.extend(columns(Kind::Number, &numbers));
    let peak = process(run).map_or(0.0, |series| series.maximum);
    let told = match run.shortage {
        Some(shortage) => format!(
            "{} asked for, {} free of {}, {} held by the allocator",
            format::bytes(shortage.requested_bytes as f64),
            format::bytes(shortage.free_bytes as f64),
            format::bytes(shortage.capacity_bytes as f64),
            format::bytes(shortage.reserved_bytes as f64)
        ),
        None => format!("process at most {}", format::bytes(peak)),
    };
    Some(Drawing {
        heading: format!("{} {}", group.scenario, format::clean(label)),
        subtitle: format!("run {}", format::clean(&run.run)),
        remark: None,
        note: run.shortage.as_ref().map(|_| format!("{told}.")),
        description: format!("{told}."),
        svg,
        narrow: Some(narrow),
        table: (!rows.is_empty()).then(|| Table::new(heads, rows)),
        open: false,
    })
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::ProcessStart => "process start",
        Phase::CudaStart => "CUDA start",
        Phase::ModelBuild => "model",
        Phase::Data => "data",
        Phase::Warmup => "warm-up",
        Phase::Measure => "measured steps",
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

fn sheet(run: &Record, limits: &[(String, f64)], width: f64) -> Svg {
    let all = run.monitor.gpu_used_bytes.as_ref();
    let series: Vec<Line> = [
        (Ink::Series(6), "all processes", Dashes::Long, all),
        (Ink::Series(0), "process", Dashes::None, process(run)),
    ]
    .into_iter()
    .filter_map(|(ink, name, dashes, series)| Some((ink, name, dashes, series?)))
    .collect();
    let greatest = series.iter().map(|(.., series)| series.maximum);
    let greatest = greatest.fold(0.0, f64::max);
    let limits: Vec<_> = limits
        .iter()
        .filter(|(_, value)| *value <= NEAR * greatest)
        .collect();
    let most = limits
        .iter()
        .map(|(_, value)| *value)
        .fold(greatest, f64::max);
    let upright = Area::of((0.0, 26.0), (1.0, HEIGHT - axis::LOWER));
    let up = Scale::linear((0.0, most * 1.12), (upright.bottom, upright.top));
    let paper = Area {
        left: axis::left_width(&up, Quantity::Bytes, &upright).max(30.0),
        right: width - 8.0,
        ..upright
    };
    let last = series
        .iter()
        .filter_map(|(.., series)| series.samples.last());
    let end = last.map(|sample| sample.0).fold(run.wall_seconds, f64::max);
    let along = Scale::linear((0.0, end), (paper.left, paper.right));
    let mut canvas = Canvas::new(width, HEIGHT);
    canvas.fill(paper, Ink::Band);
    axis::left(&mut canvas, &paper, &up, Quantity::Bytes);
    canvas.small(
        axis::unit_of(&up, Quantity::Bytes),
        (0.0, 8.0),
        Anchor::Start,
    );
    canvas.ticks(|canvas| {
        let title = "Time since the run's start";
        axis::lower(canvas, &paper, &along, Quantity::Seconds, title);
    });
    let panel = Panel {
        name: "",
        paper,
        along: (&along, "s"),
        up: (&up, Quantity::Bytes),
    };
    canvas.panel(&panel, |canvas| {
        lines(canvas, run, (&series, &limits), (&along, &up), &paper);
    });
    canvas.finish()
}

/// A line with its colour, what its values are called, and how it is broken.
type Line<'a> = (Ink, &'static str, Dashes, &'a Series);

/// What moves with the time: phases, limits, series, the allocator's peaks.
fn lines(
    canvas: &mut Canvas,
    run: &Record,
    (series, limits): (&[Line], &[&(String, f64)]),
    (along, up): (&Scale, &Scale),
    paper: &Area,
) {
    draw_phases(canvas, run, along, paper);
    for (name, value) in limits {
        let y = up.place(*value);
        canvas.hinted(&format!("{name}: {}", format::bytes(*value)), |canvas| {
            canvas.level((paper.left, paper.right), y, Ink::Danger, 1.6);
        });
    }
    for (ink, name, dashes, series) in series {
        let points: Vec<(f64, f64)> = thinned(&series.samples, MOST)
            .iter()
            .map(|sample| (along.place(sample.0), up.place(sample.1)))
            .collect();
        canvas.series(name, |canvas| {
            canvas.dashed(*dashes, |canvas| canvas.line(&points, *ink, 1.8));
        });
    }
    if let Some((from, to)) = monitor::stretch_of(run, Phase::Measure) {
        let ends = (along.place(from), along.place(to));
        for (ink, dashes, metric) in [
            (Ink::Series(2), Dashes::None, &catalogue::PEAK_RESERVED),
            (Ink::Series(3), Dashes::Dots, &catalogue::PEAK_ALLOCATED),
        ] {
            if let Some(value) = metric.of(run) {
                let hint = format!("{}: {}", metric.label, format::bytes(value));
                canvas.hinted(&hint, |canvas| {
                    canvas.dashed(dashes, |canvas| {
                        canvas.level(ends, up.place(value), ink, 2.2);
                    });
                });
            }
        }
    }
    draw_peak(canvas, run, (along, up), paper);
}

/// A line where each phase begins, and its name where there is room.
fn draw_phases(canvas: &mut Canvas, run: &Record, along: &Scale, paper: &Area) {
    let mut free_from = f64::NEG_INFINITY;
    for (phase, from, to) in phases(run) {
        let (left, right) = (along.place(from), along.place(to));
        canvas.upright(left, (paper.top, paper.bottom), Ink::Grid, 1.2);
        let name = word(phase);
        let wide = measure::width(name, SMALL);
        if right - left >= wide + 6.0 && left + 3.0 >= free_from {
            canvas.small(name, (left + 3.0, paper.top - 8.0), Anchor::Start);
            free_from = left + 3.0 + wide + 6.0;
        }
    }
}

/// The greatest value of the process.
fn draw_peak(canvas: &mut Canvas, run: &Record, (along, up): (&Scale, &Scale), paper: &Area) {
    let samples = process(run).map(|series| &series.samples);
    let peak = samples.and_then(|samples| samples.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
    let Some(peak) = peak else { return };
    let text = format::bytes(peak.1);
    let half = measure::bold_width(&text, SMALL) / 2.0;
    let (x, y) = (along.place(peak.0), up.place(peak.1));
    canvas.mark((x, y), crate::svg::Shape::Disc, 7.0, Ink::Series(0), false);
    let x = x.max(paper.left + half + 2.0).min(paper.right - half - 2.0);
    canvas.bold(&text, (x, y - 11.0), Anchor::Middle, SMALL, Ink::Label);
}

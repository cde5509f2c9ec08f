//! What the allocator holds and what tensors take of it, from step to step.

use record::Record;

use super::plot::{Drawing, Plot, by_group, entries};
use crate::{
    charts::{Axis, Chart, Entry, Key, Layer, Panel, Reading, extent, extremes},
    model::{Group, View},
    svg::{Dashes, ink::Ink},
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "held",
    title: "Reserved against allocated",
    about: "Of each cell the run that took the most, after each of its measured steps; of serving \
            over time, after each batch, with the requests that waited when it began. What lies \
            between the upper lines is held of the GPU and in no tensor; where it grows and tensors \
            do not, memory falls into pieces. On the CPU there are tensors alone. Cells in which \
            nothing changes by more than 1 % are left out.",
    answers: &["peak_reserved_bytes", "survived_allocations_count"],
    is_detail: true,
    draw,
};

const HEIGHT: f64 = 110.0;
const MOST_POINTS: usize = 300;
const CHANGE: f64 = 1.01;

struct Trace {
    series: &'static str,
    label: &'static str,
    ink: Ink,
    dashes: Dashes,
}

const RESERVED: Trace = Trace {
    series: "step_reserved_bytes",
    label: "reserved by the allocator",
    ink: Ink::Series(2),
    dashes: Dashes::None,
};
const ALLOCATED: Trace = Trace {
    series: "step_allocated_bytes",
    label: "allocated in tensors",
    ink: Ink::Series(3),
    dashes: Dashes::Dots,
};
const SPLIT: Trace = Trace {
    series: "step_inactive_split_bytes",
    label: "unused in split blocks",
    ink: Ink::Series(4),
    dashes: Dashes::Long,
};
const MEMORY: [Trace; 3] = [RESERVED, ALLOCATED, SPLIT];
const WAITING: Trace = Trace {
    series: "waiting_requests",
    label: "requests that wait",
    ink: Ink::Series(0),
    dashes: Dashes::None,
};

fn draw(view: &View) -> Drawing {
    let (mut legend, charts) = by_group(view, |group| {
        let cells = group.lanes().filter_map(|(row, cell)| {
            let run = chosen(view, cell)?;
            Some((view.name_in(&row.label, cell), run))
        });
        let panels = cells.flat_map(|(name, run)| panels(&name, run));
        let panels: Vec<Panel> = panels.collect();
        (!panels.is_empty()).then(|| Chart::panels(told(view, group), (2, HEIGHT), panels))
    });
    let runs = view.runs.iter().flatten();
    let keys = MEMORY.iter().chain([&WAITING]).zip(["―", "┈", "╌", "―"]);
    let keys = keys.filter(|(one, _)| runs.clone().any(|run| run.series.contains_key(one.series)));
    legend.extend(keys.map(|(trace, sign)| Key::of(trace.ink, sign, trace.label)));
    (legend, charts)
}

/// The values of a step each, by when it ended where that is known, else by its number.
fn points(run: &Record, trace: &Trace) -> Vec<(f64, f64)> {
    let of = |name: &str| run.series.get(name).map(Vec::as_slice);
    let times = of("done_seconds");
    let values = of(trace.series).unwrap_or_default().iter();
    let mut points: Vec<(f64, f64)> = (0_u32..)
        .zip(values)
        .filter_map(|(step, value)| {
            let at = match times {
                Some(times) => (*times.get(step as usize)?)?,
                None => step.into(),
            };
            Some((at, (*value)?))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn most(points: &[(f64, f64)]) -> Option<f64> {
    points.iter().map(|point| point.1).reduce(f64::max)
}

/// The run that took the most, where what it held changes.
fn chosen<'a>(view: &View<'a>, cell: usize) -> Option<&'a Record> {
    let of = |run: &Record| MEMORY.each_ref().map(|trace| points(run, trace));
    let peak = |run: &Record| {
        of(run)
            .iter()
            .filter_map(|all| most(all))
            .fold(0.0, f64::max)
    };
    let runs = view.good_runs(cell).into_iter();
    let run = runs.max_by(|one, other| peak(one).total_cmp(&peak(other)))?;
    let changes = |all: &Vec<(f64, f64)>| {
        let values: Vec<f64> = all.iter().map(|point| point.1).collect();
        let (least, most) = extent(&values);
        !values.is_empty() && most > CHANGE * least
    };
    of(run)[..2].iter().any(changes).then_some(run)
}

fn told(view: &View, group: &Group) -> Vec<Entry> {
    entries(view, group, |cell, entry| {
        let run = chosen(view, cell)?;
        let [reserved, allocated] = [&RESERVED, &ALLOCATED].map(|trace| points(run, trace));
        let bytes = |value: Option<f64>| value.map(format::bytes);
        let unused = reserved.iter().zip(&allocated);
        let unused = unused.map(|(reserved, allocated)| reserved.1 - allocated.1);
        let ends = [reserved.first(), reserved.last()];
        let [first, last] = ends.map(|point| bytes(point.map(|point| point.1)));
        let tensors = format::bytes(most(&allocated)?);
        let value = match (&first, &last) {
            (Some(first), Some(last)) => {
                format!("reserved {first} at first and {last} at last, tensors at most {tensors}")
            }
            _ => format!("tensors at most {tensors}"),
        };
        let waiting = most(&points(run, &WAITING));
        Some(Entry { value, ..entry }.numbers([
            ("reserved at first", first),
            ("at last", last),
            ("at most", bytes(most(&reserved))),
            ("tensors at most", Some(tensors)),
            ("unused at most", bytes(unused.reduce(f64::max))),
            ("waiting at most", waiting.map(|most| most.to_string())),
        ]))
    })
}

/// Memory, and of serving the requests that waited beside it.
fn panels(name: &str, run: &Record) -> Vec<Panel> {
    let panel = |traces: &[Trace], title: &str, quantity: Quantity| {
        let all = traces.iter().map(|trace| (trace, points(run, trace)));
        let all = all.filter(|(_, points)| !points.is_empty());
        let all: Vec<(&Trace, Vec<(f64, f64)>)> = all.collect();
        let ends = all.iter().filter_map(|(_, points)| points.last());
        let end = ends.map(|point| point.0).reduce(f64::max)?;
        let is_timed = run.series.contains_key("done_seconds");
        let (along, unit) = if is_timed {
            (Axis::linear("time", Quantity::Seconds, (0.0, end)), "s")
        } else {
            (Axis::linear("step", Quantity::Plain, (0.0, end)), "step")
        };
        let values = all.iter().flat_map(|(_, points)| points);
        let values: Vec<f64> = values.map(|point| point.1).collect();
        let layers = all.into_iter().map(|(trace, points)| {
            let points = extremes(&points, MOST_POINTS / 2);
            let line = Layer::line(Some(trace.label), points, (trace.ink, 1.6, trace.dashes));
            line.hinted(trace.label)
        });
        Some(Panel {
            title: name.to_owned(),
            reading: Some(Reading(name.to_owned(), unit)),
            ..Panel::of(
                along,
                Axis::from_zero(title, quantity, &values),
                layers.collect(),
            )
        })
    };
    let waiting = panel(&[WAITING], "requests that wait", Quantity::Plain);
    let memory = panel(&MEMORY, "memory", Quantity::Bytes);
    memory.into_iter().chain(waiting).collect()
}

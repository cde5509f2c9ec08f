//! What was seen from outside while a run went on: small traces over time.

use protocol::Phase;
use record::{Monitor, Record, Series};

use super::{Key, Legend, Picture, Plot, group_drawing};
use crate::{
    format::Quantity,
    model::{Group, View, time},
    svg::{
        Anchor, Canvas, DrawError, LEADING, SMALL, TEXT, axis,
        ink::Ink,
        measure,
        place::Area,
        rows::WIDTH,
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "monitor",
    title: "Seen from outside",
    about: "The run with the median throughput of each cell, sampled by the harness from outside: \
            not what the workload says of itself. The shaded stretch is about where steps were \
            measured. All pictures of one quantity in a scenario share a scale.",
    draw,
};

/// Traces side by side.
const COLUMNS: usize = 3;
const LABEL: f64 = 210.0;
const GUTTER: f64 = 18.0;
const PANEL: f64 = 62.0;
const GAP: f64 = 30.0;

struct Trace {
    title: &'static str,
    quantity: Quantity,
    read: fn(&Monitor) -> Option<&Series>,
    /// The scale ends here at least.
    at_least: f64,
}

/// In the order of preference: the first few that any run has are shown.
const TRACES: [Trace; 8] = [
    Trace {
        title: "GPU utilisation",
        quantity: Quantity::Percent,
        read: |monitor| monitor.card_utilization_percent.as_ref(),
        at_least: 100.0,
    },
    Trace {
        title: "GPU power",
        quantity: Quantity::Watts,
        read: |monitor| monitor.card_power_watts.as_ref(),
        at_least: 0.0,
    },
    Trace {
        title: "GPU memory",
        quantity: Quantity::Bytes,
        read: |monitor| monitor.card_process_bytes.as_ref().or(monitor.card_used_bytes.as_ref()),
        at_least: 0.0,
    },
    Trace {
        title: "Processor",
        quantity: Quantity::Cores,
        read: |monitor| monitor.processor_cores.as_ref(),
        at_least: 1.0,
    },
    Trace {
        title: "Host memory",
        quantity: Quantity::Bytes,
        read: |monitor| monitor.memory_bytes.as_ref(),
        at_least: 0.0,
    },
    Trace {
        title: "GPU clock",
        quantity: Quantity::Megahertz,
        read: |monitor| monitor.card_sm_clock_mhz.as_ref(),
        at_least: 0.0,
    },
    Trace {
        title: "GPU temperature",
        quantity: Quantity::Celsius,
        read: |monitor| monitor.card_temperature_celsius.as_ref(),
        at_least: 0.0,
    },
    Trace {
        title: "GPU memory clock",
        quantity: Quantity::Megahertz,
        read: |monitor| monitor.card_memory_clock_mhz.as_ref(),
        at_least: 0.0,
    },
];

struct Line<'a> {
    label: Vec<String>,
    run: &'a Record,
    top: f64,
    height: f64,
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    let mut drawings = Vec::new();
    for (index, group) in view.groups.iter().enumerate() {
        let lines = lines(view, group);
        let traces: Vec<&Trace> = TRACES
            .iter()
            .filter(|trace| lines.iter().any(|line| (trace.read)(&line.run.monitor).is_some()))
            .take(COLUMNS)
            .collect();
        if traces.is_empty() {
            continue;
        }
        let height = lines.last().map_or(0.0, |line| line.top + line.height) + 18.0;
        let description = describe(&lines, &traces);
        let size = (WIDTH, height);
        drawings.push(group_drawing(&PLOT, group, index, size, &description, |canvas| {
            draw_group(canvas, &lines, &traces);
        })?);
    }
    let keys = vec![Key::area(Ink::Grid, "about where steps were measured")];
    let legends = if drawings.is_empty() { Vec::new() } else { vec![Legend { title: "", keys }] };
    Ok(Picture { legends, drawings })
}

fn lines<'a>(view: &View<'a>, group: &Group) -> Vec<Line<'a>> {
    let several = view.contenders.len() > 1;
    let mut top = 24.0;
    let mut lines = Vec::new();
    for row in &group.rows {
        for &cell in &row.cells {
            let Some(run) = middle_run(view, cell) else { continue };
            let mut label = measure::wrap(&row.label, TEXT, LABEL);
            if several {
                let contender = &view.contenders[view.contender_of(cell)].label;
                label.extend(measure::wrap(contender, TEXT, LABEL));
            }
            let height = (label.len() as f64 * TEXT * LEADING).max(PANEL) + GAP;
            lines.push(Line { label, run, top, height });
            top += height;
        }
    }
    lines
}

/// The successful run with samples whose throughput is the median, or the lower of the middle two.
fn middle_run<'a>(view: &View<'a>, cell: usize) -> Option<&'a Record> {
    let throughput = |run: &&Record| {
        run.metrics.as_ref().map_or(0.0, |metrics| metrics.throughput_samples_per_second)
    };
    let mut runs: Vec<&'a Record> = view
        .good_runs(cell)
        .into_iter()
        .filter(|run| TRACES.iter().any(|trace| (trace.read)(&run.monitor).is_some()))
        .collect();
    runs.sort_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

fn draw_group(canvas: &mut Canvas, lines: &[Line], traces: &[&Trace]) {
    let left = LABEL + 16.0;
    let columns = traces.len().max(2) as f64;
    let width = (WIDTH - left - GUTTER * (columns - 1.0)) / columns;
    for (index, line) in lines.iter().enumerate() {
        if index % 2 == 0 {
            let band = Area {
                left: 0.0,
                top: line.top - 6.0,
                right: WIDTH,
                bottom: line.top + line.height - 8.0,
            };
            canvas.fill(band, Ink::Band);
        }
        let middle = line.top + (line.height - GAP) / 2.0;
        canvas.lines(&line.label, (4.0, middle), Anchor::Start, TEXT, Ink::Text);
    }
    for (trace, place) in traces.iter().zip(0_u32..) {
        let from = left + f64::from(place) * (width + GUTTER);
        let series = |line: &Line| (trace.read)(&line.run.monitor).cloned();
        let most = lines
            .iter()
            .filter_map(series)
            .map(|series| series.maximum)
            .fold(trace.at_least, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let unit = axis::unit_of(&Scale::linear((0.0, most), (0.0, 1.0)), trace.quantity);
        let title = axis::with_unit(trace.title, unit);
        canvas.bold(&title, (from, 9.0), Anchor::Start, SMALL, Ink::Text);
        for line in lines {
            let upright = Area { left: 0.0, top: line.top, right: 1.0, bottom: line.top + PANEL };
            let scale = Scale::linear((0.0, most), (upright.bottom, upright.top));
            let labels = axis::left_width(&scale, trace.quantity, &upright);
            let paper = Area { left: from + labels, right: from + width - 4.0, ..upright };
            let Some(series) = (trace.read)(&line.run.monitor) else {
                let at = paper.middle();
                canvas.text("not known", at, Anchor::Middle, SMALL, Ink::Muted);
                continue;
            };
            panel(canvas, line.run, trace, series, &scale, &paper);
        }
    }
}

fn panel(
    canvas: &mut Canvas,
    run: &Record,
    trace: &Trace,
    series: &Series,
    scale: &Scale,
    paper: &Area,
) {
    let last_sample = series.samples.last().map_or(0.0, |sample| sample.0);
    let end = run.wall_seconds.max(last_sample).max(1e-3);
    let along = Scale::linear((0.0, end), (paper.left, paper.right));
    if let Some((begin, finish)) = measured_stretch(run) {
        let stretch = Area { left: along.place(begin), right: along.place(finish), ..*paper };
        canvas.fill(stretch, Ink::Grid);
    }
    axis::left(canvas, paper, scale, trace.quantity);
    canvas.line(&[(paper.left, paper.bottom), (paper.right, paper.bottom)], Ink::Axis, 1.0);
    let y = paper.bottom + 9.0;
    canvas.text("0", (paper.left, y), Anchor::Middle, SMALL, Ink::Muted);
    let end_label = Quantity::Seconds.write(end);
    canvas.text(&end_label, (paper.right, y), Anchor::End, SMALL, Ink::Muted);
    let points: Vec<(f64, f64)> = series
        .samples
        .iter()
        .map(|sample| (along.place(sample.0), scale.place(sample.1)))
        .collect();
    let hint = format!(
        "{}, {}: {} to {}, mean {}",
        run.run,
        trace.title,
        trace.quantity.write(series.minimum),
        trace.quantity.write(series.maximum),
        trace.quantity.write(series.mean)
    );
    canvas.hinted(&hint, |canvas| match points[..] {
        [] => {}
        [point] => canvas.mark(point, crate::svg::Shape::Disc, 5.0, Ink::Series(0), false),
        _ => canvas.line(&points, Ink::Series(0), 1.5),
    });
}

/// From when to when steps were measured, in seconds since the run's start, by adding up what
/// went before.
fn measured_stretch(run: &Record) -> Option<(f64, f64)> {
    let measured = time::seconds(run, Phase::Measure);
    let before: f64 = run
        .phase_seconds
        .iter()
        .filter(|(phase, _)| **phase < Phase::Measure)
        .map(|(_, seconds)| seconds)
        .sum();
    let begin = run.harness.create_seconds + run.harness.start_seconds + before;
    (measured > 0.0).then_some((begin, begin + measured))
}

fn describe(lines: &[Line], traces: &[&Trace]) -> String {
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            let figures: Vec<String> = traces
                .iter()
                .filter_map(|trace| {
                    let series = (trace.read)(&line.run.monitor)?;
                    Some(format!(
                        "{} mean {}, at most {}",
                        trace.title,
                        trace.quantity.write(series.mean),
                        trace.quantity.write(series.maximum)
                    ))
                })
                .collect();
            format!("{}: {}.", line.label.join(" "), figures.join("; "))
        })
        .collect();
    told.join(" ")
}

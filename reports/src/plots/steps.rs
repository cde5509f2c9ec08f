//! Step times over the run: one small picture a variant, one line a run.

use metrics::catalogue;
use protocol::{Step, Task};
use record::Record;

use super::{Drawing, Picture, Plot, contender_legend, describe, drawings, values};
use crate::{
    format::{self, Quantity},
    measure,
    model::{Row, View},
    svg::{
        Anchor, Area, Canvas, Panel, Shape, Svg, TEXT, axis,
        ink::Ink,
        rows::WIDTH,
        scale::{self, Scale},
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "steps",
    title: "Step times over the run",
    about: "One line for each successful run, from its first measured step to its last. A slope \
            means warm-up that was too short or clocks that fall; a comb means something periodic. \
            Each picture has its own scale, logarithmic where one step took many times the others; \
            two strokes across the axis mark one that does not begin at 0.",
    answers: &["step_median_seconds", "step_p99_seconds"],
    is_detail: true,
    draw,
};

const COLUMNS: usize = 3;
const GUTTER: f64 = 22.0;
const TITLE: f64 = 36.0;
const PANEL: f64 = 112.0;
const UNDER: f64 = 30.0;
/// One greatest step beyond so many medians makes the scale logarithmic.
const FAR: f64 = 5.0;

/// A successful run with its contender.
type Run<'a> = (usize, &'a Record);

fn draw(view: &View) -> Picture {
    let drawings = drawings(view, |group| {
        let rows = group
            .rows
            .iter()
            .map(|row| (row.label.as_str(), runs(view, row)));
        let rows: Vec<(&str, Vec<Run>)> = rows.filter(|(_, runs)| !runs.is_empty()).collect();
        let description = describe(view, group, |cell| {
            let metrics = &view.report.cells[cell].metrics;
            let median = format::seconds(metrics.get(&catalogue::STEP_MEDIAN)?.median);
            let late = format::seconds(metrics.get(&catalogue::STEP_P99)?.median);
            Some(format!("median step {median}, 99 % below {late}"))
        });
        let heads = ["median", "p90", "p99"];
        let table = values(view, group, &heads, |cell| {
            let metrics = &view.report.cells[cell].metrics;
            let told = |metric| Some(format::seconds(metrics.median(metric)?).into());
            Some(vec![
                told(&catalogue::STEP_MEDIAN)?,
                told(&catalogue::STEP_P90)?,
                told(&catalogue::STEP_P99)?,
            ])
        });
        let is_idle = group.task == Task::Idle;
        (!rows.is_empty() && !is_idle).then(|| Drawing {
            table: Some(table),
            ..Drawing::of(view, group, description, |width| sheet(&rows, width))
        })
    });
    Picture {
        legend: contender_legend(view),
        drawings,
    }
}

fn sheet(rows: &[(&str, Vec<Run>)], width: f64) -> Svg {
    let columns = if width < WIDTH { 1 } else { COLUMNS };
    let height = TITLE + PANEL + UNDER;
    let mut canvas = Canvas::new(width, rows.len().div_ceil(columns) as f64 * height);
    let each = (width + GUTTER) / columns as f64;
    for (index, (label, runs)) in rows.iter().enumerate() {
        let left = (index % columns) as f64 * each;
        let top = (index / columns) as f64 * height;
        let (right, bottom) = (left + each - GUTTER, top + TITLE + PANEL);
        let area = Area::of((left, top), (right, bottom));
        panel(&mut canvas, label, runs, &area);
    }
    canvas.finish()
}

fn runs<'a>(view: &View<'a>, row: &Row) -> Vec<Run<'a>> {
    let cells = row.cells.iter();
    let runs = cells.flat_map(|&cell| {
        let contender = view.contender_of(cell);
        view.good_runs(cell)
            .into_iter()
            .map(move |run| (contender, run))
    });
    runs.filter(|(_, run)| !run.steps.is_empty()).collect()
}

fn panel(canvas: &mut Canvas, label: &str, runs: &[Run], area: &Area) {
    let steps = || runs.iter().flat_map(|(_, run)| &run.steps);
    let times: Vec<f64> = steps().map(|step| step.seconds).collect();
    let last = steps().map(|step| step.index).max().unwrap_or(0);
    let upright = Area {
        top: area.top + TITLE,
        ..*area
    };
    let scale = time_scale(&times, (upright.bottom - 3.0, upright.top + 3.0));
    let labels = axis::left_width(&scale, Quantity::Seconds, &upright);
    let paper = Area {
        left: area.left + labels,
        right: area.right - 6.0,
        ..upright
    };
    let along = Scale::linear((0.0, f64::from(last.max(1))), (paper.left, paper.right));
    let title = measure::shorten(label, TEXT, area.width() / 1.16);
    let at = (area.left, area.top + TEXT);
    canvas.hinted(label, |canvas| {
        canvas.bold(&title, at, Anchor::Start, TEXT, Ink::Text);
    });
    let unit = axis::unit_of(&scale, Quantity::Seconds);
    canvas.small(unit, (area.left, paper.top - 10.0), Anchor::Start);
    canvas.fill(paper, Ink::Band);
    axis::left(canvas, &paper, &scale, Quantity::Seconds);
    axis::mark_break(canvas, &paper, &scale);
    canvas.ticks(|canvas| step_axis(canvas, &paper, &along, last));
    let frame = Panel {
        name: label,
        paper,
        along: (&along, "step"),
        up: (&scale, Quantity::Seconds),
    };
    canvas.panel(&frame, |canvas| draw_runs(canvas, runs, &along, &scale));
}

fn draw_runs(canvas: &mut Canvas, runs: &[Run], along: &Scale, scale: &Scale) {
    let is_several = runs.iter().any(|(contender, _)| *contender != runs[0].0);
    for &(contender, run) in runs {
        let points = thin(&run.steps, along, scale);
        let hint = format!(
            "{}: {}",
            run.run,
            format::plural(run.steps.len(), "step", "steps")
        );
        let ink = Ink::series(contender);
        let line = |canvas: &mut Canvas| {
            if points.len() > 1 {
                canvas.line_through(&points, ink, 1.3, 0.75);
            }
            if let Some(end) = points.last()
                && (is_several || points.len() == 1)
            {
                canvas.mark(*end, Shape::of(contender), 6.0, ink, false);
            }
        };
        canvas.series(&run.run, |canvas| canvas.hinted(&hint, line));
    }
}

fn step_axis(canvas: &mut Canvas, paper: &Area, along: &Scale, last: u32) {
    axis::base(canvas, paper);
    let y = paper.bottom + 10.0;
    let mut write = |text: &str, x: f64, anchor| canvas.small(text, (x, y), anchor);
    write("0", along.place(0.0), Anchor::Start);
    write("step", paper.middle().0, Anchor::Middle);
    if last > 0 {
        write(
            &format::count(u64::from(last)),
            along.place(f64::from(last)),
            Anchor::End,
        );
    }
}

fn time_scale(times: &[f64], paper: (f64, f64)) -> Scale {
    let mut sorted: Vec<f64> = times
        .iter()
        .copied()
        .filter(|time| time.is_finite())
        .collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = scale::extent(&sorted);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    if low > 0.0 && high > middle * FAR {
        return Scale::logarithmic((low / 1.1, high * 1.1), paper);
    }
    // Never magnified so far that what counts as noise fills the picture.
    let least = 4.0 * catalogue::STEP_MEDIAN.threshold * middle;
    let room = ((high - low) * 0.08).max((least - (high - low)) / 2.0);
    Scale::linear(((low - room).max(0.0), high + room), paper)
}

/// The line of a run, thinned to at most two points in a pixel.
fn thin(steps: &[Step], along: &Scale, scale: &Scale) -> Vec<(f64, f64)> {
    let place = |step: &Step| {
        (
            along.place(f64::from(step.index)),
            scale.place(step.seconds),
        )
    };
    let points: Vec<(f64, f64)> = steps.iter().map(place).collect();
    scale::extremes(&points, 300)
}

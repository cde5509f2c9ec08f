//! Step times over the run: one small picture a variant, one line a run.

use metrics::catalogue;
use protocol::Step;

use super::{Picture, Plot, contender_legend, group_drawing, series};
use crate::{
    format::{self, Quantity},
    model::{Group, Row, View},
    svg::{
        Anchor, Canvas, DrawError, LEADING, SMALL, TEXT, axis,
        ink::Ink,
        measure,
        place::Area,
        rows::WIDTH,
        scale::{self, Scale},
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "steps",
    title: "Step times over the run",
    about: "One line for each successful run, from its first measured step to its last. A slope \
            means warm-up that was too short or clocks that fall; a comb means something periodic. \
            Each picture has its own scale, logarithmic where one step took many times the others.",
    draw,
};

const COLUMNS: usize = 3;
const GUTTER: f64 = 22.0;
const PANEL: f64 = 112.0;
/// One greatest step beyond so many medians makes the scale logarithmic.
const FAR: f64 = 5.0;

fn draw(view: &View) -> Result<Picture, DrawError> {
    let mut drawings = Vec::new();
    for (index, group) in view.groups.iter().enumerate() {
        let rows: Vec<&Row> = group.rows.iter().filter(|row| has_steps(view, row)).collect();
        if rows.is_empty() {
            continue;
        }
        let width = (WIDTH - GUTTER * (COLUMNS as f64 - 1.0)) / COLUMNS as f64;
        let titles: Vec<Vec<String>> = rows
            .iter()
            .map(|row| measure::wrap(&row.label, TEXT, width / 1.16))
            .collect();
        let bands: Vec<Band> = layout(&titles);
        let height = bands.last().map_or(0.0, |band| band.bottom);
        let description = describe(view, group, &rows);
        let size = (WIDTH, height);
        drawings.push(group_drawing(&PLOT, group, index, size, &description, |canvas| {
            for (place, (row, title)) in rows.iter().zip(&titles).enumerate() {
                let band = &bands[place / COLUMNS];
                let left = (place % COLUMNS) as f64 * (width + GUTTER);
                panel(canvas, view, row, title, left, width, band);
            }
        })?);
    }
    Ok(Picture { legends: contender_legend(view), drawings })
}

/// A row of panels.
struct Band {
    top: f64,
    title_height: f64,
    bottom: f64,
}

fn layout(titles: &[Vec<String>]) -> Vec<Band> {
    let mut top = 0.0;
    titles
        .chunks(COLUMNS)
        .map(|chunk| {
            let lines = chunk.iter().map(Vec::len).max().unwrap_or(1);
            let title_height = lines as f64 * TEXT * LEADING + 20.0;
            let band = Band { top, title_height, bottom: top + title_height + PANEL + 32.0 };
            top = band.bottom;
            band
        })
        .collect()
}

fn has_steps(view: &View, row: &Row) -> bool {
    let mut cells = row.cells.iter();
    cells.any(|cell| view.good_runs(*cell).iter().any(|run| !run.steps.is_empty()))
}

fn panel(
    canvas: &mut Canvas,
    view: &View,
    row: &Row,
    title: &[String],
    left: f64,
    width: f64,
    band: &Band,
) {
    let runs: Vec<(usize, &str, &[Step])> = row
        .cells
        .iter()
        .flat_map(|&cell| {
            let contender = view.contender_of(cell);
            let runs = view.good_runs(cell).into_iter();
            runs.map(move |run| (contender, run.run.as_str(), &run.steps[..]))
        })
        .filter(|(_, _, steps)| !steps.is_empty())
        .collect();
    let times: Vec<f64> = runs
        .iter()
        .flat_map(|(_, _, steps)| steps.iter().map(|step| step.seconds))
        .collect();
    let last = runs
        .iter()
        .filter_map(|(_, _, steps)| steps.last())
        .map(|step| step.index)
        .max()
        .unwrap_or(0);
    let upright = Area {
        left: 0.0,
        top: band.top + band.title_height,
        right: 1.0,
        bottom: band.top + band.title_height + PANEL,
    };
    let scale = time_scale(&times, (upright.bottom - 3.0, upright.top + 3.0));
    let labels = axis::left_width(&scale, Quantity::Seconds, &upright);
    let paper = Area { left: left + labels, right: left + width - 6.0, ..upright };
    let along = Scale::linear((0.0, f64::from(last.max(1))), (paper.left, paper.right));
    let first_line = band.top + TEXT * LEADING / 2.0 + 2.0;
    for (line, number) in title.iter().zip(0_u32..) {
        let y = first_line + f64::from(number) * TEXT * LEADING;
        canvas.bold(line, (left, y), Anchor::Start, TEXT, Ink::Text);
    }
    let unit = axis::unit_of(&scale, Quantity::Seconds);
    canvas.text(unit, (left, paper.top - 10.0), Anchor::Start, SMALL, Ink::Muted);
    canvas.fill(paper, Ink::Band);
    axis::left(canvas, &paper, &scale, Quantity::Seconds);
    step_axis(canvas, &paper, &along, last);
    for (contender, name, steps) in runs {
        let points = thin(steps, &along, &scale);
        let hint = format!("{name}: {}", format::plural(steps.len(), "step", "steps"));
        canvas.hinted(&hint, |canvas| match points[..] {
            [point] => canvas.mark(point, crate::svg::Shape::of(contender), 6.0, series(contender), false),
            _ => canvas.line_through(&points, series(contender), 1.3, 0.75),
        });
    }
}

fn step_axis(canvas: &mut Canvas, paper: &Area, along: &Scale, last: u32) {
    canvas.line(&[(paper.left, paper.bottom), (paper.right, paper.bottom)], Ink::Axis, 1.0);
    let mut ends = vec![0];
    if last > 0 {
        ends.push(last);
    }
    for end in ends {
        let anchor = if end == 0 { Anchor::Start } else { Anchor::End };
        let at = (along.place(f64::from(end)), paper.bottom + 10.0);
        canvas.text(&format::count(u64::from(end)), at, anchor, SMALL, Ink::Muted);
    }
    canvas.text("step", (paper.middle().0, paper.bottom + 10.0), Anchor::Middle, SMALL, Ink::Muted);
}

fn time_scale(times: &[f64], paper: (f64, f64)) -> Scale {
    let mut sorted: Vec<f64> = times.iter().copied().filter(|time| time.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = scale::extent(&sorted);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    if low > 0.0 && high > middle * FAR {
        return Scale::logarithmic((low / 1.1, high * 1.1), paper);
    }
    // Never magnified so far that a tenth of a percent looks like a cliff.
    let room = ((high - low) * 0.08).max(middle * 0.01);
    Scale::linear(((low - room).max(0.0), high + room), paper)
}

/// The line of a run with at most two points in a pixel: the least and the greatest.
fn thin(steps: &[Step], along: &Scale, scale: &Scale) -> Vec<(f64, f64)> {
    const MOST: usize = 300;
    let place = |step: &Step| (along.place(f64::from(step.index)), scale.place(step.seconds));
    if steps.len() <= MOST * 2 {
        return steps.iter().map(place).collect();
    }
    let stretch = steps.len().div_ceil(MOST);
    steps
        .chunks(stretch)
        .flat_map(|chunk| {
            let by_time = |a: &&Step, b: &&Step| a.seconds.total_cmp(&b.seconds);
            let mut ends: Vec<&Step> =
                [chunk.iter().min_by(by_time), chunk.iter().max_by(by_time)]
                    .into_iter()
                    .flatten()
                    .collect();
            ends.sort_by_key(|step| step.index);
            ends.into_iter().map(place).collect::<Vec<_>>()
        })
        .collect()
}

fn describe(view: &View, group: &Group, rows: &[&Row]) -> String {
    let lines = rows.iter().flat_map(|row| {
        row.cells.iter().filter_map(|&cell| {
            let metrics = &view.report.cells[cell].metrics;
            let (middle, late) = (metrics.get(&catalogue::STEP_MEDIAN)?, metrics.get(&catalogue::STEP_P99)?);
            Some(format!(
                "{} in {}: median step {}, 99 % below {}.",
                row.label,
                view.contenders[view.contender_of(cell)].label,
                format::seconds(middle.median),
                format::seconds(late.median)
            ))
        })
    });
    format!("{}. {}", group.scenario, lines.collect::<Vec<_>>().join(" "))
}

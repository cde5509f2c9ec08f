//! How the times of the steps of a cell are distributed: the share of steps below each time.

use judge::median;
use protocol::Task;

use super::{Drawing, Picture, Plot, contender_legend, describe, drawings, values};
use crate::{
    document::Table,
    format::{self, Quantity},
    measure,
    model::{Group, View},
    svg::{
        Anchor, Area, Canvas, SMALL, Shape, Svg, TEXT, axis,
        ink::Ink,
        rows::{NARROW, WIDTH},
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "distribution",
    title: "Distribution of step times",
    about: "The share of a cell's measured steps, of all its runs together, that took no longer \
            than so many times their median. A steep line is a steady cell; a stair has two modes; \
            a long tail to the right has outliers. The shaded band is the noise threshold of the \
            median step. An arrow points to steps beyond the scale.",
    answers: &["step_median_seconds", "step_p99_seconds"],
    is_detail: false,
    draw,
};

const PANEL: f64 = 92.0;
const TITLE: f64 = 24.0;
const UNDER: f64 = 34.0;
const GUTTER: f64 = 24.0;
/// Heights at which lines are marked, by their contender.
const MARKS: usize = 4;
/// Points of one line.
const POINTS: usize = 40;
/// Panels of one scenario; the table has all cells.
const PANELS: usize = 24;
/// The scale reaches at least so many noise thresholds to either side.
const LEAST_THRESHOLDS: f64 = 5.0;

/// Of one cell: its contender, and its steps' times over their median, in order.
type Line = (usize, Vec<f64>);

fn draw(view: &View) -> Picture {
    let drawings = drawings(view, |group| {
        let rows: Vec<(String, Vec<Line>)> = group
            .rows
            .iter()
            .map(|row| {
                let cells = row.cells.iter();
                let lines =
                    cells.filter_map(|&cell| Some((view.contender_of(cell), line(view, cell)?)));
                (row.label.clone(), lines.collect())
            })
            .filter(|(_, lines): &(String, Vec<Line>)| !lines.is_empty())
            .take(if view.is_large() { PANELS / 4 } else { PANELS })
            .collect();
        if rows.is_empty() || group.task == Task::Idle {
            return None;
        }
        let description = describe(view, group, |cell| {
            let times = times(view, cell);
            let of = |share| Some(format::seconds(quantile(&times, share)?));
            Some(format!(
                "half of the steps below {}, 99 % below {}",
                of(0.5)?,
                of(0.99)?
            ))
        });
        Some(Drawing {
            heading: group.scenario.clone(),
            subtitle: group.subtitle(),
            remark: None,
            note: None,
            description,
            svg: sheet(&rows, WIDTH, 3),
            narrow: (!view.is_large()).then(|| sheet(&rows, NARROW, 1)),
            table: Some(table(view, group)),
            open: false,
        })
    });
    Picture {
        legend: contender_legend(view),
        drawings,
    }
}

/// The times of all measured steps of a cell, in order.
fn times(view: &View, cell: usize) -> Vec<f64> {
    let runs = view.good_runs(cell).into_iter();
    let mut times: Vec<f64> = runs
        .flat_map(|run| run.steps.iter().map(|step| step.seconds))
        .filter(|time| time.is_finite())
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn line(view: &View, cell: usize) -> Option<Vec<f64>> {
    let times = times(view, cell);
    let middle = median(times.iter().copied()).filter(|middle| *middle > 0.0)?;
    (times.len() > 1).then(|| times.iter().map(|time| time / middle).collect())
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in the list, from 0 to its last index"
    )]
    let place = (share * sorted.len().checked_sub(1)? as f64).round() as usize;
    sorted.get(place).copied()
}

fn table(view: &View, group: &Group) -> Table {
    let heads = ["steps", "least", "p10", "p50", "p90", "p99", "greatest"];
    values(view, group, &heads, |cell| {
        let times = times(view, cell);
        let at = |share: f64| Some(format::seconds(quantile(&times, share)?).into());
        let mut entries = vec![times.len().to_string().into()];
        for share in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
            entries.push(at(share)?);
        }
        Some(entries)
    })
}

fn sheet(rows: &[(String, Vec<Line>)], width: f64, most: usize) -> Svg {
    let columns = rows.len().clamp(1, most);
    let height = TITLE + PANEL + UNDER;
    let mut canvas = Canvas::new(width, rows.len().div_ceil(columns) as f64 * height);
    let each = (width + GUTTER) / most as f64;
    let (low, high) = range(rows);
    for (index, (label, lines)) in rows.iter().enumerate() {
        let left = (index % columns) as f64 * each;
        let top = (index / columns) as f64 * height;
        let paper = Area::of(
            (left + 42.0, top + TITLE),
            (left + each - GUTTER - 8.0, top + TITLE + PANEL),
        );
        let title = measure::shorten(label, TEXT, (each - GUTTER) / 1.16);
        canvas.hinted(label, |canvas| {
            canvas.bold(&title, (left, top + 9.0), Anchor::Start, TEXT, Ink::Text);
        });
        panel(&mut canvas, &paper, lines, (low, high));
    }
    canvas.finish()
}

/// One range for all panels of a scenario: nearly all steps, and more than what counts as none.
fn range(rows: &[(String, Vec<Line>)]) -> (f64, f64) {
    let threshold = metrics::catalogue::STEP_MEDIAN.threshold * LEAST_THRESHOLDS;
    let lines = || rows.iter().flat_map(|(_, lines)| lines);
    let ends = |share| lines().filter_map(move |(_, line)| quantile(line, share));
    let low = ends(0.005).fold(1.0 - threshold, f64::min);
    let high = ends(0.995).fold(1.0 + threshold, f64::max);
    (low.max(0.0), high.min(4.0))
}

fn panel(canvas: &mut Canvas, paper: &Area, lines: &[Line], (low, high): (f64, f64)) {
    let room = (high - low) * 0.03;
    let along = Scale::linear((low - room, high + room), (paper.left, paper.right));
    let up = Scale::linear((0.0, 100.0), (paper.bottom, paper.top));
    canvas.fill(*paper, Ink::Band);
    let threshold = metrics::catalogue::STEP_MEDIAN.threshold;
    let band = Area {
        left: along.place(1.0 / (1.0 + threshold)),
        right: along.place(1.0 + threshold),
        ..*paper
    };
    canvas.fill(band, Ink::Grid);
    for share in [0.0, 50.0, 100.0] {
        let y = up.place(share);
        canvas.level((paper.left, paper.right), y, Ink::Grid, 1.0);
        canvas.small(&format!("{share:.0} %"), (paper.left - 4.0, y), Anchor::End);
    }
    axis::lower(
        canvas,
        paper,
        &along,
        Quantity::Plain,
        "Step time over its median",
    );
    for (contender, times) in lines {
        let ink = Ink::series(*contender);
        let last = times.len() - 1;
        let step = last.div_ceil(POINTS).max(1);
        let places = (0..times.len()).filter(|place| place % step == 0 || *place == last);
        let points: Vec<(f64, f64)> = places
            .map(|place| {
                let share = (place + 1) as f64 / times.len() as f64;
                (along.place(times[place]), up.place(share * 100.0))
            })
            .collect();
        canvas.line(&points, ink, 1.6);
        if lines.len() > 1 {
            // All lines meet at their median, so that each has its mark at another height.
            let place = (points.len() - 1) * (contender % MARKS + 1) / (MARKS + 1);
            canvas.mark(points[place], Shape::of(*contender), 7.0, ink, false);
        }
        if times[last] > high + room {
            canvas.beyond((paper.right, paper.top), true, ink);
            let most = format!("{} ×", format::significant(times[last], 3));
            let at = (paper.right, paper.top - 7.0);
            if lines.len() == 1 {
                canvas.text(&most, at, Anchor::End, SMALL, Ink::Muted);
            }
        }
    }
}

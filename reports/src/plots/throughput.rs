//! Throughput with its spread: how fast on the left, how steady on the right.

use metrics::catalogue;

use super::{Drawing, Picture, Plot, contender_legend, describe, drawings, values as values_of};
use crate::{
    comparison,
    document::{Cell, Table, known},
    format::{self, Quantity},
    measure,
    model::{Group, Row, Spread, View},
    svg::{
        Anchor, Area, Canvas, Shape, TEXT, axis,
        ink::Ink,
        rows::{Lane, Rows, WIDTH},
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "throughput",
    title: "Throughput",
    about: "Left: samples per second, the bar up to the median of the runs, with their range where \
            it can be seen. Right: every run as its deviation from that median (with several images \
            or sessions, from the first one's), magnified, on one scale for the whole report. The \
            shaded band is the noise threshold: a difference within it counts as none. The stroke \
            is the median; an arrow points to a run beyond the scale.",
    answers: &["throughput_samples_per_second"],
    is_detail: false,
    draw,
};

/// Width of the runs' deviations, and between them and the medians; on narrow paper less.
const SPREAD: (f64, f64) = (250.0, 26.0);
const NARROW_SPREAD: (f64, f64) = (112.0, 14.0);
const TOP: f64 = 4.0;
/// The scale of deviations goes at least so many noise thresholds far, so that what counts as
/// none does not fill it.
const LEAST_THRESHOLDS: f64 = 4.0;

fn draw(view: &View) -> Picture {
    let reach = reach(view);
    let drawings = drawings(view, |group| {
        group.cells().find_map(|cell| spread(view, cell))?;
        let description = describe(view, group, |cell| {
            let metric = spread(view, cell);
            let metric = metric.map(|spread| Quantity::Throughput.write(spread.median));
            Some(metric.unwrap_or_else(|| view.why_nothing(cell)))
        });
        Some(Drawing {
            table: Some(table(view, group)),
            ..Drawing::of(view, group, description, |width| {
                let rows = Rows::of(view, group, TOP, width);
                let mut canvas = Canvas::new(width, rows.bottom + axis::LOWER);
                draw_group(&mut canvas, view, group, &rows, reach);
                canvas.finish()
            })
        })
    });
    Picture {
        legend: contender_legend(view),
        drawings,
    }
}

/// Medians with their range, and each cell against the first one, as the judge says it.
fn table(view: &View, group: &Group) -> Table {
    let first = group.cells().next();
    let heads = [
        "median",
        "least",
        "greatest",
        "CV",
        "against the first",
        "95 % interval",
        "verdict",
    ];
    values_of(view, group, &heads, |cell| {
        let spread = spread(view, cell)?;
        let write = |value: f64| Cell::from(Quantity::Throughput.write(value));
        let against = first.filter(|first| *first != cell);
        let found =
            against.and_then(|first| view.standings.between(first, cell, &catalogue::THROUGHPUT));
        let ratio = found.and_then(|found| found.ratio);
        let ratio = ratio.map(|ratio| format!("× {}", format::significant(ratio, 4)));
        let interval = found.and_then(|found| found.interval);
        let interval = interval.map(|ends| format::interval(ends.lo, ends.hi));
        let verdict = found.map_or_else(Cell::default, |found| {
            Cell::from(found.verdict.to_string()).marked(found.verdict.into())
        });
        Some(vec![
            write(spread.median),
            write(spread.minimum),
            write(spread.maximum),
            known(spread.coefficient_of_variation.map(format::share)),
            known(ratio),
            known(interval),
            verdict,
        ])
    })
}

fn spread(view: &View, cell: usize) -> Option<Spread> {
    view.report.cells[cell].metrics.get(&catalogue::THROUGHPUT)
}

fn values<'a>(view: &View<'a>, cell: usize) -> Vec<(&'a str, f64)> {
    let runs = view.good_runs(cell).into_iter();
    let values = runs.filter_map(|run| Some((run.run.as_str(), catalogue::THROUGHPUT.of(run)?)));
    values.filter(|(_, value)| value.is_finite()).collect()
}

fn deviation(value: f64, median: f64) -> f64 {
    if median == 0.0 {
        0.0
    } else {
        (value / median - 1.0) * 100.0
    }
}

/// What the runs of a lane are held against: the first contender's median where there are
/// several, the cell's own elsewhere.
fn reference(view: &View, row: &Row, cell: usize) -> Option<f64> {
    let own = spread(view, cell)?.median;
    let first = row
        .cells
        .first()
        .filter(|first| view.contender_of(**first) == 0);
    let first = first.and_then(|first| spread(view, *first));
    Some(first.map_or(own, |spread| spread.median))
}

/// How far the scale of deviations goes: as far as any run, unless a few runs are far beyond
/// most others.
fn reach(view: &View) -> f64 {
    let mut deviations: Vec<f64> = view
        .groups
        .iter()
        .flat_map(Group::lanes)
        .filter_map(|(row, cell)| Some((cell, reference(view, row, cell)?)))
        .flat_map(|(cell, reference)| {
            let values = values(view, cell);
            values
                .into_iter()
                .map(move |(_, value)| deviation(value, reference).abs())
        })
        .collect();
    deviations.sort_by(f64::total_cmp);
    let least = LEAST_THRESHOLDS * 100.0 * catalogue::THROUGHPUT.threshold;
    let Some(&most) = deviations.last() else {
        return least;
    };
    let usual = deviations[(deviations.len() - 1) * 9 / 10];
    most.min(usual * 3.0).max(least) * 1.08
}

fn draw_group(canvas: &mut Canvas, view: &View, group: &Group, rows: &Rows, reach: f64) {
    let is_narrow = rows.width < WIDTH;
    let (spread_width, gap) = if is_narrow { NARROW_SPREAD } else { SPREAD };
    let metrics: Vec<(&Lane, Spread)> = rows
        .lanes()
        .filter_map(|lane| Some((lane, spread(view, lane.cell)?)))
        .collect();
    let metric_width = metrics
        .iter()
        .map(|(_, spread)| measure::bold_width(&format::significant(spread.median, 4), TEXT))
        .fold(30.0, f64::max);
    let bars = Area::of(
        (rows.left, rows.top),
        (
            rows.width - spread_width - gap - metric_width - 24.0,
            rows.bottom,
        ),
    );
    let noise = Area {
        left: rows.width - spread_width - 8.0,
        right: rows.width - 8.0,
        ..bars
    };
    let most = metrics
        .iter()
        .map(|(_, spread)| spread.maximum)
        .fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let speed = Scale::linear((0.0, most), (bars.left, bars.right));
    let deviations = Scale::linear((-reach, reach), (noise.left, noise.right));
    rows.draw(canvas);
    axis::lower(canvas, &bars, &speed, Quantity::Throughput, "Throughput");
    let title = match (view.has_several(), is_narrow) {
        (true, false) => "Each run against the first one's median",
        (true, true) => "From the first",
        (false, false) => "Deviation of each run from the median",
        (false, true) => "From the median",
    };
    axis::lower(canvas, &noise, &deviations, Quantity::Percent, title);
    let threshold = 100.0 * catalogue::THROUGHPUT.threshold;
    let band = Area {
        left: deviations.place(-threshold),
        right: deviations.place(threshold),
        ..noise
    };
    canvas.fill_through(band, Ink::Axis, 0.25);
    let zero = deviations.place(0.0);
    canvas.upright(zero, (noise.top, noise.bottom), Ink::Axis, 1.0);
    for ((row, _), lane) in group.lanes().zip(rows.lanes()) {
        let (Some(spread), Some(reference)) =
            (spread(view, lane.cell), reference(view, row, lane.cell))
        else {
            rows.remark(canvas, lane, &view.why_nothing(lane.cell));
            continue;
        };
        let ink = Ink::series(lane.contender);
        let label = comparison::spelled(&view.report.cells[lane.cell].cell);
        canvas.hinted(&hint(&label, &spread), |canvas| {
            let end = speed.place(spread.median);
            let bar = Area::of((bars.left, lane.y - 6.0), (end, lane.y + 6.0));
            canvas.fill(bar, ink);
            let metric = format::significant(spread.median, 4);
            let at = (bars.right + 12.0 + metric_width, lane.y);
            canvas.bold(&metric, at, Anchor::End, TEXT, Ink::Text);
        });
        range(
            canvas,
            (speed.place(spread.minimum), speed.place(spread.maximum)),
            lane.y,
        );
        let values = values(view, lane.cell);
        runs(
            canvas,
            lane,
            &values,
            &spread,
            reference,
            (&deviations, reach),
        );
    }
}

/// The runs of a lane as deviations, over the line of their range and a stroke at their median.
fn runs(
    canvas: &mut Canvas,
    lane: &Lane,
    values: &[(&str, f64)],
    spread: &Spread,
    reference: f64,
    (deviations, reach): (&Scale, f64),
) {
    let place = |value: f64| deviations.place(deviation(value, reference));
    let ends = [place(spread.minimum), place(spread.maximum)];
    canvas.line(&ends.map(|x| (x, lane.y)), Ink::Axis, 2.0);
    for (run, value) in values {
        let off = deviation(*value, reference);
        let hint = format!("{run}: {}, {off:+.2} %", Quantity::Throughput.write(*value));
        canvas.hinted(&hint, |canvas| {
            let at = (place(*value), lane.y);
            let ink = Ink::series(lane.contender);
            if off.abs() > reach {
                canvas.beyond(at, off > 0.0, ink);
            } else {
                canvas.mark(at, Shape::of(lane.contender), 7.0, ink, false);
            }
        });
    }
    if values.len() > 1 {
        let middle = place(spread.median);
        canvas.upright(middle, (lane.y - 7.0, lane.y + 7.0), Ink::Text, 1.4);
    }
}

/// From the least to the greatest run, with ends; nothing where the two fall on one spot.
fn range(canvas: &mut Canvas, (low, high): (f64, f64), y: f64) {
    const VISIBLE: f64 = 5.0;
    if high - low < VISIBLE {
        return;
    }
    canvas.level((low, high), y, Ink::Text, 1.2);
    for end in [low, high] {
        canvas.upright(end, (y - 4.0, y + 4.0), Ink::Text, 1.2);
    }
}

fn hint(cell: &str, spread: &Spread) -> String {
    let variation = spread
        .coefficient_of_variation
        .map_or_else(|| "unknown".to_owned(), format::share);
    format!(
        "{cell}: median {}, from {} to {} in {}, coefficient of variation {variation}",
        Quantity::Throughput.write(spread.median),
        format::significant(spread.minimum, 4),
        format::significant(spread.maximum, 4),
        format::plural(spread.n, "run", "runs"),
    )
}

//! Memory against throughput, with the front of those that nothing beats in both.

use metrics::catalogue;
use super::{Drawing, Picture, Plot, Table, contender_legend, group_drawing, series};
use crate::{
    format::{self, Quantity},
    model::{Footprint, Group, View},
    svg::{
        Anchor, Canvas, DrawError, SMALL, Shape, TEXT, axis,
        ink::Ink,
        measure,
        place::{self, Area, Wish},
        rows::WIDTH,
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "pareto",
    title: "Memory against throughput",
    about: "Upper left is better. The line joins the cells that no other beats in both; filled \
            marks are on it, hollow ones are not. Shown for scenarios with at least two measured \
            cells.",
    draw,
};

const HEIGHT: f64 = 360.0;
const MARK: f64 = 10.0;
/// From this ratio of greatest to least on, an axis is logarithmic.
const FAR: f64 = 30.0;
/// Labels farther from their point than this would need a guess; numbers take over.
const REACH: f64 = 30.0;

#[derive(Debug)]
struct Point {
    cell: usize,
    contender: usize,
    /// The variant's number in its scenario, from 1.
    number: usize,
    label: String,
    bytes: f64,
    throughput: f64,
    on_front: bool,
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    let mut drawings = Vec::new();
    for (index, group) in view.groups.iter().enumerate() {
        let footprint = group.footprint(view);
        let points = points(view, group, &footprint);
        if points.len() >= 2 {
            drawings.push(drawing(view, group, index, &footprint, &points)?);
        }
    }
    Ok(Picture { legends: contender_legend(view), drawings })
}

fn points(view: &View, group: &Group, footprint: &Footprint) -> Vec<Point> {
    let mut points = Vec::new();
    for (row, number) in group.rows.iter().zip(1..) {
        for &cell in &row.cells {
            let summary = &view.report.cells[cell];
            let throughput = summary.metrics.get(&catalogue::THROUGHPUT);
            if let (Some(bytes), Some(throughput)) = (footprint.of(summary), throughput) {
                points.push(Point {
                    cell,
                    contender: view.contender_of(cell),
                    number,
                    label: row.label.clone(),
                    bytes,
                    throughput: throughput.median,
                    on_front: false,
                });
            }
        }
    }
    let beaten = |a: &Point, b: &Point| {
        b.bytes <= a.bytes
            && b.throughput >= a.throughput
            && (b.bytes < a.bytes || b.throughput > a.throughput)
    };
    let front: Vec<bool> = points
        .iter()
        .map(|point| !points.iter().any(|other| beaten(point, other)))
        .collect();
    for (point, on_front) in points.iter_mut().zip(front) {
        point.on_front = on_front;
    }
    points
}

fn drawing(
    view: &View,
    group: &Group,
    index: usize,
    footprint: &Footprint,
    points: &[Point],
) -> Result<Drawing, DrawError> {
    let bytes: Vec<f64> = points.iter().map(|point| point.bytes).collect();
    let speeds: Vec<f64> = points.iter().map(|point| point.throughput).collect();
    // The widths of the labels on the left need a scale, and the scale needs nothing of them.
    let upright = Area { left: 0.0, top: 26.0, right: 1.0, bottom: HEIGHT - axis::LOWER };
    let speed = Scale::fitting(&speeds, (upright.bottom, upright.top), FAR);
    let left = axis::left_width(&speed, Quantity::Throughput, &upright).max(40.0);
    let paper = Area { left, right: WIDTH - 8.0, ..upright };
    let memory = Scale::fitting(&bytes, (paper.left, paper.right), FAR);
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (memory.place(point.bytes), speed.place(point.throughput)))
        .collect();
    let front = front(points, &places);
    let (labels, areas) = labels(points, &places, &paper, &front);
    let numbered = labels.iter().zip(points).any(|(label, point)| *label != point.label);
    let description = describe(view, points, footprint);
    let size = (WIDTH, HEIGHT);
    let mut drawing = group_drawing(&PLOT, group, index, size, &description, |canvas| {
        canvas.fill(paper, Ink::Band);
        axis::left(canvas, &paper, &speed, Quantity::Throughput);
        axis::lower(canvas, &paper, &memory, Quantity::Bytes, footprint.title);
        canvas.text("Throughput (samples/s)", (4.0, 10.0), Anchor::Start, SMALL, Ink::Muted);
        if front.len() > 1 {
            canvas.line(&front, Ink::Rule, 1.6);
        }
        marks(canvas, view, points, &places, footprint);
        for ((label, area), &(x, y)) in labels.iter().zip(&areas).zip(&places) {
            leader(canvas, area, (x, y));
            let at = (area.left + 2.0, area.middle().1);
            canvas.text(label, at, Anchor::Start, size_of(numbered), Ink::Label);
        }
    })?;
    if numbered {
        drawing.table = Some(table(view, points, footprint));
    }
    Ok(drawing)
}

fn size_of(numbered: bool) -> f64 {
    if numbered { TEXT } else { SMALL }
}

/// Full labels where all of them find a place near their points; numbers otherwise.
fn labels(
    points: &[Point],
    places: &[(f64, f64)],
    paper: &Area,
    front: &[(f64, f64)],
) -> (Vec<String>, Vec<Area>) {
    let wishes = |labels: &[String], size: f64| -> Vec<Wish> {
        labels
            .iter()
            .zip(places)
            .map(|(label, &point)| Wish {
                point,
                size: (measure::width(label, size) + 4.0, size * 1.25),
            })
            .collect()
    };
    let line: Vec<Area> = front.windows(2).map(|pair| beside(pair[0], pair[1])).collect();
    let full: Vec<String> = points.iter().map(|point| point.label.clone()).collect();
    if let Some(areas) = place::place(&wishes(&full, SMALL), paper, &line, MARK, REACH) {
        return (full, areas);
    }
    let numbers: Vec<String> = points.iter().map(|point| point.number.to_string()).collect();
    let wishes = wishes(&numbers, TEXT);
    let areas = place::place(&wishes, paper, &line, MARK, WIDTH)
        .or_else(|| place::place(&wishes, paper, &[], MARK, WIDTH))
        .unwrap_or_else(|| {
            // Hundreds of points on one spot: the table still tells them apart.
            let at_point = |wish: &Wish| Area::around(wish.point, wish.size.0, wish.size.1);
            wishes.iter().map(at_point).collect()
        });
    (numbers, areas)
}

/// What an upright or level stretch of line takes, with a little air.
fn beside(from: (f64, f64), to: (f64, f64)) -> Area {
    const AIR: f64 = 2.0;
    Area {
        left: from.0.min(to.0) - AIR,
        top: from.1.min(to.1) - AIR,
        right: from.0.max(to.0) + AIR,
        bottom: from.1.max(to.1) + AIR,
    }
}

/// The line through the front, in steps: between two cells of it, nothing better than the lower
/// one was measured.
fn front(points: &[Point], places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = points
        .iter()
        .zip(places)
        .filter(|(point, _)| point.on_front)
        .map(|(_, place)| *place)
        .collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut steps = Vec::new();
    for &(x, y) in &line {
        if let Some(&(_, before)) = steps.last() {
            steps.push((x, before));
        }
        steps.push((x, y));
    }
    steps
}

fn marks(
    canvas: &mut Canvas,
    view: &View,
    points: &[Point],
    places: &[(f64, f64)],
    footprint: &Footprint,
) {
    for (point, &place) in points.iter().zip(places) {
        let hint = format!(
            "{} in {}: {}, {} {}",
            view.report.cells[point.cell].cell,
            view.contenders[point.contender].label,
            Quantity::Throughput.write(point.throughput),
            format::bytes(point.bytes),
            footprint.word,
        );
        let shape = Shape::of(point.contender);
        canvas.hinted(&hint, |canvas| {
            canvas.mark(place, shape, MARK, series(point.contender), !point.on_front);
        });
    }
}

/// A thin line from a label to its point, where it does not stand right beside it.
fn leader(canvas: &mut Canvas, area: &Area, (x, y): (f64, f64)) {
    let near = (x.clamp(area.left, area.right), y.clamp(area.top, area.bottom));
    let (dx, dy) = (near.0 - x, near.1 - y);
    let distance = dx.hypot(dy);
    if distance > MARK {
        let start = MARK / 2.0 / distance;
        canvas.line(&[(x + dx * start, y + dy * start), near], Ink::Axis, 0.8);
    }
}

fn table(view: &View, points: &[Point], footprint: &Footprint) -> Table {
    let several = view.contenders.len() > 1;
    let mut heads = vec!["No.", "Variant"];
    if several {
        heads.push(view.contender_head());
    }
    heads.extend([footprint.title, "Throughput", "On the front"]);
    let rows = points
        .iter()
        .map(|point| {
            let mut row = vec![point.number.to_string(), point.label.clone()];
            if several {
                row.push(view.contenders[point.contender].label.clone());
            }
            row.extend([
                format::bytes(point.bytes),
                Quantity::Throughput.write(point.throughput),
                if point.on_front { "yes" } else { "no" }.to_owned(),
            ]);
            row
        })
        .collect();
    Table {
        caption: "The numbers in the picture".to_owned(),
        heads: heads.into_iter().map(str::to_owned).collect(),
        rows,
        names: if several { 3 } else { 2 },
        open: true,
    }
}

fn describe(view: &View, points: &[Point], footprint: &Footprint) -> String {
    let best: Vec<_> = points
        .iter()
        .filter(|point| point.on_front)
        .map(|point| {
            format!(
                "{} in {} with {} and {} {}",
                point.label,
                view.contenders[point.contender].label,
                Quantity::Throughput.write(point.throughput),
                format::bytes(point.bytes),
                footprint.word
            )
        })
        .collect();
    format!("{} cells; on the front: {}.", points.len(), best.join("; "))
}

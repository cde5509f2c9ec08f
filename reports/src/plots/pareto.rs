//! Memory against throughput, and which cells others beat in both.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use metrics::catalogue;

use super::{Drawing, Picture, Plot, contender_legend, drawings, values};
use crate::{
    document::Table,
    format::{self, Quantity},
    measure,
    model::{Footprint, Group, Spread, View},
    svg::{Anchor, Area, Canvas, Shape, Svg, TEXT, axis, ink::Ink, scale::Scale},
};

pub(super) const PLOT: Plot = Plot {
    id: "pareto",
    title: "Memory against throughput",
    about: "Upper left is better. A mark stands at the medians, its strokes reach from the least to \
            the greatest run. A hollow mark is beaten: another cell is shown to be faster and takes \
            no more, or takes less and is no slower; a difference within the noise threshold beats \
            nobody. The numbers are those of the table. Shown for scenarios with at least two \
            measured cells.",
    answers: &[],
    is_detail: false,
    draw,
};

const HEIGHT: f64 = 360.0;
const MARK: f64 = 10.0;
/// From this ratio of greatest to least on, an axis is logarithmic.
const FAR: f64 = 30.0;

/// One measured cell.
#[derive(Debug)]
struct Point {
    cell: usize,
    contender: usize,
    /// The variant's number in its scenario, from 1.
    number: usize,
    label: String,
    bytes: Spread,
    throughput: Spread,
    is_beaten: bool,
}

impl Point {
    /// Whether the judge finds the other better by one metric and no worse by the other.
    fn is_beaten_by(&self, other: &Self, view: &View, footprint: &Footprint) -> bool {
        let verdict = |metric| {
            let found = view.standings.between(self.cell, other.cell, metric);
            found.map(|found| found.verdict)
        };
        let verdicts = [&catalogue::THROUGHPUT, footprint.metric].map(verdict);
        let is = |wanted| move |found: &Option<Verdict>| *found == Some(wanted);
        let (better, same) = (is(Verdict::Improved), is(Verdict::Unchanged));
        verdicts.iter().any(better) && verdicts.iter().all(|found| better(found) || same(found))
    }
}

fn draw(view: &View) -> Picture {
    let drawings = drawings(view, |group| {
        let footprint = group.footprint(view);
        let points = points(view, group, &footprint);
        (points.len() >= 2).then(|| drawing(view, group, &footprint, &points))
    });
    Picture {
        legend: contender_legend(view),
        drawings,
    }
}

fn points(view: &View, group: &Group, footprint: &Footprint) -> Vec<Point> {
    let rows = group.rows.iter().zip(1..);
    let cells =
        rows.flat_map(|(row, number)| row.cells.iter().map(move |&cell| (row, number, cell)));
    let mut points: Vec<Point> = cells
        .filter_map(|(row, number, cell)| {
            let summary = &view.report.cells[cell];
            Some(Point {
                cell,
                contender: view.contender_of(cell),
                number,
                label: row.label.clone(),
                bytes: summary.metrics.get(footprint.metric)?,
                throughput: summary.metrics.get(&catalogue::THROUGHPUT)?,
                is_beaten: false,
            })
        })
        .collect();
    for index in 0..points.len() {
        let point = &points[index];
        points[index].is_beaten = points
            .iter()
            .any(|other| point.is_beaten_by(other, view, footprint));
    }
    points
}

fn drawing(view: &View, group: &Group, footprint: &Footprint, points: &[Point]) -> Drawing {
    let best = points.iter().filter(|point| !point.is_beaten);
    let best: Vec<_> = best.map(|point| said(view, point, footprint)).collect();
    let description = format!("{} cells; not beaten: {}.", points.len(), best.join("; "));
    let table = Some(table(view, group, points, footprint));
    Drawing {
        table,
        open: true,
        ..Drawing::of(view, group, description, |width| {
            sheet(view, footprint, points, width)
        })
    }
}

fn sheet(view: &View, footprint: &Footprint, points: &[Point], width: f64) -> Svg {
    let ends = |of: fn(&Point) -> Spread| -> Vec<f64> {
        let all = points.iter().map(of);
        all.flat_map(|spread| [spread.minimum, spread.maximum])
            .collect()
    };
    let (bytes, speeds) = (ends(|point| point.bytes), ends(|point| point.throughput));
    // The widths of the labels on the left need a scale, and the scale needs nothing of them.
    let upright = Area::of((0.0, 36.0), (1.0, HEIGHT - axis::LOWER));
    let speed = Scale::from_zero(&speeds, (upright.bottom, upright.top), FAR);
    let left = axis::left_width(&speed, Quantity::Throughput, &upright).max(40.0);
    let paper = Area {
        left,
        right: width - 8.0,
        ..upright
    };
    let memory = Scale::from_zero(&bytes, (paper.left, paper.right), FAR);
    let place = |point: &Point| {
        (
            memory.place(point.bytes.median),
            speed.place(point.throughput.median),
        )
    };
    let mut canvas = Canvas::new(width, HEIGHT);
    canvas.fill(paper, Ink::Band);
    axis::left(&mut canvas, &paper, &speed, Quantity::Throughput);
    axis::lower(
        &mut canvas,
        &paper,
        &memory,
        Quantity::Bytes,
        &titled(footprint.title, &memory),
    );
    let title = titled("Throughput (samples/s)", &speed);
    canvas.small(&title, (4.0, 10.0), Anchor::Start);
    for point in points {
        let (x, y) = place(point);
        let (shape, ink) = (Shape::of(point.contender), Ink::series(point.contender));
        let ends = |scale: &Scale, spread: Spread| {
            (scale.place(spread.minimum), scale.place(spread.maximum))
        };
        if point.throughput.n > 1 {
            canvas.level(ends(&memory, point.bytes), y, ink, 1.4);
            canvas.upright(x, ends(&speed, point.throughput), ink, 1.4);
        }
        canvas.hinted(&said(view, point, footprint), |canvas| {
            canvas.mark((x, y), shape, MARK, ink, point.is_beaten);
        });
    }
    let numbered = points.iter().map(|point| (point.number, place(point)));
    for label in labels(numbered, &paper) {
        let at = label.area(&paper).middle();
        canvas.text(&label.text(), at, Anchor::Middle, TEXT, Ink::Label);
    }
    canvas.finish()
}

fn said(view: &View, point: &Point, footprint: &Footprint) -> String {
    format!(
        "{} in {}: {}, {} {}",
        point.label,
        view.label_of(point.cell),
        Quantity::Throughput.write(point.throughput.median),
        format::bytes(point.bytes.median),
        footprint.word
    )
}

/// An axis that is logarithmic says so.
fn titled(title: &str, scale: &Scale) -> String {
    if scale.is_logarithmic() {
        format!("{title}, logarithmic")
    } else {
        title.to_owned()
    }
}

/// The number over a point, or the numbers over points that lie too close together.
struct Label {
    numbers: BTreeSet<usize>,
    points: Vec<(f64, f64)>,
}

impl Label {
    fn text(&self) -> String {
        const MOST: usize = 6;
        let numbers = self.numbers.iter().take(MOST).map(usize::to_string);
        let more = (self.numbers.len() > MOST).then(|| "…".to_owned());
        numbers.chain(more).collect::<Vec<_>>().join(", ")
    }

    fn area(&self, paper: &Area) -> Area {
        let width = measure::width(&self.text(), TEXT) + 4.0;
        let middle =
            self.points.iter().map(|point| point.0).sum::<f64>() / self.points.len() as f64;
        let middle = middle
            .max(paper.left + width / 2.0)
            .min(paper.right - width / 2.0);
        let top = self
            .points
            .iter()
            .map(|point| point.1)
            .fold(f64::INFINITY, f64::min);
        Area::around((middle, top - MARK / 2.0 - TEXT / 2.0 - 1.0), width, TEXT)
    }
}

/// A label for each point, those that would lie over one another made one.
fn labels(points: impl Iterator<Item = (usize, (f64, f64))>, paper: &Area) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    for (number, point) in points {
        let mut label = Label {
            numbers: [number].into(),
            points: vec![point],
        };
        let touches = |label: &Label, other: &Label| other.area(paper).overlaps(&label.area(paper));
        while let Some(index) = labels.iter().position(|other| touches(&label, other)) {
            let other = labels.swap_remove(index);
            label.numbers.extend(other.numbers);
            label.points.extend(other.points);
        }
        labels.push(label);
    }
    labels
}

fn table(view: &View, group: &Group, points: &[Point], footprint: &Footprint) -> Table {
    let heads = [
        "No.",
        footprint.title,
        "throughput",
        "of the runs",
        "beaten",
    ];
    values(view, group, &heads, |cell| {
        let point = points.iter().find(|point| point.cell == cell)?;
        let Spread {
            minimum, maximum, ..
        } = point.throughput;
        let range = format!(
            "{} – {}",
            format::significant(minimum, 4),
            format::significant(maximum, 4)
        );
        Some(vec![
            point.number.to_string().into(),
            format::bytes(point.bytes.median).into(),
            Quantity::Throughput.write(point.throughput.median).into(),
            range.into(),
            if point.is_beaten { "yes" } else { "no" }.into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Area = Area::of((0.0, 0.0), (500.0, 300.0));

    fn check(points: &[(f64, f64)], expect: &[&str]) {
        let labels = labels((1..).zip(points.iter().copied()), &PAPER);
        let areas: Vec<Area> = labels.iter().map(|label| label.area(&PAPER)).collect();
        for (index, area) in areas.iter().enumerate() {
            assert!(areas[..index].iter().all(|other| !area.overlaps(other)));
        }
        let texts: Vec<String> = labels.iter().map(Label::text).collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn points_on_one_spot_share_a_label() {
        check(&[(10.0, 10.0), (100.0, 10.0)], &["1", "2"]);
        check(
            &[(100.0, 10.0), (200.0, 200.0), (101.0, 12.0)],
            &["2", "1, 3"],
        );
        check(&[(499.0, 150.0); 40], &["1, 2, 3, 4, 5, 6, …"]);
    }
}

//! Memory against throughput, and which cells others beat in both.

use judge::compare::Verdict;
use metrics::{Metric, catalogue};

use super::plot::{Drawing, Plot, by_group, entries};
use crate::{
    charts::{Axis, Chart, Entry, Layer, Panel, Spot},
    facets,
    model::{Group, Spread, View},
    svg::Look,
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "pareto",
    title: "Memory against throughput",
    about: "Upper left is better; axes begin at 0 unless the cells lie close together. Each \
            mark is at the medians; its strokes reach from the least to the greatest run. A \
            hollow mark is beaten: another cell is shown to be faster and takes no more, or \
            takes less and is no slower; a difference within the noise threshold beats \
            nobody. The numbers are those of the table. Shown for scenarios with at least two \
            measured cells.",
    answers: &[],
    is_detail: false,
    draw,
};

const HEIGHT: f64 = 230.0;
const MARK: f64 = 10.0;

#[derive(Debug)]
struct Point {
    cell: usize,
    /// The variant's number in its scenario, from 1.
    number: usize,
    bytes: Spread,
    throughput: Spread,
    is_beaten: bool,
}

impl Point {
    /// Whether the judge finds the other better by one metric and no worse by the other.
    fn is_beaten_by(&self, other: &Self, view: &View, memory: &'static Metric) -> bool {
        let verdict = |metric| {
            let found = view.pairs.between(self.cell, other.cell, metric);
            found.map(|found| found.comparison.verdict)
        };
        let verdicts = [&catalogue::THROUGHPUT, memory].map(verdict);
        let is = |wanted| move |found: &Option<Verdict>| *found == Some(wanted);
        let (better, same) = (is(Verdict::Improved), is(Verdict::Unchanged));
        verdicts.iter().any(better) && verdicts.iter().all(|found| better(found) || same(found))
    }
}

fn draw(view: &View) -> Drawing {
    by_group(view, |group| {
        let memory = view.memory_of(group);
        let points = points(view, group, memory);
        (points.len() >= 2).then(|| chart(view, group, memory, &points))
    })
}

fn points(view: &View, group: &Group, memory: &'static Metric) -> Vec<Point> {
    let rows = group.rows.iter().zip(1..);
    let cells = rows.flat_map(|(row, number)| row.cells.iter().map(move |&cell| (number, cell)));
    let points = cells.filter_map(|(number, cell)| {
        let metrics = &view.report.cells[cell].metrics;
        Some(Point {
            cell,
            number,
            bytes: metrics.get(memory)?,
            throughput: metrics.get(&catalogue::THROUGHPUT)?,
            is_beaten: false,
        })
    });
    let points: Vec<Point> = points.collect();
    let is_beaten = |point: &Point| {
        let mut others = points.iter();
        others.any(|other| point.is_beaten_by(other, view, memory))
    };
    let points = points.iter().map(|point| Point {
        is_beaten: is_beaten(point),
        ..*point
    });
    points.collect()
}

fn chart(view: &View, group: &Group, memory: &'static Metric, points: &[Point]) -> Chart {
    let entries = entries(view, group, |cell, entry| {
        let point = points.iter().find(|point| point.cell == cell)?;
        Some(point.told(memory, entry))
    });
    let ends = |of: fn(&Point) -> Spread| -> Vec<f64> {
        let all = points.iter().map(of);
        all.flat_map(|spread| [spread.minimum, spread.maximum])
            .collect()
    };
    let (bytes, speeds) = (ends(|point| point.bytes), ends(|point| point.throughput));
    let marks = points.iter().zip(&entries).map(|(point, entry)| {
        let range = |spread: Spread| (spread.n > 1).then_some((spread.minimum, spread.maximum));
        let look = Look::series(view.contender_of(point.cell)).hollow(point.is_beaten);
        let at = (point.bytes.median, point.throughput.median);
        let mark = Layer::mark(Spot {
            ranges: [range(point.bytes), range(point.throughput)],
            label: point.number.to_string(),
            about: facets::of_cell(view, point.cell),
            ..Spot::of(at, MARK, look)
        });
        mark.hinted(entry.hint())
    });
    let title = format!("Peak {} memory", kind_of(memory));
    let panel = Panel::of(
        Axis::close(&title, Quantity::Bytes, &bytes, memory.threshold),
        Axis::close(
            "Throughput",
            Quantity::Throughput,
            &speeds,
            catalogue::THROUGHPUT.threshold,
        ),
        marks.collect(),
    );
    Chart {
        is_open: true,
        ..Chart::panels(entries, (1, HEIGHT), vec![panel])
    }
}

impl Point {
    fn told(&self, memory: &'static Metric, entry: Entry) -> Entry {
        let ends = [self.throughput.minimum, self.throughput.maximum];
        let [low, high] = ends.map(|end| format::significant(end, 4));
        let throughput = Quantity::Throughput.write(self.throughput.median);
        let bytes = format::bytes(self.bytes.median);
        let word = kind_of(memory);
        let beaten = if self.is_beaten { ", beaten" } else { "" };
        let word_of_beaten = if self.is_beaten { "yes" } else { "no" };
        let value = format!("{throughput}, {bytes} {word}{beaten}");
        Entry { value, ..entry }.numbers([
            ("No.", Some(self.number.to_string())),
            (memory.label, Some(bytes)),
            ("throughput", Some(throughput)),
            ("of the runs", Some(format!("{low} – {high}"))),
            ("beaten", Some(word_of_beaten.to_owned())),
        ])
    }
}

/// `reserved` or `allocated`.
fn kind_of(memory: &Metric) -> &str {
    memory.label.trim_start_matches("peak ")
}

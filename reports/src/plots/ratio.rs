//! Throughput as a ratio to the baseline, which tells variants apart whose bars look the same.

use metrics::catalogue;

use super::{
    Drawing, Picture, Plot,
    forest::{self, Line, Sheet},
};
use crate::{
    document::{Cell, Mark},
    format::{self, Quantity},
    model::{Group, Row, View},
};

pub(super) const PLOT: Plot = Plot {
    id: "ratio",
    title: "Throughput against the baseline",
    about: "Each cell's throughput over that of its scenario's first cell; where several images \
            ran, over that of the first image in the same variant. The line is the 95 % interval, \
            the shaded band the noise threshold: what lies in it counts as unchanged. A dot without \
            a line is exact, or rests on one block alone, which shows nothing.",
    answers: &["throughput_samples_per_second"],
    is_detail: true,
    draw,
};

static SHEET: Sheet = Sheet {
    has_claims: false,
    heading: "",
    axis: "Throughput against the baseline",
    heads: ["cell", "baseline"],
    numbers: &["change", "95 % interval, threshold", "throughput"],
    verdict: "verdict",
};

fn draw(view: &View) -> Picture {
    let drawings = super::drawings(view, |group| {
        let drawing = forest::drawing(&SHEET, &lines(view, group))?;
        Some(Drawing {
            heading: group.scenario.clone(),
            subtitle: group.subtitle(),
            ..drawing
        })
    });
    Picture {
        legend: forest::legend(false),
        drawings,
    }
}

fn lines(view: &View, group: &Group) -> Vec<Line> {
    let lanes = group.lanes();
    lanes
        .filter_map(|(row, cell)| {
            let (against, base) = baseline(view, group, row)?;
            line(view, row, (cell, base), &against)
        })
        .collect()
}

/// What the cells of a row are held against, in words and as a cell.
fn baseline(view: &View, group: &Group, row: &Row) -> Option<(String, usize)> {
    let with_first = |row: &Row| {
        let first = *row.cells.first()?;
        (view.contender_of(first) == 0).then_some(first)
    };
    if view.has_several() {
        let first = with_first(row)?;
        return Some((view.label_of(first).to_owned(), first));
    }
    let first = group.rows.first()?;
    Some((first.label.clone(), with_first(first)?))
}

fn line(view: &View, row: &Row, (cell, base): (usize, usize), against: &str) -> Option<Line> {
    if cell == base {
        return None;
    }
    let median = view.throughput(cell)?;
    let found = view.standings.between(base, cell, &catalogue::THROUGHPUT)?;
    let label = view.name_in(&row.label, cell);
    let ratio = found.ratio.filter(|ratio| *ratio > 0.0)?;
    let change = format::change(ratio);
    let interval = found.interval.filter(|_| !found.is_exact);
    let (ends, value) = match interval {
        Some(ends) => {
            let written = format::interval(ends.lo, ends.hi);
            let value = format!("{change} ({written})");
            (written, value)
        }
        None if found.is_exact => ("exact".to_owned(), format!("{change}, exact")),
        None => (format::UNKNOWN.to_owned(), format!("{change}, no interval")),
    };
    let threshold = found.threshold;
    let mark = Mark::from(found.verdict);
    Some(Line {
        ratio: Some(ratio),
        interval: interval.map(|ends| (ends.lo, ends.hi)),
        band: (Some(1.0 / (1.0 + threshold)), Some(1.0 + threshold)),
        mark,
        cells: vec![
            label.as_str().into(),
            against.into(),
            Cell::from(found.verdict.to_string()).marked(mark),
            change.into(),
            Cell::from(ends).noted(format!("threshold {}", format::share(threshold))),
            Quantity::Throughput.write(median).into(),
        ],
        label,
        value,
    })
}

//! A small picture of a session in which nothing was judged: one metric's median in each cell.

use judge::compare::Direction;
use metrics::{Metric, catalogue};

use crate::{
    charts::{Axis, Chart, Entry, Row, Track},
    model::View,
    svg::ink::Ink,
    words::format::Quantity,
};

/// Bars of one picture.
const MOST: usize = 6;

/// `None` where nothing was measured and nothing failed.
pub(crate) fn chart(view: &View) -> Option<Chart> {
    let metric = metric(view)?;
    let quantity = Quantity::from(metric.unit);
    let shown = 0..view.report.cells.len().min(MOST);
    let value = |cell: usize| view.median(cell, metric);
    let rows = shown.clone().map(|cell| {
        let name = view.name_of(cell);
        let Some(value) = value(cell) else {
            let entry = Entry::new(name, view.why_nothing(cell));
            return Row::only(entry, Ink::Danger, String::new(), Vec::new());
        };
        let entry = Entry::new(name, quantity.write(value));
        let parts = vec![(Ink::Series(0), value)];
        let track = Track {
            parts,
            ..Track::default()
        };
        Row::only(entry, Ink::Label, String::new(), vec![track])
    });
    let rows = rows.collect();
    let better = match metric.direction {
        Direction::HigherIsBetter => "more is better",
        Direction::LowerIsBetter => "less is better",
    };
    let title = format!("Median {}, {better}", metric.label);
    let values: Vec<f64> = shown.filter_map(value).collect();
    let axis = Axis::from_zero(&title, quantity, &values);
    Some(Chart::rows(vec![(axis, 1.0)], rows))
}

/// The first metric that the suite asks for and some cell has, else throughput or memory.
fn metric(view: &View) -> Option<&'static Metric> {
    let usual = [
        &catalogue::THROUGHPUT,
        &catalogue::PEAK_ALLOCATED,
        &catalogue::RUN_HOST_PEAK_RESIDENT,
    ];
    let mut known = view.asked().into_iter().chain(usual);
    let first = (!view.report.cells.is_empty()).then_some(&catalogue::THROUGHPUT);
    known.find(|metric| view.has(metric)).or(first)
}

//! Throughput with its spread: how fast on the left, how steady on the right.

use metrics::catalogue;

use super::{
    judged,
    plot::{Drawing, Plot, by_group, rows},
};
use crate::{
    charts::{Axis, Chart, Entry, Track},
    model::{Group, Row, Spread, View},
    svg::{Look, ink::Ink},
    words::{
        comparison,
        format::{self, Quantity},
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

/// The scale of deviations goes at least so many noise thresholds far, so that what counts as
/// none does not fill it.
const LEAST_THRESHOLDS: f64 = 4.0;

fn draw(view: &View) -> Drawing {
    let title = if view.has_several() {
        "Runs from the first median"
    } else {
        "Runs from their median"
    };
    let reach = reach(view);
    let runs = Axis::ratios(title, &[1.0 / reach, reach], &[], 0.0);
    by_group(view, |group| {
        let spreads = group.cells().filter_map(|cell| spread(view, cell));
        let most: Vec<f64> = spreads.map(|spread| spread.maximum).collect();
        if most.is_empty() {
            return None;
        }
        let first = group.cells().next();
        let rows = rows(view, group, |row, cell, entry| {
            let tracks = tracks(view, row, cell)?;
            Some((told(view, first, cell, entry)?, tracks))
        });
        let median = Axis::from_zero("Median", Quantity::Throughput, &most);
        let scales = vec![(median, 11.0), (runs.clone(), 9.0)];
        Some(Chart::rows(scales, rows))
    })
}

/// The median with the range of the runs, and each run as a ratio.
fn tracks(view: &View, row: &Row, cell: usize) -> Option<Vec<Track>> {
    let spread = spread(view, cell)?;
    let reference = reference(view, row, cell).filter(|reference| *reference > 0.0)?;
    let look = Look::series(view.contender_of(cell));
    let bar = Track {
        parts: vec![(look.ink, spread.median)],
        interval: Some((spread.minimum, spread.maximum, Ink::Text)),
        ..Track::default()
    };
    let threshold = 1.0 + catalogue::THROUGHPUT.threshold;
    let runs = values(view, cell).into_iter();
    let runs = Track {
        band: Some((Some(1.0 / threshold), Some(threshold))),
        strokes: vec![(spread.median / reference, Ink::Text)],
        marks: runs.map(|value| (value / reference, look)).collect(),
        ..Track::default()
    };
    Some(vec![bar, runs])
}

/// The median with its range, and the cell against the first one, as the judge says it.
fn told(view: &View, first: Option<usize>, cell: usize, entry: Entry) -> Option<Entry> {
    let spread = spread(view, cell)?;
    let write = |value: f64| Some(Quantity::Throughput.write(value));
    let against = first.filter(|first| *first != cell);
    let found = against.and_then(|first| view.pairs.between(first, cell, &catalogue::THROUGHPUT));
    let entry = Entry {
        value: Quantity::Throughput.write(spread.median),
        ..entry
    };
    let entry = entry.numbers([
        ("median", write(spread.median)),
        ("least", write(spread.minimum)),
        ("greatest", write(spread.maximum)),
        ("CV", spread.coefficient_of_variation.map(format::share)),
    ]);
    let Some((found, first)) = found.zip(against) else {
        return Some(entry);
    };
    let (verdict, is_choice) = (found.comparison.verdict, view.is_choice(first, cell));
    let word = comparison::word(verdict, &catalogue::THROUGHPUT, is_choice);
    let heads = ["verdict", "against the first", "interval"];
    Some(judged::columns(entry, &found, word, heads))
}

fn spread(view: &View, cell: usize) -> Option<Spread> {
    view.report.cells[cell].metrics.get(&catalogue::THROUGHPUT)
}

fn values(view: &View, cell: usize) -> Vec<f64> {
    let runs = view.good_runs(cell).into_iter();
    let values = runs.filter_map(|run| catalogue::THROUGHPUT.of(run));
    values.filter(|value| value.is_finite()).collect()
}

/// What the runs of a lane are held against: the first contender's median where there are
/// several, the cell's own elsewhere.
fn reference(view: &View, row: &Row, cell: usize) -> Option<f64> {
    let own = spread(view, cell)?.median;
    let first = row.cells.first().copied();
    let first = first.filter(|first| view.contender_of(*first) == 0);
    Some(
        first
            .and_then(|first| spread(view, first))
            .map_or(own, |first| first.median),
    )
}

/// How far the scale of deviations goes, as a ratio: as far as any run, unless a few runs are far
/// beyond most others.
fn reach(view: &View) -> f64 {
    let lanes = view.groups.iter().flat_map(Group::lanes);
    let lanes = lanes.filter_map(|(row, cell)| Some((cell, reference(view, row, cell)?)));
    let mut deviations: Vec<f64> = lanes
        .flat_map(|(cell, reference)| {
            let values = values(view, cell).into_iter();
            values.map(move |value| (value / reference).ln().abs())
        })
        .filter(|deviation| deviation.is_finite())
        .collect();
    deviations.sort_by(f64::total_cmp);
    let least = LEAST_THRESHOLDS * catalogue::THROUGHPUT.threshold;
    let most = deviations.last().copied().unwrap_or(0.0);
    let usual = deviations.len().saturating_sub(1) * 9 / 10;
    let usual = deviations.get(usual).copied().unwrap_or(0.0);
    most.min(usual * 3.0).max(least).exp()
}

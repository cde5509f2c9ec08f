//! Versions of one image side by side: what each of them changed of each cell against the one before.

use judge::compare::Verdict;
use metrics::Metric;
use verdict::MetricVerdict;

use super::facts;
use crate::{
    document::{Block, Body, Cell, Kind, Table, columns},
    model::{
        Row, View,
        changes::{metrics_of, of_version},
        versions::{self, Versions},
    },
    words::{comparison, format, lists::unique, metric},
};

/// Cells of one table; those behind them are folded away.
const MOST: usize = 12;

/// A table for each track of which a session ran several versions.
pub(crate) fn of(view: &View) -> Vec<Block> {
    let tracks = versions::of(view);
    tracks
        .iter()
        .flat_map(|track| blocks(view, track))
        .collect()
}

fn blocks(view: &View, track: &Versions) -> Vec<Block> {
    let is_compared = view
        .report
        .sessions
        .iter()
        .any(|session| session.session == track.session && !session.comparisons.is_empty());
    let rows = view.groups.iter().flat_map(|group| &group.rows);
    let cells = |row: &Row| -> Vec<Option<usize>> {
        let images = track.images.iter();
        images
            .map(|(_, place)| of_version(view, row, *place))
            .collect()
    };
    let all = rows.map(cells).filter(|_| is_compared);
    let mut all: Vec<Vec<Option<usize>>> = all.collect();
    all.retain(|cells| cells.iter().flatten().count() > 1);
    let shown = wanted(view, track, &all);
    let rest = all.split_off(all.len().min(MOST));
    let more = format::plural(rest.len(), "more cell", "more cells");
    let rest =
        table(view, track, &shown, &rest).map(|one| Block::Folded(more, vec![Block::Table(one)]));
    let first = table(view, track, &shown, &all).map(Block::Table);
    first.into_iter().chain(rest).collect()
}

/// The metrics that answer the suites' questions, then the headline metrics, as far as they were
/// measured.
fn wanted(view: &View, track: &Versions, cells: &[Vec<Option<usize>>]) -> Vec<&'static Metric> {
    let sessions = view.report.sessions.iter();
    let asked = sessions.filter(|session| session.session == track.session);
    let asked = asked.flat_map(|session| {
        let suites = session.suites.keys();
        suites.flat_map(|suite| metrics_of(session, suite))
    });
    unique(asked.chain(Metric::headlines()).filter(|metric| {
        let mut known = cells.iter().flatten().flatten();
        known.any(|cell| view.median(*cell, metric).is_some())
    }))
}

fn table(
    view: &View,
    track: &Versions,
    wanted: &[&'static Metric],
    cells: &[Vec<Option<usize>>],
) -> Option<Table> {
    let heads: Vec<&'static str> = wanted.iter().map(|metric| metric.label).collect();
    let mut all = columns(Kind::Name, &["version"]);
    all.extend(columns(Kind::Number, &heads));
    let bodies = cells.iter().enumerate();
    let bodies = bodies.map(|(place, cells)| body(view, track, wanted, (cells, place == 0)));
    (!cells.is_empty()).then(|| Table {
        caption: "Each version against the one above it: the median, and the estimated change, or \
                  its interval where that is inconclusive. ✓ improved, ✗ regressed, = unchanged, \
                  ? inconclusive."
            .to_owned(),
        title_head: "cell",
        columns: all,
        bodies: bodies.collect(),
    })
}

/// The versions of one cell, and the newest against the oldest.
fn body(
    view: &View,
    track: &Versions,
    wanted: &[&'static Metric],
    (cells, is_first): (&[Option<usize>], bool),
) -> Body {
    let step = |base: Option<usize>, head: Option<usize>, metric: &Metric| {
        let (base, head) = base.zip(head)?;
        view.pairs.between(base, head, metric)
    };
    let median =
        |cell: Option<usize>, of: &Metric| Some(metric::known(of.name, view.median(cell?, of)));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (place, (name, _)) in track.images.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|place| cells[place]);
        let entry = |metric: &&'static Metric| {
            let text = median(cells[place], metric).unwrap_or_else(|| format::UNKNOWN.to_owned());
            match step(before, cells[place], metric) {
                Some(found) => marked(Cell::from(text).noted(change(&found)), &found),
                None => text.into(),
            }
        };
        let image = view.image(track.images[place].1).filter(|_| is_first);
        let size = image.and_then(facts::size);
        let size = size.map(|size| format!("image {size}"));
        let name = Cell::from(&**name).noted(size.unwrap_or_default());
        let row = [name].into_iter().chain(wanted.iter().map(entry));
        rows.push(row.collect());
    }
    let is_known = |cell: &Option<usize>| cell.is_some();
    let ends = (
        cells.iter().position(is_known),
        cells.iter().rposition(is_known),
    );
    if let (Some(first), Some(last)) = ends {
        let entry = |metric: &&'static Metric| match step(cells[first], cells[last], metric) {
            Some(found) if found.comparison.verdict == Verdict::Inconclusive => {
                marked(Cell::from(change(&found)), &found)
            }
            Some(found) => marked(Cell::from(comparison::effect(&found)), &found),
            None => format::UNKNOWN.into(),
        };
        let name = format!("{} → {}", track.images[first].0, track.images[last].0);
        rows.push(
            [Cell::from(name)]
                .into_iter()
                .chain(wanted.iter().map(entry))
                .collect(),
        );
    }
    let cell = cells.iter().flatten().next();
    let name = cell.map(|cell| comparison::spelled(&view.report.cells[*cell].cell));
    Body {
        title: name.map(Cell::from),
        rows,
        ..Body::default()
    }
}

/// The change, but for one that is within the threshold; how large one may be that is not known.
fn change(found: &MetricVerdict) -> String {
    match found.comparison.verdict {
        Verdict::Unchanged => String::new(),
        Verdict::Inconclusive if found.comparison.interval.is_none() => String::new(),
        Verdict::Inconclusive => comparison::interval(found),
        _ => comparison::effect(found),
    }
}

fn marked(cell: Cell, found: &MetricVerdict) -> Cell {
    cell.marked(found.comparison.verdict.into())
}

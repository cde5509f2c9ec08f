//! One series as a chart: its points, its levels, and where they change.

use judge::{compare::Verdict, trend::ChangePoint};

use super::series::{AttributeChange, Series, interval, ratio, revision, time};
use crate::{
    charts::{Axis, Chart, Entry, Layer, Panel, Spot, extent, extremes},
    document::{Cell, Kind, Mark},
    model::Spread,
    svg::{Dashes, Look, Shape, ink::Ink},
    words::format::{self, plural},
};

const HEIGHT: f64 = 150.0;
/// More points than this are a line, not marks.
const MOST_MARKS: usize = 400;

/// How many points a series has, then its changes.
pub(super) fn entries(series: &Series) -> Vec<Entry> {
    let points = Entry::new(
        plural(series.points.len(), "point", "points"),
        match series.changes() {
            [] => "no change".to_owned(),
            changes => plural(changes.len(), "change", "changes"),
        },
    );
    let changes = series.changes().iter().enumerate().map(|(index, found)| {
        let (good, bad) = series.between(found);
        let words = [
            ("time", time(found.timestamp)),
            ("revision", revision(found)),
            ("range", format!("{good}..{bad}")),
        ];
        let entry = Entry::new("change".to_owned(), format::clean(&hint(series, found)));
        entry
            .with(Kind::Name, [("point", found.index.to_string().into())])
            .with(Kind::Word, words.map(|(head, word)| (head, word.into())))
            .numbers([
                ("before", Some(series.value(found.before))),
                ("after", Some(series.value(found.after))),
                ("change", Some(ratio(found))),
                ("95 % interval", Some(interval(found))),
                ("p", Some(format::p_value(found.p))),
            ])
            .with(Kind::Word, [("verdict", verdict(series, index))])
    });
    [points].into_iter().chain(changes).collect()
}

/// What a change is: improved or regressed, whether it counts, and what it came with.
fn verdict(series: &Series, index: usize) -> Cell {
    let found = &series.changes()[index];
    let verdict = series.verdict(found);
    let mut words = series.word(found);
    if series.news == Some(index) {
        words += ", new";
    }
    let with: Vec<&str> = series
        .changed_with(found)
        .map(AttributeChange::word)
        .collect();
    if !with.is_empty() {
        words += &format!(", with another {}", with.join(" and "));
    }
    Cell {
        mark: verdict.map(Mark::from),
        ..words.into()
    }
}

fn hint(series: &Series, change: &ChangePoint) -> String {
    format!(
        "{} at {}: {} to {}, {} (95 % interval {}, p {})",
        time(change.timestamp),
        change.revision,
        series.value(change.before),
        series.value(change.after),
        ratio(change),
        interval(change),
        format::p_value(change.p)
    )
}

/// All values, and never so magnified that what counts as none fills the picture.
fn value_axis(series: &Series) -> Axis {
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let (low, high) = extent(&values);
    let least = 4.0 * series.threshold.max(0.00125) * high.abs().max(low.abs());
    let room = ((high - low) * 0.06).max((least - (high - low)) / 2.0);
    Axis::linear("", series.quantity, (low - room, high + room))
}

/// Its levels: from which point up to before which, and how high.
fn levels(series: &Series) -> Vec<(usize, usize, f64)> {
    let changes = series.changes();
    let values = series.points.iter().map(|point| point.value);
    let first = match changes.first() {
        Some(change) => Some(change.before),
        None => Spread::of(values).map(|spread| spread.median),
    };
    let first = first.map(|level| (0, level));
    let begun = changes.iter().map(|change| (change.index, change.after));
    let begun: Vec<(usize, f64)> = first.into_iter().chain(begun).collect();
    let ends = changes.iter().map(left);
    let ends: Vec<usize> = ends.chain([series.points.len()]).collect();
    let levels = begun.into_iter().zip(ends);
    levels
        .map(|((from, level), to)| (from, to, level))
        .collect()
}

/// The first point that is off the level before a change.
fn left(change: &ChangePoint) -> usize {
    if change.gradual {
        change.range[0]
    } else {
        change.index
    }
}

fn ink(series: &Series, change: &ChangePoint) -> Ink {
    match series.verdict(change) {
        Some(Verdict::Regressed) => Ink::Danger,
        Some(Verdict::Improved) => Ink::Series(2),
        _ => Ink::Series(1),
    }
}

pub(crate) fn chart(series: &Series) -> Chart {
    Chart {
        heading: format::clean(&series.title),
        subtitle: format::clean(&series.subtitle),
        remark: series.remark(),
        ..Chart::panels(entries(series), (1, HEIGHT), vec![panel(series)])
    }
}

/// Its points over time with their levels.
fn panel(series: &Series) -> Panel {
    let points = &series.points;
    let at = |place: usize| points[place].timestamp;
    let level = |from: usize, to: usize, ends: [f64; 2], ink| {
        let ends = [(at(from), ends[0]), (at(to - 1), ends[1])];
        Layer::line(None, ends.into(), (ink, 2.0, Dashes::None))
    };
    let levels = levels(series);
    let mut layers = Vec::new();
    for change in series.changes() {
        let level = levels.iter().find(|(from, ..)| *from == change.index);
        let ends = change.interval.zip(level);
        layers.extend(ends.map(|([low, high], (from, to, _))| {
            let along = (at(*from), at(to - 1));
            let up = (change.before * low, change.before * high);
            Layer::area(Some(along), Some(up), (ink(series, change), 0.22))
        }));
    }
    layers.extend(marks(series));
    let slopes = series.changes().iter().filter(|change| change.gradual);
    layers.extend(slopes.map(|change| {
        let ends = [change.before, change.after];
        level(left(change) - 1, change.index + 1, ends, Ink::Series(1))
    }));
    let levels = levels.into_iter();
    layers.extend(levels.map(|(from, to, high)| level(from, to, [high; 2], Ink::Series(0))));
    // The newest first: it is what one came for.
    let changes = series.changes().iter().rev();
    layers.extend(changes.map(|change| {
        let (ink, label) = (ink(series, change), label(series, change));
        let moment = Layer::moment(at(change.index), ink, label);
        moment.hinted(hint(series, change))
    }));
    let times: Vec<f64> = points.iter().map(|point| point.timestamp).collect();
    Panel::of(Axis::time(&times), value_axis(series), layers)
}

fn label(series: &Series, change: &ChangePoint) -> String {
    let word = match series.verdict(change) {
        Some(Verdict::Regressed) => " regressed",
        Some(Verdict::Improved) => " improved",
        _ => "",
    };
    format!("{}{word} · {}", ratio(change), revision(change))
}

/// Its points, or of very many a line.
fn marks(series: &Series) -> Vec<Layer> {
    let points = series.points.iter();
    if points.len() > MOST_MARKS {
        let line: Vec<_> = points.map(|point| (point.timestamp, point.value)).collect();
        let look = (Ink::Axis, 1.2, Dashes::None);
        return vec![Layer::line(None, extremes(&line, 500), look)];
    }
    let marks = points.map(|point| {
        let (when, value) = (time(point.timestamp), series.value(point.value));
        let look = Look::of(Ink::Muted, Shape::Disc);
        let spot = Spot::of((point.timestamp, point.value), 4.4, look);
        Layer::mark(spot).hinted(format!("{when}, {}: {value}", point.revision))
    });
    marks.collect()
}

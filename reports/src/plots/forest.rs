//! Changes with their intervals: a dot and a line for each cell and metric, over the band of what
//! counts as none; for claims, the measured interval over the claimed range.

use std::cmp::Ordering;

use judge::claims::Outcome;
use record::Expectation;
use verdict::{ClaimFound, ClaimPair, Verdicts};

use super::{
    judged::{self, look},
    plot::{Drawing, Plot},
};
use crate::{
    charts::{Axis, Chart, Entry, Row, Track},
    document::{About, Block, Cell, Kind, Mark, Picture},
    facets,
    model::{Change, View, changes, versions},
    svg::ink::Ink,
    words::{claims, format},
};

pub(crate) const PLOT: Plot = Plot {
    id: "changes",
    title: "Changes",
    about: "Every verdict on the metrics that the report is about, worst first: the \
            estimated change with its interval. The shaded band is the noise threshold: an interval \
            within it is unchanged, one beyond it a change, and one across an end inconclusive. A dot without a line is exact, the same in every run, or \
            rests on one block alone, which shows nothing. Arrows point beyond the scale.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Rows of the picture that a report begins with.
pub(crate) const FIRST: usize = 12;
pub(crate) const ON_A_CARD: usize = 4;
/// Rows of one drawing; what does not fit stands in the tables.
pub(crate) const MOST: usize = 60;
/// The scale reaches at least so many of the widest thresholds.
const LEAST_THRESHOLDS: f64 = 2.5;

struct Line {
    ratio: Option<f64>,
    interval: Option<(f64, f64)>,
    /// The band behind it: the noise threshold, or the claimed range; an end that is missing is
    /// open.
    band: (Option<f64>, Option<f64>),
    mark: Mark,
    /// How grave it is among those with the same rank.
    weight: f64,
    rank: u8,
    entry: Entry,
    about: About,
}

impl Line {
    /// What changed before what did not; whichever is farther beyond its threshold.
    fn of(change: &Change) -> Self {
        const HEADS: [&str; 3] = ["verdict", "estimated change", "interval, threshold"];
        let (found, comparison) = (&change.found, &change.found.comparison);
        let (cell, metric) = (change.place(), change.metric.label);
        let entry = Entry::new(format!("{metric} · {cell}"), judged::value(found));
        let names = [("cell", cell.into()), ("metric", metric.into())];
        let entry = entry.with(Kind::Name, names);
        // What is exact has no error to draw.
        let interval = comparison.interval.map(|ends| (ends.lo, ends.hi));
        let threshold = 1.0 + comparison.threshold;
        let mark = comparison.verdict.into();
        Self {
            ratio: comparison.ratio.filter(|ratio| *ratio > 0.0),
            interval: interval.filter(|(low, high)| low < high),
            band: (Some(1.0 / threshold), Some(threshold)),
            mark,
            weight: change.size(),
            rank: match mark {
                Mark::Bad | Mark::Good => 0,
                Mark::Unknown => 1,
                _ => 2,
            },
            entry: judged::columns(entry, found, change.word(), HEADS),
            about: change.about.clone(),
        }
    }

    fn by_gravity(&self, other: &Self) -> Ordering {
        let by_weight = other.weight.total_cmp(&self.weight);
        self.rank.cmp(&other.rank).then(by_weight)
    }
}

/// The gravest of what a report begins with: of its claims where there are some, else of its changes;
/// `None` where nothing was judged.
pub(crate) fn gravest_of(view: &View, most: usize) -> Option<Chart> {
    let claimed = claim_lines(&claims_of(view));
    if claimed.is_empty() {
        chart(false, change_lines(&changes::of(view)), most)
    } else {
        chart(true, claimed, most)
    }
}

pub(crate) fn of_comparison(verdicts: &Verdicts, most: usize) -> Option<Chart> {
    let changes = changes::of_comparison(verdicts, false).collect();
    chart(false, change_lines(&changes::worst_first(changes)), most)
}

/// Claims, those refuted first.
pub(crate) fn of_claims(found: &[ClaimFound]) -> Option<Chart> {
    chart(true, claim_lines(&Vec::from_iter(found)), MOST)
}

fn draw(view: &View) -> Drawing {
    let lines = change_lines(&changes::of(view));
    let claimed = claim_lines(&claims_of(view));
    let lines_are_claims = lines.is_empty();
    let mut charts = Vec::new();
    // The first screen has what is short enough for it, and of versions a table.
    if lines.len() > FIRST
        || !versions::of(view).is_empty()
        || (!claimed.is_empty() && !lines.is_empty())
    {
        charts.extend(chart(false, lines, MOST));
    }
    if claimed.len() > FIRST {
        charts.extend(chart(true, claimed, MOST));
    }
    let legend = judged::legend(lines_are_claims, view.compares_choices());
    (legend, charts)
}

pub(crate) fn first(chart: Chart, has_claims: bool, is_choice: bool) -> Block {
    let legend = judged::legend(has_claims, is_choice);
    Block::Picture(Picture::of("first", PLOT.title, legend, vec![chart]))
}

/// As many as fit, the gravest kept, in the order they had.
fn gravest(lines: Vec<Line>, most: usize) -> Vec<Line> {
    let mut places: Vec<usize> = (0..lines.len()).collect();
    places.sort_by(|&a, &b| lines[a].by_gravity(&lines[b]));
    places.truncate(most);
    let kept = lines.into_iter().enumerate();
    let kept = kept.filter(|(place, _)| places.contains(place));
    kept.map(|(_, line)| line).collect()
}

fn change_lines(changes: &[Change]) -> Vec<Line> {
    changes.iter().map(Line::of).collect()
}

fn claims_of<'a>(view: &'a View) -> Vec<&'a ClaimFound> {
    let sessions = view.report.sessions.iter();
    let claims = sessions.flat_map(|session| &session.claims);
    claims.filter(|claim| claim.is_measured()).collect()
}

/// Those first that are farthest from what was claimed.
fn claim_lines(all: &[&ClaimFound]) -> Vec<Line> {
    let pairs = all.iter().flat_map(|found| {
        let pairs = claims::alike(found).into_iter();
        pairs.map(|pairs| claim_line(found, &pairs))
    });
    let mut lines: Vec<Line> = pairs.collect();
    lines.sort_by(Line::by_gravity);
    lines
}

fn claim_line(found: &ClaimFound, alike: &[&ClaimPair]) -> Line {
    let pair = alike[0];
    let verdict = &pair.verdict;
    let (min, max) = (verdict.claimed.min, verdict.claimed.max);
    // A value has no ratio of its own: it is held against the middle of the claim.
    let unit = match found.claim.expect {
        Expectation::Value(_) => match (min, max) {
            (Some(min), Some(max)) => f64::midpoint(min, max),
            (end, other) => end.or(other).unwrap_or(1.0),
        },
        _ => 1.0,
    };
    let scaled = |value: f64| value / unit;
    let ends = verdict
        .interval
        .map(|ends| (scaled(ends.lo), scaled(ends.hi)));
    let statement = format::clean(&found.claim.statement);
    let scenario = format::clean(&claims::where_of(found, alike));
    let outcome = verdict.outcome;
    let band = (min.map(scaled), max.map(scaled));
    let ratio = verdict.measured.map(scaled).filter(|ratio| *ratio > 0.0);
    let measured = claims::measured(&found.claim, pair);
    let entry = Entry::new(format!("{statement} · {scenario}"), &*measured);
    let names = [("claim", statement.into()), ("scenario", scenario.into())];
    let outcome_cell = Cell::from(outcome.to_string()).marked(outcome.into());
    Line {
        ratio,
        interval: ends.filter(|(low, high)| low < high),
        band,
        mark: outcome.into(),
        weight: ratio.map_or(0.0, |ratio| distance(ratio, band)),
        // Several images ran for the sake of what is claimed of them.
        rank: match outcome {
            _ if pair.is_across_images() => 0,
            Outcome::Refuted => 1,
            Outcome::Inconclusive => 2,
            Outcome::Holds => 3,
        },
        entry: entry
            .with(Kind::Name, names)
            .with(Kind::Word, [("outcome", outcome_cell)])
            .numbers([
                ("claimed", Some(claims::claimed(&found.claim))),
                ("measured", Some(measured)),
            ]),
        about: facets::claim(&outcome.to_string()),
    }
}

/// How far a ratio is from a claimed range, in half widths of it; where one end is open, in
/// twentieths.
fn distance(ratio: f64, (min, max): (Option<f64>, Option<f64>)) -> f64 {
    const OPEN: f64 = 0.05;
    let below = min.map_or(0.0, |min| (min / ratio).ln());
    let above = max.map_or(0.0, |max| (ratio / max).ln());
    let half_width = min.zip(max).map(|(min, max)| (max / min).ln() / 2.0);
    let tolerance = half_width.filter(|half| *half > 0.0).unwrap_or(OPEN);
    below.max(above).max(0.0) / tolerance
}

/// The gravest of these lines, and how many there are; `None` where none has a ratio.
fn chart(has_claims: bool, lines: Vec<Line>, most: usize) -> Option<Chart> {
    let all = lines.len();
    let lines = gravest(lines, most);
    if lines.iter().all(|line| line.ratio.is_none()) {
        return None;
    }
    let axis = axis(has_claims, &lines);
    let shown = lines.len();
    let rows = lines.into_iter().map(|line| {
        let look = look(line.mark);
        let ink = match look.ink {
            Ink::Text => Ink::Label,
            other => other,
        };
        let track = Track {
            band: Some(line.band),
            interval: line.interval.map(|(low, high)| (low, high, look.ink)),
            marks: Vec::from_iter(line.ratio.map(|ratio| (ratio, look))),
            ..Track::default()
        };
        let entry = Entry {
            value: format!("{}{}", line.mark.look().1, line.entry.value),
            ..line.entry
        };
        Row::only(entry, ink, facets::attributes(&line.about), vec![track])
    });
    let rows = rows.collect();
    let heading = if has_claims {
        "Claimed and measured"
    } else {
        "Change of each metric"
    };
    let subtitle = (all > shown).then(|| format!("the {shown} gravest of {all}"));
    Some(Chart {
        heading: heading.to_owned(),
        subtitle: subtitle.unwrap_or_default(),
        ..Chart::rows(vec![(axis, 1.0)], rows)
    })
}

/// All that is measured, and what it is held against: of a claim the whole range, of a threshold as
/// much as does not fill the picture.
fn axis(has_claims: bool, lines: &[Line]) -> Axis {
    const LEAST: f64 = 0.01;
    let intervals = lines.iter().filter_map(|line| line.interval);
    let intervals: Vec<f64> = intervals.flat_map(|(low, high)| [low, high]).collect();
    let mut ratios: Vec<f64> = lines.iter().filter_map(|line| line.ratio).collect();
    let bands = lines.iter().flat_map(|line| [line.band.0, line.band.1]);
    let bands: Vec<f64> = bands.flatten().collect();
    if has_claims {
        ratios.extend(bands);
        let title = "Measured change (value: from the claimed middle)";
        return Axis::ratios(title, &ratios, &intervals, LEAST);
    }
    let widest = bands.iter().map(|end| end.ln().abs()).fold(0.0, f64::max);
    let least = (widest * LEAST_THRESHOLDS).max(LEAST);
    Axis::ratios("Estimated change", &ratios, &intervals, least)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn a_claim_that_is_nearly_true_is_not_the_gravest() {
        // Claimed: saves 40 %, give or take 5 points.
        let saves = (Some(0.55), Some(0.65));
        let nearly = distance(0.5493, saves);
        assert!(
            distance(0.6, saves).abs() < 1e-12 && nearly < 0.02,
            "{nearly}"
        );
        // Claimed: twice as fast; measured: 1.02 times.
        assert!(distance(1.02, (Some(1.9), None)) > 10.0);
        assert!(distance(0.918, saves) > 3.0);
    }
}

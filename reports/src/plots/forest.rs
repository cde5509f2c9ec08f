//! Changes with their intervals: a dot and a line for each cell and metric, over the band of what
//! counts as none; for claims, the measured interval over the claimed range.

use judge::{
    claims::Outcome,
    compare::{Method, Verdict},
};
use record::Expectation;
use verdict::{ClaimFound, Verdicts};

use super::{Drawing, Key, Picture, Plot};
use crate::{
    claims, comparison,
    document::{self, Cell, Kind, Mark, Table},
    format, measure,
    model::{Change, View, changes},
    svg::{
        Anchor, Area, Canvas, LEADING, SMALL, Shape, Svg, TEXT,
        ink::Ink,
        rows::{NARROW, WIDTH},
        scale::Scale,
    },
};

pub(crate) const PLOT: Plot = Plot {
    id: "changes",
    title: "Changes",
    about: "Every verdict on the metrics that the report is about, worst first: the \
            estimated change with its 95 % interval. The shaded band is the noise threshold; what lies \
            in it counts as unchanged. A dot without a line is exact, the same in every run, or \
            rests on one block alone, which shows nothing. Arrows point beyond the scale.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Rows of the picture that a report begins with.
const FIRST: usize = 12;
/// Rows on a card of an index.
const ON_A_CARD: usize = 4;
/// Rows of one drawing; what does not fit stands in the tables.
const MOST: usize = 60;
/// The scale reaches at least so many of the widest thresholds.
const LEAST_THRESHOLDS: f64 = 2.5;
/// Beyond this ratio of a change the scale ends and arrows point on.
const FARTHEST: f64 = 32.0;
const ROW: f64 = 24.0;
const LOWER: f64 = 30.0;
const TOP: f64 = 6.0;

/// One row.
pub(super) struct Line {
    /// What it is about.
    pub(super) label: String,
    /// Measured, as a ratio.
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
    /// The band behind it: the noise threshold, or the claimed range; an end that is missing is
    /// open.
    pub(super) band: (Option<f64>, Option<f64>),
    pub(super) mark: Mark,
    /// The value in words.
    pub(super) value: String,
    /// The row of the table.
    pub(super) cells: Vec<Cell>,
}

/// What a report begins with: the claims where there are some, else the gravest changes; `None`
/// where nothing was judged.
pub(crate) fn first(view: &View) -> Option<Drawing> {
    let claimed = claim_lines(&claims_of(view));
    if claimed.is_empty() {
        few(&CHANGES, change_lines(&changes::of(view)), FIRST)
    } else {
        few(&CLAIMS, claimed, FIRST)
    }
}

/// The changes of one comparison, the worst first.
pub(crate) fn of_comparison(verdicts: &Verdicts) -> Option<Drawing> {
    few(&CHANGES, change_lines(&worst_first(verdicts)), MOST)
}

fn worst_first(verdicts: &Verdicts) -> Vec<Change<'_>> {
    let mut changes: Vec<Change> = changes::of_comparison(verdicts, false).collect();
    changes.sort_by(|a, b| a.gain().total_cmp(&b.gain()));
    changes
}

/// For a card of an index: the gravest few of [`first`], and what they say.
pub(crate) fn card(view: &View) -> Option<(Svg, String)> {
    let claimed = claim_lines(&claims_of(view));
    if claimed.is_empty() {
        few(&CHANGES, change_lines(&changes::of(view)), ON_A_CARD)
    } else {
        few(&CLAIMS, claimed, ON_A_CARD)
    }
    .and_then(for_card)
}

/// As [`card`], of one comparison.
pub(crate) fn card_of_comparison(verdicts: &Verdicts) -> Option<(Svg, String)> {
    few(&CHANGES, change_lines(&worst_first(verdicts)), ON_A_CARD).and_then(for_card)
}

fn for_card(drawing: Drawing) -> Option<(Svg, String)> {
    Some((drawing.narrow?, drawing.description))
}

/// Claims, those refuted first.
pub(crate) fn of_claims(found: &[ClaimFound]) -> Option<Drawing> {
    few(&CLAIMS, claim_lines(&Vec::from_iter(found)), MOST)
}

/// The gravest of these lines, and how many there are.
fn few(sheet: &Sheet, lines: Vec<Line>, most: usize) -> Option<Drawing> {
    let all = lines.len();
    let lines = gravest(lines, most);
    let mut drawing = drawing(sheet, &lines)?;
    if all > lines.len() {
        drawing.subtitle = format!("the {} gravest of {all}", lines.len());
    }
    Some(drawing)
}

fn draw(view: &View) -> Picture {
    let mut drawings = Vec::new();
    let lines = change_lines(&changes::of(view));
    let claimed = claim_lines(&claims_of(view));
    let lines_are_claims = lines.is_empty();
    // The first screen has what is short enough for it.
    if lines.len() > FIRST || (!claimed.is_empty() && !lines.is_empty()) {
        drawings.extend(drawing(&CHANGES, &gravest(lines, MOST)));
    }
    if claimed.len() > FIRST {
        drawings.extend(drawing(&CLAIMS, &gravest(claimed, MOST)));
    }
    Picture {
        legend: legend(lines_are_claims),
        drawings,
    }
}

/// What the marks mean, of changes or of claims.
pub(crate) fn legend(has_claims: bool) -> Vec<Key> {
    let key = |ink, sign, label: &str| Key {
        ink,
        sign,
        label: label.to_owned(),
    };
    let mut keys = if has_claims {
        vec![
            key(Ink::Danger, "◆", "refuted"),
            key(Ink::Series(2), "●", "holds"),
        ]
    } else {
        vec![
            key(Ink::Danger, "◆", "regressed"),
            key(Ink::Series(2), "●", "improved"),
            key(Ink::Text, "■", "unchanged"),
        ]
    };
    let band = if has_claims {
        "claimed range"
    } else {
        "noise threshold"
    };
    keys.extend([
        key(Ink::Muted, "▲", "inconclusive"),
        Key::area(Ink::Grid, band),
    ]);
    keys
}

/// As many as fit, the gravest kept, in the order they had.
fn gravest(lines: Vec<Line>, most: usize) -> Vec<Line> {
    let rank = |line: &Line| match line.mark {
        Mark::Bad | Mark::Refuted => 0,
        Mark::Good | Mark::Holds => 1,
        Mark::Unknown => 2,
        _ => 3,
    };
    let size = |line: &Line| line.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let mut places: Vec<usize> = (0..lines.len()).collect();
    places.sort_by(|&a, &b| {
        let by_size = size(&lines[b]).total_cmp(&size(&lines[a]));
        rank(&lines[a]).cmp(&rank(&lines[b])).then(by_size)
    });
    places.truncate(most);
    let mut place = 0..;
    let mut lines = lines;
    lines.retain(|_| place.next().is_some_and(|place| places.contains(&place)));
    lines
}

/// What a drawing of lines is about.
pub(super) struct Sheet {
    pub(super) has_claims: bool,
    pub(super) heading: &'static str,
    pub(super) axis: &'static str,
    pub(super) heads: [&'static str; 2],
    pub(super) numbers: &'static [&'static str],
    pub(super) verdict: &'static str,
}

static CHANGES: Sheet = Sheet {
    has_claims: false,
    heading: "Change of each metric",
    axis: "Estimated change",
    heads: ["cell", "metric"],
    numbers: &["estimated change", "95 % interval, threshold"],
    verdict: "verdict",
};
static CLAIMS: Sheet = Sheet {
    has_claims: true,
    heading: "Claimed and measured",
    axis: "Measured change (value: from the claimed middle)",
    heads: ["claim", "scenario"],
    numbers: &["claimed", "measured"],
    verdict: "outcome",
};

fn change_lines(changes: &[Change]) -> Vec<Line> {
    let line = |change: &Change| {
        let comparison = &change.found.comparison;
        let interval = comparison
            .interval
            .filter(|_| comparison.method != Method::Exact);
        let (effect, ends) = (
            comparison::effect(change.found),
            comparison::interval(change.found),
        );
        let verdict = comparison.verdict;
        let threshold = comparison.threshold;
        let value = match (comparison.interval, comparison.method) {
            (None, _) => format!("{effect}, no interval"),
            (_, Method::Exact) => format!("{effect}, exact"),
            _ => format!("{effect} ({ends})"),
        };
        Line {
            label: format!("{} · {}", change.metric.label, change.cell),
            ratio: comparison.ratio.filter(|ratio| *ratio > 0.0),
            interval: interval.map(|ends| (ends.lo, ends.hi)),
            band: (Some(1.0 / (1.0 + threshold)), Some(1.0 + threshold)),
            mark: verdict.into(),
            value,
            cells: vec![
                change.cell.as_str().into(),
                change.metric.label.into(),
                Cell::from(verdict.to_string()).marked(verdict.into()),
                Cell::from(effect).noted(comparison::of_medians(change.found).unwrap_or_default()),
                Cell::from(ends).noted(format!("threshold {}", format::share(threshold))),
            ],
        }
    };
    changes.iter().map(line).collect()
}

fn claims_of<'a>(view: &'a View) -> Vec<&'a ClaimFound> {
    let sessions = view.report.sessions.iter();
    let claims = sessions.flat_map(|session| &session.claims);
    claims.filter(|claim| claim.is_measured()).collect()
}

fn claim_lines(all: &[&ClaimFound]) -> Vec<Line> {
    let mut lines = Vec::new();
    for found in all {
        for pair in claims::distinct(found) {
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
            let scenario = format::clean(&claims::where_of(pair));
            let value = claims::measured(&found.claim, pair);
            let outcome = verdict.outcome;
            lines.push(Line {
                label: format!("{statement} · {scenario}"),
                ratio: verdict.measured.map(scaled).filter(|ratio| *ratio > 0.0),
                interval: ends.filter(|(low, high)| low < high),
                band: (min.map(scaled), max.map(scaled)),
                mark: outcome.into(),
                cells: vec![
                    statement.into(),
                    scenario.into(),
                    Cell::from(outcome.to_string()).marked(outcome.into()),
                    claims::claimed(&found.claim).into(),
                    value.as_str().into(),
                ],
                value,
            });
        }
    }
    let rank = |line: &Line| match line.mark {
        Mark::Refuted => 0,
        Mark::Unknown => 1,
        _ => 2,
    };
    lines.sort_by_key(rank);
    lines
}

pub(super) fn drawing(sheet: &Sheet, lines: &[Line]) -> Option<Drawing> {
    if lines.iter().all(|line| line.ratio.is_none()) {
        return None;
    }
    let mut columns = document::columns(Kind::Name, &sheet.heads);
    columns.push(Kind::Word.column(sheet.verdict));
    columns.extend(document::columns(Kind::Number, sheet.numbers));
    let rows = lines.iter().map(|line| line.cells.clone()).collect();
    let said = lines
        .iter()
        .map(|line| format!("{}: {}, {}.", line.label, line.value, word(line.mark)));
    Some(Drawing {
        heading: sheet.heading.to_owned(),
        subtitle: String::new(),
        remark: None,
        note: None,
        description: said.collect::<Vec<_>>().join(" "),
        svg: wide(sheet, lines),
        narrow: Some(narrow(sheet, lines)),
        table: Some(Table::new(columns, rows)),
        open: false,
    })
}

fn word(mark: Mark) -> String {
    let verdict = match mark {
        Mark::Bad => Verdict::Regressed,
        Mark::Good => Verdict::Improved,
        Mark::Holds => return Outcome::Holds.to_string(),
        Mark::Refuted => return Outcome::Refuted.to_string(),
        Mark::Unknown => Verdict::Inconclusive,
        _ => Verdict::Unchanged,
    };
    verdict.to_string()
}

/// Labels on the left, values on the right.
fn wide(sheet: &Sheet, lines: &[Line]) -> Svg {
    const WIDEST: f64 = 430.0;
    let widest = |texts: &mut dyn Iterator<Item = &str>, limit: f64| {
        let widths = texts.map(|text| measure::width(text, TEXT));
        widths.fold(0.0, f64::max).min(limit)
    };
    let left = widest(&mut lines.iter().map(|line| line.label.as_str()), WIDEST);
    let values: Vec<String> = lines
        .iter()
        .map(|line| format!("{}{}", line.mark.look().1, line.value))
        .collect();
    let right = widest(&mut values.iter().map(String::as_str), 330.0);
    let labels: Vec<Vec<String>> = lines
        .iter()
        .map(|line| measure::wrap(&line.label, TEXT, left))
        .collect();
    let heights = labels
        .iter()
        .map(|label| (label.len() as f64 * TEXT * LEADING + 8.0).max(ROW));
    let heights: Vec<f64> = heights.collect();
    let bottom = TOP + heights.iter().sum::<f64>();
    let paper = Area::of((left + 20.0, TOP), (WIDTH - right - 16.0, bottom));
    let mut canvas = Canvas::new(WIDTH, bottom + LOWER);
    let scale = ratios(sheet, lines, &paper);
    canvas.fill(paper, Ink::Band);
    let mut top = TOP;
    for (line, height) in lines.iter().zip(&heights) {
        let band = (top + 1.0, top + height - 1.0);
        line.draw_band(&mut canvas, &scale, &paper, band);
        top += height;
    }
    lay(&mut canvas, sheet, &scale, &paper);
    top = TOP;
    for (((line, label), value), height) in lines.iter().zip(&labels).zip(&values).zip(heights) {
        let y = top + height / 2.0;
        line.draw(&mut canvas, &scale, y);
        canvas.lines(label, (4.0, y), TEXT, Ink::Text);
        let value = measure::shorten(value, TEXT, right);
        canvas.text(
            &value,
            (WIDTH - right - 4.0, y),
            Anchor::Start,
            TEXT,
            ink(line.mark),
        );
        top += height;
    }
    canvas.finish()
}

/// Each label over its line, its value under it.
fn narrow(sheet: &Sheet, lines: &[Line]) -> Svg {
    const TRACK: f64 = 18.0;
    let labels: Vec<Vec<String>> = lines
        .iter()
        .map(|line| measure::wrap(&line.label, TEXT, NARROW - 8.0))
        .collect();
    let of_text = |lines: usize| lines as f64 * TEXT * LEADING;
    let heights: Vec<f64> = labels
        .iter()
        .map(|label| of_text(label.len()) + TRACK + of_text(1) + 10.0)
        .collect();
    let bottom = TOP + heights.iter().sum::<f64>();
    let paper = Area::of((8.0, TOP), (NARROW - 8.0, bottom));
    let mut canvas = Canvas::new(NARROW, bottom + LOWER);
    let scale = ratios(sheet, lines, &paper);
    canvas.fill(paper, Ink::Band);
    let track = |top: f64, label: &[String]| top + of_text(label.len()) + TRACK / 2.0 + 2.0;
    let mut top = TOP;
    for ((line, label), height) in lines.iter().zip(&labels).zip(&heights) {
        let y = track(top, label);
        let band = (y - TRACK / 2.0, y + TRACK / 2.0);
        line.draw_band(&mut canvas, &scale, &paper, band);
        top += height;
    }
    lay(&mut canvas, sheet, &scale, &paper);
    top = TOP;
    for ((line, label), height) in lines.iter().zip(&labels).zip(heights) {
        let (text, y) = (of_text(label.len()), track(top, label));
        line.draw(&mut canvas, &scale, y);
        for (index, label) in label.iter().enumerate() {
            let at = (4.0, top + of_text(1) * (index as f64 + 0.5) + 1.0);
            canvas.text(label, at, Anchor::Start, TEXT, Ink::Label);
        }
        let value = format!("{}{}", line.mark.look().1, line.value);
        let value = measure::shorten(&value, TEXT, NARROW - 8.0);
        let at = (4.0, top + text + TRACK + of_text(1) / 2.0 + 3.0);
        canvas.text(&value, at, Anchor::Start, TEXT, label_ink(line.mark));
        top += height;
    }
    canvas.finish()
}

/// Everything that is drawn in logarithms, so that twice and half are as far from no change.
fn ratios(sheet: &Sheet, lines: &[Line], paper: &Area) -> Scale {
    let farthest = FARTHEST.ln();
    let ends = lines.iter().flat_map(|line| {
        let interval = line.interval.map(|(low, high)| [low, high]);
        let ends = interval.unwrap_or([line.ratio.unwrap_or(1.0); 2]);
        let band = [line.band.0.unwrap_or(1.0), line.band.1.unwrap_or(1.0)];
        let reach = band.map(|end| end.ln() * LEAST_THRESHOLDS);
        // A claimed range is as wide as it is; a threshold must not fill the picture.
        let band = if sheet.has_claims {
            band.map(f64::ln)
        } else {
            reach
        };
        [ends[0].ln(), ends[1].ln(), band[0], band[1]]
    });
    // An interval far beyond all dots would press them together.
    let dots = lines.iter().filter_map(|line| line.ratio);
    let widest = dots.map(|ratio| ratio.ln().abs()).fold(0.0, f64::max);
    let limit = (widest * 3.0).max(0.1).min(farthest);
    let clamped = ends
        .filter(|end| end.is_finite())
        .map(|end| end.clamp(-limit, limit));
    let (low, high) = clamped.fold((0.0_f64, 0.0_f64), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    let room = (high - low).max(0.02) * 0.06;
    Scale::linear((low - room, high + room), (paper.left, paper.right))
}

/// Two figures of it and no zero behind the point: 1.8, 2, 10.
fn factor(ratio: f64) -> String {
    let decimals = usize::from(ratio < 9.95);
    let shown = format!("{ratio:.decimals$}");
    shown.trim_end_matches(".0").to_owned()
}

/// Grid, ticks and title.
fn lay(canvas: &mut Canvas, sheet: &Sheet, scale: &Scale, paper: &Area) {
    let (low, high) = scale.range();
    let mut free_from = f64::NEG_INFINITY;
    for ratio in ticks(low, high) {
        let x = scale.place(ratio.ln());
        let label = if (0.5..2.0).contains(&ratio) {
            let percent = (ratio - 1.0) * 100.0;
            let decimals = usize::from((percent - percent.round()).abs() > 1e-6);
            match percent {
                0.0 => "no change".to_owned(),
                _ => format!("{percent:+.decimals$} %"),
            }
        } else if ratio < 1.0 {
            format!("÷ {}", factor(1.0 / ratio))
        } else {
            format!("× {}", factor(ratio))
        };
        let half = measure::width(&label, SMALL) / 2.0;
        let is_none = ratio.to_bits() == 1.0_f64.to_bits();
        let ink = if is_none { Ink::Axis } else { Ink::Grid };
        canvas.upright(x, (paper.top, paper.bottom), ink, 1.0);
        let middle = x.max(half + 1.0).min(paper.right + 7.0 - half);
        if middle - half >= free_from {
            canvas.small(&label, (middle, paper.bottom + 9.0), Anchor::Middle);
            free_from = middle + half + 8.0;
        }
    }
    let title = measure::shorten(sheet.axis, SMALL, paper.width() + 16.0);
    canvas.small(
        &title,
        (paper.middle().0, paper.bottom + 23.0),
        Anchor::Middle,
    );
}

/// Ratios for the axis: round changes near none, powers of two far from it. No change first, so
/// that it always has its label.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let reach = low.abs().max(high);
    let ratios: Vec<f64> = if reach > 1.2 {
        (1..=5)
            .flat_map(|power| [2.0_f64.powi(power), 0.5_f64.powi(power)])
            .chain([1.0])
            .collect()
    } else {
        let steps = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
        let step = steps
            .into_iter()
            .find(|step| reach / step <= 4.5)
            .unwrap_or(0.5);
        (-5..=10)
            .map(|count| 1.0 + step * f64::from(count))
            .collect()
    };
    let mut inside: Vec<f64> = ratios
        .into_iter()
        .filter(|ratio| *ratio > 0.0 && (low..=high).contains(&ratio.ln()))
        .map(|ratio| {
            if (ratio - 1.0).abs() < 1e-9 {
                1.0
            } else {
                ratio
            }
        })
        .collect();
    inside.sort_by(f64::total_cmp);
    inside
}

fn ink(mark: Mark) -> Ink {
    match mark {
        Mark::Bad | Mark::Refuted => Ink::Danger,
        Mark::Good | Mark::Holds => Ink::Series(2),
        Mark::Unknown => Ink::Muted,
        _ => Ink::Text,
    }
}

/// How a verdict is drawn: its colour, its shape, and whether that is hollow.
pub(super) fn sign(mark: Mark) -> (Ink, Shape, bool) {
    let (shape, is_hollow) = match mark {
        Mark::Bad | Mark::Refuted => (Shape::Diamond, false),
        Mark::Good | Mark::Holds => (Shape::Disc, false),
        Mark::Unknown => (Shape::Triangle, true),
        _ => (Shape::Square, true),
    };
    (ink(mark), shape, is_hollow)
}

/// Over a background of their own.
fn label_ink(mark: Mark) -> Ink {
    match ink(mark) {
        Ink::Text => Ink::Label,
        other => other,
    }
}

impl Line {
    fn draw_band(
        &self,
        canvas: &mut Canvas,
        scale: &Scale,
        paper: &Area,
        (top, bottom): (f64, f64),
    ) {
        let place = |ratio: f64| scale.place(ratio.ln());
        let left = self.band.0.map_or(paper.left, place);
        let right = self.band.1.map_or(paper.right, place);
        canvas.fill(Area::of((left, top), (right, bottom)), Ink::Grid);
    }

    fn draw(&self, canvas: &mut Canvas, scale: &Scale, y: f64) {
        let place = |ratio: f64| scale.place(ratio.ln());
        let Some(ratio) = self.ratio else {
            return;
        };
        let (low, high) = scale.range();
        let ink = ink(self.mark);
        let hint = format!("{}: {}", self.label, self.value);
        canvas.hinted(&hint, |canvas| {
            if let Some((from, to)) = self.interval {
                canvas.level((place(from), place(to)), y, ink, 2.0);
                for (end, is_beyond, to_the_right) in
                    [(from, from.ln() < low, false), (to, to.ln() > high, true)]
                {
                    if is_beyond {
                        canvas.beyond((place(end), y), to_the_right, ink);
                    } else {
                        canvas.upright(place(end), (y - 4.0, y + 4.0), ink, 2.0);
                    }
                }
            }
            let at = (place(ratio), y);
            if ratio.ln() < low || ratio.ln() > high {
                canvas.beyond(at, ratio > 1.0, ink);
                return;
            }
            let (_, shape, is_hollow) = sign(self.mark);
            canvas.mark(at, shape, 9.0, ink, is_hollow);
        });
    }
}

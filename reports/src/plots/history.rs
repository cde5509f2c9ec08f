//! Sparklines: the history beside each metric, with its changes of level.

use judge::compare::Verdict;

use super::{Drawing, Key, Picture, Plot, forest};
use crate::{
    document::Mark,
    format::plural,
    measure,
    model::View,
    past::{self, Past},
    svg::{
        Anchor, Area, Canvas, LEADING, Shape, Svg, TEXT,
        ink::Ink,
        rows::{NARROW, WIDTH},
        scale::{self, Scale},
    },
    trend::value_scale,
};

pub(crate) const PLOT: Plot = Plot {
    id: "history",
    title: "Over time",
    about: "What the history knows of these metrics up to this session, in a comparison up to that \
            of the head: one value a session, oldest first, the disc its own. Horizontal strokes are \
            levels, an upright stroke is the first result of a new level: red if it regressed, green \
            if it improved. No line is so magnified that what counts as unchanged fills it.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Rows of one drawing; the table has the others.
const MOST: usize = 60;
/// Rows on a card of an index.
const ON_A_CARD: usize = 4;
const ROW: f64 = 40.0;
const TRACK: f64 = 26.0;
/// More points than this are a line of their extremes.
const MOST_POINTS: usize = 120;

fn draw(view: &View) -> Picture {
    Picture {
        legend: legend(),
        drawings: drawing(&view.past).into_iter().collect(),
    }
}

pub(crate) fn legend() -> Vec<Key> {
    let key = |ink, sign, label: &str| Key {
        ink,
        sign,
        label: label.to_owned(),
    };
    vec![
        key(Ink::Text, Shape::Disc.sign(), "this session"),
        key(Ink::Series(0), "―", "level"),
        key(Ink::Danger, "|", "regressed"),
        key(Ink::Series(2), "|", "improved"),
    ]
}

/// A row for each metric; `None` where there is no history.
pub(crate) fn drawing(past: &[Past]) -> Option<Drawing> {
    if past.is_empty() {
        return None;
    }
    let all = past::in_order(past);
    let shown = &all[..all.len().min(MOST)];
    let more = all.len() - shown.len();
    let more = (more > 0).then(|| plural(more, "more metric", "more metrics"));
    let said = all
        .iter()
        .map(|one| format!("{}: {}, {}.", one.label(), one.value(), one.said()));
    Some(Drawing {
        heading: "History of each metric".to_owned(),
        subtitle: String::new(),
        remark: None,
        note: more.map(|more| format!("{more} in the table.")),
        description: said.collect::<Vec<_>>().join(" "),
        svg: wide(shown),
        narrow: Some(narrow(shown)),
        table: Some(past::table(&all)),
        open: false,
    })
}

/// For a card of an index: the first few, and what they say.
pub(crate) fn card(past: &[Past]) -> Option<(Svg, String)> {
    let all = past::in_order(past);
    let shown = &all[..all.len().min(ON_A_CARD)];
    let said = shown
        .iter()
        .map(|one| format!("{}: {}.", one.label(), one.said()));
    let said: Vec<String> = said.collect();
    (!shown.is_empty()).then(|| (narrow(shown), said.join(" ")))
}

/// Label, value, line and what happened, side by side.
fn wide(past: &[&Past]) -> Svg {
    const LABEL: f64 = 380.0;
    const VALUE: f64 = 110.0;
    const WORDS: f64 = 290.0;
    let labels = past
        .iter()
        .map(|one| measure::wrap(&one.label(), TEXT, LABEL - 12.0));
    let labels: Vec<Vec<String>> = labels.collect();
    let height = |label: &Vec<String>| (label.len() as f64 * TEXT * LEADING + 8.0).max(ROW);
    let mut canvas = Canvas::new(WIDTH, labels.iter().map(height).sum());
    let mut top = 0.0;
    for (index, (one, label)) in past.iter().zip(&labels).enumerate() {
        let bottom = top + height(label);
        let y = f64::midpoint(top, bottom);
        if index % 2 == 0 {
            canvas.fill(Area::of((0.0, top), (WIDTH, bottom)), Ink::Band);
        }
        canvas.lines(label, (4.0, y), TEXT, Ink::Text);
        let at = (LABEL + VALUE - 12.0, y);
        canvas.bold(&one.value(), at, Anchor::End, TEXT, Ink::Text);
        let (left, right) = (LABEL + VALUE, WIDTH - WORDS);
        let track = Area::of((left, y - TRACK / 2.0), (right, y + TRACK / 2.0));
        sparkline(&mut canvas, one, &track);
        let words = measure::shorten(&words(one), TEXT, WORDS - 16.0);
        canvas.text(&words, (right + 12.0, y), Anchor::Start, TEXT, ink(one));
        top = bottom;
    }
    canvas.finish()
}

/// The label over the line, the words under it.
fn narrow(past: &[&Past]) -> Svg {
    let line = TEXT * LEADING;
    let labels = past
        .iter()
        .map(|one| measure::wrap(&one.label(), TEXT, NARROW - 8.0));
    let labels: Vec<Vec<String>> = labels.collect();
    let height = |label: &Vec<String>| (label.len() + 1) as f64 * line + TRACK + 20.0;
    let mut canvas = Canvas::new(NARROW, labels.iter().map(height).sum());
    let mut top = 0.0;
    for (one, label) in past.iter().zip(&labels) {
        let text = label.len() as f64 * line;
        canvas.lines(label, (4.0, top + text / 2.0 + 2.0), TEXT, Ink::Text);
        let upper = top + text + 6.0;
        let track = Area::of((4.0, upper), (NARROW - 4.0, upper + TRACK));
        canvas.fill(track, Ink::Band);
        sparkline(&mut canvas, one, &track);
        let words = format!("{} · {}", one.value(), words(one));
        let words = measure::shorten(&words, TEXT, NARROW - 8.0);
        let at = (4.0, upper + TRACK + line / 2.0 + 3.0);
        canvas.text(&words, at, Anchor::Start, TEXT, ink(one));
        top += height(label);
    }
    canvas.finish()
}

fn words(past: &Past) -> String {
    past.mark().look().1.to_owned() + &past.said()
}

fn ink(past: &Past) -> Ink {
    match past.mark() {
        Mark::Bad | Mark::Good => forest::sign(past.mark()).0,
        _ => Ink::Muted,
    }
}

fn sparkline(canvas: &mut Canvas, past: &Past, track: &Area) {
    let series = &past.series;
    let points = &series.points;
    let up = value_scale(series, (track.bottom - 3.0, track.top + 3.0));
    let last = points.len().saturating_sub(1).max(1) as f64;
    // By their order: what happened between sessions that lie close together is what is looked for.
    let along = Scale::linear((0.0, last), (track.left + 6.0, track.right - 6.0));
    let spot = |place: usize| (along.place(place as f64), up.place(points[place].value));
    let spots: Vec<(f64, f64)> = (0..points.len()).map(spot).collect();
    let changes = &series.found.change_points;
    for change in changes {
        let ink = match series.verdict(change) {
            Some(Verdict::Regressed) => Ink::Danger,
            Some(Verdict::Improved) => Ink::Series(2),
            _ => Ink::Series(1),
        };
        let x = along.place(change.index as f64);
        canvas.upright(x, (track.top, track.bottom), ink, 1.6);
    }
    let thinned = scale::extremes(&spots, MOST_POINTS);
    canvas.line(&thinned, Ink::Axis, 1.2);
    let ends = changes
        .iter()
        .map(|change| change.index)
        .chain([points.len()]);
    let befores = changes.first().map(|change| (0, change.before));
    let levels = changes.iter().map(|change| (change.index, change.after));
    for ((from, level), to) in befores.into_iter().chain(levels).zip(ends) {
        let ends = (along.place(from as f64), along.place((to - 1) as f64));
        canvas.level(ends, up.place(level), Ink::Series(0), 2.0);
    }
    if let Some(own) = spots.last() {
        let hint = format!("{}: {}, {}", past.label(), past.value(), past.said());
        canvas.hinted(&hint, |canvas| {
            canvas.mark(*own, Shape::Disc, 7.0, Ink::Text, false);
        });
    }
}

//! Sparklines: the history beside each metric, with its changes of level.

use super::plot::{Drawing, Plot};
use crate::{
    charts::{Chart, Entry, Key, Panel},
    document::Mark,
    model::View,
    past::{self, Past},
    svg::{Shape, ink::Ink},
    trend::picture,
    words::format::plural,
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
const ON_A_CARD: usize = 4;
const HEIGHT: f64 = 34.0;

fn draw(view: &View) -> Drawing {
    drawing(&view.past)
}

pub(crate) fn drawing(past: &[Past]) -> Drawing {
    let legend = vec![
        Key::of(Ink::Text, Shape::Disc.sign(), "this session"),
        Key::of(Ink::Series(0), "―", "level"),
        Key::of(Ink::Danger, "|", "regressed"),
        Key::of(Ink::Series(2), "|", "improved"),
    ];
    (legend, Vec::from_iter(chart(past)))
}

fn chart(past: &[Past]) -> Option<Chart> {
    let all = past::in_order(past);
    let shown = &all[..all.len().min(MOST)];
    let more = all.len() - shown.len();
    let more = (more > 0).then(|| plural(more, "more metric", "more metrics"));
    (!all.is_empty()).then(|| Chart {
        heading: "History of each metric".to_owned(),
        note: more.map(|more| format!("{more} in the table.")),
        entries: all.iter().map(|one| past::entry(one)).collect(),
        ..panels(shown)
    })
}

pub(crate) fn card(past: &[Past]) -> Option<Chart> {
    let all = past::in_order(past);
    (!all.is_empty()).then(|| panels(&all[..all.len().min(ON_A_CARD)]))
}

fn panels(past: &[&Past]) -> Chart {
    let entries = past.iter().map(|one| past::entry(one)).collect();
    let panels = past.iter().map(|one| panel(one)).collect();
    Chart::panels(entries, (1, HEIGHT), panels)
}

fn panel(past: &Past) -> Panel {
    let Entry { name, value, .. } = past::entry(past);
    let sign = match past.mark() {
        Mark::Muted => "",
        mark => mark.look().1,
    };
    Panel {
        title: name,
        caption: format!("{sign}{value}"),
        ..picture::panel(&past.series, true)
    }
}

//! A page for one comparison, for claims, or for a search for the largest batch: a first screen
//! with its picture, and one section.

use askama::Template;
use record::fit::Fit;
use verdict::{ClaimFound, FailOn, Verdicts};

use crate::{
    Past, claims, comparison,
    document::Block,
    fit, format,
    html::{self, Figures, Page, Section},
    model::{Change, changes, headline},
    plots::{Drawing, Key, batches, forest, history},
    sections,
    write::ReportError,
};

/// A comparison as a page; the gate is as strict as `fail_on`.
pub(crate) fn of_comparison(
    verdicts: &Verdicts,
    fail_on: FailOn,
    past: &[Past],
) -> Result<String, ReportError> {
    let changes: Vec<Change> = changes::of_comparison(verdicts, false).collect();
    let counts = sections::of_changes(&headline::count(&changes)).to_vec();
    let mut top = vec![
        Block::Text(comparison::arrow(verdicts)),
        Block::Counts(counts),
    ];
    let gate = headline::gate(&[verdicts], fail_on);
    top.extend(gate.as_ref().map(sections::gate_block));
    let (base, head) = (&verdicts.base, &verdicts.head);
    let places = if base.machine == head.machine {
        format!("{} of {}", head.device, head.machine)
    } else {
        format!(
            "{} of {}, {} of {}",
            base.device, base.machine, head.device, head.machine
        )
    };
    let below = comparison::differences(verdicts).map(Block::Method);
    let compared = section("comparison", "Comparison", &comparison::document(verdicts));
    page(
        "Comparison: what did the change cost?",
        &places,
        (&top, &Vec::from_iter(below)),
        forest::of_comparison(verdicts).map(|one| of_forest(one, false)),
        [compared].into_iter().chain(over_time(past)),
    )
}

/// Claims as a page.
pub(crate) fn of_claims(found: &[ClaimFound], session: &str) -> Result<String, ReportError> {
    let counts = sections::of_claims(&Vec::from_iter(found));
    page(
        "Claims: which of them does the measurement bear out?",
        &format!("session {session}"),
        (&[Block::Counts(counts)], &[]),
        forest::of_claims(found).map(|one| of_forest(one, true)),
        [section("claims", "Claims", &claims::document(found))],
    )
}

/// A search for the largest batch as a page.
pub(crate) fn of_fit(fit: &Fit) -> Result<String, ReportError> {
    let top = [
        Block::Text(fit::tally(fit)),
        Block::List(fit.advice.clone()),
    ];
    let below = [Block::Method(batches::ABOUT.to_owned())];
    let picture = Shown {
        title: batches::TITLE,
        legend: batches::legend(fit),
        drawings: batches::drawings(fit),
    };
    page(
        &fit::title(fit),
        &fit::place(fit),
        (&top, &below),
        Some(picture).filter(|picture| !picture.drawings.is_empty()),
        [section("fits", "What fits", &fit::document(fit))],
    )
}

/// The picture of a first screen.
struct Shown {
    title: &'static str,
    legend: Vec<Key>,
    drawings: Vec<Drawing>,
}

fn of_forest(drawing: Drawing, has_claims: bool) -> Shown {
    Shown {
        title: forest::PLOT.title,
        legend: forest::legend(has_claims),
        drawings: vec![drawing],
    }
}

fn section(id: &str, title: &str, blocks: &[Block]) -> Section {
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        about: String::new(),
        inside: html::document(blocks),
    }
}

/// What a history knows of the metrics, where there is one.
fn over_time(past: &[Past]) -> Option<Section> {
    let figures = Figures {
        id: history::PLOT.id,
        title: history::PLOT.title,
        legend: &history::legend(),
        drawings: &[history::drawing(past)?],
        is_folded: false,
    };
    Some(Section {
        id: history::PLOT.id.to_owned(),
        title: history::PLOT.title.to_owned(),
        about: history::PLOT.about.to_owned(),
        inside: figures.to_string(),
    })
}

fn page(
    title: &str,
    subtitle: &str,
    (top, below): (&[Block], &[Block]),
    picture: Option<Shown>,
    sections: impl IntoIterator<Item = Section>,
) -> Result<String, ReportError> {
    let picture = picture.map(|shown| {
        let figures = Figures {
            id: "first",
            title: shown.title,
            legend: &shown.legend,
            drawings: &shown.drawings,
            is_folded: false,
        };
        figures.to_string()
    });
    let page = Page {
        title: title.to_owned(),
        subtitle: format::clean(subtitle),
        style: html::style(),
        verdict: html::document(top) + &picture.unwrap_or_default() + &html::document(below),
        summary: String::new(),
        sections: sections.into_iter().collect(),
    };
    Ok(page.render()?)
}

//! A page for one comparison, or for claims: the first screen and the section that a session's
//! report has of them.

use askama::Template;
use verdict::{ClaimFound, FailOn, Verdicts};

use crate::{
    claims, comparison,
    document::Block,
    format,
    html::{self, Figures, Page, Section},
    model::{Change, changes, headline},
    plots::{Drawing, forest},
    sections,
    write::ReportError,
};

/// A comparison as a page; the gate is as strict as `fail_on`.
pub(crate) fn of_comparison(verdicts: &Verdicts, fail_on: FailOn) -> Result<String, ReportError> {
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
    page(
        "Comparison: what did the change cost?",
        &places,
        (&top, &Vec::from_iter(below)),
        forest::of_comparison(verdicts),
        ("comparison", "Comparison", &comparison::document(verdicts)),
    )
}

/// Claims as a page.
pub(crate) fn of_claims(found: &[ClaimFound], session: &str) -> Result<String, ReportError> {
    let counts = sections::of_claims(&Vec::from_iter(found)).to_vec();
    page(
        "Claims: which of them does the measurement bear out?",
        &format!("session {session}"),
        (&[Block::Counts(counts)], &[]),
        forest::of_claims(found),
        ("claims", "Claims", &claims::document(found)),
    )
}

fn page(
    title: &str,
    subtitle: &str,
    (top, below): (&[Block], &[Block]),
    picture: Option<Drawing>,
    (id, section, blocks): (&str, &str, &[Block]),
) -> Result<String, ReportError> {
    let picture = picture.map(|drawing| {
        let figures = Figures {
            id: "first",
            title: forest::PLOT.title,
            legend: &forest::legend(id == "claims"),
            drawings: &[drawing],
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
        sections: vec![Section {
            id: id.to_owned(),
            title: section.to_owned(),
            about: String::new(),
            inside: html::document(blocks),
        }],
    };
    Ok(page.render()?)
}

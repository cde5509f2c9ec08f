//! `report.html`: one file, readable without its script and without a network.

use askama::Template;

use super::{
    behind,
    sections::{self, RESULTS},
};
use crate::{
    document::{Block, Section},
    model::{Group, View, versions},
    plots::{self, Plot},
    render::html::Page,
    words::format,
    write::ReportError,
};

pub fn render(view: &View) -> Result<String, ReportError> {
    // Of several cells the first picture and the table answer; who looks further unfolds it.
    let is_long = view.report.cells.len() > 1;
    let versions = versions::of(view);
    let mut sections = sections::of(view);
    for section in &mut sections {
        // Versions side by side have the numbers of the table.
        section.is_folded = match &*section.id {
            RESULTS => !versions.is_empty(),
            id if sections::DETAILS.contains(&id) => is_long,
            id => id == sections::RANKS,
        };
        if section.id == RESULTS && !view.report.cells.is_empty() {
            let cells = view.groups.iter().flat_map(Group::cells);
            let commands = cells.map(|cell| view.commands[cell].clone());
            section.blocks.push(Block::Commands(commands.collect()));
        }
    }
    let mut plots = plots::in_order(view);
    let mut first = sections::changes(view);
    // Behind the changes; before them where there are none, and where a curve is what is asked for first.
    if let Some(plot) = plots.get(1)
        && let Some(asked) = plots::place_asked(view, plot)
        && (first.is_empty() || asked == 0 && plot.is_curve())
        && let Some(drawn) = drawn(view, plot, "first")
    {
        first = drawn.blocks;
        plots.remove(1);
    }
    let pictures = plots
        .into_iter()
        .filter_map(|plot| drawn(view, plot, plot.id));
    let (of_cells, of_all): (Vec<Section>, Vec<Section>) =
        pictures.partition(|picture| is_long && behind::is_of_cells(picture));
    sections.extend(of_all.into_iter().map(|picture| Section {
        is_folded: is_long,
        ..picture
    }));
    let behind = behind::section(view, of_cells);
    for section in &mut sections {
        if let (RESULTS, Some((_, firsts))) = (&*section.id, &behind) {
            behind::lead(view, &mut section.blocks, firsts);
        }
    }
    sections.extend(behind.map(|(section, _)| section));
    sections.push(Section {
        is_folded: is_long,
        ..Section::of("facts", sections::FACTS, sections::facts(view))
    });
    let mut verdict = sections::verdict(view);
    verdict.extend(first);
    verdict.extend(sections::place(view));
    let page = Page {
        title: sections::title(view),
        subtitle: subtitle(view),
        verdict,
        summary: sections::top(view),
        sections,
    };
    Ok(page.render()?)
}

fn drawn(view: &View, plot: &Plot, id: &str) -> Option<Section> {
    let mut section = plot.section((plot.draw)(view))?;
    for block in &mut section.blocks {
        if let Block::Picture(picture) = block {
            id.clone_into(&mut picture.id);
            picture.has_hints = !view.is_large();
        }
    }
    Some(section)
}

fn subtitle(view: &View) -> String {
    let names = view.report.sessions.iter().map(|session| {
        let day = session.started_at.strftime("%Y-%m-%d %H:%M UTC");
        let (device, _) = session.device_name();
        let (host, of) = (session.machine_names(), &session.session);
        format!("{device} of {host} · {day} · session {of}")
    });
    format::clean(&names.collect::<Vec<_>>().join(" | "))
}

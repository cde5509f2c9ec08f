//! What a search for the largest batch found, as a page, Markdown and JSON.

use std::path::{Path, PathBuf};

use askama::Template;
use record::{
    Reason,
    fit::{Attempt, Fit, Found},
};

use crate::{
    document::{Block, Cell, Kind, Mark, Picture, Section, Table, TableRow, known},
    plots::batches,
    render::{html::Page, json, markdown as md},
    words::format::{Quantity, bytes, plural},
    write::{Files, ReportError, write_files},
};

/// `fit.html`, `fit.md` and `fit.json` in a folder that is made where it is not there: either all
/// three are new or none is. Comes back with the page.
pub fn write(fit: &Fit, out: &Path) -> Result<PathBuf, ReportError> {
    write_files(out, &files(fit)?)?;
    Ok(out.join("fit.html"))
}

pub(crate) fn files(fit: &Fit) -> Result<Files, ReportError> {
    Ok([
        ("fit.html", page(fit)?),
        ("fit.md", markdown(fit)),
        ("fit.json", json::render(fit)?),
    ])
}

fn page(fit: &Fit) -> Result<String, ReportError> {
    let mut verdict = vec![Block::Text(tally(fit)), Block::List(fit.advice.clone())];
    let (legend, charts) = batches::drawing(fit);
    if !charts.is_empty() {
        let picture = Picture::of("first", batches::TITLE, legend, charts);
        verdict.push(Block::Picture(picture));
    }
    verdict.push(Block::Method(batches::ABOUT.to_owned()));
    let page = Page {
        title: title(fit),
        subtitle: place(fit),
        verdict,
        summary: Vec::new(),
        sections: vec![Section::of("fits", "What fits", document(fit))],
    };
    Ok(page.render()?)
}

pub fn markdown(fit: &Fit) -> String {
    let mut blocks = vec![
        Block::Heading(title(fit)),
        Block::List(fit.advice.clone()),
        Block::Method(place(fit)),
    ];
    blocks.extend(document(fit));
    let attempts = batches::entries(&fit.found).into_iter();
    let attempts = attempts.map(|entry| entry.cells).collect();
    blocks.extend(Block::titled("Attempts", attempts, true));
    md::document(&blocks, 2)
}

pub(crate) fn title(fit: &Fit) -> String {
    format!("What is the largest batch within {}?", budget(fit))
}

/// The memory to fit: 8 GiB and not 8.000 GiB, for it is exact.
pub(crate) fn budget(fit: &Fit) -> String {
    bytes(fit.memory_bytes as f64).replace(".000 ", " ")
}

pub(crate) fn place(fit: &Fit) -> String {
    format!("{} of {}", fit.device, fit.machine)
}

pub(crate) fn document(fit: &Fit) -> Vec<Block> {
    let table = Table::of(fit.found.iter().map(largest).collect());
    table.map(Block::Table).into_iter().collect()
}

pub(crate) fn names(names: [&String; 3]) -> TableRow {
    let heads = ["image", "scenario", "combination"].into_iter().zip(names);
    heads
        .map(|(head, name)| Kind::Name.cell(head, name.as_str()))
        .collect()
}

fn largest(one: &Found) -> TableRow {
    let best = one.largest_attempt();
    let batch = match one.largest_batch {
        Some(batch) => Cell::from(batch.to_string()),
        None => Cell::from("none").marked(Mark::Failure),
    };
    let mut row = names([&one.image, &one.scenario, &one.combination]);
    row.extend([
        Kind::Number.cell("largest batch", batch),
        Kind::Number.cell("peak", known(best.and_then(peak))),
        Kind::Number.cell("throughput", known(best.and_then(throughput))),
        Kind::Message.cell("why no more", why_no_more(one)),
    ]);
    row
}

pub(crate) fn peak(attempt: &Attempt) -> Option<String> {
    Some(bytes(attempt.peak_bytes? as f64))
}

pub(crate) fn throughput(attempt: &Attempt) -> Option<String> {
    let throughput = attempt.throughput_samples_per_second?;
    Some(Quantity::Throughput.write(throughput))
}

/// Whether memory ran out, or it got nowhere with its memory full.
pub(crate) fn is_too_large(attempt: &Attempt) -> bool {
    let reason = attempt.outcome.reason();
    attempt.stalled || matches!(reason, Some(Reason::OutOfMemory | Reason::HostOutOfMemory))
}

pub(crate) fn word(attempt: &Attempt) -> String {
    match attempt.outcome.reason() {
        None => "fits".to_owned(),
        Some(reason) if attempt.stalled => {
            format!("memory full, got nowhere ({})", reason.word())
        }
        Some(reason) => reason.word(),
    }
}

pub(crate) fn ended(attempt: &Attempt) -> String {
    let numbers = [
        peak(attempt).map(|peak| format!("peak {peak}")),
        throughput(attempt),
    ];
    let words = [Some(word(attempt))].into_iter().chain(numbers);
    words.flatten().collect::<Vec<_>>().join(", ")
}

/// What ended the search of a combination.
pub fn why_no_more(found: &Found) -> String {
    match (&found.problem, found.reached_most, found.too_large_batch) {
        (Some(problem), ..) => problem.lines().next().unwrap_or_default().to_owned(),
        (None, true, _) => "--most was reached".to_owned(),
        (None, false, Some(batch)) => format!("out of memory at {batch}"),
        (None, false, None) => "out of memory".to_owned(),
    }
}

/// `4 combinations, 3 with a batch that fits`.
pub(crate) fn tally(fit: &Fit) -> String {
    let fitting = fit.found.iter().filter(|one| one.largest_batch.is_some());
    format!(
        "{}, {} with a batch that fits.",
        plural(fit.found.len(), "combination", "combinations"),
        fitting.count()
    )
}

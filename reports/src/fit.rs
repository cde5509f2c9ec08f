//! What a search for the largest batch found, as a page, Markdown and JSON.

use std::path::{Path, PathBuf};

use record::{
    Reason,
    fit::{Attempt, Choice, Fit, Found},
};

use crate::{
    document::{Block, Cell, Kind, Mark, Table, columns, known},
    format::{self, Quantity, bytes, plural},
    markdown as md, verdict_page,
    write::{ReportError, write_files},
};

/// A search as JSON, a line break at its end.
pub fn json(fit: &Fit) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(fit)? + "\n")
}

/// `fit.html`, `fit.md` and `fit.json` in a folder that is made where it is not there: either all
/// three are new or none is. Comes back with the page.
pub fn write(fit: &Fit, out: &Path) -> Result<PathBuf, ReportError> {
    write_files(out, &files(fit)?)?;
    Ok(out.join("fit.html"))
}

/// The files of a search, each with its name.
pub(crate) fn files(fit: &Fit) -> Result<[(&'static str, String); 3], ReportError> {
    Ok([
        ("fit.html", verdict_page::of_fit(fit)?),
        ("fit.md", markdown(fit)),
        ("fit.json", json(fit)?),
    ])
}

/// A search as GitHub's Markdown.
#[must_use]
pub fn markdown(fit: &Fit) -> String {
    let mut blocks = vec![
        Block::Heading(title(fit)),
        Block::List(fit.advice.clone()),
        Block::Method(place(fit)),
    ];
    blocks.extend(document(fit));
    let attempts = Block::titled("Attempts", table(&Vec::from_iter(&fit.found)), true);
    blocks.extend(attempts);
    md::document(&blocks, 2)
}

/// What is asked.
pub(crate) fn title(fit: &Fit) -> String {
    format!("What is the largest batch within {}?", budget(fit))
}

/// The memory to fit: 8 GiB and not 8.000 GiB, for it is exact.
pub(crate) fn budget(fit: &Fit) -> String {
    bytes(fit.memory_bytes as f64).replace(".000 ", " ")
}

/// Where it was searched.
pub(crate) fn place(fit: &Fit) -> String {
    format!("{} of {}", fit.device, fit.machine)
}

/// What fits, and what of it is worth choosing.
pub(crate) fn document(fit: &Fit) -> Vec<Block> {
    let mut blocks = vec![Block::Table(largest(fit))];
    let front = Block::titled(
        "Pareto front of batch, memory and throughput",
        front(fit),
        false,
    );
    blocks.extend(front);
    blocks
}

/// The largest batch of each combination.
fn largest(fit: &Fit) -> Table {
    let mut heads = columns(Kind::Name, &["image", "scenario", "combination"]);
    heads.extend(columns(
        Kind::Number,
        &["largest batch", "peak", "throughput"],
    ));
    heads.push(Kind::Message.column("why no more"));
    let row = |one: &Found| {
        let best = one.largest_attempt();
        let batch = match one.largest_batch {
            Some(batch) => Cell::from(batch.to_string()),
            None => Cell::from("none").marked(Mark::Failure),
        };
        vec![
            one.image.as_str().into(),
            one.scenario.as_str().into(),
            one.combination.as_str().into(),
            batch,
            known(best.and_then(peak)),
            known(best.and_then(throughput)),
            why_no_more(one).into(),
        ]
    };
    Table::new(heads, fit.found.iter().map(row).collect())
}

fn front(fit: &Fit) -> Table {
    let mut heads = columns(Kind::Name, &["image", "scenario", "combination"]);
    heads.extend(columns(Kind::Number, &["batch", "peak", "throughput"]));
    let row = |one: &Choice| {
        vec![
            one.image.as_str().into(),
            one.scenario.as_str().into(),
            one.combination.as_str().into(),
            one.batch.to_string().into(),
            bytes(one.peak_bytes as f64).into(),
            Quantity::Throughput
                .write(one.throughput_samples_per_second)
                .into(),
        ]
    };
    Table::new(heads, fit.front.iter().map(row).collect())
}

/// Every attempt of these combinations, by batch.
pub(crate) fn table(found: &[&Found]) -> Table {
    let mut heads = columns(Kind::Name, &["image", "scenario", "combination"]);
    heads.push(Kind::Number.column("batch"));
    heads.push(Kind::Message.column("came to"));
    heads.extend(columns(Kind::Number, &["peak", "throughput", "took"]));
    let mut rows = Vec::new();
    for one in found {
        let mut attempts: Vec<&Attempt> = one.attempts.iter().collect();
        attempts.sort_by_key(|attempt| attempt.batch);
        for attempt in attempts {
            rows.push(vec![
                one.image.as_str().into(),
                one.scenario.as_str().into(),
                one.combination.as_str().into(),
                attempt.batch.to_string().into(),
                word(attempt).into(),
                known(peak(attempt)),
                known(throughput(attempt)),
                format::duration(attempt.seconds).into(),
            ]);
        }
    }
    Table::new(heads, rows)
}

fn peak(attempt: &Attempt) -> Option<String> {
    Some(bytes(attempt.peak_bytes? as f64))
}

fn throughput(attempt: &Attempt) -> Option<String> {
    let throughput = attempt.throughput_samples_per_second?;
    Some(Quantity::Throughput.write(throughput))
}

/// Whether memory ran out, or it got nowhere with its memory full.
pub(crate) fn is_too_large(attempt: &Attempt) -> bool {
    let reason = attempt.outcome.reason();
    attempt.stalled || matches!(reason, Some(Reason::OutOfMemory | Reason::HostOutOfMemory))
}

fn word(attempt: &Attempt) -> String {
    match attempt.outcome.reason() {
        None => "fits".to_owned(),
        Some(reason) if attempt.stalled => {
            format!("memory full, got nowhere ({})", reason.word())
        }
        Some(reason) => reason.word(),
    }
}

/// How an attempt ended, with what it took.
pub(crate) fn ended(attempt: &Attempt) -> String {
    let numbers = [
        peak(attempt).map(|peak| format!("peak {peak}")),
        throughput(attempt),
    ];
    let words = [Some(word(attempt))].into_iter().chain(numbers);
    words.flatten().collect::<Vec<_>>().join(", ")
}

/// What ended the search of a combination.
#[must_use]
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

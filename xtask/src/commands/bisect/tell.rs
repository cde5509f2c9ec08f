//! What a search is to try, and what it found.

use std::path::Path;

use bench_suite::bisect::{Bisection, Change, Decision, Followed, Judgement, Purpose};
use record::{ImageChange, Reason, SessionFolder};
use reports::{comparison::part, format};
use serde::Serialize;

use super::{error::SearchError, step::RUNS};
use crate::{cli::Format, error::Result, printer::Printer, table::table};

/// What `--format json` prints.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    search: &'a Bisection,
    last_good: &'a str,
    first_bad: &'a str,
    image_changes: Vec<ImageChange>,
}

pub(super) fn plan(search: &Bisection, format: Format, printer: &Printer) {
    let mut rows = table(format, ["", "candidate"]);
    for (place, candidate) in search.candidates.iter().enumerate() {
        let end = match place {
            0 => "good",
            place if place + 1 == search.candidates.len() => "bad",
            _ => "",
        };
        rows.add_row([end, &candidate.name]);
    }
    let halvings = (search.candidates.len() - 1).next_power_of_two().ilog2();
    let comparisons = format::plural(halvings as usize + 3, "comparison", "comparisons");
    printer.line(&format!(
        "{rows}\nat most {comparisons} if all can be measured; nothing was started"
    ));
}

/// The culprit, by what it differs from the one before, and how sure that is.
pub(super) fn answer(
    search: &Bisection,
    folder: &Path,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let found = search.range();
    let name = |place: usize| search.candidates[place].name.as_str();
    let size = search.size();
    let changes = match size {
        Some(size) => image_changes(&folder.join(&size.session))?,
        None => Vec::new(),
    };
    if format == Format::Json {
        printer.json(&Answer {
            search,
            last_good: name(found.good),
            first_bad: name(found.bad),
            image_changes: changes,
        })?;
    } else {
        printer.line(&decisions(search, format));
        printer.line("");
        for line in sentences(search) {
            printer.line(&line);
        }
        if !changes.is_empty() {
            let mut rows = table(format, ["part", "name", name(found.good), name(found.bad)]);
            for change in &changes {
                let (base, head) = (part(change.base.as_ref()), part(change.head.as_ref()));
                rows.add_row([change.part.to_string(), change.name.clone(), base, head]);
            }
            printer.line(&format!("\n{rows}"));
        }
        if let Some(size) = size {
            let page = folder.join(&size.session).join("report.html");
            printer.line(&format!("report: {}", page.display()));
        }
    }
    if found.bad - found.good > 1 {
        return Err(SearchError::Undecided(found.bad - found.good - 1).into());
    }
    let is_contradicted =
        |size: &Decision| size.purpose == Purpose::Size && size.judgement == Judgement::Good;
    if size.is_some_and(is_contradicted) {
        return Err(SearchError::Contradicted.into());
    }
    Ok(())
}

fn image_changes(folder: &Path) -> Result<Vec<ImageChange>> {
    let session = SessionFolder::at(folder).read_session()?;
    Ok(match session.images.as_slice() {
        [base, head, ..] => record::image_changes(base, head),
        _ => Vec::new(),
    })
}

fn decisions(search: &Bisection, format: Format) -> String {
    let counts = search.change.as_ref().is_some_and(counts);
    let mut heads = vec!["candidate", "beside", "side"];
    heads.extend_from_slice(if counts {
        &["failed"]
    } else {
        &["change", "interval"]
    });
    heads.push("blocks");
    let mut rows = table(format, heads);
    for decision in &search.decisions {
        let name = |place: usize| search.candidates[place].name.clone();
        let mut row = vec![
            name(decision.head),
            name(decision.base),
            side(decision).to_owned(),
        ];
        if counts {
            row.push(decision.failed.clone().unwrap_or_else(|| "–".to_owned()));
        } else {
            row.push(decision.ratio.map_or("–".to_owned(), format::change));
            row.push(interval(decision));
        }
        row.push(decision.blocks.to_string());
        rows.add_row(row);
    }
    rows.to_string()
}

/// Whether runs that fail are what is followed.
fn counts(change: &Change) -> bool {
    matches!(change.followed, Followed::Failure { .. })
}

fn side(decision: &Decision) -> &'static str {
    match (decision.purpose, decision.judgement) {
        (Purpose::Ends, _) => "the change",
        (Purpose::Size, _) => "neighbours",
        (Purpose::Side, Judgement::Good) => "good",
        (Purpose::Side, Judgement::Bad) => "bad",
        (Purpose::Side, Judgement::Unmeasured) => "left out",
    }
}

/// One decision in a line.
pub(super) fn line(search: &Bisection, decision: &Decision) -> String {
    let name = |place: usize| &search.candidates[place].name;
    let (base, head) = (name(decision.base), name(decision.head));
    let change = decision.ratio.map(format::change).unwrap_or_default();
    let interval = interval(decision);
    match (decision.purpose, decision.judgement, &decision.failed) {
        (_, Judgement::Unmeasured, _) => {
            let why = decision.why.as_deref().unwrap_or_default();
            format!("{head} cannot be told: {why}")
        }
        (_, _, Some(failed)) => format!("runs of {head} that failed: {failed}"),
        (Purpose::Ends | Purpose::Size, ..) => {
            format!("from {base} to {head}: {change} ({interval})")
        }
        (Purpose::Side, Judgement::Good, _) => format!("{head} is good: {change} ({interval})"),
        (Purpose::Side, Judgement::Bad, _) => format!("{head} is bad: {change} ({interval})"),
    }
}

pub(super) fn interval(decision: &Decision) -> String {
    decision.interval.map_or("–".to_owned(), |found| {
        format::interval(found.lo, found.hi)
    })
}

fn sentences(search: &Bisection) -> Vec<String> {
    let found = search.range();
    let name = |place: usize| &search.candidates[place].name;
    let mut lines = Vec::new();
    let Some(change) = &search.change else {
        return lines;
    };
    let cell = record::cell_name(&change.scenario, &change.variant);
    let (good, bad) = (name(0), name(search.candidates.len() - 1));
    lines.push(match &change.followed {
        Followed::Metric { name, ratio } => {
            format!(
                "{cell} · {name}: {} from {good} to {bad}",
                format::change(*ratio)
            )
        }
        Followed::Failure { reasons } => {
            let words: Vec<String> = reasons.iter().map(|reason| Reason::word(*reason)).collect();
            format!(
                "{cell}: runs of {bad} fail ({}), those of {good} do not",
                words.join(", ")
            )
        }
    });
    let sides = search.decisions.iter();
    for decision in sides.filter(|one| one.purpose == Purpose::Side) {
        if let Some(why) = &decision.why {
            lines.push(format!("{} was left out: {why}.", name(decision.head)));
        }
    }
    let (is_first, other) = if counts(change) {
        ("that fails", "does")
    } else {
        ("beyond half of it", "is")
    };
    lines.push(if found.bad - found.good == 1 {
        let (good, bad) = (name(found.good), name(found.bad));
        format!("{bad} is the first {is_first}; {good} {other} not.")
    } else {
        let between: Vec<&str> = (found.good + 1..=found.bad)
            .map(|one| name(one).as_str())
            .collect();
        format!(
            "The first {is_first} is among {}: those before the last could not be measured.",
            between.join(", ")
        )
    });
    lines.extend(search.size().map(|size| neighbours(search, size)));
    if counts(change) {
        lines.push(format!(
            "Each was run {RUNS} times beside the other; what fails in fewer than {} of its runs may \
             have passed for good.",
            format::share(1.0 - 0.05_f64.powf(1.0 / f64::from(RUNS)))
        ));
        return lines;
    }
    let spent: f64 = search.decisions.iter().map(|one| one.error).sum();
    lines.push(format!(
        "All {} together are wrong with probability {} at most.",
        format::plural(search.decisions.len(), "decision", "decisions"),
        format::share(spent)
    ));
    lines
}

/// The last good and the first bad one side by side.
fn neighbours(search: &Bisection, size: &Decision) -> String {
    let name = |place: usize| &search.candidates[place].name;
    let (base, head) = (name(size.base), name(size.head));
    let by = size.ratio.map_or("–".to_owned(), format::change);
    let interval = interval(size);
    match (&size.why, size.judgement, &size.failed) {
        (Some(why), ..) => {
            format!("How they differ from {base} to {head} cannot be told: {why}.")
        }
        (None, _, Some(failed)) => {
            format!("Side by side, of the runs of {head} {failed} failed, and none of {base}.")
        }
        (None, Judgement::Bad, None) => {
            format!("Side by side, from {base} to {head}: {by} ({interval}).")
        }
        (None, _, None) => format!(
            "Side by side, no change for the worse is shown from {base} to {head}: {by} ({interval})."
        ),
    }
}

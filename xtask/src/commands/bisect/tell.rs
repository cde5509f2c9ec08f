//! What a search found.

use std::path::Path;

use bench_suite::bisect::{Bisection, Decision};
use record::SessionFolder;
use reports::{comparison::part, format};

use crate::{
    cli::Format,
    error::{Error, Result},
    printer::Printer,
    table::table,
};

/// The culprit, by what it differs from the one before, and how sure that is.
pub(super) fn answer(search: &Bisection, folder: &Path, printer: &Printer) -> Result<()> {
    let range = search.range();
    let [good, bad] = range.map(|place| search.candidates[place].name.as_str());
    printer.line(&decisions(search));
    printer.line("");
    for line in sentences(search) {
        printer.line(&line);
    }
    if let Some(size) = search.size() {
        let folder = folder.join(&size.session);
        let session = SessionFolder::at(&folder).read_session()?;
        let changes = match session.images.as_slice() {
            [base, head, ..] => record::image_changes(base, head),
            _ => Vec::new(),
        };
        if !changes.is_empty() {
            let mut rows = table(Format::Text, ["part", "name", good, bad]);
            for change in &changes {
                let (base, head) = (part(change.base.as_ref()), part(change.head.as_ref()));
                rows.add_row([change.part.to_string(), change.name.clone(), base, head]);
            }
            printer.line(&format!("\n{rows}"));
        }
        let page = folder.join("report.html");
        printer.line(&format!("report: {}", page.display()));
    }
    let between = range[1] - range[0] - 1;
    if between > 0 {
        let between = format::plural(between, "candidate", "candidates");
        return Err(Error::Undecided(format!(
            "{between} between the last good and the first bad one could not be measured; the table \
             has the reason"
        )));
    }
    if search.size().is_some_and(|size| size.is_bad == Some(false)) {
        return Err(Error::Undecided(
            "the last good and the first bad one do not differ side by side, which contradicts the \
             search: the machine drifts; repeat the search with nothing else on it"
                .to_owned(),
        ));
    }
    Ok(())
}

fn decisions(search: &Bisection) -> String {
    let heads = "candidate beside side change interval blocks";
    let mut rows = table(Format::Text, heads.split(' '));
    for (number, decision) in search.decisions.iter().enumerate() {
        let name = |place: usize| search.candidates[place].name.clone();
        let side = match (number, decision.base, decision.is_bad) {
            (0, ..) => "the change",
            (_, 0, Some(false)) => "good",
            (_, 0, Some(true)) => "bad",
            (_, 0, None) => "left out",
            _ => "neighbours",
        };
        rows.add_row([
            name(decision.head),
            name(decision.base),
            side.to_owned(),
            decision.ratio.map_or("–".to_owned(), format::change),
            interval(decision),
            decision.blocks.to_string(),
        ]);
    }
    rows.to_string()
}

pub(super) fn line(search: &Bisection, decision: &Decision) -> String {
    let name = |place: usize| &search.candidates[place].name;
    let (base, head) = (name(decision.base), name(decision.head));
    let change = decision.ratio.map(format::change).unwrap_or_default();
    let interval = interval(decision);
    let is_side = decision.base == 0 && !search.decisions.is_empty();
    match (&decision.why, decision.is_bad) {
        (Some(why), _) => format!("{head} is undecided: {why}"),
        (None, Some(false)) if is_side => format!("{head} is good: {change} ({interval})"),
        (None, Some(true)) if is_side => format!("{head} is bad: {change} ({interval})"),
        _ => format!("from {base} to {head}: {change} ({interval})"),
    }
}

pub(super) fn interval(decision: &Decision) -> String {
    decision.interval.map_or("–".to_owned(), |found| {
        format::interval(found.lo, found.hi)
    })
}

fn sentences(search: &Bisection) -> Vec<String> {
    let name = |place: usize| &search.candidates[place].name;
    let mut lines = Vec::new();
    let Some(change) = &search.change else {
        return lines;
    };
    lines.push(format!(
        "{} · {}: {} from {} to {}",
        record::cell_name(&change.scenario, &change.variant),
        change.metric,
        format::change(change.ratio),
        name(0),
        name(search.candidates.len() - 1)
    ));
    for decision in search.sides() {
        if let Some(why) = &decision.why {
            lines.push(format!("{} was left out: {why}.", name(decision.head)));
        }
    }
    let [good, bad] = search.range();
    lines.push(if bad - good == 1 {
        let (good, bad) = (name(good), name(bad));
        format!("{bad} is the first beyond half of it; {good} is not.")
    } else {
        let between = (good + 1..=bad).map(|one| name(one).as_str());
        format!(
            "The first beyond half of it is among {}: those before the last could not be measured.",
            between.collect::<Vec<_>>().join(", ")
        )
    });
    lines.extend(search.size().map(|size| {
        let (base, head) = (name(size.base), name(size.head));
        let by = size.ratio.map_or("–".to_owned(), format::change);
        let interval = interval(size);
        match (&size.why, size.is_bad) {
            (Some(why), _) => {
                format!("How they differ from {base} to {head} is undecided: {why}.")
            }
            (None, Some(true)) => {
                format!("Side by side, from {base} to {head}: {by} ({interval}).")
            }
            (None, _) => format!(
                "Side by side, no change for the worse is shown from {base} to {head}: {by} \
                 ({interval})."
            ),
        }
    }));
    let spent: f64 = search.decisions.iter().map(|one| one.error).sum();
    lines.push(format!(
        "All {} together are wrong with probability {} at most.",
        format::plural(search.decisions.len(), "decision", "decisions"),
        format::share(spent)
    ));
    lines
}

//! What a gate fails: a line each, and as GitHub's workflow commands.

use super::{
    ledger::{Entry, Standing},
    series::{Failure, Series, Urgency, overdue},
};
use crate::{
    comparison::{command, listed},
    words::format::{self, plural},
};

/// What the gate fails, a line each: entries of the ledger, and series that it does not keep; which,
/// by how much, since when.
pub fn failures(all: &[Series], entries: &[Entry]) -> Vec<String> {
    let kept = standing(entries, Standing::Failing).map(Entry::line);
    let failing = unkept(all).flat_map(|series| {
        let fails = series.fails.iter();
        fails.map(move |failure| format!("{}: {}", series.name(), told(series, *failure)))
    });
    kept.chain(failing.map(|line| format::clean(&line)))
        .collect()
}

pub(super) fn standing(entries: &[Entry], standing: Standing) -> impl Iterator<Item = &Entry> {
    let entries = entries.iter();
    entries.filter(move |entry| entry.standing == standing)
}

fn unkept(all: &[Series]) -> impl Iterator<Item = &Series> {
    all.iter().filter(|series| series.entries.is_empty())
}

/// `regressed by -4.1 %, 100 to 96 samples/s; last good r58, first bad r60`.
fn told(series: &Series, failure: Failure) -> String {
    let news = series.news.and_then(|place| series.changes().get(place));
    match (failure, news, &series.staleness) {
        (Failure::Regressed, Some(change), _) => {
            let [before, after] = [change.before, change.after].map(|level| series.value(level));
            let size = change
                .ratio
                .map(|ratio| format!(" by {}", format::change(ratio)));
            let (size, (good, bad)) = (size.unwrap_or_default(), series.between(change));
            let cause = series.cause(change);
            let cause = cause.map_or_else(String::new, |cause| format!("; from {cause}"));
            format!(
                "regressed{size}, {before} to {after}; last good {good}, first bad {bad}{cause}"
            )
        }
        (Failure::NoNewResult, _, Some(staleness)) => overdue(staleness),
        (Failure::Regressed, ..) => "regressed".to_owned(),
        (Failure::NoNewResult, ..) => "no new result".to_owned(),
    }
}

/// As lines of workflow commands: errors for what the gate fails, warnings for what else came to
/// light with the last run or is open, and a notice that sums up.
pub fn annotations(all: &[Series], entries: &[Entry]) -> String {
    let new = standing(entries, Standing::Failing);
    let new = new.map(|entry| command("error", &entry.kept.id, &entry.line()));
    let open = standing(entries, Standing::Open);
    let open = open.map(|entry| command("warning", &entry.kept.id, &entry.told()));
    let (mut errors, mut warnings): (Vec<_>, Vec<_>) = (new.collect(), open.collect());
    for series in unkept(all) {
        let title = format::clean(&series.name());
        for failure in &series.fails {
            errors.push(command("error", &title, &told(series, *failure)));
        }
        let noteworthy = matches!(series.urgency(), Urgency::News | Urgency::Changed);
        if series.fails.is_empty()
            && noteworthy
            && let Some(remark) = series.remark()
        {
            warnings.push(command("warning", &title, &remark));
        }
    }
    let gated = all.iter().filter(|series| series.gated).count();
    let headline = match errors.len() {
        0 => "no gated series regressed".to_owned(),
        failing => format!(
            "the gate failed: {}",
            plural(failing, "failure", "failures")
        ),
    };
    let judged = format!("{} series followed, {gated} of them gated", all.len());
    listed((&headline, &judged), errors, warnings)
}

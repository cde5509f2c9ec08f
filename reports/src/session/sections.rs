//! The sections of a report, in the order of the page and of Markdown.

use verdict::ClaimFound;

use super::{cells, facts, matrix, ranks, topology};
use crate::{
    claims, comparison, counts,
    document::{Block, Cell, Column, Kind, Mark, Section, Table, TableRow, known},
    facets,
    model::{Contaminated, Failure, View},
    plots::forest,
    words::{
        comparison::spelled,
        format::{self, plural},
        lists::grouped,
    },
};

pub(crate) const FACTS: &str = "Machine and images";

pub(crate) const RESULTS: &str = "results";

/// What one looks up of single cells and runs, by kind; the verdict above counts it.
pub(crate) const DETAILS: [&str; 4] = ["comparison", "failures", "expected", "contaminated"];

pub(crate) const RANKS: &str = "ranks";

pub(crate) fn title(view: &View) -> String {
    let headline = &view.report.headline;
    let suites = headline.suites.join(", ");
    let title = match (&headline.questions[..], &view.report.sessions[..]) {
        ([only], _) if headline.suites.len() == 1 => format!("{suites}: {only}"),
        (_, []) => "No session".to_owned(),
        (_, [_]) => suites,
        (_, sessions) => format!("{suites}: {} sessions", sessions.len()),
    };
    format::clean(&title)
}

/// The first screen: what was compared, and what it came to.
pub(crate) fn verdict(view: &View) -> Vec<Block> {
    let headline = &view.report.headline;
    let several = Some(&headline.questions).filter(|questions| questions.len() > 1);
    let mut blocks = Vec::from_iter(several.map(|questions| Block::List(questions.clone())));
    let counts = counts::of_report(&view.report);
    blocks.extend(counts::verdict(headline, counts, has_claims(view)));
    blocks
}

pub(crate) fn has_claims(view: &View) -> bool {
    let mut claims = view.report.sessions.iter().flat_map(|one| &one.claims);
    claims.any(ClaimFound::is_measured)
}

/// Where it was measured and in what, and in what the images differ: what stands under a verdict.
pub(crate) fn place(view: &View) -> Vec<Block> {
    let sessions = &view.report.sessions;
    // Of several sessions the cards below tell.
    let only = sessions.iter().filter(|_| sessions.len() == 1);
    let lines = only.clone().flat_map(facts::in_short);
    let comparisons = only.flat_map(|session| &session.comparisons);
    let differences = comparisons.filter_map(comparison::differences);
    let has_ranks = view.runs.iter().flatten().any(|run| run.ranks.len() > 1);
    let hosts = sessions.iter().filter(|_| has_ranks && sessions.len() == 1);
    let hosts = hosts.flat_map(|session| session.hosts.values());
    let ways = hosts.filter_map(topology::in_short);
    let lines = lines.chain(ways).chain(differences);
    lines.map(Block::Method).collect()
}

/// Versions side by side, or a picture of the gravest verdicts.
pub(crate) fn changes(view: &View) -> Vec<Block> {
    let versions = matrix::of(view);
    if !versions.is_empty() {
        return versions;
    }
    let picture = forest::gravest_of(view, forest::FIRST)
        .map(|chart| forest::first(chart, has_claims(view), view.compares_choices()));
    Vec::from_iter(picture)
}

/// What was found, and what to know before believing it.
pub(crate) fn top(view: &View) -> Vec<Block> {
    let warnings = &view.report.warnings;
    let warnings = (!warnings.is_empty()).then(|| Block::Warnings(warnings.clone()));
    let large = view.is_large().then(|| {
        Block::Method(format!(
            "With {} cells, pictures of single runs are left out; report.json has \
             every value.",
            view.report.cells.len()
        ))
    });
    let notes = &view.report.notes;
    let notes = (!notes.is_empty()).then(|| {
        let title = plural(notes.len(), "note", "notes");
        Block::Folded(title, vec![Block::List(notes.clone())])
    });
    [Block::List(view.report.summary.clone())]
        .into_iter()
        .chain(large)
        .chain(warnings)
        .chain(notes)
        .collect()
}

pub(crate) fn of(view: &View) -> Vec<Section> {
    let report = &view.report;
    let failures: Vec<&Failure> = report.own_failures().collect();
    let contaminated = &report.contaminated;
    let expected: Vec<&Failure> = report.failures.iter().filter(|one| one.expected).collect();
    let comparisons = report
        .sessions
        .iter()
        .flat_map(|session| &session.comparisons);
    let failed_runs = plural(failures.len(), "failed run", "failed runs");
    let expected_runs = plural(
        expected.len(),
        "run failed as expected",
        "runs failed as expected",
    );
    let attempts = plural(
        contaminated.len(),
        "contaminated attempt",
        "contaminated attempts",
    );
    let compared = comparisons.flat_map(comparison::document).collect();
    let failures = failed(view, &failures, FAILURES, Some(Mark::Failure));
    let sections = [
        (RESULTS, "Results", results(view)),
        ("comparison", "Comparison", compared),
        (RANKS, "Ranks", ranks::blocks(view)),
        ("claims", "Claims", claims_of(view)),
        ("failures", &*failed_runs, failures),
        (
            "expected",
            &*expected_runs,
            failed(view, &expected, EXPECTED, None),
        ),
        (
            "contaminated",
            &*attempts,
            contaminated_attempts(view, contaminated),
        ),
    ];
    let sections = sections.into_iter();
    let sections = sections.filter(|(.., blocks)| !blocks.is_empty());
    sections
        .map(|(id, title, blocks)| Section::of(id, title, blocks))
        .collect()
}

pub(crate) fn facts(view: &View) -> Vec<Block> {
    view.report
        .sessions
        .iter()
        .flat_map(|session| facts::blocks(session, view))
        .collect()
}

fn results(view: &View) -> Vec<Block> {
    if view.report.cells.is_empty() {
        return vec![Block::Text("There are no cells.".to_owned())];
    }
    let mut caption = "Medians of the successful runs. CV: coefficient of variation, the standard \
                       deviation over the mean, from run to run. Memory: peaks during the measured \
                       steps."
        .to_owned();
    let runs = view.runs.iter().flatten();
    let steps = runs.map(|run| run.series("step_seconds").count());
    // Of fewer steps than that, no step lies beyond the 99th percentile.
    if let Some(fewest) = steps.filter(|steps| (1..100).contains(steps)).min() {
        caption += &format!(" Of {fewest} steps a run, step p99 is nearly the slowest.");
    }
    vec![Block::Table(Table {
        caption,
        ..cells::table(view, false)
    })]
}

/// The claims of every session that has some, under its name where there are several sessions.
fn claims_of(view: &View) -> Vec<Block> {
    let sessions = &view.report.sessions;
    let mut blocks = Vec::new();
    for session in sessions.iter().filter(|session| !session.claims.is_empty()) {
        if sessions.len() > 1 {
            blocks.push(Block::Heading(session.session.clone()));
        }
        blocks.extend(claims::document(&session.claims));
    }
    blocks
}

const FAILURES: &str = "Runs without metrics, and why. The metrics above leave them out.";
const EXPECTED: &str = "Runs that are to fail like this, by `expect` in their suite.";

fn failed(view: &View, failures: &[&Failure], caption: &str, mark: Option<Mark>) -> Vec<Block> {
    let row = |(failure, more): &(&Failure, usize)| {
        let reason = Cell {
            mark,
            note: format!("at {}", record::word_of(failure.stage)),
            ..failure.reason.word().into()
        };
        let told = [
            Kind::Name.cell("reason", reason),
            Kind::Message.cell("message", failure.message.as_str()),
        ];
        attempt(view, failure, *more, told)
    };
    table_of(alike(failures).iter().map(row).collect(), caption)
}

/// The first of the failures that tell the same of the same cell, numbers aside, and how many more
/// there are.
fn alike<'a>(failures: &[&'a Failure]) -> Vec<(&'a Failure, usize)> {
    let words = |failure: &Failure| -> String {
        let message = failure.message.chars();
        message.filter(|c| !c.is_ascii_digit()).collect()
    };
    let key = |failure: &'a Failure| {
        let cell = (&*failure.session, &*failure.image, &*failure.cell);
        (cell, failure.reason, failure.stage, words(failure))
    };
    let groups = grouped(failures.iter().map(|one| (key(one), *one)));
    let groups = groups.into_iter();
    groups.map(|(_, own)| (own[0], own.len() - 1)).collect()
}

fn contaminated_attempts(view: &View, contaminated: &[Contaminated]) -> Vec<Block> {
    let row = |one: &Contaminated| {
        let told = [
            Kind::Message.cell("why", one.why.join("\n")),
            Kind::Name.cell("outcome of the run", one.came_to()),
        ];
        attempt(view, &one.failure, 0, told)
    };
    let caption = "Attempts during which something else used the machine, and what came of their \
                   runs. No metric and no verdict uses them.";
    table_of(contaminated.iter().map(row).collect(), caption)
}

/// An attempt with its run, its cell, what is told of it, and its log.
fn attempt(view: &View, of: &Failure, more: usize, told: [(Column, Cell); 2]) -> TableRow {
    let cell = Cell::from(spelled(&of.cell)).noted(of.image.as_str());
    let run = run(view, of, more).about(facets::failure(of));
    let mut row = vec![Kind::Name.cell("run", run), Kind::Name.cell("cell", cell)];
    row.extend(told);
    row.push(Kind::Name.cell("log", known(of.log.clone())));
    row
}

fn table_of(rows: Vec<TableRow>, caption: &str) -> Vec<Block> {
    let table = Table::of(rows).map(|table| Table {
        caption: caption.to_owned(),
        ..table
    });
    Vec::from_iter(table.map(Block::Table))
}

/// A run's name, with what else tells it from others.
fn run(view: &View, failure: &Failure, more: usize) -> Cell {
    let attempt = (failure.attempt > 1).then(|| format!("attempt {}", failure.attempt));
    let session = (view.report.sessions.len() > 1).then(|| failure.session.clone());
    let more = (more > 0).then(|| format!("and {} alike", plural(more, "run", "runs")));
    let notes: Vec<String> = attempt.into_iter().chain(session).chain(more).collect();
    Cell::from(failure.run.as_str()).noted(notes.join(", "))
}

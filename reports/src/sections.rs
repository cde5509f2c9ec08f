//! The sections of a report, in the order of the page and of Markdown.

use crate::{
    claims, columns, comparison,
    document::{Block, Cell, Kind, Mark, Table, known},
    facts,
    format::plural,
    model::{Contaminated, Failure, View, stage_word},
};

/// The title of [`facts()`].
pub(crate) const FACTS: &str = "Machine and images";

/// One section.
pub(crate) struct Section {
    /// Its name in the page's addresses.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

/// What was found, and what to know before believing it.
pub(crate) fn top(view: &View) -> Vec<Block> {
    let warnings = &view.report.warnings;
    let warnings = (!warnings.is_empty()).then(|| Block::Warnings(warnings.clone()));
    [Block::List(view.report.summary.clone())]
        .into_iter()
        .chain(warnings)
        .collect()
}

/// The sections that have something to say.
pub(crate) fn of(view: &View) -> Vec<Section> {
    let report = &view.report;
    let failures: Vec<&Failure> = report.own_failures().collect();
    let contaminated = &report.contaminated;
    let section = |id, title: &str, blocks| Section {
        id,
        title: title.to_owned(),
        blocks,
    };
    let comparisons = report
        .sessions
        .iter()
        .flat_map(|session| &session.comparisons);
    let sections = [
        section("results", "Results", results(view)),
        section(
            "comparison",
            "Comparison",
            comparisons.flat_map(comparison::document).collect(),
        ),
        section("claims", "Claims", claims_of(view)),
        section(
            "failures",
            &plural(failures.len(), "failed run", "failed runs"),
            table_of(
                &failures,
                FAILURES,
                ["run", "cell", "reason", "message", "log"],
                |failure| failure_row(view, failure),
            ),
        ),
        section(
            "contaminated",
            &plural(
                contaminated.len(),
                "contaminated attempt",
                "contaminated attempts",
            ),
            table_of(
                contaminated,
                CONTAMINATED,
                ["run", "cell", "why", "outcome of the run", "log"],
                |one| contaminated_row(view, one),
            ),
        ),
    ];
    sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect()
}

/// The sessions: how they were run, on what.
pub(crate) fn facts(view: &View) -> Vec<Block> {
    view.report
        .sessions
        .iter()
        .flat_map(facts::blocks)
        .collect()
}

fn results(view: &View) -> Vec<Block> {
    if view.report.cells.is_empty() {
        return vec![Block::Text("There are no cells.".to_owned())];
    }
    let caption = "Medians of the successful runs. CV: coefficient of variation, the standard \
                   deviation over the mean, from run to run. Memory: peaks during the measured \
                   steps."
        .to_owned();
    vec![Block::Table(Table {
        caption,
        ..columns::table(view, false)
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
const CONTAMINATED: &str = "Attempts during which something else used the machine, and what came \
    of their runs. No metric and no verdict uses them.";

fn table_of<T>(
    all: &[T],
    caption: &str,
    heads: [&'static str; 5],
    row: impl Fn(&T) -> Vec<Cell>,
) -> Vec<Block> {
    if all.is_empty() {
        return Vec::new();
    }
    let kind = |head| {
        if matches!(head, "message" | "why") {
            Kind::Message
        } else {
            Kind::Name
        }
    };
    let columns = heads.map(|head| kind(head).column(head)).to_vec();
    let table = Table::new(columns, all.iter().map(row).collect());
    vec![Block::Table(Table {
        caption: caption.to_owned(),
        ..table
    })]
}

fn failure_row(view: &View, failure: &Failure) -> Vec<Cell> {
    vec![
        run(view, &failure.run, failure.attempt, &failure.session),
        Cell::from(failure.cell.as_str()).noted(failure.image.as_str()),
        Cell::from(failure.reason.word())
            .marked(Mark::Failure)
            .noted(format!("at {}", stage_word(failure.stage))),
        failure.message.as_str().into(),
        known(failure.log.clone()),
    ]
}

fn contaminated_row(view: &View, one: &Contaminated) -> Vec<Cell> {
    vec![
        run(view, &one.run, one.attempt, &one.session),
        Cell::from(one.cell.as_str()).noted(one.image.as_str()),
        one.why.join("\n").into(),
        one.came_to().into(),
        known(one.log.clone()),
    ]
}

/// A run's name, with what else tells it from others.
fn run(view: &View, name: &str, attempt: u32, session: &str) -> Cell {
    let attempt = (attempt > 1).then(|| format!("attempt {attempt}"));
    let session = (view.report.sessions.len() > 1).then(|| session.to_owned());
    let notes: Vec<String> = attempt.into_iter().chain(session).collect();
    Cell::from(name).noted(notes.join(", "))
}

//! The sections of a report, in the order of the page and of Markdown.

use judge::claims::Outcome;
use verdict::ClaimFound;

use crate::{
    about, claims, columns, comparison,
    document::{Block, Cell, Column, Kind, Mark, Table, known},
    facts,
    format::{self, plural},
    model::{Contaminated, Counts, Failure, GateOutcome, Headline, View, stage_word},
    plots::forest,
};

/// The title of [`facts()`].
pub(crate) const FACTS: &str = "Machine and images";

/// The name of the section with the table of cells.
pub(crate) const RESULTS: &str = "results";

/// One section.
pub(crate) struct Section {
    /// Its name in the page's addresses.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

/// What the page is about: its suites and their question.
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
    let Headline {
        questions,
        compared,
        counts,
        failed,
        gate,
        worst,
        answers,
        ..
    } = &view.report.headline;
    let mut blocks = Vec::new();
    if questions.len() > 1 {
        blocks.push(Block::List(questions.clone()));
    }
    if !compared.is_empty() {
        blocks.push(Block::Text(compared.clone()));
    }
    let claims = view.report.sessions.iter().flat_map(|one| &one.claims);
    let claims: Vec<&ClaimFound> = claims.collect();
    // What was not measured here says nothing of what was.
    let has_claims = claims.iter().any(|one| one.is_measured());
    let mut chips = match counts {
        _ if has_claims => of_claims(&claims),
        Some(counts) => of_changes(counts).to_vec(),
        None => Vec::new(),
    };
    chips.push((*failed, "failed", Mark::Failure));
    blocks.push(Block::Counts(chips));
    blocks.extend(gate.as_ref().map(gate_block));
    if !answers.is_empty() {
        blocks.push(Block::List(answers.clone()));
    }
    blocks.extend(worst.clone().filter(|_| !has_claims).map(Block::Text));
    blocks
}

/// How many verdicts there are of each kind.
pub(crate) fn of_changes(counts: &Counts) -> [(usize, &'static str, Mark); 4] {
    [
        (counts.regressed, "regressed", Mark::Bad),
        (counts.improved, "improved", Mark::Good),
        (counts.unchanged, "unchanged", Mark::Same),
        (counts.inconclusive, "inconclusive", Mark::Unknown),
    ]
}

/// How many claims came to what; of those that nothing was measured for only where there are any.
pub(crate) fn of_claims(claims: &[&ClaimFound]) -> Vec<(usize, &'static str, Mark)> {
    let of = |is: &dyn Fn(&ClaimFound) -> bool, [one, many]: [&'static str; 2], mark| {
        let count = claims.iter().filter(|claim| is(claim)).count();
        (count, if count == 1 { one } else { many }, mark)
    };
    let came_to = |wanted| move |claim: &ClaimFound| claim.is_measured() && claim.outcome == wanted;
    let mut counts = vec![
        of(
            &came_to(Outcome::Refuted),
            ["claim refuted", "claims refuted"],
            Mark::Refuted,
        ),
        of(
            &came_to(Outcome::Holds),
            ["claim holds", "claims hold"],
            Mark::Holds,
        ),
        of(
            &came_to(Outcome::Inconclusive),
            ["claim inconclusive", "claims inconclusive"],
            Mark::Unknown,
        ),
    ];
    let unmeasured = of(
        &|claim| !claim.is_measured(),
        ["claim not measured", "claims not measured"],
        Mark::Muted,
    );
    counts.extend(Some(unmeasured).filter(|(count, ..)| *count > 0));
    counts
}

/// Whether the gate passes, and why.
pub(crate) fn gate_block(gate: &GateOutcome) -> Block {
    let (mark, word) = if gate.passed {
        (Mark::Good, "passed")
    } else {
        (Mark::Bad, "failed")
    };
    Block::Verdict(mark, format!("Gate {word}: {}.", gate.why))
}

/// Where it was measured and in what, and in what the images differ: what stands under a verdict.
pub(crate) fn place(view: &View) -> Vec<Block> {
    let sessions = &view.report.sessions;
    // Of several sessions the cards below tell.
    let only = sessions.iter().filter(|_| sessions.len() == 1);
    let lines = only.clone().flat_map(facts::in_short);
    let comparisons = only.flat_map(|session| &session.comparisons);
    let differences = comparisons.filter_map(comparison::differences);
    lines.chain(differences).map(Block::Method).collect()
}

/// The gravest verdicts as a table, where the first screen of the page has a picture of them.
pub(crate) fn changes(view: &View) -> Vec<Block> {
    let table = forest::first(view).and_then(|drawing| drawing.table);
    table.map(Block::Table).into_iter().collect()
}

/// What was found, and what to know before believing it.
pub(crate) fn top(view: &View) -> Vec<Block> {
    let warnings = &view.report.warnings;
    let warnings = (!warnings.is_empty()).then(|| Block::Warnings(warnings.clone()));
    let large = view.is_large().then(|| {
        Block::Method(format!(
            "With {} cells, pictures are folded by scenario, and those that look into single runs \
             are left out; report.json has every value.",
            view.report.cells.len()
        ))
    });
    [Block::List(view.report.summary.clone())]
        .into_iter()
        .chain(large)
        .chain(warnings)
        .collect()
}

/// The sections that have something to say.
pub(crate) fn of(view: &View) -> Vec<Section> {
    let report = &view.report;
    let failures: Vec<&Failure> = report.own_failures().collect();
    let contaminated = &report.contaminated;
    let expected: Vec<&Failure> = report.failures.iter().filter(|one| one.expected).collect();
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
        section(RESULTS, "Results", results(view)),
        section(
            "comparison",
            "Comparison",
            comparisons.flat_map(comparison::document).collect(),
        ),
        section("claims", "Claims", claims_of(view)),
        section(
            "failures",
            &plural(failures.len(), "failed run", "failed runs"),
            failed(view, &failures, FAILURES, Some(Mark::Failure)),
        ),
        section(
            "expected",
            &plural(
                expected.len(),
                "run failed as expected",
                "runs failed as expected",
            ),
            failed(view, &expected, EXPECTED, None),
        ),
        section(
            "contaminated",
            &plural(
                contaminated.len(),
                "contaminated attempt",
                "contaminated attempts",
            ),
            contaminated_attempts(view, contaminated),
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
const EXPECTED: &str = "Runs that are to fail so: their suite says `expect`.";

fn failed(view: &View, failures: &[&Failure], caption: &str, mark: Option<Mark>) -> Vec<Block> {
    let row = |(failure, _): &(&Failure, usize)| {
        let reason = Cell::from(failure.reason.word());
        let reason = match mark {
            Some(mark) => reason.marked(mark),
            None => reason,
        };
        let reason = reason.noted(format!("at {}", stage_word(failure.stage)));
        [reason, failure.message.as_str().into()]
    };
    let columns = [Kind::Name.column("reason"), Kind::Message.column("message")];
    table_of(
        view,
        &alike(failures),
        caption,
        columns,
        row,
        |(failure, more)| (*failure, *more),
    )
}

/// The first of the failures that tell the same of the same cell, numbers aside, and how many more
/// there are.
fn alike<'a>(failures: &[&'a Failure]) -> Vec<(&'a Failure, usize)> {
    let key = |failure: &Failure| {
        let message = failure.message.chars().filter(|c| !c.is_ascii_digit());
        let message: String = message.collect();
        let Failure {
            session,
            image,
            cell,
            reason,
            stage,
            ..
        } = failure;
        (
            session.clone(),
            image.clone(),
            cell.clone(),
            *reason,
            stage_word(*stage),
            message,
        )
    };
    let mut found: Vec<(&Failure, usize)> = Vec::new();
    let mut keys = Vec::new();
    for failure in failures {
        let own = key(failure);
        if let Some(place) = keys.iter().position(|known| *known == own) {
            found[place].1 += 1;
        } else {
            keys.push(own);
            found.push((failure, 0));
        }
    }
    found
}

fn contaminated_attempts(view: &View, contaminated: &[Contaminated]) -> Vec<Block> {
    let row = |one: &Contaminated| [one.why.join("\n").into(), one.came_to().into()];
    let caption = "Attempts during which something else used the machine, and what came of their \
                   runs. No metric and no verdict uses them.";
    let columns = [
        Kind::Message.column("why"),
        Kind::Name.column("outcome of the run"),
    ];
    table_of(view, contaminated, caption, columns, row, |one| {
        (&one.failure, 0)
    })
}

/// Attempts, each with its run, its cell, what `row` says of it, and its log.
fn table_of<T>(
    view: &View,
    all: &[T],
    caption: &str,
    [first, second]: [Column; 2],
    row: impl Fn(&T) -> [Cell; 2],
    failure: impl Fn(&T) -> (&Failure, usize),
) -> Vec<Block> {
    if all.is_empty() {
        return Vec::new();
    }
    let row = |one: &T| {
        let (attempt, more) = failure(one);
        let cell = Cell::from(comparison::spelled(&attempt.cell)).noted(attempt.image.as_str());
        let [first, second] = row(one);
        vec![
            run(view, attempt, more).about(about::failure(attempt)),
            cell,
            first,
            second,
            known(attempt.log.clone()),
        ]
    };
    let name = |head| Kind::Name.column(head);
    let columns = vec![name("run"), name("cell"), first, second, name("log")];
    vec![Block::Table(Table {
        caption: caption.to_owned(),
        ..Table::new(columns, all.iter().map(row).collect())
    })]
}

/// A run's name, with what else tells it from others.
fn run(view: &View, failure: &Failure, more: usize) -> Cell {
    let attempt = (failure.attempt > 1).then(|| format!("attempt {}", failure.attempt));
    let session = (view.report.sessions.len() > 1).then(|| failure.session.clone());
    let more = (more > 0).then(|| format!("and {} alike", plural(more, "run", "runs")));
    let notes: Vec<String> = attempt.into_iter().chain(session).chain(more).collect();
    Cell::from(failure.run.as_str()).noted(notes.join(", "))
}

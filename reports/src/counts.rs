//! How many verdicts or claims there are of each kind, and whether a gate passes, as blocks.

use judge::claims::Outcome;
use verdict::ClaimFound;

use crate::{
    document::{Block, Mark},
    model::{Counts, GateOutcome, Headline, Report, effects},
};

type Count = (usize, &'static str, Mark);

fn of_changes(counts: &Counts, is_choice: bool) -> [Count; 4] {
    let (bad, good) = if is_choice {
        ("worse", "better")
    } else {
        ("regressed", "improved")
    };
    [
        (counts.regressed, bad, Mark::Bad),
        (counts.improved, good, Mark::Good),
        (counts.unchanged, "unchanged", Mark::Same),
        (counts.inconclusive, "inconclusive", Mark::Unknown),
    ]
}

/// How many claims came to what; of those that nothing was measured for only where there are any.
pub(crate) fn of_claims(claims: &[&ClaimFound]) -> Vec<Count> {
    const WORDS: [[&str; 2]; 4] = [
        ["claim refuted", "claims refuted"],
        ["claim holds", "claims hold"],
        ["claim inconclusive", "claims inconclusive"],
        ["claim not measured", "claims not measured"],
    ];
    let outcomes = [Outcome::Refuted, Outcome::Holds, Outcome::Inconclusive];
    let outcomes = outcomes.map(Some).into_iter().chain([None]);
    let counts = outcomes.zip(WORDS).filter_map(|(wanted, [one, many])| {
        let came_to = |claim: &ClaimFound| claim.is_measured().then_some(claim.outcome);
        let own = claims.iter().filter(|claim| came_to(claim) == wanted);
        let count = own.count();
        let word = if count == 1 { one } else { many };
        let mark = wanted.map_or(Mark::Muted, Mark::from);
        (count > 0 || wanted.is_some()).then_some((count, word, mark))
    });
    counts.collect()
}

pub(crate) fn gate(gate: &GateOutcome) -> Block {
    let (mark, words) = match gate {
        _ if gate.is_empty => (Mark::Unknown, "Gate: nothing judged"),
        _ if gate.passed => (Mark::Good, "Gate passed"),
        _ => (Mark::Bad, "Gate failed"),
    };
    Block::Verdict(mark, format!("{words}: {}.", gate.why))
}

/// What a report begins with: the answers, how many verdicts there are, the gate, the largest effects.
/// Where claims are judged they are the question, and no gate.
pub(crate) fn verdict(headline: &Headline, counts: Vec<Count>, has_claims: bool) -> Vec<Block> {
    let Headline {
        answers, compared, ..
    } = headline;
    let mut blocks = Vec::new();
    blocks.extend((!answers.is_empty()).then(|| Block::List(answers.clone())));
    blocks.extend((!compared.is_empty()).then(|| Block::Text(compared.clone())));
    blocks.push(Block::Counts(counts));
    if !has_claims {
        blocks.extend(headline.gate.as_ref().map(gate));
        blocks.extend(effects::list([&headline.worst, &headline.best]));
    }
    blocks
}

pub(crate) fn of_comparison(headline: &Headline, is_choice: bool) -> Vec<Block> {
    let counts = headline.counts.unwrap_or_default();
    verdict(headline, of_changes(&counts, is_choice).to_vec(), false)
}

/// What a report counts: its claims where some were measured, else its changes; and failed runs.
pub(crate) fn of_report(report: &Report) -> Vec<Count> {
    let claims = report.sessions.iter().flat_map(|one| &one.claims);
    let claims: Vec<&ClaimFound> = claims.collect();
    // What was not measured here says nothing of what was.
    let mut counts = match &report.headline.counts {
        _ if claims.iter().any(|one| one.is_measured()) => of_claims(&claims),
        Some(counts) => {
            let mut sessions = report.sessions.iter();
            let is_choice = sessions.all(|session| session.comparisons.is_empty());
            of_changes(counts, is_choice).to_vec()
        }
        None => Vec::new(),
    };
    counts.push((report.headline.failed, "failed", Mark::Failure));
    counts
}

//! Claims and what a session says of them, as text, Markdown, JSON, and a page.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use askama::Template;
use record::{CellChoice, Claim, MethodDifference};
use verdict::{ClaimCell, ClaimFound, ClaimPair, OtherMethods};

use crate::{
    counts,
    document::{Block, Body, Cell, Column, Kind, Mark, Section, Table, columns},
    facets,
    plots::forest,
    render::{
        html::Page,
        json, markdown as md,
        text::{self as terminal, Style},
    },
    words::{
        claims::{alike, claimed, measured, not_measured, tally},
        comparison::spelled,
        format::{UNKNOWN, plural},
        lists::unique,
        metric,
    },
    write::{ReportError, write_files},
};

/// `claims.html`, `claims.md` and `claims.json` in a folder that is made where it is not there:
/// either all three are new or none is. Comes back with the page. `session` names where they were measured.
pub fn write(found: &[ClaimFound], session: &str, out: &Path) -> Result<PathBuf, ReportError> {
    let files = [
        ("claims.html", page(found, session)?),
        ("claims.md", markdown(found)),
        ("claims.json", json::render(found)?),
    ];
    write_files(out, &files)?;
    Ok(out.join("claims.html"))
}

fn page(found: &[ClaimFound], session: &str) -> Result<String, ReportError> {
    let counts = counts::of_claims(&Vec::from_iter(found));
    let chart = forest::of_claims(found).map(|chart| forest::first(chart, true, false));
    let page = Page {
        title: "Claims: which of them does the measurement bear out?".to_owned(),
        subtitle: format!("session {session}"),
        verdict: [Block::Counts(counts)].into_iter().chain(chart).collect(),
        summary: Vec::new(),
        sections: vec![Section::of("claims", "Claims", document(found))],
    };
    Ok(page.render()?)
}

/// Claims as GitHub's Markdown; nothing where there are none.
pub fn markdown(found: &[ClaimFound]) -> String {
    if found.is_empty() {
        return String::new();
    }
    format!("### Claims\n\n{}", md::document(&document(found), 4))
}

/// Claims for a terminal or a log: each with a table of its own.
pub fn text(found: &[ClaimFound], style: Style) -> String {
    let mut blocks = Vec::new();
    for one in found {
        let statement = format!("{}: {}", outcome(one), one.claim.statement);
        blocks.extend([Block::Subheading(statement), Block::Text(note(&one.claim))]);
        match &one.pairs[..] {
            [] if one.left_out.is_empty() => blocks.push(Block::Text(not_measured(&one.claim))),
            [] => {}
            _ => blocks.push(Block::Table(Table::new(heads(), rows(one)))),
        }
        blocks.extend(of_methods(one).map(Block::Text));
    }
    blocks.push(Block::Text(tally(found)));
    terminal::document(&blocks, style)
}

pub(crate) fn document(found: &[ClaimFound]) -> Vec<Block> {
    let body = |one: &ClaimFound| Body {
        title: Some(Cell::from(one.claim.statement.as_str())),
        note: of_methods(one).fold(
            format!("{}: {}", outcome(one), note(&one.claim)),
            |all, one| format!("{all}; {one}"),
        ),
        rows: if one.is_measured() {
            rows(one)
        } else {
            vec![unmeasured(&one.claim)]
        },
        ..Body::default()
    };
    let table = Table {
        caption: METHOD.to_owned(),
        title_head: "claim",
        columns: heads(),
        bodies: found.iter().map(body).collect(),
    };
    vec![Block::Text(tally(found)), Block::Table(table)]
}

fn outcome(found: &ClaimFound) -> String {
    if found.is_measured() {
        found.outcome.to_string()
    } else {
        "not measured".to_owned()
    }
}

fn note(claim: &Claim) -> String {
    format!("{}; {}", metric::label(&claim.metric), claim.source)
}

/// The pairs of different methods, left out or not, and what differs: `2 pairs left out, measured by
/// different methods: threads 1 without, 2 with; --ignore method.threads takes them`.
fn of_methods(found: &ClaimFound) -> impl Iterator<Item = String> {
    let told = |pairs: &OtherMethods, done: &str| {
        let differs = pairs.differences.iter().map(|one| {
            let MethodDifference { key, base, head } = one;
            format!("{key} {base} without, {head} with")
        });
        let differs = differs.collect::<Vec<_>>().join("; ");
        let count = plural(pairs.pairs, "pair", "pairs");
        (!pairs.is_empty()).then(|| format!("{count} {done} different methods: {differs}"))
    };
    let left_out = told(&found.left_out, "left out, measured by").map(|told| {
        let ignoring = MethodDifference::ignoring(&found.left_out.differences);
        format!("{told}; {ignoring} takes them")
    });
    let ignored = told(&found.method_ignored, "taken although measured by");
    left_out.into_iter().chain(ignored)
}

/// What the section must say about how it came about.
const METHOD: &str = "Each claim is tested on every pair of cells that differ only in what it \
    names. It holds if the interval of every pair lies inside the claimed range, and is refuted \
    if one lies outside. The intervals of a claim's pairs have 95 % confidence together.";

fn heads() -> Vec<Column> {
    let mut heads = columns(Kind::Name, &["scenario", "without", "with"]);
    heads.push(Kind::Word.column("outcome"));
    heads.extend(columns(Kind::Number, &["claimed", "measured"]));
    heads
}

/// A row for each pair; one for those that measured the same, which says how many cells it stands for.
fn rows(found: &ClaimFound) -> Vec<Vec<Cell>> {
    let images = found.pairs.iter().map(|pair| &pair.treated.image);
    let has_images = images.collect::<BTreeSet<_>>().len() > 1;
    // The image is named where the pairs of a claim have several.
    let scenario = |pair: &ClaimPair| {
        let image = (has_images && !pair.is_across_images()).then_some(&pair.treated.image);
        let image = image.map_or_else(String::new, |image| format!("{image} · "));
        image + &pair.scenario
    };
    let name = |pair: &ClaimPair, cell: &ClaimCell| {
        let image = pair.is_across_images().then_some(&cell.image);
        let scenario = cell.scenario.as_ref();
        let parts: Vec<&str> = image
            .into_iter()
            .chain(scenario)
            .map(String::as_str)
            .collect();
        [&parts[..], &[&spelled(&cell.variant)]]
            .concat()
            .join(" · ")
    };
    let baseline = |pair: &ClaimPair| {
        let cell = pair.baseline.as_ref();
        cell.map_or_else(String::new, |cell| name(pair, cell))
    };
    let row = |pairs: &Vec<&ClaimPair>| {
        let outcome = pairs[0].verdict.outcome;
        let cells = plural(pairs.len(), "cell", "cells");
        let scenario = match named(pairs, scenario) {
            scenario if pairs.len() > 1 => format!("{scenario} ({cells})"),
            scenario => scenario,
        };
        vec![
            Cell::from(scenario).about(facets::claim(&outcome.to_string())),
            named(pairs, baseline).into(),
            named(pairs, |pair| name(pair, &pair.treated)).into(),
            Cell::from(outcome.to_string()).marked(outcome.into()),
            claimed(&found.claim).into(),
            measured(&found.claim, pairs[0]).into(),
        ]
    };
    alike(found).iter().map(row).collect()
}

/// What these pairs are called, each name once.
fn named(pairs: &[&ClaimPair], name: impl Fn(&ClaimPair) -> String) -> String {
    const MOST: usize = 2;
    let names = unique(pairs.iter().map(|pair| name(pair)));
    match names.len() {
        ..=MOST => names.join("; "),
        more => format!("{} and {} more", names[0], more - 1),
    }
}

/// The row of a claim that no pair was measured for.
fn unmeasured(claim: &Claim) -> Vec<Cell> {
    let (baseline, treated) = (claim.baseline.as_ref(), &claim.treated);
    let with = Some(treated).filter(|choice| **choice != CellChoice::default());
    let words = |choice: Option<&CellChoice>| choice.map_or_else(String::new, ToString::to_string);
    vec![
        UNKNOWN.into(),
        words(baseline).into(),
        words(with).into(),
        Cell::from("not measured").marked(Mark::Unknown),
        claimed(claim).into(),
        UNKNOWN.into(),
    ]
}

#[cfg(test)]
mod tests {
    use judge::{claims::Outcome, compare::Interval};
    use record::{Expectation, Range};
    use verdict::ClaimVerdict;

    use super::*;

    #[test]
    fn pairs_that_measured_the_same_are_one_line() {
        let pair = |scenario: &str, measured: f64, outcome| ClaimPair {
            suite: "s".into(),
            scenario: scenario.into(),
            baseline: None,
            treated: ClaimCell {
                scenario: None,
                image: "img".into(),
                variant: "fp32 bs1".into(),
            },
            verdict: ClaimVerdict {
                outcome,
                measured: Some(measured),
                interval: Some(Interval {
                    lo: measured,
                    hi: measured,
                }),
                claimed: Range::default(),
                reason: String::new(),
            },
        };
        let names = ["a", "b", "c", "d"];
        let mut pairs: Vec<ClaimPair> = names
            .map(|name| pair(name, 1_073_741_824.0, Outcome::Holds))
            .into();
        pairs.insert(1, pair("e", 2_147_483_648.0, Outcome::Refuted));
        let found = ClaimFound {
            claim: Claim {
                statement: "a".into(),
                source: "b".into(),
                metric: "peak_allocated_bytes".into(),
                scenarios: Vec::new(),
                models: Vec::new(),
                task: None,
                baseline: None,
                treated: CellChoice::default(),
                expect: Expectation::Value(Range {
                    min: None,
                    max: Some(1.5e9),
                }),
            },
            outcome: Outcome::Refuted,
            pairs,
            left_out: OtherMethods::default(),
            method_ignored: OtherMethods::default(),
        };
        let words: Vec<Vec<String>> = rows(&found)
            .into_iter()
            .map(|cells| cells.into_iter().map(|cell| cell.text).collect())
            .collect();
        let [same, other] = words.as_slice() else {
            panic!("{words:?}")
        };
        assert_eq!(same[0], "a and 3 more (4 cells)");
        assert_eq!(same[2], "fp32 bs1");
        assert_eq!((same[5].as_str(), same[3].as_str()), ("1.000 GiB", "holds"));
        assert_eq!(other[0], "e");
        assert_eq!(other[3], "refuted");
        // What nothing was measured for has no outcome.
        let unmeasured = ClaimFound {
            pairs: Vec::new(),
            ..found
        };
        let told = text(&[unmeasured], Style::Plain);
        assert!(told.starts_with("not measured: a\n"), "{told}");
    }

    #[test]
    fn effects_read_as_they_are_claimed() {
        let check = |metric: &str, expect: Expectation, words: &str, found: &str| {
            let claim = Claim {
                statement: "a".into(),
                source: "b".into(),
                metric: metric.into(),
                scenarios: Vec::new(),
                models: Vec::new(),
                task: None,
                baseline: Some(CellChoice::default()),
                treated: CellChoice::default(),
                expect,
            };
            let pair = ClaimPair {
                suite: "s".into(),
                scenario: "a".into(),
                baseline: None,
                treated: ClaimCell {
                    scenario: None,
                    image: "local".into(),
                    variant: "fp32 bs1".into(),
                },
                verdict: ClaimVerdict {
                    outcome: Outcome::Holds,
                    measured: Some(0.6),
                    interval: Some(Interval { lo: 0.55, hi: 0.65 }),
                    claimed: Range::default(),
                    reason: String::new(),
                },
            };
            assert_eq!(claimed(&claim), words);
            assert_eq!(measured(&claim, &pair), found);
        };
        let range = |min, max| Range { min, max };
        let peak = "peak_allocated_bytes";
        let both = range(Some(0.3), Some(0.5));
        check(
            peak,
            Expectation::Saving(both),
            "30 to 50 % less",
            "40.0 % less (35.0 … 45.0)",
        );
        check(
            peak,
            Expectation::Increase(range(Some(0.2), None)),
            "at least 20 % more",
            "40.0 % less (35.0 … 45.0)",
        );
        check(
            peak,
            Expectation::Ratio(range(None, Some(2.0))),
            "at most 2.00 times as much",
            "0.6000 times as much (0.5500 … 0.6500)",
        );
        check(
            "step_p99_seconds",
            Expectation::Value(both),
            "300 ms to 500 ms",
            "600 ms (550 ms … 650 ms)",
        );
    }
}

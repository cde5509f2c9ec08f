//! Claims and what a session says of them, as text, Markdown, JSON, and a section of a page.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use judge::claims::Outcome;
use record::{CellChoice, Claim, Expectation, MethodDifference, Range};
use verdict::{ClaimFound, ClaimPair, OtherMethods};

use crate::{
    about,
    comparison::spelled,
    document::{Block, Body, Cell, Column, Kind, Table, columns},
    format::{self, UNKNOWN, plural},
    html as page, markdown as md, metric,
    text::{self as terminal, Style},
    verdict_page,
    write::{ReportError, write_files},
};

/// Claims as JSON, a line break at its end.
pub fn json(found: &[ClaimFound]) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(found)? + "\n")
}

/// `claims.html`, `claims.md` and `claims.json` in a folder that is made where it is not there:
/// either all three are new or none is. Comes back with the page. `session` names where they were measured.
pub fn write(found: &[ClaimFound], session: &str, out: &Path) -> Result<PathBuf, ReportError> {
    let files = [
        ("claims.html", verdict_page::of_claims(found, session)?),
        ("claims.md", markdown(found)),
        ("claims.json", json(found)?),
    ];
    write_files(out, &files)?;
    Ok(out.join("claims.html"))
}

/// Claims as the inside of a section of a page.
#[must_use]
pub fn html(found: &[ClaimFound]) -> String {
    page::document(&document(found))
}

/// Claims as GitHub's Markdown; nothing where there are none.
#[must_use]
pub fn markdown(found: &[ClaimFound]) -> String {
    if found.is_empty() {
        return String::new();
    }
    format!("### Claims\n\n{}", md::document(&document(found), 4))
}

/// Claims for a terminal or a log: each with a table of its own.
#[must_use]
pub fn text(found: &[ClaimFound], style: Style) -> String {
    let mut blocks = Vec::new();
    for one in found {
        let statement = format!("{}: {}", one.outcome, one.claim.statement);
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

/// Claims in one table.
pub(crate) fn document(found: &[ClaimFound]) -> Vec<Block> {
    let body = |one: &ClaimFound| Body {
        title: Some(Cell::from(one.claim.statement.as_str())),
        note: of_methods(one).fold(
            format!("{}: {}", one.outcome, note(&one.claim)),
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

/// The metric that a claim is about, and who claims it.
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

/// `4 claims: 2 hold, 1 refuted, 0 inconclusive, 1 not measured here`.
#[must_use]
pub fn tally(found: &[ClaimFound]) -> String {
    let measured = || found.iter().filter(|one| one.is_measured());
    let count = |wanted| measured().filter(|one| one.outcome == wanted).count();
    let unmeasured = match found.len() - measured().count() {
        0 => String::new(),
        count => format!(", {count} not measured here"),
    };
    format!(
        "{}: {} hold, {} refuted, {} inconclusive{unmeasured}.",
        plural(found.len(), "claim", "claims"),
        count(Outcome::Holds),
        count(Outcome::Refuted),
        count(Outcome::Inconclusive)
    )
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

fn rows(found: &ClaimFound) -> Vec<Vec<Cell>> {
    lines(found).into_iter().map(Line::cells).collect()
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
        Cell::from("not measured").marked(crate::document::Mark::Unknown),
        claimed(claim).into(),
        UNKNOWN.into(),
    ]
}

/// One measured pair in words.
struct Line {
    scenario: String,
    baseline: String,
    treated: String,
    claimed: String,
    measured: String,
    outcome: Outcome,
}

impl Line {
    /// The image is named where the pairs of a claim have several.
    fn of(claim: &Claim, pair: &ClaimPair, has_images: bool) -> Self {
        let images = pair
            .baseline
            .as_ref()
            .is_some_and(|cell| cell.image != pair.treated.image);
        let name = |cell: &verdict::ClaimCell| {
            if images {
                format!("{} · {}", cell.image, spelled(&cell.variant))
            } else {
                spelled(&cell.variant)
            }
        };
        Self {
            scenario: if images || !has_images {
                pair.scenario.clone()
            } else {
                format!("{} · {}", pair.treated.image, pair.scenario)
            },
            baseline: pair.baseline.as_ref().map_or_else(String::new, name),
            treated: name(&pair.treated),
            claimed: claimed(claim),
            measured: measured(claim, pair),
            outcome: pair.verdict.outcome,
        }
    }

    fn cells(self) -> Vec<Cell> {
        let about = about::claim(&self.outcome.to_string());
        let outcome = Cell::from(self.outcome.to_string()).marked(self.outcome.into());
        vec![
            Cell::from(self.scenario).about(about),
            self.baseline.into(),
            self.treated.into(),
            outcome,
            self.claimed.into(),
            self.measured.into(),
        ]
    }
}

/// The pairs of a claim in words. Pairs that measured the same with the same outcome are one line,
/// which says how many cells it stands for: a metric such as the CUDA context's bytes is the same
/// in every cell.
fn lines(found: &ClaimFound) -> Vec<Line> {
    let images = found.pairs.iter().map(|pair| &pair.treated.image);
    let has_images = images.collect::<BTreeSet<_>>().len() > 1;
    let mut groups: Vec<Vec<Line>> = Vec::new();
    for pair in &found.pairs {
        let line = Line::of(&found.claim, pair, has_images);
        let same = groups
            .iter_mut()
            .find(|group| group[0].measured == line.measured && group[0].outcome == line.outcome);
        match same {
            Some(group) if line.measured != UNKNOWN => group.push(line),
            _ => groups.push(vec![line]),
        }
    }
    groups.into_iter().filter_map(folded).collect()
}

/// One pair of each line: pairs that measured the same are one.
pub(crate) fn distinct(found: &ClaimFound) -> Vec<&ClaimPair> {
    let mut seen = Vec::new();
    let pairs = found.pairs.iter();
    pairs
        .filter(|pair| {
            let what = (measured(&found.claim, pair), pair.verdict.outcome);
            let is_new = what.0 == UNKNOWN || !seen.contains(&what);
            seen.push(what);
            is_new
        })
        .collect()
}

/// Where a pair was measured, and how its cells differ, in few words.
pub(crate) fn where_of(pair: &ClaimPair) -> String {
    match &pair.baseline {
        Some(cell) if cell.image != pair.treated.image => {
            format!("{}, {} → {}", pair.scenario, cell.image, pair.treated.image)
        }
        _ => pair.scenario.clone(),
    }
}

/// One line for several.
fn folded(mut group: Vec<Line>) -> Option<Line> {
    if group.len() < 2 {
        return group.pop();
    }
    let all = |part: fn(&Line) -> &String| {
        let mut named: Vec<&str> = Vec::new();
        for line in &group {
            let name = part(line).as_str();
            if !named.contains(&name) {
                named.push(name);
            }
        }
        match named.len() {
            1..=MOST_NAMED => named.join("; "),
            more => format!("{} and {} more", named[0], more - 1),
        }
    };
    let (scenario, baseline) = (all(|line| &line.scenario), all(|line| &line.baseline));
    let treated = all(|line| &line.treated);
    let cells = plural(group.len(), "cell", "cells");
    let last = group.pop()?;
    Some(Line {
        scenario: format!("{scenario} ({cells})"),
        baseline,
        treated,
        ..last
    })
}

/// At most so many names of a folded line stand there in full.
const MOST_NAMED: usize = 2;

/// What is claimed, as people say it: `saves 30 to 50 %`.
pub(crate) fn claimed(claim: &Claim) -> String {
    let number = |number: f64| match claim.expect {
        Expectation::Ratio(_) => format::significant(number, 3),
        Expectation::Saving(_) | Expectation::Increase(_) => {
            let percent = format!("{:.1}", 100.0 * number);
            percent.strip_suffix(".0").unwrap_or(&percent).to_owned()
        }
        Expectation::Value(_) => value(claim, number),
    };
    let range = match claim.expect.range() {
        Range {
            min: Some(min),
            max: Some(max),
        } => format!("{} to {}", number(min), number(max)),
        Range { min: Some(min), .. } => format!("at least {}", number(min)),
        Range { max: Some(max), .. } => format!("at most {}", number(max)),
        Range { .. } => UNKNOWN.to_owned(),
    };
    match claim.expect {
        Expectation::Ratio(_) => format!("{range} times as much"),
        Expectation::Saving(_) => format!("{range} % less"),
        Expectation::Increase(_) => format!("{range} % more"),
        Expectation::Value(_) => range,
    }
}

/// What was measured, in the words of the claim.
pub(crate) fn measured(claim: &Claim, pair: &ClaimPair) -> String {
    let Some(middle) = pair.verdict.measured else {
        return UNKNOWN.to_owned();
    };
    // Less and more are said, and no sign, so that a saving that is none reads as what it is.
    let word = |ratio: f64| match claim.expect {
        Expectation::Saving(_) | Expectation::Increase(_) if ratio <= 1.0 => " % less",
        Expectation::Saving(_) | Expectation::Increase(_) => " % more",
        Expectation::Ratio(_) => " times as much",
        Expectation::Value(_) => "",
    };
    let bare = |ratio: f64| match claim.expect {
        Expectation::Ratio(_) => format::significant(ratio, 4),
        Expectation::Saving(_) | Expectation::Increase(_) => {
            format!("{:.1}", 100.0 * (ratio - 1.0).abs())
        }
        Expectation::Value(_) => value(claim, ratio),
    };
    let number = |ratio: f64| bare(ratio) + word(ratio);
    let Some(interval) = pair.verdict.interval else {
        return format!("{}, one block", number(middle));
    };
    // Of less, the smaller number is that of the greater ratio.
    let (low, high) = match word(middle) {
        " % less" => (interval.hi, interval.lo),
        _ => (interval.lo, interval.hi),
    };
    let is_one_way = word(low) == word(high);
    let end = |ratio| {
        if is_one_way {
            bare(ratio)
        } else {
            number(ratio)
        }
    };
    let (low, middle, high) = (end(low), number(middle), end(high));
    if low == high {
        middle
    } else {
        format!("{middle} ({low} … {high})")
    }
}

fn value(claim: &Claim, value: f64) -> String {
    metric::value(&claim.metric, value)
}

/// Why a claim without a pair was not judged.
fn not_measured(claim: &Claim) -> String {
    let metric = metric::label(&claim.metric);
    match &claim.baseline {
        Some(baseline) => format!(
            "not measured: needs cells with {baseline} and with {}, both with the metric \
             \"{metric}\"",
            claim.treated
        ),
        None if claim.treated == CellChoice::default() => {
            format!("not measured: no run has the metric \"{metric}\"")
        }
        None => format!(
            "not measured: needs cells with {} and the metric \"{metric}\"",
            claim.treated
        ),
    }
}

#[cfg(test)]
mod tests {
    use judge::compare::Interval;
    use verdict::{ClaimCell, ClaimVerdict};

    use super::*;

    #[test]
    fn pairs_that_measured_the_same_are_one_line() {
        let pair = |scenario: &str, measured: f64, outcome| ClaimPair {
            suite: "s".into(),
            scenario: scenario.into(),
            baseline: None,
            treated: ClaimCell {
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
        let lines = lines(&found).into_iter().map(Line::cells);
        let words: Vec<Vec<String>> = lines
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

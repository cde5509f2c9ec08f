//! Verdicts as text, Markdown, JSON, `JUnit` XML, GitHub annotations, and a section of a page.
//!
//! [`verdict::Verdicts`] says of every cell and metric whether it improved, regressed or is
//! unchanged, or whether that is inconclusive; here it gets a form. Which metrics fail a gate, and
//! how strictly, is [`verdict::Gate`]'s to say.

mod annotations;
mod junit;
mod told;
mod warnings;

use std::path::{Path, PathBuf};

use judge::compare::Verdict;
use record::{ImageChange, PartValue};
use verdict::{CellVerdicts, FailOn, MetricVerdict, Verdicts};

pub use annotations::annotations;
pub(crate) use annotations::{command, shown};
pub use junit::{JunitError, junit};
pub(crate) use told::{arrow, cell_name, change_of, effect, interval, of_medians, sides, spelled};

use self::{
    told::{detectable_change, headline, label, lost, tally, value},
    warnings::warnings,
};
use crate::{
    Past, about,
    document::{Block, Cell, Column, Kind, Mark, Table, columns, known},
    format::{self, UNKNOWN, plural, share},
    html as page, markdown as md,
    text::{self as terminal, Style},
    verdict_page,
    write::{ReportError, write_files},
};

/// Verdicts as JSON, a line break at its end.
pub fn json(verdicts: &Verdicts) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(verdicts)? + "\n")
}

/// `comparison.html`, `comparison.md` and `comparison.json` in a folder that is made where it is
/// not there: either all three are new or none is. Comes back with the page. The gate on the page is
/// as strict as `fail_on`; `past` is what a history knows of the metrics.
pub fn write(
    verdicts: &Verdicts,
    fail_on: FailOn,
    past: &[Past],
    out: &Path,
) -> Result<PathBuf, ReportError> {
    write_files(out, &files(verdicts, fail_on, past)?)?;
    Ok(out.join("comparison.html"))
}

/// The files of a comparison, each with its name.
pub(crate) fn files(
    verdicts: &Verdicts,
    fail_on: FailOn,
    past: &[Past],
) -> Result<[(&'static str, String); 3], ReportError> {
    Ok([
        (
            "comparison.html",
            verdict_page::of_comparison(verdicts, fail_on, past)?,
        ),
        ("comparison.md", markdown(verdicts)),
        ("comparison.json", json(verdicts)?),
    ])
}

/// Verdicts as the inside of a section of a page.
#[must_use]
pub fn html(verdicts: &Verdicts) -> String {
    page::document(&document(verdicts))
}

/// Verdicts as GitHub's Markdown.
#[must_use]
pub fn markdown(verdicts: &Verdicts) -> String {
    md::document(&document(verdicts), 2)
}

/// Verdicts for a terminal or a log: what they come to stands at the end.
#[must_use]
pub fn text(verdicts: &Verdicts, style: Style) -> String {
    let mut blocks = vec![Block::Heading(headline(verdicts))];
    blocks.extend(tables(verdicts));
    blocks.push(Block::Method(method(verdicts)));
    blocks.extend(summary(verdicts));
    terminal::document(&blocks, style)
}

/// Verdicts, what regressed first, what is unchanged folded away.
pub(crate) fn document(verdicts: &Verdicts) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(headline(verdicts))];
    blocks.extend(summary(verdicts));
    blocks.extend(tables(verdicts));
    blocks.push(Block::Method(method(verdicts)));
    blocks
}

/// What was compared, and what it came to.
pub(crate) fn sentence(verdicts: &Verdicts) -> String {
    format!("{}: {}", headline(verdicts), tally(verdicts))
}

fn summary(verdicts: &Verdicts) -> Vec<Block> {
    let known = warnings(verdicts);
    let known = (!known.is_empty()).then_some(Block::Warnings(known));
    [Block::Text(tally(verdicts))]
        .into_iter()
        .chain(known)
        .collect()
}

/// All verdicts, the gravest first, with the title of their table.
const GRAVEST_FIRST: [(Verdict, &str); 4] = [
    (Verdict::Regressed, "Regressed"),
    (Verdict::Improved, "Improved"),
    (Verdict::Inconclusive, "Inconclusive"),
    (Verdict::Unchanged, "Unchanged"),
];

fn tables(verdicts: &Verdicts) -> Vec<Block> {
    // A lost cell stands for its gated metrics.
    let listed = |cell: &CellVerdicts, found: &MetricVerdict| !found.gated || cell.lost().is_none();
    let rows = |wanted: &dyn Fn(&MetricVerdict) -> bool, is_inconclusive| {
        let all = verdicts.all().filter(|(cell, found)| listed(cell, found));
        let wanted = all.filter(|(_, found)| wanted(found));
        let row = |(cell, found)| row(cell, found, is_inconclusive);
        Table::new(heads(is_inconclusive), wanted.map(row).collect())
    };
    let mut blocks = Block::titled("All runs fail in the head", lost_cells(verdicts), false);
    for (verdict, title) in GRAVEST_FIRST {
        let is_inconclusive = verdict == Verdict::Inconclusive;
        let table = rows(
            &|found| found.gated && came_to(found, verdict),
            is_inconclusive,
        );
        blocks.extend(Block::titled(title, table, verdict == Verdict::Unchanged));
    }
    let one_sided = rows(
        &|found| found.gated && found.not_measured_in.is_some(),
        false,
    );
    blocks.extend(Block::titled("Measured on one side only", one_sided, false));
    let others = rows(&|found| !found.gated, false);
    blocks.extend(Block::titled("Metrics that are not gated", others, true));
    blocks.extend(Block::titled(
        "Differences between the images",
        image_changes(verdicts),
        true,
    ));
    blocks
}

/// Cells that work in the base and never in the head.
fn lost_cells(verdicts: &Verdicts) -> Table {
    let row = |cell| {
        let (verdict, why) = lost(cell)?;
        let about = about::verdict(cell, &verdict.to_string());
        let verdict = Cell::from(verdict.to_string()).marked(verdict.into());
        let name = Cell::from(cell_name(cell)).about(about);
        Some(vec![name, verdict, why.into()])
    };
    let mut heads = columns(Kind::Name, &["cell", "verdict"]);
    heads.push(Kind::Message.column("why"));
    Table::new(heads, verdicts.cells.iter().filter_map(row).collect())
}

fn heads(is_inconclusive: bool) -> Vec<Column> {
    let mut heads = vec![Kind::Name.column("cell")];
    heads.extend(columns(Kind::Word, &["metric", "verdict"]));
    let numbers = [
        "base, median",
        "head, median",
        "change",
        "95 % interval",
        "threshold",
    ];
    heads.extend(columns(Kind::Number, &numbers));
    if is_inconclusive {
        heads.extend(columns(Kind::Number, &["detectable", "blocks needed"]));
    }
    heads
}

fn row(cell: &CellVerdicts, found: &MetricVerdict, is_inconclusive: bool) -> Vec<Cell> {
    let comparison = &found.comparison;
    let is_judged = found.gated && found.not_measured_in.is_none();
    let mark = if is_judged {
        comparison.verdict.into()
    } else {
        Mark::Muted
    };
    let mut outcome = Cell::from(found.outcome()).marked(mark);
    if is_inconclusive && comparison.minimum_detectable_change.is_none() {
        outcome.note.clone_from(&comparison.reason);
    }
    let mut row = vec![
        Cell::from(cell_name(cell)).about(about::verdict(cell, &found.outcome())),
        label(found).into(),
        outcome,
        value(found, found.base).into(),
        value(found, found.head).into(),
        Cell::from(effect(found)).noted(of_medians(found).unwrap_or_default()),
        interval(found).into(),
        share(comparison.threshold).into(),
    ];
    if is_inconclusive {
        let detectable = comparison.minimum_detectable_change;
        row.push(known(detectable.map(detectable_change)));
        let most = judge::compare::WORTHWHILE_BLOCKS;
        row.push(known(comparison.blocks_needed.map(|blocks| match blocks {
            blocks if blocks > most => format!("over {most}"),
            blocks => blocks.to_string(),
        })));
    }
    row
}

/// In what the two images differ, in one sentence; `None` where nobody knows of a difference.
pub(crate) fn differences(verdicts: &Verdicts) -> Option<String> {
    const NAMED: usize = 4;
    let changes = &verdicts.image_changes;
    let named = changes.iter().take(NAMED).map(|change| {
        let (base, head) = (part(change.base.as_ref()), part(change.head.as_ref()));
        format!("{} {} {base} → {head}", change.part, change.name)
    });
    let more = changes.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    let named: Vec<String> = named.chain(more).collect();
    (!named.is_empty()).then(|| format!("Differences between the images: {}.", named.join("; ")))
}

/// A part of an image, as tables show it.
#[must_use]
pub fn part(value: Option<&PartValue>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(PartValue::Bytes(size)) => format::bytes(*size as f64),
        Some(PartValue::Text(text)) => text.clone(),
    }
}

fn image_changes(verdicts: &Verdicts) -> Table {
    let row = |change: &ImageChange| {
        let (base, head) = (part(change.base.as_ref()), part(change.head.as_ref()));
        vec![
            change.part.to_string().into(),
            change.name.as_str().into(),
            base.into(),
            head.into(),
        ]
    };
    let mut heads = columns(Kind::Name, &["part", "name"]);
    heads.extend(columns(Kind::Number, &["base", "head"]));
    Table::new(heads, verdicts.image_changes.iter().map(row).collect())
}

/// Whether the metric was measured on both sides and came to this verdict.
fn came_to(found: &MetricVerdict, verdict: Verdict) -> bool {
    found.not_measured_in.is_none() && found.comparison.verdict == verdict
}

/// How the verdicts came about.
fn method(verdicts: &Verdicts) -> String {
    let looks = (verdicts.looks > 0).then(|| {
        format!(
            " The session looked at its metrics {} to know when to stop; intervals are wider to \
             account for it.",
            plural(verdicts.looks, "time", "times")
        )
    });
    format!(
        "Runs are paired by block; the change is the ratio of head to base from which as much speaks \
         for more as for less, by paired t, Welch's t and ranks together, with its 95 % interval, and \
         it is what is judged. Where the medians contradict it, their change stands beside it. \
         More throughput is better; of time and memory, less. At most 2 % of all metrics called \
         improved or regressed are so by chance on average (false discovery rate after Benjamini and \
         Hochberg, over the gated metrics that vary from run to run, and over the others by \
         themselves). Memory that is the same in every run is \
         compared exactly. Threshold: the noise threshold, up to which a change counts as unchanged. \
         Detectable: the smallest change that shows in this many blocks.{}",
        looks.unwrap_or_default()
    )
}

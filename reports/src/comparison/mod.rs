//! Verdicts as text, Markdown, JSON, `JUnit` XML, GitHub annotations, and a section of a page.
//!
//! [`verdict::Verdicts`] says of every cell and metric whether it improved, regressed or is
//! unchanged, or whether that is inconclusive; here it gets a form. Which metrics fail a gate, and
//! how strictly, is [`verdict::Gate`]'s to say.

mod annotations;
mod cold_start;
mod inside;
mod junit;
mod warnings;

use std::path::{Path, PathBuf};

use askama::Template;
use judge::compare::Verdict;
use record::{ImageChange, PartValue};
use verdict::{CellVerdicts, FailOn, MetricVerdict, Origin, Verdicts};

pub use annotations::annotations;
pub(crate) use annotations::{command, listed};
pub use junit::{JunitError, junit};

use self::warnings::warnings;
use crate::{
    counts,
    document::{Block, Cell, Kind, Mark, Section, TableRow, known},
    facets,
    model::{
        Change,
        changes::{self, is_headline},
        effects, headline as headlines,
    },
    plots::forest,
    render::{
        html::Page,
        json, markdown as md,
        text::{self as terminal, Style},
    },
    words::{
        comparison::{
            GRAVEST_FIRST, arrow, came_to, cell_name, detectable_change, effect, headline,
            interval, label, lost, of_medians, tally, value,
        },
        format::{self, UNKNOWN, plural, share},
    },
    write::{Files, ReportError, write_files},
};

/// `comparison.html`, `comparison.md` and `comparison.json` in a folder that is made where it is
/// not there: either all three are new or none is. Comes back with the page. The gate on the page is
/// as strict as `fail_on`.
pub fn write(verdicts: &Verdicts, fail_on: FailOn, out: &Path) -> Result<PathBuf, ReportError> {
    write_files(out, &files(verdicts, fail_on)?)?;
    Ok(out.join("comparison.html"))
}

pub(crate) fn files(verdicts: &Verdicts, fail_on: FailOn) -> Result<Files, ReportError> {
    let html = "comparison.html";
    Ok([
        (html, page(verdicts, fail_on)?),
        ("comparison.md", markdown(verdicts, fail_on, Some(html))),
        ("comparison.json", json::render(verdicts)?),
    ])
}

/// A comparison as a page; the gate is as strict as `fail_on`.
fn page(verdicts: &Verdicts, fail_on: FailOn) -> Result<String, ReportError> {
    let (base, head) = (&verdicts.base, &verdicts.head);
    let is_choice = head.choice.is_some();
    let headline = headlines::of_comparison(verdicts, fail_on);
    let mut top = counts::of_comparison(&headline, is_choice);
    let place = |side: &Origin| {
        let driver = side.driver_version.iter();
        let driver: String = driver.map(|one| format!(" · driver {one}")).collect();
        let (device, machine, session) = (&side.device, &side.machine, &side.session);
        format!("{device} of {machine}{driver} · session {session}")
    };
    let mut places = vec![place(base), place(head)];
    places.dedup();
    let chart = forest::of_comparison(verdicts, forest::FIRST);
    top.extend(chart.map(|chart| forest::first(chart, false, is_choice)));
    top.extend(differences(verdicts).map(Block::Method));
    let compared = Section::of("comparison", "Comparison", document(verdicts));
    let page = Page {
        title: arrow(verdicts),
        subtitle: places.join(" | "),
        verdict: top,
        summary: Vec::new(),
        sections: vec![compared],
    };
    Ok(page.render()?)
}

fn gate(verdicts: &Verdicts, fail_on: FailOn) -> Option<Block> {
    let gate = headlines::gate(&[verdicts], None, fail_on);
    gate.as_ref().map(counts::gate)
}

/// Verdicts as GitHub's Markdown, no longer than a comment may be: whether the gate passes, what
/// changed most, and everything folded away. `link` leads to the report.
pub fn markdown(verdicts: &Verdicts, fail_on: FailOn, link: Option<&str>) -> String {
    let mut top = Vec::from_iter(gate(verdicts, fail_on));
    top.extend(short(verdicts));
    let link = link.map_or_else(String::new, |link| format!("[The report]({link})\n\n"));
    let rest = Block::Folded(ALL.to_owned(), tables(verdicts));
    let method = Block::Method(method(verdicts));
    md::for_a_comment(|rows| {
        let top = md::limited(&top, 2, rows);
        format!("{top}{link}{}", md::limited(&[&rest, &method], 3, rows))
    })
}

/// Verdicts for a terminal or a log: what they come to stands at the end. `is_whole`: with every
/// table, and not only what changed most.
pub fn text(verdicts: &Verdicts, fail_on: FailOn, style: Style, is_whole: bool) -> String {
    let mut blocks = if is_whole {
        let mut blocks = vec![Block::Heading(headline(verdicts))];
        blocks.extend(tables(verdicts));
        blocks.push(Block::Method(method(verdicts)));
        blocks.extend(summary(verdicts));
        blocks
    } else {
        short(verdicts)
    };
    blocks.extend(gate(verdicts, fail_on));
    terminal::document(&blocks, style)
}

const ALL: &str = "All verdicts";
const COLD_START: &str = "Cold start";

/// What was compared, the largest effects on a line each, and what to know before believing them.
fn short(verdicts: &Verdicts) -> Vec<Block> {
    const ROWS: usize = 10;
    const WARNINGS: usize = 5;
    let mut blocks = vec![Block::Text(format!("{}.", headline(verdicts)))];
    let lost = verdicts.cells.iter().filter_map(|cell| {
        let (verdict, why) = lost(cell)?;
        let sign = Mark::from(verdict).look().1;
        Some(format!("{sign}{} · {why}", cell_name(cell)))
    });
    let mut rows: Vec<String> = lost.take(ROWS).collect();
    let changes: Vec<Change> = changes::of_comparison(verdicts, false).collect();
    let (effects, all) = effects::rows(&changes, ROWS - rows.len());
    let more = all - effects.len();
    rows.extend(effects);
    if more > 0 {
        rows.push(format!("{more} more changes"));
    }
    blocks.extend((!rows.is_empty()).then_some(Block::List(rows)));
    blocks.push(Block::Text(tally(verdicts)));
    let mut known = warnings(verdicts);
    if known.len() > WARNINGS {
        let more = known.split_off(WARNINGS - 1).len();
        known.push(format!("{more} more warnings are in the report"));
    }
    blocks.extend((!known.is_empty()).then_some(Block::Warnings(known)));
    blocks
}

/// Verdicts, what regressed first, what is unchanged folded away.
pub(crate) fn document(verdicts: &Verdicts) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(headline(verdicts))];
    blocks.extend(summary(verdicts));
    blocks.extend(tables(verdicts));
    blocks.push(Block::Method(method(verdicts)));
    blocks
}

fn summary(verdicts: &Verdicts) -> Vec<Block> {
    let mut blocks = vec![Block::Text(tally(verdicts))];
    let known = warnings(verdicts);
    blocks.extend((!known.is_empty()).then_some(Block::Warnings(known)));
    blocks
}

fn tables(verdicts: &Verdicts) -> Vec<Block> {
    // A lost cell stands for its gated metrics.
    let listed = |cell: &CellVerdicts, found: &MetricVerdict| !found.gated || cell.lost().is_none();
    let of_images = || verdicts.images.iter().map(|found| (None, found));
    let rows = |wanted: &dyn Fn(&MetricVerdict) -> bool, is_inconclusive| -> Vec<TableRow> {
        let all = verdicts.all().filter(|(cell, found)| listed(cell, found));
        let all = all
            .map(|(cell, found)| (Some(cell), found))
            .chain(of_images());
        let wanted = all.filter(|(_, found)| wanted(found));
        wanted
            .map(|(cell, found)| row(cell, found, is_inconclusive))
            .collect()
    };
    let mut blocks = Block::titled("All runs fail in the head", lost_cells(verdicts), false);
    let cold_start = || cold_start::table(verdicts);
    if let Some((table, true)) = cold_start() {
        blocks.push(Block::Subheading(COLD_START.to_owned()));
        blocks.extend(table);
    }
    for (verdict, title) in GRAVEST_FIRST {
        let is_inconclusive = verdict == Verdict::Inconclusive;
        let table = rows(
            &|found| is_headline(found) && came_to(found, verdict),
            is_inconclusive,
        );
        blocks.extend(Block::titled(title, table, verdict == Verdict::Unchanged));
    }
    let one_sided = rows(
        &|found| is_headline(found) && found.not_measured_in.is_some(),
        false,
    );
    blocks.extend(Block::titled("Measured on one side only", one_sided, false));
    let others = rows(&|found| !is_headline(found), false);
    blocks.extend(Block::titled("Other metrics", others, true));
    if let Some((table, false)) = cold_start() {
        blocks.push(Block::Folded(COLD_START.to_owned(), table));
    }
    blocks.extend(inside::blocks(verdicts));
    blocks.extend(Block::titled(
        "Differences between the images",
        image_changes(verdicts),
        true,
    ));
    blocks
}

/// Cells that work in the base and never in the head.
fn lost_cells(verdicts: &Verdicts) -> Vec<TableRow> {
    let row = |cell| {
        let (verdict, why) = lost(cell)?;
        let about = facets::verdict(cell, &verdict.to_string());
        let verdict = Cell::from(verdict.to_string()).marked(verdict.into());
        Some(vec![
            Kind::Name.cell("cell", Cell::from(cell_name(cell)).about(about)),
            Kind::Name.cell("verdict", verdict),
            Kind::Message.cell("why", why),
        ])
    };
    verdicts.cells.iter().filter_map(row).collect()
}

fn row(cell: Option<&CellVerdicts>, found: &MetricVerdict, is_inconclusive: bool) -> TableRow {
    let comparison = &found.comparison;
    let is_judged = is_headline(found) && found.not_measured_in.is_none();
    let mark = if is_judged {
        comparison.verdict.into()
    } else {
        Mark::Muted
    };
    let mut outcome = Cell::from(found.outcome()).marked(mark);
    if is_inconclusive && comparison.minimum_detectable_change.is_none() {
        outcome.note.clone_from(&comparison.reason);
    }
    if comparison.verdict == Verdict::Unchanged && comparison.is_real() {
        outcome.note = format!("{}, real", effect(found));
    }
    let name = cell.map_or_else(
        || Cell::from(changes::IMAGE),
        |cell| Cell::from(cell_name(cell)).about(facets::verdict(cell, &found.outcome())),
    );
    let change = Cell::from(effect(found)).noted(of_medians(found).unwrap_or_default());
    let mut row = vec![
        Kind::Name.cell("cell", name),
        Kind::Word.cell("metric", label(found)),
        Kind::Word.cell("verdict", outcome),
        Kind::Number.cell("change", change),
        Kind::Number.cell("interval", interval(found)),
        Kind::Number.cell("base, median", value(found, found.base)),
        Kind::Number.cell("head, median", value(found, found.head)),
        Kind::Number.cell("threshold", share(comparison.threshold)),
    ];
    if is_inconclusive {
        let detectable = comparison.minimum_detectable_change;
        let most = judge::compare::WORTHWHILE_BLOCKS;
        let needed = comparison.blocks_needed.map(|blocks| match blocks {
            blocks if blocks > most => format!("over {most}"),
            blocks => blocks.to_string(),
        });
        row.extend([
            Kind::Number.cell("detectable", known(detectable.map(detectable_change))),
            Kind::Number.cell("blocks needed", known(needed)),
        ]);
    }
    row
}

/// In what the two images differ, in one sentence; `None` where nobody knows of a difference.
pub(crate) fn differences(verdicts: &Verdicts) -> Option<String> {
    const NAMED: usize = 4;
    let changes = &verdicts.image_changes;
    let named = changes.iter().map(|change| {
        let (base, head) = (part(change.base.as_ref()), part(change.head.as_ref()));
        format!("{} {} {base} → {head}", change.part, change.name)
    });
    let named = format::few(named.collect(), NAMED, "; ", "");
    (!named.is_empty()).then(|| format!("Differences between the images: {named}."))
}

/// A part of an image, as tables show it.
pub fn part(value: Option<&PartValue>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(PartValue::Bytes(size)) => format::bytes(*size as f64),
        Some(PartValue::Text(text)) => text.clone(),
    }
}

fn image_changes(verdicts: &Verdicts) -> Vec<TableRow> {
    let row = |change: &ImageChange| {
        vec![
            Kind::Name.cell("part", change.part.to_string()),
            Kind::Name.cell("name", change.name.as_str()),
            Kind::Number.cell("base", part(change.base.as_ref())),
            Kind::Number.cell("head", part(change.head.as_ref())),
        ]
    };
    verdicts.image_changes.iter().map(row).collect()
}

fn method(verdicts: &Verdicts) -> String {
    let looks = (verdicts.looks > 0).then(|| {
        format!(
            " The session was judged {} to decide when to stop; intervals are wider to \
             account for it.",
            plural(verdicts.looks, "time", "times")
        )
    });
    format!(
        "Runs are paired by block; the change is the ratio of head to base at which t and rank \
         tests together find as much evidence for more as for less, and cells of one metric share \
         an estimate of noise. Its interval is the verdict: improved or regressed where it lies \
         beyond the noise threshold, unchanged where it lies within; a change that is real and \
         within is unchanged. Where the medians contradict it, their change is given beside it. \
         More throughput is better; of time and memory, less. Intervals are so wide that at most \
         2 % of all verdicts are wrong on average (false discovery rate after Benjamini and \
         Hochberg, over the gated metrics that vary from run to run, and over the others by \
         themselves). Memory that is the same in every run is compared exactly. Detectable: the \
         smallest change that shows in this \
         many blocks; blocks needed: for one of twice the noise threshold.{}",
        looks.unwrap_or_default()
    )
}

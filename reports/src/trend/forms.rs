//! Series as text, as Markdown and as a page.

use super::{
    AttributeChange, Entry, Series, Standing, Urgency, failures, failures::standing, interval,
    ledger, method, picture, ratio, revision, time,
};
use crate::{
    ReportError,
    document::{Block, Cell, Column, Kind, Mark, Table, columns},
    format::{self, plural},
    html::{self, Figures, Page, Section},
    markdown as md,
    plots::Drawing,
    svg::rows::{NARROW, WIDTH},
    text::{self as terminal, Style},
};
use askama::Template;

/// Series beyond so many are named and not drawn; those that call for somebody come first.
const MOST_DRAWN: usize = 200;

/// What the ledger says, then the series that changed or are stale, the gravest first, each with a
/// table of its changes, and how many there are in all.
#[must_use]
pub fn text(all: &[Series], entries: &[Entry], style: Style) -> String {
    terminal::document(&document(all, entries), style)
}

/// As [`text()`], for a pull request or a job's summary.
#[must_use]
pub fn markdown(all: &[Series], entries: &[Entry]) -> String {
    md::document(&document(all, entries), 3)
}

/// Entries of the ledger, all that is known of each.
#[must_use]
pub fn ledger_text(entries: &[Entry], style: Style) -> String {
    let mut blocks: Vec<Block> = entries
        .iter()
        .map(|entry| Block::Text(entry.told()))
        .collect();
    blocks.extend(ledger::table(entries).map(Block::Table));
    terminal::document(&blocks, style)
}

fn document(all: &[Series], entries: &[Entry]) -> Vec<Block> {
    // What the ledger says of silence stands in a line of its own.
    let has_news =
        |series: &&Series| !series.is_quiet() || (series.is_stale() && series.entries.is_empty());
    let mut told: Vec<&Series> = all.iter().filter(has_news).collect();
    told.sort_by_key(|series| series.urgency());
    let mut blocks = Vec::new();
    let mut first = failures(all, entries);
    for known in [Standing::Open, Standing::JustFixed] {
        first.extend(standing(entries, known).map(Entry::told));
    }
    let accepted = standing(entries, Standing::Accepted).count();
    if accepted > 0 {
        let entries = plural(accepted, "entry is", "entries are");
        first.push(format!("{entries} accepted"));
    }
    if !first.is_empty() {
        blocks.push(Block::List(first));
    }
    for series in told {
        blocks.push(Block::Subheading(line(series)));
        blocks.extend(table(series).map(Block::Table));
    }
    let methods = method::begun(all);
    if !methods.is_empty() {
        blocks.push(Block::List(methods));
    }
    let count = |is: fn(&Series) -> bool| all.iter().filter(|series| is(series)).count();
    let short = match count(|series| series.found.too_short) {
        0 => String::new(),
        short => format!(", {short} too short to judge"),
    };
    blocks.push(Block::Text(format!(
        "{} series, {} without a change{short}.",
        all.len(),
        count(|series| series.is_quiet() && !series.found.too_short)
    )));
    blocks
}

/// What there is to say of one series, in a line.
#[must_use]
pub fn line(series: &Series) -> String {
    let name = match series.subtitle.as_str() {
        "" => series.title.clone(),
        subtitle => format!("{} · {subtitle}", series.title),
    };
    let points = plural(series.points.len(), "point", "points");
    let changes = match series.changes().len() {
        0 => "no change".to_owned(),
        count => plural(count, "change", "changes"),
    };
    let remark = series
        .remark()
        .map_or_else(String::new, |remark| format!("; {remark}"));
    format::clean(&format!("{name}: {points}, {changes}{remark}"))
}

/// The changes of a series, where it has some.
fn table(series: &Series) -> Option<Table> {
    let mut heads: Vec<Column> = columns(Kind::Name, &["point"]);
    heads.extend(columns(Kind::Word, &["time", "revision", "range"]));
    heads.extend(columns(
        Kind::Number,
        &["before", "after", "change", "95 % interval", "p"],
    ));
    heads.push(Kind::Word.column("verdict"));
    let changes = series.changes().iter().enumerate();
    let rows = changes.map(|(index, found)| {
        let (good, bad) = series.between(found);
        let mut row: Vec<Cell> = [
            found.index.to_string(),
            time(found.timestamp),
            revision(found),
            format!("{good}..{bad}"),
            series.value(found.before),
            series.value(found.after),
            ratio(found),
            interval(found),
            format::p_value(found.p),
        ]
        .map(Cell::from)
        .into();
        row.push(verdict(series, index));
        row
    });
    (!series.changes().is_empty()).then(|| Table::new(heads, rows.collect()))
}

/// What a change is: improved or regressed, whether it counts, and what it came with.
fn verdict(series: &Series, index: usize) -> Cell {
    let found = &series.changes()[index];
    let verdict = series.verdict(found);
    let mut words = series.word(found);
    if series.news == Some(index) {
        words += ", new";
    }
    let with: Vec<&str> = series
        .changed_with(found)
        .map(AttributeChange::word)
        .collect();
    if !with.is_empty() {
        words += &format!(", with another {}", with.join(" and "));
    }
    Cell {
        mark: verdict.map(Mark::from),
        ..words.into()
    }
}

const GROUPS: [(Urgency, &str, &str); 5] = [
    (
        Urgency::Regressed,
        "regressed",
        "Regressed with the last run",
    ),
    (Urgency::Stale, "stale", "Without new results"),
    (Urgency::News, "news", "Changed with the last run"),
    (Urgency::Changed, "changed", "Changed before"),
    (Urgency::Quiet, "quiet", "Without a change"),
];

const ABOUT: &str = "Dots are results, blue lines are levels. An upright line is the first result \
    of a new level: red if it regressed, green if it improved, orange if nobody said which way is \
    better. The pale band is the 95 % interval of the new level, and an orange slope is a drift. A \
    range goes from the last good revision to the first bad one. A change at the newest end may \
    still turn out to be an outlier.";

const ABOUT_LEDGER: &str = "What moved at one point is one entry, and keeps its name. It is new in the \
    run that brought it to light, open until somebody accepts it, and fixed when the level is back.";

/// The whole page; `source` says where the series come from, `made` when the page was made.
pub fn html(
    all: &[Series],
    entries: &[Entry],
    source: &str,
    made: &str,
) -> Result<String, ReportError> {
    let beside = |place: usize| Beside {
        anchor: format!("series-{}", place + 1),
        blocks: Vec::new(),
    };
    page(all, entries, &format!("{source} · {made}"), beside)
}

/// What stands below the drawing of a series.
pub(crate) struct Beside {
    /// The name under which a link finds the series.
    pub(crate) anchor: String,
    pub(crate) blocks: Vec<Block>,
}

/// The whole page; what stands beside a series is asked for by its place.
pub(crate) fn page(
    all: &[Series],
    entries: &[Entry],
    subtitle: &str,
    beside: impl Fn(usize) -> Beside,
) -> Result<String, ReportError> {
    let mut drawn = 0;
    let mut sections: Vec<Section> = ledger::table(entries)
        .map(|table| Section {
            id: "ledger".to_owned(),
            title: format!("Ledger ({})", plural(entries.len(), "entry", "entries")),
            about: ABOUT_LEDGER.to_owned(),
            inside: html::document(&[Block::Table(table)]),
        })
        .into_iter()
        .collect();
    for (urgency, id, title) in GROUPS {
        let alike = (0..all.len()).filter(|&place| all[place].urgency() == urgency);
        let mut alike: Vec<usize> = alike.collect();
        alike.sort_by_key(|&place| !is_open(&all[place], entries));
        alike.truncate(MOST_DRAWN - drawn);
        drawn += alike.len();
        let figures = alike.iter().map(|&place| {
            let Beside { anchor, blocks } = beside(place);
            let figures = Figures {
                is_folded: false,
                id: &anchor,
                title,
                legend: &[],
                drawings: &[drawing(&all[place])],
            };
            let below = html::document(&blocks);
            format!("<div id=\"{anchor}\">\n{figures}{below}</div>\n")
        });
        let inside: String = figures.collect();
        if !inside.is_empty() {
            sections.push(Section {
                id: id.to_owned(),
                title: format!("{title} ({})", alike.len()),
                about: String::new(),
                inside,
            });
        }
    }
    let mut summary = vec![
        Block::List(summary(all, entries)),
        Block::Method(ABOUT.to_owned()),
    ];
    if drawn < all.len() {
        let left = plural(all.len() - drawn, "more series is", "more series are");
        let help = "select fewer with --metric or --scenario";
        summary.push(Block::Text(format!("{left} not drawn; {help}.")));
    }
    let page = Page {
        verdict: String::new(),
        title: "Torchgauge · trend".to_owned(),
        subtitle: format::clean(subtitle),
        style: html::style(),
        summary: html::document(&summary),
        sections,
    };
    Ok(page.render()?)
}

/// Whether somebody should look at an entry that it is in.
fn is_open(series: &Series, entries: &[Entry]) -> bool {
    let mut entries = entries.iter();
    entries.any(|entry| entry.standing <= Standing::Open && series.entries.contains(&entry.id))
}

fn drawing(series: &Series) -> Drawing {
    Drawing {
        narrow: Some(picture::draw(series, NARROW)),
        heading: format::clean(&series.title),
        subtitle: format::clean(&series.subtitle),
        remark: series.remark(),
        note: None,
        description: picture::describe(series),
        svg: picture::draw(series, WIDTH),
        table: table(series),
        open: false,
    }
}

fn summary(all: &[Series], entries: &[Entry]) -> Vec<String> {
    let count = |is: &dyn Fn(&Series) -> bool| all.iter().filter(|series| is(series)).count();
    let changed = count(&|series| !series.changes().is_empty());
    let mut told = vec![format!("{} series, {changed} with a change.", all.len())];
    told.extend(standing(entries, Standing::Failing).map(Entry::told));
    told.extend(standing(entries, Standing::Open).map(Entry::told));
    told.extend(method::begun(all));
    for (count, words) in [
        (
            count(&|series| series.urgency() == Urgency::Regressed),
            "regressed with the last run",
        ),
        (
            count(&Series::is_stale),
            "without new results for longer than usual",
        ),
        (
            count(&|series| series.urgency() == Urgency::News),
            "changed with the last run",
        ),
        (
            count(&|series| !series.found.drifts.is_empty()),
            "drifting, with no place to blame",
        ),
        (
            count(&|series| series.found.noisier.is_some()),
            "noisier than before",
        ),
        (
            count(&|series| series.found.too_short),
            "too short to judge",
        ),
    ] {
        if count > 0 {
            told.push(format!("{count} series: {words}."));
        }
    }
    told
}

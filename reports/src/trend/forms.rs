//! Series as text, as Markdown and as a page.

use super::{
    failures::{failures, standing},
    ledger::{self, Entry, Standing},
    picture,
    series::{Series, Urgency, begun},
};
use crate::{
    charts,
    document::{Block, Picture, Section},
    render::{
        html::Page,
        markdown as md,
        text::{self as terminal, Style},
    },
    words::format::{self, plural},
    write::ReportError,
};
use askama::Template;

/// Series beyond so many are named and not drawn; those that call for somebody come first.
const MOST_DRAWN: usize = 200;

/// What the ledger says, then the series that changed or are stale, the gravest first, each with a
/// table of its changes, and how many there are in all.
pub fn text(all: &[Series], entries: &[Entry], style: Style) -> String {
    terminal::document(&document(all, entries), style)
}

/// As [`text()`], for a pull request or a job's summary.
pub fn markdown(all: &[Series], entries: &[Entry]) -> String {
    md::document(&document(all, entries), 3)
}

/// Entries of the ledger, all that is known of each.
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
    let mut blocks = Vec::from_iter(first(all, entries).map(Block::List));
    for series in told {
        blocks.push(Block::Subheading(line(series)));
        blocks.extend(charts::table(&picture::entries(series)).map(Block::Table));
    }
    blocks.push(Block::Text(tally(all)));
    blocks
}

/// What calls for somebody.
fn first(all: &[Series], entries: &[Entry]) -> Option<Vec<String>> {
    let mut first = failures(all, entries);
    for known in [Standing::Open, Standing::JustFixed] {
        first.extend(standing(entries, known).map(Entry::told));
    }
    let accepted = standing(entries, Standing::Accepted).count();
    if accepted > 0 {
        let entries = plural(accepted, "entry is", "entries are");
        first.push(format!("{entries} accepted"));
    }
    first.extend(begun(all));
    (!first.is_empty()).then_some(first)
}

/// How many series there are, and in how many nothing changed.
fn tally(all: &[Series]) -> String {
    let count = |is: fn(&Series) -> bool| all.iter().filter(|series| is(series)).count();
    let quiet = count(|series| series.is_quiet() && !series.found.too_short);
    let short = match count(|series| series.found.too_short) {
        0 => String::new(),
        short => format!(", {short} too short to judge"),
    };
    format!("{} series, {quiet} without a change{short}.", all.len())
}

/// What there is to say of one series, in a line.
pub fn line(series: &Series) -> String {
    let points = plural(series.points.len(), "point", "points");
    let changes = match series.changes().len() {
        0 => "no change".to_owned(),
        count => plural(count, "change", "changes"),
    };
    let remark = series
        .remark()
        .map_or_else(String::new, |remark| format!("; {remark}"));
    let name = series.name();
    format::clean(&format!("{name}: {points}, {changes}{remark}"))
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
    of a new level: red if it regressed, green if it improved, orange if no direction \
    is declared. The pale band is the 95 % interval of the new level, and an orange slope is a drift. A \
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
    let beside = |place: usize| (format!("series-{}", place + 1), None);
    page(all, entries, &format!("{source} · {made}"), beside)
}

/// The whole page; the name under which a link finds a series, and what stands below it, are asked for
/// by its place.
pub(crate) fn page(
    all: &[Series],
    entries: &[Entry],
    subtitle: &str,
    beside: impl Fn(usize) -> (String, Option<Block>),
) -> Result<String, ReportError> {
    let mut drawn = 0;
    let ledger = ledger::table(entries).map(|table| {
        let title = format!("Ledger ({})", plural(entries.len(), "entry", "entries"));
        Section {
            about: ABOUT_LEDGER,
            ..Section::of("ledger", &title, vec![Block::Table(table)])
        }
    });
    let mut sections = Vec::from_iter(ledger);
    for (urgency, id, title) in GROUPS {
        let alike = (0..all.len()).filter(|&place| all[place].urgency() == urgency);
        let mut alike: Vec<usize> = alike.collect();
        alike.sort_by_key(|&place| !is_open(&all[place], entries));
        alike.truncate(MOST_DRAWN - drawn);
        drawn += alike.len();
        let blocks = alike.iter().flat_map(|&place| {
            let (anchor, below) = beside(place);
            let charts = vec![picture::chart(&all[place])];
            let picture = Picture {
                is_target: true,
                ..Picture::of(&anchor, title, Vec::new(), charts)
            };
            [Block::Picture(picture)].into_iter().chain(below)
        });
        if !alike.is_empty() {
            let title = format!("{title} ({})", alike.len());
            sections.push(Section::of(id, &title, blocks.collect()));
        }
    }
    let told = first(all, entries).into_iter().flatten();
    let told = told.chain(
        all.iter()
            .filter(|_| all.len() == 1)
            .filter_map(Series::newest),
    );
    let told = told.chain([tally(all)]);
    let mut summary = vec![Block::Method(ABOUT.to_owned())];
    if drawn < all.len() {
        let left = plural(all.len() - drawn, "more series is", "more series are");
        let help = "select fewer with --metric or --scenario";
        summary.push(Block::Text(format!("{left} not drawn; {help}.")));
    }
    let page = Page {
        verdict: vec![Block::List(told.collect())],
        title: match all {
            [only] => format::clean(&only.title),
            _ => format!("{} over time", plural(all.len(), "metric", "metrics")),
        },
        subtitle: subtitle.to_owned(),
        summary,
        sections,
    };
    Ok(page.render()?)
}

/// Whether somebody should look at an entry that it is in.
fn is_open(series: &Series, entries: &[Entry]) -> bool {
    let mut entries = entries.iter();
    entries.any(|entry| entry.standing <= Standing::Open && series.entries.contains(&entry.kept.id))
}

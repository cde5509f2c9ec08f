//! Documents as HTML; `report.html`: one file, readable without its script and without a network.

use askama::Template;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use crate::{
    about,
    document::{About, Block, Body, Cell, Kind, Table},
    format,
    measure::pieces,
    model::{Group, View},
    plots::{self, Drawing, Key, Picture, forest},
    sections,
    svg::ink,
    write::ReportError,
};

/// Blocks as the inside of a section.
#[derive(Template)]
#[template(path = "blocks.html")]
pub(crate) struct Html<'a> {
    pub(crate) blocks: &'a [Block],
}

/// Blocks that nothing stands around.
pub(crate) fn document(blocks: &[Block]) -> String {
    Html { blocks }.to_string()
}

/// A sentence whose parts between backticks are code.
#[derive(Template)]
#[template(
    ext = "html",
    source = "{% for (is_code, part) in parts %}{% if *is_code %}<code>{{ part }}</code>{% else %}{{ part }}{% endif %}{% endfor %}"
)]
struct Prose<'a> {
    parts: Vec<(bool, &'a str)>,
}

/// A sentence as HTML.
fn prose(text: &str) -> String {
    let text = format::clean(text);
    let mut parts = Vec::new();
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once('`') {
        // A backtick that nothing closes is a character like others.
        let Some((inside, behind)) = after.split_once('`').filter(|(code, _)| !code.is_empty())
        else {
            break;
        };
        parts.extend([(false, before), (true, inside)]);
        rest = behind;
    }
    parts.push((false, rest));
    Prose { parts }.to_string()
}

#[derive(Template)]
#[template(path = "table.html")]
struct Rows<'a> {
    table: &'a Table,
    /// What it is called where it has no caption.
    name: String,
}

impl<'a> Rows<'a> {
    /// Called so, or where that is empty by the first sentence of its caption, or by its heads.
    fn of(table: &'a Table, name: &str) -> Self {
        let sentence = table.caption.split_inclusive(". ").next();
        let sentence = sentence.map(|sentence| sentence.trim_end().trim_end_matches('.'));
        let heads = || {
            let heads = table.columns.iter().map(|column| column.head);
            heads.collect::<Vec<_>>().join(", ")
        };
        let name = match (name, sentence.filter(|sentence| !sentence.is_empty())) {
            ("", Some(sentence)) => sentence.to_owned(),
            ("", None) => heads(),
            (name, _) => name.to_owned(),
        };
        Self { table, name }
    }
}

/// The commands that run cells again, in the order of the table of cells.
#[derive(Template)]
#[template(path = "commands.html")]
struct Commands<'a> {
    commands: Vec<&'a str>,
}

#[derive(Template)]
#[template(path = "cell.html")]
struct Entry<'a> {
    cell: &'a Cell,
}

/// Every picture of one kind.
#[derive(Template)]
#[template(path = "figures.html")]
pub(crate) struct Figures<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) legend: &'a [Key],
    pub(crate) drawings: &'a [Drawing],
    /// Whether each drawing is folded away under its heading.
    pub(crate) is_folded: bool,
}

#[derive(Template)]
#[template(path = "page.html")]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) style: String,
    /// HTML; empty where a page has no verdict of its own.
    pub(crate) verdict: String,
    /// HTML.
    pub(crate) summary: String,
    pub(crate) sections: Vec<Section>,
}

/// One section of a page, with its place in the navigation.
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) about: String,
    /// HTML.
    pub(crate) inside: String,
}

/// What every page does where scripts run: filter, sort, copy, read plots out and enlarge them.
const SCRIPT: &str = include_str!("../templates/report.js");

impl Page {
    /// What the browser may load and run: this page's style sheet and script, and nothing else.
    fn policy(&self) -> String {
        policy(&self.style, SCRIPT)
    }
}

/// A policy that lets the browser use this style sheet and this script alone.
pub(crate) fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        hash(style),
        hash(script)
    )
}

/// The style sheet of every page.
pub(crate) fn style() -> String {
    ink::style_sheet() + "\n" + include_str!("../templates/report.css")
}

/// The whole page.
pub fn render(view: &View) -> Result<String, ReportError> {
    let section = |id: &str, title: &str, blocks: &[Block]| Section {
        id: id.to_owned(),
        title: title.to_owned(),
        about: String::new(),
        inside: document(blocks),
    };
    let told = sections::of(view);
    let told = told.iter().map(|one| {
        let mut section = section(one.id, &one.title, &one.blocks);
        if one.id == sections::RESULTS {
            section.inside += &commands(view);
        }
        section
    });
    let pictures = plots::in_order(view);
    let pictures = pictures.into_iter().filter_map(|plot| {
        let Picture {
            legend,
            mut drawings,
        } = (plot.draw)(view);
        if view.is_large() {
            drawings.iter_mut().for_each(Drawing::drop_hints);
        }
        let figures = Figures {
            id: plot.id,
            title: plot.title,
            legend: &legend,
            drawings: &drawings,
            is_folded: view.is_large(),
        };
        (!drawings.is_empty()).then(|| Section {
            id: plot.id.to_owned(),
            title: plot.title.to_owned(),
            about: plot.about.to_owned(),
            inside: figures.to_string(),
        })
    });
    let facts = section("facts", sections::FACTS, &sections::facts(view));
    let page = Page {
        title: sections::title(view),
        subtitle: subtitle(view),
        style: style(),
        verdict: document(&sections::verdict(view))
            + &first_picture(view)
            + &document(&sections::place(view)),
        summary: document(&sections::top(view)),
        sections: told.chain(pictures).chain([facts]).collect(),
    };
    Ok(page.render()?)
}

/// The commands that run the cells again, folded away.
fn commands(view: &View) -> String {
    let cells = view.groups.iter().flat_map(Group::cells);
    let commands: Vec<&str> = cells.map(|cell| view.commands[cell].as_str()).collect();
    if commands.is_empty() {
        return String::new();
    }
    Commands { commands }.to_string()
}

/// The picture of the first screen.
fn first_picture(view: &View) -> String {
    let mut claims = view.report.sessions.iter().flat_map(|one| &one.claims);
    let has_claims = claims.any(verdict::ClaimFound::is_measured);
    let Some(drawing) = forest::first(view) else {
        return String::new();
    };
    let figures = Figures {
        id: "first",
        title: forest::PLOT.title,
        legend: &forest::legend(has_claims),
        drawings: &[drawing],
        is_folded: false,
    };
    figures.to_string()
}

fn subtitle(view: &View) -> String {
    let names = view.report.sessions.iter().map(|session| {
        let day = session.started_at.strftime("%Y-%m-%d %H:%M UTC");
        let machine = &session.machine;
        let gpu = machine.gpus.first().filter(|_| session.device.is_cuda());
        let device = gpu.map_or(&machine.cpu.model, |gpu| &gpu.name);
        let of = &session.session;
        format!("{device} of {} · {day} · session {of}", machine.name)
    });
    format::clean(&names.collect::<Vec<_>>().join(" | "))
}

/// A page of a site, with the way back to its index.
pub(crate) fn with_way_back(page: &str) -> String {
    let back = "<header>\n<p class=\"method\"><a href=\"../index.html\">← Index</a></p>";
    page.replacen("<header>", back, 1)
}

/// How large a layer is.
fn size(bytes: u64) -> String {
    format::bytes(bytes as f64)
}

/// What a layer's bar leaves free, in percent of the largest one's.
fn rest(bytes: u64, layers: &[(String, u64)]) -> String {
    let largest = layers.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    format!(
        "{:.1}",
        100.0 - bytes as f64 / largest.max(1) as f64 * 100.0
    )
}

/// A picture's title and what one drawing of it is about.
fn joined(title: &str, heading: &str) -> String {
    match heading {
        "" => title.to_owned(),
        heading => format!("{title}: {heading}"),
    }
}

/// What a row is about, and its cells with their classes.
type TableRow<'a> = (Option<&'a About>, Vec<(String, &'a Cell)>);

impl Table {
    /// A body's rows: what each is about, and its cells with their classes.
    fn rows<'a>(&self, body: &'a Body) -> Vec<TableRow<'a>> {
        let cells = |row: usize| {
            let cells = body.rows[row].iter().enumerate().map(|(column, cell)| {
                let is_repeated = self.repeats(body, row, column);
                let again = if is_repeated { " again" } else { "" };
                // Numbers are what most cells hold, and what a cell without a class is.
                let kind = self.columns[column].kind;
                let class = if kind == Kind::Number {
                    ""
                } else {
                    kind.class()
                };
                (class.to_owned() + again, cell)
            });
            let about = body.rows[row]
                .first()
                .and_then(|cell| cell.about.as_deref());
            (about, cells.collect())
        };
        (0..body.rows.len()).map(cells).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn what_stands_between_backticks_is_code_and_never_markup() {
        let check = |text: &str, expect: &str| assert_eq!(prose(text), expect);
        check(
            "`a: 1` would do; `b`",
            "<code>a: 1</code> would do; <code>b</code>",
        );
        check("one ` alone, `` none", "one <code> alone, </code>` none");
        check("`` none", "`` none");
        check("", "");
        let evil = prose("`</code><script>` <b>");
        assert!(
            evil.starts_with("<code>") && !evil.contains("<script>"),
            "{evil}"
        );
        assert!(!evil.contains("<b>"), "{evil}");
    }
}

//! Documents as HTML, and the frame of every page.

use askama::Template;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use crate::{
    document::{About, Block, Body, Cell, Kind, Picture, Section, Table, answer, description},
    facets,
    measure::pieces,
    svg::ink,
    words::format,
};

#[derive(Template)]
#[template(path = "blocks.html")]
pub(crate) struct Html<'a> {
    pub(crate) blocks: &'a [Block],
}

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

fn prose(text: &str) -> String {
    let text = format::clean(text);
    let parts = format::code(&text);
    Prose { parts }.to_string()
}

#[derive(Template)]
#[template(path = "table.html")]
struct Rows<'a> {
    table: &'a Table,
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

#[derive(Template)]
#[template(path = "cell.html")]
struct Entry<'a> {
    cell: &'a Cell,
}

#[derive(Template)]
#[template(path = "figures.html")]
struct Figures<'a> {
    picture: &'a Picture,
}

#[derive(Template)]
#[template(path = "page.html")]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Empty where a page has no verdict of its own.
    pub(crate) verdict: Vec<Block>,
    pub(crate) summary: Vec<Block>,
    pub(crate) sections: Vec<Section>,
}

/// What every page does where scripts run: filter, sort, copy, read plots out and enlarge them.
const SCRIPT: &str = include_str!("../../templates/report.js");

impl Page {
    /// What a link to the page shows first: the answer, or else what the page is about. No picture:
    /// `og:image` needs an absolute address and no SVG, and a page is a file that knows no address.
    fn preview(&self) -> &str {
        answer(&self.verdict).unwrap_or(&self.title)
    }

    /// What a link to the page shows below that: all of the answer.
    fn description(&self) -> String {
        description(match self.verdict[..] {
            [] => &self.summary,
            _ => &self.verdict,
        })
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

pub(crate) fn style() -> String {
    ink::style_sheet() + "\n" + include_str!("../../templates/report.css")
}

/// What stands in front of a page's heading where it is on a site.
const BACK: &str = "<a href=\"../index.html\">← Index</a>";

/// A page of a site, with the way back to its index.
pub(crate) fn with_way_back(page: &str) -> String {
    let back = format!("<header>\n<p class=\"method\">{BACK}</p>");
    page.replacen("<header>", &back, 1)
}

/// The same with the ways to other pages behind it, each with its address and title.
pub(crate) fn with_links(page: &str, links: &[(String, String)]) -> String {
    let links = links.iter().map(|(href, title)| {
        let cell = &Cell::from(title.as_str()).linked(Some(href.clone()));
        format!(" · {}", Entry { cell })
    });
    let ways = format!("{BACK}{}", links.collect::<String>());
    page.replacen(BACK, &ways, 1)
}

fn size(bytes: u64) -> String {
    format::bytes(bytes as f64)
}

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

//! The index of a site: a page with a card for everything on it, and the same as Markdown.

use askama::Template;

use super::{
    LeftOut,
    card::Card,
    drawing::{folder_of, picture_of},
};
use crate::{
    render::{
        html,
        markdown::{document, escape},
    },
    words::format,
    write::ReportError,
};

/// One page, as the index has it.
pub(super) struct Entry<'a> {
    pub(super) place: &'a str,
    pub(super) card: &'a Card,
    /// The trends that it is a point of, with their addresses.
    pub(super) trends: Vec<(String, String)>,
}

impl Entry<'_> {
    fn page(&self) -> String {
        folder_of(self.place) + &self.card.page
    }

    fn picture(&self) -> Option<String> {
        self.card.picture.as_ref().map(|_| picture_of(self.place))
    }
}

pub(super) struct Index<'a> {
    pub(super) title: &'a str,
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) left_out: &'a [LeftOut],
}

const SCRIPT: &str = include_str!("../../templates/site.js");

#[derive(Template)]
#[template(path = "site.html")]
struct Page<'a> {
    title: &'a str,
    style: String,
    script: &'a str,
    /// What the browser may load and run: these two, and the cards' pictures.
    policy: String,
    groups: Vec<(&'static str, &'static str, Vec<&'a Entry<'a>>)>,
    left_out: Vec<String>,
}

impl Index<'_> {
    pub(super) fn html(&self) -> Result<String, ReportError> {
        let style = html::style() + include_str!("../../templates/site.css");
        let title = format::clean(self.title);
        let page = Page {
            title: &title,
            policy: html::policy(&style, SCRIPT) + "; img-src 'self'",
            style,
            script: SCRIPT,
            groups: self.groups(),
            left_out: self.left_out(),
        };
        Ok(page.render()?)
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", escape(self.title));
        for (_, title, entries) in self.groups() {
            text += &format!("## {title}\n\n");
            let cards = entries.iter().map(|entry| card(entry));
            text += &cards.collect::<String>();
        }
        let left_out = self.left_out();
        if !left_out.is_empty() {
            let lines = left_out.iter().map(|line| format!("- {}\n", escape(line)));
            text += &format!("## Left out\n\n{}\n", lines.collect::<String>());
        }
        text.trim_end().to_owned() + "\n"
    }

    /// Trends, comparisons and searches, sessions, of which there may be very many: each with its
    /// ID, the newest first.
    fn groups(&self) -> Vec<(&'static str, &'static str, Vec<&Entry<'_>>)> {
        let is_trend = |entry: &Entry| entry.place.contains('/');
        let is_session = |entry: &Entry| entry.card.session.is_some();
        let of = |is: &dyn Fn(&Entry) -> bool| {
            let mut own: Vec<&Entry> = self.entries.iter().filter(|entry| is(entry)).collect();
            own.sort_by(|one, other| {
                let (newer, older) = (&other.card.time, &one.card.time);
                newer.cmp(older).then(one.place.cmp(other.place))
            });
            own
        };
        let groups = [
            ("trends", "Over time", of(&is_trend)),
            (
                "others",
                "Comparisons and searches",
                of(&|entry| !is_session(entry) && !is_trend(entry)),
            ),
            ("sessions", "Sessions", of(&is_session)),
        ];
        let filled = groups.into_iter().filter(|(.., own)| !own.is_empty());
        filled.collect()
    }

    /// Folders by their last name: where they lay is nobody else's business.
    fn left_out(&self) -> Vec<String> {
        let told = self.left_out.iter().map(|one| {
            let name = one.folder.file_name().unwrap_or(one.folder.as_os_str());
            format::clean(&format!("{} cannot be shown", name.to_string_lossy()))
        });
        told.collect()
    }
}

fn card(entry: &Entry) -> String {
    let Card {
        title,
        subtitle,
        told,
        alt,
        markdown,
        ..
    } = entry.card;
    let page = folder_of(entry.place) + markdown;
    let (title, subtitle) = (escape(title), escape(subtitle));
    let told = document(told, 3);
    let mut text = format!("### [{title}]({page})\n\n{subtitle}\n\n{told}");
    let trends: Vec<String> = entry
        .trends
        .iter()
        .map(|(name, href)| format!("[{}]({href})", escape(name)))
        .collect();
    if !trends.is_empty() {
        text += &format!("- Over time: {}\n\n", trends.join(", "));
    }
    if let Some(picture) = entry.picture() {
        let alt = escape(alt).replace('"', "&quot;");
        text += &format!(
            "<a href=\"{page}\"><img src=\"{picture}\" width=\"360\" alt=\"{alt}\"></a>\n\n"
        );
    }
    text
}

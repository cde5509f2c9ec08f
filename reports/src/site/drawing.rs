//! A site while it is drawn.

use std::{collections::BTreeMap, fs, path::Path};

use record::{SessionFolder, fit::Fit};
use verdict::{FailOn, Verdicts};

use super::{
    Content, LeftOut, MARK, Outcome, SiteError,
    card::{self, Card},
    find::{self, COMPARISON, Found},
    index::{Entry, Index},
    trends::Placed,
};
use crate::{
    comparison, fit,
    model::{Source, View},
    render::html,
    session,
    words::lists::grouped,
    write::{Files, ReportError},
};

/// Writes a site into an empty folder.
pub fn draw(content: &Content, into: &Path) -> Result<Outcome, SiteError> {
    let mut drawing = Drawing {
        content,
        into,
        trends: Placed::all(&content.trends),
        pages: BTreeMap::new(),
        left_out: Vec::new(),
    };
    for found in find::all(&content.folders)? {
        match Drawing::content_of(&found) {
            Ok((files, card)) => drawing.put(found.name, &files, card)?,
            // What is damaged is an error where it was named, and else left out.
            Err(error) if found.is_named => return Err(error),
            Err(error) => drawing.left_out.push(LeftOut {
                folder: found.path,
                why: error.to_string(),
            }),
        }
    }
    if drawing.pages.is_empty() && content.trends.is_empty() {
        return Err(SiteError::Nothing);
    }
    drawing.link()?;
    drawing.trends()?;
    drawing.finish()
}

struct Drawing<'a> {
    content: &'a Content,
    into: &'a Path,
    trends: Vec<Placed<'a>>,
    /// By their place on the site.
    pages: BTreeMap<String, Card>,
    left_out: Vec<LeftOut>,
}

impl Drawing<'_> {
    fn content_of(found: &Found) -> Result<(Files, Card), SiteError> {
        Ok(match found.file {
            SessionFolder::SESSION => {
                let folder = SessionFolder::at(&found.path);
                let read = [Source::read(&folder).map_err(ReportError::from)?];
                let view = View::of(&read);
                (session::files(&view)?, card::of_session(&view))
            }
            COMPARISON => {
                let verdicts: Verdicts = parse(found)?;
                let files = comparison::files(&verdicts, FailOn::Regressed)?;
                (files, card::of_comparison(&verdicts))
            }
            _ => {
                let searched: Fit = parse(found)?;
                (fit::files(&searched)?, card::of_fit(&searched))
            }
        })
    }

    fn trends(&mut self) -> Result<(), SiteError> {
        // Which of two sessions of one name a trend is of cannot be known.
        let named = self.pages.iter();
        let named = named.filter_map(|(place, card)| Some((card.session.clone()?, place.clone())));
        let named = grouped(named).into_iter();
        let sessions = named.filter_map(|(session, places)| {
            let [place] = <[String; 1]>::try_from(places).ok()?;
            Some((session, place))
        });
        let sessions: BTreeMap<String, String> = sessions.collect();
        for placed in std::mem::take(&mut self.trends) {
            let place = format!("trends/{}", placed.name);
            self.put(place, &placed.files(&sessions)?, placed.card())?;
            self.trends.push(placed);
        }
        Ok(())
    }

    /// Leads from comparisons to their sessions, and back.
    fn link(&self) -> Result<(), SiteError> {
        let pages = || self.pages.iter();
        for (place, card) in pages() {
            let is_own = |other: &Card| match &card.session {
                Some(session) => other.compared.contains(session),
                None => (other.session.iter()).any(|session| card.compared.contains(session)),
            };
            let others = pages().filter(|(_, other)| is_own(other));
            let links = others.map(|(place, other)| {
                let href = format!("../{}{}", folder_of(place), other.page);
                (href, other.title.clone())
            });
            let links: Vec<(String, String)> = links.collect();
            if !links.is_empty() {
                let file = folder_of(place) + &card.page;
                let path = self.into.join(&file);
                let text = fs::read_to_string(&path);
                let text = text.map_err(|source| SiteError::Read { path, source })?;
                put(self.into, &file, &html::with_links(&text, &links))?;
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        place: String,
        files: &[(impl AsRef<str>, String)],
        card: Card,
    ) -> Result<(), SiteError> {
        let folder = folder_of(&place);
        for (name, text) in files {
            let name = name.as_ref();
            let is_page = Path::new(name).extension() == Some("html".as_ref());
            let with_way_back = is_page.then(|| html::with_way_back(text));
            let text = with_way_back.as_ref().unwrap_or(text);
            put(self.into, &format!("{folder}{name}"), text)?;
        }
        if let Some(picture) = &card.picture {
            put(self.into, &picture_of(&place), picture)?;
        }
        self.pages.insert(place, card);
        Ok(())
    }

    fn finish(self) -> Result<Outcome, SiteError> {
        let entries = self.pages.iter().map(|(place, card)| Entry {
            place,
            card,
            trends: self.trends_of(card),
        });
        let index = Index {
            title: &self.content.title,
            entries: entries.collect(),
            left_out: &self.left_out,
        };
        let files = [
            ("index.html", index.html()?),
            ("README.md", index.markdown()),
            // Or GitHub Pages would leave files out and run others through Jekyll.
            (".nojekyll", String::new()),
            (MARK, "{\"version\": 2}\n".to_owned()),
        ];
        for (file, text) in files {
            put(self.into, file, &text)?;
        }
        Ok(Outcome {
            drawn: self.pages.into_keys().collect(),
            left_out: self.left_out,
        })
    }

    /// The trends that a session is a point of, with their pages.
    fn trends_of(&self, card: &Card) -> Vec<(String, String)> {
        let Some(session) = &card.session else {
            return Vec::new();
        };
        let own = self.trends.iter().filter(|placed| placed.has(session));
        let own = own.map(|placed| {
            let href = format!("trends/{}.html", placed.name);
            (placed.trend.name.clone(), href)
        });
        own.collect()
    }
}

/// Where the files of a page lie: `trends/x` has its file beside others, `x` a folder of its own.
pub(super) fn folder_of(place: &str) -> String {
    match place.split_once('/') {
        Some((folder, _)) => format!("{folder}/"),
        None => format!("{place}/"),
    }
}

pub(super) fn picture_of(place: &str) -> String {
    if place.contains('/') {
        format!("{place}.svg")
    } else {
        format!("{place}/card.svg")
    }
}

fn parse<T: serde::de::DeserializeOwned>(found: &Found) -> Result<T, SiteError> {
    let path = found.path.join(found.file);
    match regular_file::read_text(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| SiteError::Form { path, source }),
        Err(source) => Err(SiteError::Read { path, source }),
    }
}

fn put(folder: &Path, file: &str, text: &str) -> Result<(), SiteError> {
    let path = folder.join(file);
    let written = fs::create_dir_all(path.parent().unwrap_or(folder));
    let written = written.and_then(|()| fs::write(&path, text));
    Ok(written.map_err(|source| ReportError::Write { path, source })?)
}

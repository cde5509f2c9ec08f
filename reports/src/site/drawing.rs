//! A site while it is drawn.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use judge::trend::Point;
use record::{SessionFolder, fit::Fit};
use verdict::{FailOn, Verdicts};

use super::{
    Content, LeftOut, Outcome, SiteError,
    card::{self, Card, Drawn},
    find::{self, Found, Kind},
    index::{Entry, Index},
    manifest::{Manifest, Page, digest},
    trends::Placed,
};
use crate::{ReportError, Source, View, comparison, fit, html, past::Past, write};

/// Draws all of it into a folder.
pub(super) fn run(
    content: &Content,
    before: Option<&Path>,
    into: &Path,
) -> Result<Outcome, SiteError> {
    let old = before.map(Manifest::read).transpose()?.unwrap_or_default();
    let mut drawing = Drawing {
        content,
        before,
        into,
        trends: Placed::all(&content.trends),
        pages: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    let sources = drawing.sources()?;
    if sources.is_empty() && content.trends.is_empty() {
        return Err(SiteError::Nothing);
    }
    let sessions = sources.iter();
    let sessions: BTreeMap<String, String> = sessions
        .filter_map(|one| Some((one.session.clone()?, one.found.name.clone())))
        .collect();
    for source in &sources {
        drawing.page(&old, source)?;
    }
    drawing.trends(&old, &sessions)?;
    drawing.finish(&old)
}

/// A folder, and what was read of it.
struct FoundSource {
    found: Found,
    /// The files behind its page.
    bytes: Vec<Vec<u8>>,
    /// The session's name.
    session: Option<String>,
    /// What the trends know of its metrics, with the points that are to be judged.
    past: Vec<(Past, Vec<Point>)>,
}

/// A site that is being drawn.
struct Drawing<'a> {
    content: &'a Content,
    before: Option<&'a Path>,
    into: &'a Path,
    trends: Vec<Placed<'a>>,
    pages: BTreeMap<String, Page>,
    outcome: Outcome,
}

impl Drawing<'_> {
    /// Reads every folder. What is damaged is an error where it was named, and else left out.
    fn sources(&mut self) -> Result<Vec<FoundSource>, SiteError> {
        let mut sources: Vec<FoundSource> = Vec::new();
        for found in find::all(&self.content.folders)? {
            let (path, is_named) = (found.path.clone(), found.is_named);
            let read = match self.source(found) {
                Err(error) if is_named => return Err(error),
                Err(error) => {
                    self.leave_out(path, error.to_string());
                    continue;
                }
                Ok(read) => read,
            };
            let is_same =
                |other: &&FoundSource| read.session.is_some() && other.session == read.session;
            if let Some(same) = sources.iter().find(is_same) {
                let why = format!("the same session as {}", same.found.path.display());
                self.leave_out(path, why);
                continue;
            }
            sources.push(read);
        }
        Ok(sources)
    }

    fn leave_out(&mut self, folder: PathBuf, why: String) {
        self.outcome.left_out.push(LeftOut { folder, why });
    }

    fn source(&self, found: Found) -> Result<FoundSource, SiteError> {
        let read = |name: &str| {
            let path = found.path.join(name);
            regular_file::read(&path).map_err(|source| SiteError::Read { path, source })
        };
        let mut session = None;
        let bytes = match found.kind {
            Kind::Session => {
                let folder = SessionFolder::at(&found.path);
                session = Some(folder.read_session()?.session);
                let has_records = found.path.join(SessionFolder::RECORDS).exists();
                let records = has_records
                    .then(|| read(SessionFolder::RECORDS))
                    .transpose()?;
                vec![read(SessionFolder::SESSION)?, records.unwrap_or_default()]
            }
            Kind::Comparison => vec![read("comparison.json")?],
            Kind::Fit => vec![read("fit.json")?],
        };
        let past = session.as_deref().map(|session| {
            let past = self.trends.iter().flat_map(|one| one.past(session));
            let owned = past.map(|(past, judged)| (past, judged.to_vec()));
            owned.collect::<Vec<_>>()
        });
        Ok(FoundSource {
            found,
            bytes,
            session,
            past: past.unwrap_or_default(),
        })
    }

    fn page(&mut self, old: &Manifest, source: &FoundSource) -> Result<(), SiteError> {
        let past = format!("{:?}", source.past);
        let bytes = source.bytes.iter().map(Vec::as_slice);
        let digest = self.digest(bytes.chain([past.as_bytes()]));
        let place = source.found.name.clone();
        if self.keep(old, &place, &digest)? {
            return Ok(());
        }
        match Self::content_of(source) {
            Ok((files, card)) => self.put(place, digest, &files, card),
            Err(error) if source.found.is_named => Err(error),
            Err(error) => {
                self.leave_out(source.found.path.clone(), error.to_string());
                Ok(())
            }
        }
    }

    /// The files of a page, and its card.
    fn content_of(source: &FoundSource) -> Result<(Vec<(String, String)>, Drawn), SiteError> {
        let owned = |files: Vec<(&str, String)>| {
            let files = files.into_iter();
            files.map(|(name, text)| (name.to_owned(), text)).collect()
        };
        Ok(match source.found.kind {
            Kind::Session => {
                let read = [Source::read(&SessionFolder::at(&source.found.path))?];
                let past = source.past.iter();
                let past = past.map(|(past, judged)| past.clone().judged(judged));
                let view = View::of(&read).with_past(past.collect());
                (owned(write::files(&view)?.into()), card::of_session(&view))
            }
            Kind::Comparison => {
                let verdicts: Verdicts = parse(source, "comparison.json")?;
                let files = comparison::files(&verdicts, FailOn::Regressed, &[])?;
                (owned(files.into()), card::of_comparison(&verdicts))
            }
            Kind::Fit => {
                let found: Fit = parse(source, "fit.json")?;
                (owned(fit::files(&found)?.into()), card::of_fit(&found))
            }
        })
    }

    fn trends(
        &mut self,
        old: &Manifest,
        sessions: &BTreeMap<String, String>,
    ) -> Result<(), SiteError> {
        for placed in std::mem::take(&mut self.trends) {
            let own = sessions.iter().filter(|(session, _)| placed.has(session));
            let own: Vec<_> = own.collect();
            let shown = format!("{:?}{own:?}", placed.trend);
            let digest = self.digest([shown.as_bytes()]);
            let place = format!("trends/{}", placed.name);
            if !self.keep(old, &place, &digest)? {
                self.put(place, digest, &placed.files(sessions)?, placed.card())?;
            }
            self.trends.push(placed);
        }
        Ok(())
    }

    fn digest<'b>(&'b self, parts: impl IntoIterator<Item = &'b [u8]>) -> String {
        digest([self.content.program.as_bytes()].into_iter().chain(parts))
    }

    /// Takes a page over where it was drawn from the same.
    fn keep(&mut self, old: &Manifest, place: &str, digest: &str) -> Result<bool, SiteError> {
        let Some(before) = self.before.filter(|_| !self.content.redraw) else {
            return Ok(false);
        };
        let Some(page) = old.kept(before, place, digest) else {
            return Ok(false);
        };
        for file in &page.files {
            let (from, to) = (before.join(file), self.into.join(file));
            make_folder_of(&to)?;
            // On another file system, or one without links, it is a copy.
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).map_err(failed(&to))?;
            }
        }
        self.outcome.kept.push(place.to_owned());
        self.pages.insert(place.to_owned(), page.clone());
        Ok(true)
    }

    fn put(
        &mut self,
        place: String,
        digest: String,
        files: &[(String, String)],
        Drawn { card, picture }: Drawn,
    ) -> Result<(), SiteError> {
        let folder = folder_of(&place);
        let mut written = Vec::new();
        let card_file = picture.map(|picture| (picture_of(&place), picture));
        let pages = files.iter().map(|(name, text)| {
            let is_page = Path::new(name).extension() == Some("html".as_ref());
            let text = if is_page {
                html::with_way_back(text)
            } else {
                text.clone()
            };
            (format!("{folder}{name}"), text)
        });
        for (file, text) in pages.chain(card_file) {
            put(self.into, &file, &text)?;
            written.push(file);
        }
        let page = Page {
            digest,
            files: written,
            card,
        };
        self.outcome.drawn.push(place.clone());
        self.pages.insert(place, page);
        Ok(())
    }

    /// The index, and what else a site has.
    fn finish(mut self, old: &Manifest) -> Result<Outcome, SiteError> {
        let entries = self.pages.iter().map(|(place, page)| Entry {
            place,
            folder: folder_of(place),
            picture: Some(picture_of(place)).filter(|file| page.files.contains(file)),
            card: &page.card,
            trends: self.trends_of(&page.card),
        });
        let index = Index {
            title: &self.content.title,
            has_about: self.content.about.is_some(),
            entries: entries.collect(),
            left_out: &self.outcome.left_out,
        };
        let (html, markdown) = (index.html()?, index.markdown());
        let removed = old
            .pages
            .keys()
            .filter(|place| !self.pages.contains_key(*place));
        self.outcome.removed = removed.cloned().collect();
        let manifest = Manifest::of(self.pages);
        let manifest = serde_json::to_string_pretty(&manifest).map_err(ReportError::from)?;
        let about = self.content.about.clone().map(|text| ("about.md", text));
        let files = [
            ("index.html", html),
            ("README.md", markdown),
            // Or GitHub Pages would leave files out and run others through Jekyll.
            (".nojekyll", String::new()),
            (Manifest::FILE, manifest + "\n"),
        ];
        for (file, text) in files.into_iter().chain(about) {
            put(self.into, file, &text)?;
        }
        Ok(self.outcome)
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
fn folder_of(place: &str) -> String {
    match place.split_once('/') {
        Some((folder, _)) => format!("{folder}/"),
        None => format!("{place}/"),
    }
}

fn picture_of(place: &str) -> String {
    if place.contains('/') {
        format!("{place}.svg")
    } else {
        format!("{place}/card.svg")
    }
}

fn parse<T: serde::de::DeserializeOwned>(source: &FoundSource, name: &str) -> Result<T, SiteError> {
    let bytes = source.bytes.first().map_or(&[][..], Vec::as_slice);
    serde_json::from_slice(bytes).map_err(|error| SiteError::Form {
        path: source.found.path.join(name),
        source: error,
    })
}

fn put(folder: &Path, file: &str, text: &str) -> Result<(), SiteError> {
    let path = folder.join(file);
    make_folder_of(&path)?;
    fs::write(&path, text).map_err(failed(&path))
}

fn make_folder_of(path: &Path) -> Result<(), SiteError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(failed(folder))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SiteError {
    let path = path.to_owned();
    move |source| SiteError::Write { path, source }
}

//! A static site of sessions, comparisons, searches and trends: an index with a card for each, and
//! the pages that `report`, `compare`, `fit` and `trend` write.
//!
//! [`draw`] writes a whole site into a folder. Given the site that it is to replace, it takes over
//! each page that would come out the same; `site.json` says what each was drawn from. The same
//! content gives the same bytes.

mod card;
mod drawing;
mod error;
mod find;
mod index;
mod manifest;
mod trends;

use std::path::{Path, PathBuf};

pub use error::SiteError;
pub use trends::{Followed, Trend};

use self::manifest::Manifest;

/// What a site is made of.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// Its heading.
    pub title: String,
    /// Markdown about what it shows, which the index leads to.
    pub about: Option<String>,
    /// Folders of sessions, comparisons and searches, or folders with such in or below them.
    pub folders: Vec<PathBuf>,
    /// Series over time.
    pub trends: Vec<Trend>,
    /// What draws: pages that another program drew are drawn anew.
    pub program: String,
    /// Whether every page is drawn anew.
    pub redraw: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Pages that were drawn, by their place on the site.
    pub drawn: Vec<String>,
    /// Pages that were taken over.
    pub kept: Vec<String>,
    /// Pages that were on the site before and are not any more.
    pub removed: Vec<String>,
    /// Folders that are not on the site, and why.
    pub left_out: Vec<LeftOut>,
}

/// A folder that is not on the site.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// The folder.
    pub folder: PathBuf,
    /// Why.
    pub why: String,
}

/// Writes a site into an empty folder; what did not change is taken over from the one before.
pub fn draw(content: &Content, before: Option<&Path>, into: &Path) -> Result<Outcome, SiteError> {
    drawing::run(content, before, into)
}

/// Whether a folder may become a site: it is not there, empty, or one already.
pub fn check(out: &Path) -> Result<(), SiteError> {
    Manifest::read(out).map(drop)
}

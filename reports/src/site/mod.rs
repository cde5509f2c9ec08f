//! A static site of sessions, comparisons, searches and trends: an index with a card for each, and
//! the pages that `report`, `compare`, `fit` and `trend` write.
//!
//! [`draw`] writes a whole site into a folder. The same content gives the same bytes.

mod card;
mod drawing;
mod error;
mod find;
mod index;
mod trends;

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

pub use error::SiteError;
pub use trends::{Followed, Trend};

/// The file that makes a folder a site, which the next site may replace.
const MARK: &str = "site.json";

/// What a site is made of.
#[derive(Debug, Clone, Default)]
pub struct Content {
    pub title: String,
    /// Folders of sessions, comparisons and searches, or folders with such in or below them.
    pub folders: Vec<PathBuf>,
    pub trends: Vec<Trend>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// Pages that were drawn, by their place on the site.
    pub drawn: Vec<String>,
    /// Folders that are not on the site, and why.
    pub left_out: Vec<LeftOut>,
}

/// A folder that is not on the site.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    pub folder: PathBuf,
    pub why: String,
}

/// Writes a site into an empty folder.
pub fn draw(content: &Content, into: &Path) -> Result<Outcome, SiteError> {
    drawing::run(content, into)
}

/// Whether a folder may become a site: it is not there, empty, or one already.
pub fn check(out: &Path) -> Result<(), SiteError> {
    let is_empty = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    if is_empty || out.join(MARK).is_file() {
        return Ok(());
    }
    Err(SiteError::NotASite {
        out: out.to_owned(),
    })
}

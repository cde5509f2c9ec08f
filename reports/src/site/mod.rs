//! A static site of sessions, comparisons, searches and trends: an index with a card for each, and
//! the pages that `report`, `compare`, `fit` and `trend` write.
//!
//! [`draw`] writes a whole site into a folder. The same content gives the same bytes.

mod card;
mod drawing;
mod find;
mod index;
mod trends;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use drawing::draw;
pub use trends::{Followed, Trend};

use crate::write::ReportError;

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

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error(
        "nothing to show; give folders of sessions or comparisons, or a history with --history DIR"
    )]
    Nothing,
    #[error(
        "{root} holds no session, comparison or fit, in it or below it; give the folder of a \
         session, or one with such folders"
    )]
    NothingIn { root: PathBuf },
    #[error(
        "{out} holds something that is no site of Torchgauge; give a folder that is empty, not \
         there yet, or a site"
    )]
    NotASite { out: PathBuf },
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}; expected what `--out DIR` writes; draw it again")]
    Form {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Whether a folder may become a site: it is not there, empty, or one already.
pub fn check(out: &Path) -> Result<(), SiteError> {
    let is_empty = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_empty || out.join(MARK).is_file() {
        return Ok(());
    }
    Err(SiteError::NotASite {
        out: out.to_owned(),
    })
}

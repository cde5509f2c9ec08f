//! The folders of which a site is made.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use record::SessionFolder;

use super::{MARK, SiteError};
use crate::words::names::Names;

pub(super) const COMPARISON: &str = "comparison.json";
pub(super) const FIT: &str = "fit.json";

#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The file that it is known by: that of a session, [`COMPARISON`] or [`FIT`].
    pub(super) file: &'static str,
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// Whether it was named by itself, and not found below a folder.
    pub(super) is_named: bool,
}

/// Names that the site has for itself.
const TAKEN: [&str; 5] = ["trends", "index.html", "readme.md", MARK, ".nojekyll"];
/// Folders in folders beyond so many are nobody's sessions.
const DEEPEST: usize = 8;

/// What lies in or below these folders, in the order in which they are given and of their names.
pub(super) fn all(roots: &[PathBuf]) -> Result<Vec<Found>, SiteError> {
    let mut folders = Vec::new();
    for root in roots {
        let before = folders.len();
        if let Some(file) = file_of(root) {
            folders.push((file, root.clone(), true));
        } else {
            below(root, DEEPEST, &mut folders)?;
        }
        if folders.len() == before {
            return Err(SiteError::NothingIn { root: root.clone() });
        }
    }
    let mut names = Names::beside(&TAKEN);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (file, path, is_named) in folders {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.insert(place.clone()) {
            let own = place.file_name().map(|name| name.to_string_lossy());
            let name = names.take(&own.unwrap_or_default());
            found.push(Found {
                file,
                path,
                name,
                is_named,
            });
        }
    }
    Ok(found)
}

fn file_of(folder: &Path) -> Option<&'static str> {
    let mut files = [SessionFolder::SESSION, COMPARISON, FIT].into_iter();
    files.find(|file| folder.join(file).is_file())
}

/// The folders below one, by name; neither those of a site, nor hidden ones, nor links.
fn below(
    folder: &Path,
    depth: usize,
    found: &mut Vec<(&'static str, PathBuf, bool)>,
) -> Result<(), SiteError> {
    if depth == 0 || folder.join(MARK).is_file() {
        return Ok(());
    }
    let failed = |source| SiteError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let inner = entries
        .iter()
        .filter(|entry| is_folder(entry) && !is_hidden(entry));
    let mut inner: Vec<PathBuf> = inner.map(fs::DirEntry::path).collect();
    inner.sort();
    for path in inner {
        match file_of(&path) {
            Some(file) => found.push((file, path, false)),
            None => below(&path, depth - 1, found)?,
        }
    }
    Ok(())
}

//! The folders of which a site is made.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use record::SessionFolder;

use super::{MARK, error::SiteError};
use crate::words::names::Names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Comparison,
    Fit,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Session, SessionFolder::SESSION),
    (Kind::Comparison, "comparison.json"),
    (Kind::Fit, "fit.json"),
];

#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) kind: Kind,
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
        if let Some(kind) = kind(root) {
            folders.push((kind, root.clone(), true));
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
    for (kind, path, is_named) in folders {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.insert(place.clone()) {
            let own = place.file_name().map(|name| name.to_string_lossy());
            let name = names.take(&own.unwrap_or_default());
            found.push(Found {
                kind,
                path,
                name,
                is_named,
            });
        }
    }
    Ok(found)
}

fn kind(folder: &Path) -> Option<Kind> {
    let mut kinds = KINDS.iter();
    let (kind, _) = kinds.find(|(_, file)| folder.join(file).is_file())?;
    Some(*kind)
}

/// The folders below one, by name; neither those of a site, nor hidden ones, nor links.
fn below(
    folder: &Path,
    depth: usize,
    found: &mut Vec<(Kind, PathBuf, bool)>,
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
        match kind(&path) {
            Some(kind) => found.push((kind, path, false)),
            None => below(&path, depth - 1, found)?,
        }
    }
    Ok(())
}

//! The folders of which a site is made.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use record::SessionFolder;

use super::{SiteError, manifest::Manifest};

/// What a folder holds.
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

/// A folder that becomes a page.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    /// Its folder on the site.
    pub(super) name: String,
    /// Whether it was named by itself, and not found below a folder.
    pub(super) is_named: bool,
}

/// Names that the site has for itself.
const TAKEN: [&str; 6] = [
    "trends",
    "index.html",
    "readme.md",
    "about.md",
    Manifest::FILE,
    ".nojekyll",
];
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
    let mut names = Names::default();
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
    if depth == 0 || folder.join(Manifest::FILE).is_file() {
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

/// Gives each thing a name of its own that is good in an address.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let slug = slug(wanted);
        let is_free = |name: &String| {
            let name = name.to_lowercase();
            !TAKEN.contains(&name.as_str()) && !self.taken.contains(&name)
        };
        let others = (2_usize..).map(|number| format!("{slug}-{number}"));
        let mut names = [slug.clone()].into_iter().chain(others);
        let name = names.find(is_free).unwrap_or_default();
        // Some file systems do not tell capitals from small letters.
        self.taken.insert(name.to_lowercase());
        name
    }
}

/// Letters, digits, dots, dashes and underscores of a text.
fn slug(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut slug = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || "._".contains(letter) {
            slug.push(letter);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.chars().take(LONGEST).collect();
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() { "page" } else { slug }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_good_in_addresses_and_never_twice() {
        let mut names = Names::default();
        let mut check = |wanted: &str, expect: &str| assert_eq!(names.take(wanted), expect);
        check("h200-first", "h200-first");
        check("H200-first", "H200-first-2");
        check("../../etc/passwd", "etc-passwd");
        check("<script>\"'&", "script");
        check("trends", "trends-2");
        check("..", "page");
        check("長い名前", "page-2");
        check("", "page-3");
        check(".nojekyll", "nojekyll");
        check("index.html", "index.html-2");
    }
}

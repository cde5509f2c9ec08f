//! What a site was drawn from: `site.json`, by which the next one knows what it can keep.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{SiteError, card::Card};

/// Version of `site.json`.
const VERSION: u32 = 1;

/// `site.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// The pages by their place on the site.
    pub(super) pages: BTreeMap<String, Page>,
}

/// One page as it was drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Page {
    /// SHA-256 of all that it shows, and of the program that drew it.
    pub(super) digest: String,
    /// Its files, by their place on the site.
    pub(super) files: Vec<String>,
    /// What the index says of it.
    pub(super) card: Card,
}

impl Manifest {
    pub(super) const FILE: &str = "site.json";

    pub(super) fn of(pages: BTreeMap<String, Page>) -> Self {
        Self {
            version: VERSION,
            pages,
        }
    }

    /// That of the site in this folder; an empty one where there is no folder, or nothing in it.
    pub(super) fn read(folder: &Path) -> Result<Self, SiteError> {
        let path = folder.join(Self::FILE);
        match regular_file::read_text(&path) {
            // Of another version nothing can be kept.
            Ok(text) => Ok(serde_json::from_str(&text)
                .ok()
                .filter(|manifest: &Self| manifest.version == VERSION)
                .unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound && is_empty(folder) => {
                Ok(Self::default())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Err(SiteError::NotASite {
                    out: folder.to_owned(),
                })
            }
            Err(source) => Err(SiteError::Read { path, source }),
        }
    }

    /// The page of this place, where it was drawn from the same and all its files are there.
    pub(super) fn kept(&self, folder: &Path, place: &str, digest: &str) -> Option<&Page> {
        let page = self.pages.get(place)?;
        let is_there = |file: &String| folder.join(file).is_file();
        (page.digest == digest && page.files.iter().all(is_there)).then_some(page)
    }
}

fn is_empty(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// SHA-256 of these, as hexadecimal digits. Where one ends and the next begins counts.
pub(super) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{:x}", hash.finalize())
}

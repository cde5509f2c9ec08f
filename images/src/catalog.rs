//! The folder with the image specs and their locks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use strict_yaml::{Document, most_similar};

use crate::{
    Error, Result,
    error::at,
    lock::{LOCK_SUFFIX, Lock, PLATFORM},
    spec::Spec,
};

/// A folder of image specs, `images/` in a checkout.
#[derive(Debug, Clone)]
pub struct Catalog {
    folder: PathBuf,
}

/// An image: its spec, and its lock where there is one.
#[derive(Debug, Clone)]
pub struct Image {
    /// The spec's file name without `.yaml`.
    pub name: String,
    /// What commands take for it: its name in the catalog, else its file.
    pub reference: String,
    /// The spec's file.
    pub file: PathBuf,
    /// The spec.
    pub spec: Spec,
    /// The lock beside it.
    pub lock: Option<Lock>,
}

impl Catalog {
    /// The specs in a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The names of all specs, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let entry = entry.map_err(at(&self.folder))?.file_name();
            if let Some(name) = entry.to_string_lossy().strip_suffix(".yaml") {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The image of this name, or of this file (a text with a `/` or that ends in `.yaml`).
    pub fn image(&self, name_or_file: &str) -> Result<Image> {
        Image::read(&self.file(name_or_file)?, name_or_file)
    }

    /// The same without a look at its lock: for one that is to be locked anew, whatever became of
    /// the old lock.
    pub fn image_without_lock(&self, name_or_file: &str) -> Result<Image> {
        Image::read_spec(&self.file(name_or_file)?, name_or_file)
    }

    fn file(&self, name_or_file: &str) -> Result<PathBuf> {
        let is_file = name_or_file.contains('/')
            || Path::new(name_or_file)
                .extension()
                .is_some_and(|end| end == "yaml");
        if is_file {
            return Ok(name_or_file.into());
        }
        let file = self.folder.join(format!("{name_or_file}.yaml"));
        // What is there and is no file is refused when it is read, by what it is.
        if file.exists() {
            return Ok(file);
        }
        let known = self.names()?;
        let similar = most_similar(name_or_file, known.iter().map(String::as_str));
        Err(Error::UnknownImage {
            name: name_or_file.to_owned(),
            hint: similar
                .map(|name| format!(" (did you mean `{name}`?)"))
                .unwrap_or_default(),
            known: known.join(", "),
            folder: self.folder.clone(),
        })
    }
}

impl Image {
    /// Reads a spec, and the lock beside it where there is one.
    fn read(file: &Path, reference: &str) -> Result<Self> {
        let image = Self::read_spec(file, reference)?;
        let lock = Lock::read_beside(file, &image.name)?;
        Ok(Self { lock, ..image })
    }

    fn read_spec(file: &Path, reference: &str) -> Result<Self> {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !is_name(&name) {
            return Err(Error::BadName { name });
        }
        let document = Document::read(file)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let spec = Spec::read(&document, folder)?;
        spec.check_pinned(&document)?;
        Ok(Self {
            name,
            reference: reference.to_owned(),
            file: file.to_owned(),
            spec,
            lock: None,
        })
    }

    /// The image's lock, where there is one and it fits the spec.
    pub fn usable_lock(&self) -> Result<&Lock> {
        let Some(lock) = &self.lock else {
            return Err(Error::NoLock {
                image: self.reference.clone(),
            });
        };
        let cause = if lock.spec != self.spec.digest() {
            "the spec was changed after it was locked"
        } else if lock.image != self.name {
            "it is another image's"
        } else if lock.platform != PLATFORM {
            "it is for another platform"
        } else {
            return Ok(lock);
        };
        Err(Error::LockDiffers {
            image: self.reference.clone(),
            cause: cause.to_owned(),
        })
    }

    /// Where its lock lies or would lie.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.file
            .with_file_name(format!("{}{LOCK_SUFFIX}", self.name))
    }
}

/// Whether a spec's name can be part of an image's: lower case, digits, and single `.`, `_`, `-`
/// between them.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && name.split(['.', '_', '-']).all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_engines_refuse_are_refused_here() {
        for name in ["torch-2.11.0-cpu", "a", "a_b.c"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "Torch", "a..b", "-a", "a b", "..", "a/b"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn an_unknown_image_names_the_similar_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("torch-cpu.yaml"), "").unwrap();
        let error = Catalog::new(folder.path())
            .image("torch-cpi")
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean `torch-cpu`?"), "{error}");
    }
}

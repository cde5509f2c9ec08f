//! The folder with the image specs and their locks.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use strict_yaml::{Document, most_similar, printable};
use wildmatch::WildMatchPattern;

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

const DEFAULTS: &str = "defaults.toml";

/// The images to take where none is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    pub cpu: String,
    pub cuda: String,
    /// On a GPU where PyTorch of the same version is installed.
    pub installed: String,
}

/// An image: its spec, and its lock where there is one.
#[derive(Debug, Clone)]
pub struct Image {
    /// The spec's file name without `.yaml`.
    pub name: String,
    /// What commands take for it: its name in the catalog, else its file.
    pub reference: String,
    pub file: PathBuf,
    pub spec: Spec,
    pub lock: Option<Lock>,
}

impl Catalog {
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

    /// The images to take where none is named, out of `defaults.toml` in the folder.
    pub fn defaults(&self) -> Result<Defaults> {
        let file = self.folder.join(DEFAULTS);
        let text = regular_file::open_own(&file)
            .and_then(io::read_to_string)
            .map_err(at(&file))?;
        toml_edit::de::from_str(&text).map_err(|error| {
            // Without the line that the error's own text quotes: it may be of any file at all.
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = 1 + before.unwrap_or_default().matches('\n').count();
            Error::Input(format!(
                "{} cannot be used: line {line}: {}; expected `cpu`, `cuda` and `installed`, each the \
                 name of a spec",
                file.display(),
                printable(error.message())
            ))
        })
    }

    /// The names that match a pattern in which `*` stands for any text, such as `torch-*-cpu`.
    pub fn matching(&self, pattern: &str) -> Result<Vec<String>> {
        let known = self.names()?;
        let matcher = WildMatchPattern::<'*', '\0'>::new(pattern);
        let fits = |name: &&String| matcher.matches(name);
        let names: Vec<String> = known.iter().filter(fits).cloned().collect();
        if names.is_empty() {
            return Err(self.unknown(pattern, &known));
        }
        Ok(names)
    }

    fn unknown(&self, name: &str, known: &[String]) -> Error {
        let similar = most_similar(name, known.iter().map(String::as_str));
        let hint = similar.map(|name| format!(" (did you mean `{name}`?)"));
        Error::Input(format!(
            "there is no image `{name}` in {}{}; there are {}",
            self.folder.display(),
            hint.unwrap_or_default(),
            known.join(", ")
        ))
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

    /// Whether a word is taken for a file rather than for a name.
    pub fn is_file(name_or_file: &str) -> bool {
        let end = Path::new(name_or_file).extension();
        name_or_file.contains('/') || end.is_some_and(|end| end == "yaml")
    }

    fn file(&self, name_or_file: &str) -> Result<PathBuf> {
        if Self::is_file(name_or_file) {
            return Ok(name_or_file.into());
        }
        let file = self.folder.join(format!("{name_or_file}.yaml"));
        // What is there and is no file is refused when it is read, by what it is.
        if file.exists() {
            return Ok(file);
        }
        Err(self.unknown(name_or_file, &self.names()?))
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
        let name = file.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        if !is_name(&name) {
            return Err(Error::Input(format!(
                "`{name}` cannot name an image; expected lower-case letters and digits with single \
                 `.`, `_` or `-` between them, as in torch-2.11.0-cpu.yaml"
            )));
        }
        let document = Document::read(file)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let spec = Spec::read(&document, folder)?;
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
            return Err(Error::no_lock(&self.reference));
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
        Err(Error::lock_differs(&self.reference, cause))
    }

    /// Where its lock lies or would lie.
    pub fn lock_file(&self) -> PathBuf {
        self.file
            .with_file_name(format!("{}{LOCK_SUFFIX}", self.name))
    }
}

/// Whether a spec's name can be part of an image's: lower case, digits, and single `.`, `_`, `-`
/// between them.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut parts = name.split(['.', '_', '-']);
    name.len() <= 100 && parts.all(|part| !part.is_empty() && part.bytes().all(is_plain))
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
    fn defaults_that_are_none_are_not_quoted() {
        let place = tempfile::tempdir().unwrap();
        let (folder, secret) = (place.path().join("images"), place.path().join("secret"));
        fs::create_dir(&folder).unwrap();
        fs::write(&secret, "cpu = \"a\"\nuser:topsecret:1").unwrap();
        let file = folder.join(DEFAULTS);
        let refused = || {
            let error = Catalog::new(&folder).defaults().unwrap_err();
            let told = format!("{error} {:?}", std::error::Error::source(&error));
            assert!(!told.contains("topsecret"), "{told}");
            let text = error.to_string();
            text.replace(place.path().to_str().unwrap(), "/place")
        };
        std::os::unix::fs::symlink(&secret, &file).unwrap();
        insta::assert_snapshot!(refused(), @"/place/images/defaults.toml: it is a link that leads out of its folder; give the file itself");
        fs::remove_file(&file).unwrap();
        fs::copy(&secret, &file).unwrap();
        insta::assert_snapshot!(refused(), @"/place/images/defaults.toml cannot be used: line 2: key with no value, expected `=`; expected `cpu`, `cuda` and `installed`, each the name of a spec");
    }

    #[test]
    fn an_unknown_image_names_the_similar_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("torch-cpu.yaml"), "").unwrap();
        let error = Catalog::new(folder.path()).image("torch-cpi").unwrap_err();
        assert!(matches!(error, Error::Input(_)), "{error:?}");
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/images"), @"there is no image `torch-cpi` in /images (did you mean `torch-cpu`?); there are torch-cpu");
    }
}

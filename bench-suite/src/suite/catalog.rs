//! Suites by name.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use strict_yaml::most_similar;

use super::{Suite, SuiteError, file::is_name};

/// Why there is no such suite.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The folder cannot be listed.
    #[error("cannot list the suites in {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No suite of this name.
    #[error(
        "there is no suite `{name}` in {folder}; there are {}{}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        meant.as_ref().map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where was looked.
        folder: PathBuf,
        /// What is there.
        known: Vec<String>,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// The file's name cannot be a suite's.
    #[error(
        "{path}: a suite is named after its file; expected up to 40 of a-z, 0-9 and -, \
         then .yaml, such as smoke.yaml"
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
}

/// The folder that suites are named in: `scenarios/`.
#[derive(Debug, Clone)]
pub struct Catalog {
    folder: PathBuf,
}

/// One file of the folder: a suite, or what is wrong with it.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub suite: Result<Suite, SuiteError>,
}

impl Catalog {
    /// Of this folder.
    #[must_use]
    pub fn of(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> Result<Vec<String>, CatalogError> {
        let failed = |source| CatalogError::Folder {
            folder: self.folder.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Ok(name) = name_of(&path) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Every suite, sorted by name; a broken one does not hide the others.
    pub fn list(&self) -> Result<Vec<Listed>, CatalogError> {
        let names = self.names()?;
        Ok(names
            .into_iter()
            .map(|name| Listed {
                suite: Suite::read(&self.path(&name)),
                name,
            })
            .collect())
    }

    /// The suite of this name, or in this file where `reference` has a `/` or ends in `.yaml`.
    pub fn load(&self, reference: &str) -> Result<Suite, SuiteError> {
        let is_yaml = Path::new(reference)
            .extension()
            .is_some_and(|e| e == "yaml");
        if reference.contains('/') || is_yaml {
            return Suite::read(Path::new(reference));
        }
        let known = self.names()?;
        if !known.iter().any(|name| name == reference) {
            let meant = most_similar(reference, known.iter().map(String::as_str));
            return Err(SuiteError::Catalog(CatalogError::Unknown {
                name: reference.to_owned(),
                folder: self.folder.clone(),
                meant: meant.map(str::to_owned),
                known,
            }));
        }
        Suite::read(&self.path(reference))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.yaml"))
    }
}

/// The suite's name: the file's, without `.yaml`.
pub(super) fn name_of(path: &Path) -> Result<String, CatalogError> {
    let yaml = path
        .extension()
        .is_some_and(|extension| extension == "yaml");
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|stem| yaml && is_name(stem))
        .map(str::to_owned)
        .ok_or_else(|| CatalogError::Name {
            path: path.to_owned(),
        })
}

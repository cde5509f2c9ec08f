//! Suites by name.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use strict_yaml::most_similar;

use super::{Suite, SuiteError, file::is_name};

/// The folder that suites are named in: `scenarios/`.
#[derive(Debug, Clone)]
pub struct Catalog {
    folder: PathBuf,
}

impl Catalog {
    pub fn of(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> Result<Vec<String>, SuiteError> {
        let failed = |source: io::Error| {
            let folder = self.folder.display();
            SuiteError::Refused(format!("cannot list the suites in {folder}: {source}"))
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

    /// The suite of this name, or in this file where `reference` has a `/` or ends in `.yaml`.
    pub fn load(&self, reference: &str) -> Result<Suite, SuiteError> {
        if reference.contains('/') || is_yaml(Path::new(reference)) {
            return Suite::read(Path::new(reference));
        }
        let known = self.names()?;
        if !known.iter().any(|name| name == reference) {
            let meant = most_similar(reference, known.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?"));
            let there = match &known[..] {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            return Err(SuiteError::Refused(format!(
                "there is no suite `{reference}` in {}; there are {there}{}",
                self.folder.display(),
                meant.unwrap_or_default()
            )));
        }
        Suite::read(&self.path(reference))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.yaml"))
    }
}

/// The suite's name: the file's, without `.yaml`.
pub(super) fn name_of(path: &Path) -> Result<String, SuiteError> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let name = stem.filter(|stem| is_yaml(path) && is_name(stem));
    name.map(str::to_owned).ok_or_else(|| {
        SuiteError::Refused(format!(
            "{}: a suite is named after its file; expected up to 40 of a-z, 0-9 and -, then .yaml, \
             such as smoke.yaml",
            path.display()
        ))
    })
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "yaml")
}

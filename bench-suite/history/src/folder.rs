//! The folder: which files there are, and reading those that are asked for.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use etcetera::base_strategy::{BaseStrategy, Xdg};

use crate::{
    HistoryError, SeriesFilter,
    disk::{file_name, files, folders, read, read_all},
    error::refused,
    file::{KnownCells, SessionFile},
};

/// The history in a folder, which may be one that is not there yet.
#[derive(Debug, Clone)]
pub struct History {
    folder: PathBuf,
}

/// What a history holds of what was asked for.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The oldest first.
    pub(crate) sessions: Vec<SessionFile>,
    pub(crate) filter: SeriesFilter,
    /// Files that were left out, and why: a sentence each.
    pub left_out: Vec<String>,
}

impl History {
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        let folder = folder.into();
        if folder.exists() && !folder.is_dir() {
            let folder = folder.display();
            return refused(format!(
                "{folder} is no folder, and a history is one; name another with --history DIR"
            ));
        }
        Ok(Self { folder })
    }

    /// As [`History::at`], where there is one.
    pub fn existing(folder: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        let history = Self::at(folder)?;
        if !history.folder.exists() {
            let folder = history.folder.display();
            return refused(format!(
                "there is no history at {folder}; `history add SESSION` makes one"
            ));
        }
        Ok(history)
    }

    /// `$XDG_DATA_HOME/torchgauge/history`, by default `~/.local/share/torchgauge/history`; `None`
    /// where there is no home folder.
    pub fn default_folder() -> Option<PathBuf> {
        let strategy = Xdg::new().ok()?;
        Some(strategy.data_dir().join("torchgauge/history"))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn ledger_path(&self) -> PathBuf {
        self.folder.join("regressions.toml")
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// Reads the sessions that have a series that fits. A file that cannot be read is left out.
    pub fn read(&self, filter: &SeriesFilter) -> Contents {
        let mut left_out = Vec::new();
        let results = self.results();
        let levels = [&filter.machine, &filter.suite, &filter.track];
        let places = files(&results, &levels, &mut left_out);
        let known = KnownCells::default();
        let parse = |path: &PathBuf| {
            let place = path.strip_prefix(&results).unwrap_or(path);
            let bytes = read(path)?;
            SessionFile::parse(&bytes, place, filter, &known)
        };
        let mut sessions: Vec<SessionFile> = read_all(&places, parse, &mut left_out);
        sessions.sort_by(|a, b| (a.started, &a.session).cmp(&(b.started, &b.session)));
        let mut names = HashSet::new();
        sessions.retain(|file| {
            let is_first = names.insert(file.session.clone());
            if !is_first {
                let path = results.join(file.place());
                let why = "left out: there is another file of this session";
                left_out.push(format!("{} {why}", path.display()));
            }
            is_first
        });
        Contents {
            sessions,
            filter: filter.clone(),
            left_out,
        }
    }

    /// The files of a session, wherever they lie; those that cannot be read are none. Folders are
    /// not listed, for each may have a file a night.
    pub(crate) fn find(&self, session: &str) -> Vec<SessionFile> {
        let (results, name) = (self.results(), file_name(session));
        let (all, known) = (SeriesFilter::default(), KnownCells::default());
        let parse = |folder: PathBuf| {
            let path = folder.join(&name);
            let place = path.strip_prefix(&results).ok()?;
            SessionFile::parse(&read(&path).ok()?, place, &all, &known).ok()
        };
        let found = folders(&results, 3).into_iter().filter_map(parse);
        found.filter(|file| file.session == session).collect()
    }
}

//! Making the history again from what it is made of.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use record::{Labels, SessionFolder};
use rusqlite::Connection;

use crate::{
    History, HistoryError,
    add::Source,
    error::Fault,
    import,
    location::{parent, with_suffix},
    sessions::name_baseline,
    sources::{ImportedSeries, Sources, read_import},
};

/// What a history was made of again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Sessions.
    pub sessions: usize,
    /// Imported series.
    pub imports: usize,
    /// Points, imported ones too.
    pub points: usize,
    /// Sessions that were left out, since their folders are not found.
    pub dropped: Vec<String>,
    /// Where the damaged file was moved.
    pub damaged: Option<PathBuf>,
}

impl History {
    /// Makes the history again: out of the folders of its sessions, which are looked for where
    /// they were and in or below `folders`, its imported series and its baselines. Other sessions
    /// in or below `folders` are added. A damaged file is kept beside the new one.
    ///
    /// Where folders are missing nothing is changed, unless the sessions are to be dropped.
    pub fn rebuild(
        path: &Path,
        folders: &[PathBuf],
        drop_missing: bool,
    ) -> Result<Rebuilt, HistoryError> {
        let sound = Self::open_sound(path, !folders.is_empty())?;
        let sources = Sources::read(path)?.unwrap_or_default();
        let parts = Parts::find(path, sources, folders)?;
        if !parts.missing.is_empty() && !drop_missing {
            let sessions = parts.missing;
            return Err(HistoryError::MissingFolders(sessions));
        }
        let rebuilt = match sound {
            Some(history) => history.write("make the history again", |connection| {
                clear(connection)?;
                parts.fill(connection)
            })?,
            None => replace(path, &parts)?,
        };
        for (source, labels) in &parts.sessions {
            source.keep_labels(labels);
        }
        Ok(rebuilt)
    }

    /// The history, its sources written anew; `None` where it is damaged. A new one is made where
    /// there is none and there may be.
    fn open_sound(path: &Path, new: bool) -> Result<Option<Self>, HistoryError> {
        let open = || {
            let history = match Self::open_existing(path) {
                Err(HistoryError::Missing(_)) if new => Self::open(path)?,
                other => other?,
            };
            history.write("keep the sources", |_| Ok(()))?;
            Ok(history)
        };
        match open() {
            Ok(history) => Ok(Some(history)),
            // Without folders and sources there is nothing to make it of.
            Err(HistoryError::Damaged { .. }) if new || Sources::read(path)?.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a history is to be made of.
struct Parts {
    sessions: Vec<(Source, Labels)>,
    imports: Vec<(ImportedSeries, Vec<judge::trend::Point>)>,
    /// Baseline and session.
    baselines: Vec<(String, String)>,
    missing: Vec<String>,
}

impl Parts {
    fn find(path: &Path, sources: Sources, folders: &[PathBuf]) -> Result<Self, HistoryError> {
        let mut found = BTreeMap::new();
        for folder in folders {
            let before = found.len();
            let below = fs::read_dir(folder).into_iter().flatten().flatten();
            for place in below.map(|entry| entry.path()).chain([folder.clone()]) {
                if let Ok(session) = SessionFolder::at(&place).read_session() {
                    found.insert(session.session, place);
                }
            }
            if found.len() == before {
                SessionFolder::at(folder).read_session()?;
            }
        }
        let mut missing = Vec::new();
        for (name, source) in &sources.sessions {
            let known = source.folder.as_ref().filter(|folder| {
                let found = SessionFolder::at(*folder).read_session();
                found.is_ok_and(|found| found.session == *name)
            });
            match known {
                _ if found.contains_key(name) => {}
                Some(folder) => drop(found.insert(name.clone(), folder.clone())),
                None => missing.push(name.clone()),
            }
        }
        let sessions = found.iter().map(|(name, folder)| {
            let source = Source::read(&SessionFolder::at(folder))?;
            let kept = sources.sessions.get(name).map(|kept| kept.labels.clone());
            let (kept, own) = (kept.unwrap_or_default(), source.session.labels.clone());
            let tool = source.session.tool.revision.as_ref();
            let labels = Labels {
                branch: own.branch.or(kept.branch),
                revision: own
                    .revision
                    .or(kept.revision.filter(|kept| Some(kept) != tool)),
                tracks: kept.tracks.into_iter().chain(own.tracks).collect(),
            };
            Ok((source, labels))
        });
        let sessions = sessions.collect::<Result<_, HistoryError>>()?;
        let imports = sources.imports.into_iter().map(|(file, series)| {
            let points = read_import(path, &file)?;
            Ok((series, points))
        });
        let there: BTreeSet<&String> = found.keys().collect();
        let baselines = sources.baselines.into_iter();
        Ok(Self {
            sessions,
            imports: imports.collect::<Result<_, HistoryError>>()?,
            baselines: baselines
                .filter(|(_, session)| there.contains(session))
                .collect(),
            missing,
        })
    }

    fn fill(&self, connection: &Connection) -> Result<Rebuilt, Fault> {
        let mut points = 0;
        for (source, labels) in &self.sessions {
            points += source.add_to(connection, labels)?.points;
        }
        for (series, imported) in &self.imports {
            import::store(connection, series, imported)?;
            points += imported.len();
        }
        for (name, session) in &self.baselines {
            name_baseline(connection, name, session)?;
        }
        Ok(Rebuilt {
            sessions: self.sessions.len(),
            imports: self.imports.len(),
            points,
            dropped: self.missing.clone(),
            damaged: None,
        })
    }
}

fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM baselines; DELETE FROM points; DELETE FROM runs; DELETE FROM cell_metadata;
         DELETE FROM series; DELETE FROM cells; DELETE FROM revisions; DELETE FROM sessions;
         DELETE FROM methods;",
    )
}

/// Makes it anew beside the damaged one, which is then moved away.
fn replace(path: &Path, parts: &Parts) -> Result<Rebuilt, HistoryError> {
    let failed = |source: io::Error| HistoryError::Write {
        path: path.to_owned(),
        source,
    };
    let workshop = tempfile::tempdir_in(parent(path)).map_err(failed)?;
    let fresh = workshop.path().join("history.sqlite");
    let history = History::open(&fresh)?;
    let mut rebuilt = history.write("make the history again", |c| parts.fill(c))?;
    // Closed, it has no journal beside it.
    drop(history);
    let damaged = with_suffix(path, ".damaged");
    if fs::metadata(path).is_ok_and(|facts| facts.len() == 0) {
        fs::remove_file(path).map_err(failed)?;
    }
    for suffix in ["", "-wal", "-shm"] {
        match fs::rename(with_suffix(path, suffix), with_suffix(&damaged, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    fs::rename(&fresh, path).map_err(failed)?;
    // For the sources to be those of the new one.
    History::open(path)?.write("keep the sources", |_| Ok(()))?;
    rebuilt.damaged = damaged.exists().then_some(damaged);
    Ok(rebuilt)
}

//! Adding a session.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use record::{Labels, Method, Record, Records, Session, SessionFolder};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    History, HistoryError, SeriesKey,
    cell_metadata::CellMetadata,
    error::Fault,
    method,
    runs::{Run, same, seconds, values},
    sessions::check_name,
    sql::{self, Json, KEY_COLUMNS, cell_id},
    track,
};

/// What adding a session did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The session's name.
    pub session: String,
    /// Whether the history did not know the session before.
    pub new: bool,
    /// Runs that were added, failed ones too.
    pub runs: usize,
    /// How many of them failed.
    pub failed: usize,
    /// Points that were added.
    pub points: usize,
    /// What of the records was left out, a sentence each.
    pub left_out: Vec<String>,
    /// Whether the history stood like this before, down to the labels.
    pub unchanged: bool,
    /// The labels that the session has now.
    pub labels: Labels,
    /// Images that are followed under their own names, since two or more would be of one track.
    pub side_by_side: Vec<String>,
}

impl History {
    /// The image of a track in [`Labels::tracks`] that is given to the session's only image.
    pub const ONLY_IMAGE: &str = "*";

    /// Adds a session, or the runs by which it has grown since. Adding it again changes nothing.
    /// Labels are kept in the session's folder as well.
    ///
    /// When this returns, what was added is on the disk; when it fails or the process is killed,
    /// the history is as it was before.
    pub fn add(&self, folder: &SessionFolder, labels: &Labels) -> Result<Added, HistoryError> {
        let source = Source::read(folder)?;
        let labels = &source.with_images(labels)?;
        let added = self.write("add a session", |connection| {
            source.add_to(connection, labels)
        })?;
        source.keep_labels(&added.labels);
        Ok(added)
    }
}

/// What a session's folder holds.
pub(crate) struct Source {
    pub(crate) folder: PathBuf,
    pub(crate) session: Session,
    records: Records,
}

impl Source {
    pub(crate) fn read(folder: &SessionFolder) -> Result<Self, HistoryError> {
        let path = std::path::absolute(folder.path()).map_err(|source| HistoryError::Read {
            path: folder.path().to_owned(),
            source,
        })?;
        let source = Self {
            folder: path,
            session: folder.read_session()?,
            records: folder.read_records()?,
        };
        source.check().map_err(|message| HistoryError::Session {
            path: folder.path().to_owned(),
            message,
        })?;
        Ok(source)
    }

    fn check(&self) -> Result<(), String> {
        let session = &self.session.session;
        if session.is_empty() {
            return Err("its name is empty; `session` in session.json must name it".into());
        }
        for record in &self.records.records {
            let run = &record.run;
            if record.session != *session {
                return Err(format!(
                    "run {run} belongs to session {}, but session.json is of {session}; the two \
                     files must be of one session",
                    record.session
                ));
            }
            if let Some((metric, value)) = values(record).find(|(_, value)| *value < 0.0) {
                return Err(format!(
                    "run {run}: {} is {value}, expected a number that is not negative; a record \
                     like this was changed or is broken, and a comparison refuses it as well: \
                     measure again",
                    metric.name
                ));
            }
        }
        Ok(())
    }

    /// The images that the session is of, those whose runs are still to come too.
    fn images(&self) -> BTreeSet<&str> {
        let planned = self.session.cells.iter().map(|cell| &cell.image);
        let told = self.session.images.iter().map(|image| &image.name);
        let ran = self.records.records.iter().map(|record| &record.image);
        planned.chain(told).chain(ran).map(String::as_str).collect()
    }

    /// The labels with the names of the images that tracks are for.
    fn with_images(&self, labels: &Labels) -> Result<Labels, HistoryError> {
        let images = self.images();
        let mut tracks = BTreeMap::new();
        for (image, track) in &labels.tracks {
            check_name("track", track)?;
            let image = match images.first() {
                Some(only) if image == History::ONLY_IMAGE && images.len() == 1 => only,
                _ => image.as_str(),
            };
            let earlier = tracks.insert(image.to_owned(), track.clone());
            let taken = tracks.values().filter(|other| *other == track).count() > 1;
            if !images.contains(image) || earlier.is_some() || taken {
                return Err(HistoryError::Track {
                    session: self.session.session.clone(),
                    track: track.clone(),
                    images: images.into_iter().map(str::to_owned).collect(),
                });
            }
        }
        Ok(Labels {
            tracks,
            ..labels.clone()
        })
    }

    /// Keeps the labels in session.json too. That they are in the history is enough where the
    /// folder cannot be written.
    pub(crate) fn keep_labels(&self, labels: &Labels) {
        if self.session.labels == *labels {
            return;
        }
        let session = Session {
            labels: labels.clone(),
            ..self.session.clone()
        };
        if let Err(error) = SessionFolder::at(&self.folder).write_session(&session) {
            tracing::warn!("the labels are kept in the history alone: {error}");
        }
    }

    /// Adds it within the caller's transaction. `given` must not contradict the labels it has.
    pub(crate) fn add_to(&self, connection: &Connection, given: &Labels) -> Result<Added, Fault> {
        let before = connection.total_changes();
        let name = &self.session.session;
        let mut added = Added {
            session: name.clone(),
            new: false,
            runs: 0,
            failed: 0,
            points: 0,
            left_out: self.records.left_out(),
            unchanged: false,
            labels: Labels::default(),
            side_by_side: Vec::new(),
        };
        let (id, revision) = self.add_session(connection, given, &mut added)?;
        let tracks = track::tracks(&self.images(), &added.labels.tracks);
        let own = tracks.iter().filter(|(image, track)| {
            image == track
                && !added.labels.tracks.contains_key(*image)
                && record::usual_track(image) != **track
        });
        added.side_by_side = own.map(|(image, _)| image.clone()).collect();
        let mut metadata = CellMetadata::default();
        let mut methods = BTreeSet::new();
        for record in &self.records.records {
            let method = Method::of(&self.session, record);
            let key = SeriesKey::of_cell(&self.session, record, &tracks[&record.image], &method);
            let known = if method.is_of_session() {
                run_cell(connection, id, record, &key)?
            } else {
                None
            };
            let cell = if let Some(cell) = known {
                cell
            } else {
                if !key.method.is_empty() && methods.insert(key.method.clone()) {
                    method::keep(connection, &key.method, &method)?;
                }
                cell_id(connection, &key, &method)?
            };
            metadata.hear(cell, &self.session, record);
            let run = Run {
                session: id,
                cell,
                record,
            };
            let revision = revision
                .as_deref()
                .or(record.image_id.as_deref())
                .unwrap_or(name);
            let (new, points) = run.add(connection, name, revision)?;
            added.runs += usize::from(new);
            added.failed += usize::from(new && !record.outcome.is_ok());
            added.points += points;
        }
        metadata.write(connection, id)?;
        added.unchanged = connection.total_changes() == before;
        Ok(added)
    }

    /// Adds the session, or brings it up to date; its ID, and its revision where it has one.
    fn add_session(
        &self,
        connection: &Connection,
        given: &Labels,
        added: &mut Added,
    ) -> Result<(i64, Option<String>), Fault> {
        let session = &self.session;
        let name = &session.session;
        let given = one_of(name, &session.labels, given)?;
        let ended = session.ended_at.map(seconds);
        let folder = self.folder.to_string_lossy();
        let tool = session.tool.revision.clone();
        let Some(known) = Known::find(connection, name)? else {
            let revision = given.revision.clone().or(tool);
            connection.execute(
                "INSERT INTO sessions (name, started, ended, complete, machine, driver, \
                 tool_version, revision, branch, tracks, folder) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    name,
                    seconds(session.started_at),
                    ended,
                    session.complete,
                    &session.machine.name,
                    session.machine.driver_version.as_deref().unwrap_or("none"),
                    &session.tool.version,
                    &revision,
                    &given.branch,
                    Json(&given.tracks),
                    &folder,
                ),
            )?;
            added.new = true;
            added.labels = given;
            return Ok((connection.last_insert_rowid(), revision));
        };
        let started = seconds(session.started_at).to_string();
        same(name, "start", &known.started.to_string(), &started)?;
        same(name, "machine", &known.machine, &session.machine.name)?;
        let revision = known.labels.revision.clone();
        if given.revision.is_some() && revision.is_none() {
            // Points have their images' IDs already.
            same(
                name,
                "revision",
                "none",
                given.revision.as_deref().unwrap_or_default(),
            )?;
        }
        let labels = one_of(name, &known.labels, &given)?;
        // Points are in the series of their tracks already.
        let there = track::tracks(&self.images(), &known.labels.tracks);
        for (image, track) in track::tracks(&self.images(), &labels.tracks) {
            same(name, "track", &there[&image], &track)?;
        }
        // A copy of the folder from before the end does not undo the end.
        connection.execute(
            "UPDATE sessions SET ended = coalesce(?2, ended), complete = max(complete, ?3), \
             branch = ?4, tracks = ?5, folder = ?6 WHERE id = ?1 AND (ended, complete, branch, \
             tracks, folder) IS NOT (coalesce(?2, ended), max(complete, ?3), ?4, ?5, ?6)",
            (
                known.id,
                ended,
                session.complete,
                &labels.branch,
                Json(&labels.tracks),
                &folder,
            ),
        )?;
        let own = revision.clone().filter(|own| Some(own) != tool.as_ref());
        added.labels = Labels {
            revision: given.revision.or(own),
            ..labels
        };
        Ok((known.id, revision))
    }
}

/// The cell that a run of a session is in, whatever method it is of there: an older Torchgauge knew
/// none of an older record, and its series may have gone on with another since.
fn run_cell(
    connection: &Connection,
    session: i64,
    record: &Record,
    key: &SeriesKey,
) -> rusqlite::Result<Option<i64>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {KEY_COLUMNS}, cells.id FROM runs JOIN cells ON cells.id = cell_id \
             WHERE session_id = ? AND name = ? AND attempt = ?"
        ))?
        .query_row((session, &record.run, record.attempt), |row| {
            Ok((sql::key(row, String::new())?, row.get(7)?))
        })
        .optional()?;
    let found = found.filter(|(there, _)| there.without_method() == key.without_method());
    Ok(found.map(|(_, cell)| cell))
}

/// What the history knows of a session.
struct Known {
    id: i64,
    started: f64,
    machine: String,
    labels: Labels,
}

impl Known {
    fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<Self>> {
        connection
            .prepare_cached(
                "SELECT id, started, machine, branch, revision, tracks FROM sessions \
                 WHERE name = ?",
            )?
            .query_row([name], |row| {
                Ok(Self {
                    id: row.get(0)?,
                    started: row.get(1)?,
                    machine: row.get(2)?,
                    labels: Labels {
                        branch: row.get(3)?,
                        revision: row.get(4)?,
                        tracks: row.get::<_, Json<_>>(5)?.0,
                    },
                })
            })
            .optional()
    }
}

/// The labels of a session, of which there may be one of each kind.
fn one_of(session: &str, there: &Labels, here: &Labels) -> Result<Labels, HistoryError> {
    let one = |what, there: Option<&String>, here: Option<&String>| match (there, here) {
        (Some(there), Some(here)) if there != here => Err(HistoryError::Labelled {
            session: session.to_owned(),
            what,
            there: there.clone(),
            here: here.clone(),
        }),
        (Some(label), _) | (None, Some(label)) => {
            check_name(what, label)?;
            Ok(Some(label.clone()))
        }
        (None, None) => Ok(None),
    };
    let mut tracks = there.tracks.clone();
    for (image, track) in &here.tracks {
        tracks.extend(
            one("track", there.tracks.get(image), Some(track))?.map(|track| (image.clone(), track)),
        );
    }
    Ok(Labels {
        branch: one("branch", there.branch.as_ref(), here.branch.as_ref())?,
        revision: one("revision", there.revision.as_ref(), here.revision.as_ref())?,
        tracks,
    })
}

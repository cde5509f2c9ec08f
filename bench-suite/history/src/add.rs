//! Adding a session.

use std::path::PathBuf;

use jiff::Timestamp;
use metrics::Metric;
use record::{Labels, Outcome, Record, Records, Session, SessionFolder};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    History, HistoryError, SeriesKey,
    cell_metadata::CellMetadata,
    error::Fault,
    key::driver,
    sessions::check_name,
    sql::{Measure, cell_id, revision_id, series_id, word},
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
    /// The last line of the records was torn and left out: the writer was cut off, or writes still.
    pub torn: bool,
    /// Whether the history stood like this before, down to the labels.
    pub unchanged: bool,
    /// The labels that the session has now.
    pub labels: Labels,
}

impl History {
    /// Adds a session, or the runs by which it has grown since. Adding it again changes nothing.
    /// Labels are kept in the session's folder as well.
    ///
    /// When this returns, what was added is on the disk; when it fails or the process is killed,
    /// the history is as it was before.
    pub fn add(&self, folder: &SessionFolder, labels: &Labels) -> Result<Added, HistoryError> {
        let source = Source::read(folder)?;
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
            torn: self.records.torn_after.is_some(),
            unchanged: false,
            labels: Labels::default(),
        };
        let (id, revision) = self.add_session(connection, given, &mut added)?;
        let mut metadata = CellMetadata::default();
        for record in &self.records.records {
            let key = SeriesKey::of_cell(&self.session, record);
            let cell = cell_id(connection, &key)?;
            metadata.hear(cell, &key, &self.session, record);
            let known = self.add_run(connection, id, cell, record, &mut added)?;
            let run = known.unwrap_or_else(|| connection.last_insert_rowid());
            let revision = revision
                .as_deref()
                .or(record.image_id.as_deref())
                .unwrap_or(name);
            add_points(connection, (id, cell, run), record, revision, &mut added)?;
        }
        metadata.write(connection, id)?;
        added.unchanged = connection.total_changes() == before;
        Ok(added)
    }

    /// The session's ID, and its revision where it has one.
    fn add_session(
        &self,
        connection: &Connection,
        given: &Labels,
        added: &mut Added,
    ) -> Result<(i64, Option<String>), Fault> {
        let (session, own) = (&self.session, &self.session.labels);
        let name = &session.session;
        let given = Labels {
            branch: one(name, "branch", own.branch.as_ref(), given.branch.as_ref())?,
            revision: one(
                name,
                "revision",
                own.revision.as_ref(),
                given.revision.as_ref(),
            )?,
        };
        for (what, label) in [("branch", &given.branch), ("revision", &given.revision)] {
            if let Some(label) = label {
                check_name(what, label)?;
            }
        }
        let (started, ended) = (seconds(session.started_at), session.ended_at.map(seconds));
        let folder = self.folder.to_string_lossy();
        let known = connection
            .prepare_cached(
                "SELECT id, started, machine, branch, revision FROM sessions WHERE name = ?",
            )?
            .query_row([name], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, f64>(1)?.to_string(),
                    row.get::<_, String>(2)?,
                    row.get::<_, Option<String>>(3)?,
                    row.get::<_, Option<String>>(4)?,
                ))
            })
            .optional()?;
        let tool = session.tool.revision.clone();
        let Some((id, there, machine, branch, revision)) = known else {
            let revision = given.revision.clone().or(tool);
            connection.execute(
                "INSERT INTO sessions (name, started, ended, complete, machine, driver, \
                 tool_version, revision, branch, folder) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    name,
                    started,
                    ended,
                    session.complete,
                    &session.machine.name,
                    driver(&session.machine),
                    &session.tool.version,
                    &revision,
                    &given.branch,
                    &folder,
                ),
            )?;
            added.new = true;
            added.labels = given;
            return Ok((connection.last_insert_rowid(), revision));
        };
        same(name, "start", &there, &started.to_string())?;
        same(name, "machine", &machine, &session.machine.name)?;
        // Points have their revision already, be it an image's ID.
        let fixed = revision.clone().unwrap_or_else(|| "none".into());
        one(name, "revision", Some(&fixed), given.revision.as_ref())?;
        let branch = one(name, "branch", branch.as_ref(), given.branch.as_ref())?;
        // A copy of the folder from before the end does not undo the end.
        connection.execute(
            "UPDATE sessions SET ended = coalesce(?2, ended), complete = max(complete, ?3), \
             branch = ?4, folder = ?5 WHERE id = ?1 AND (ended, complete, branch, folder) \
             IS NOT (coalesce(?2, ended), max(complete, ?3), ?4, ?5)",
            (id, ended, session.complete, &branch, &folder),
        )?;
        added.labels = Labels {
            branch,
            revision: revision
                .clone()
                .filter(|there| Some(there) != tool.as_ref()),
        };
        Ok((id, revision))
    }

    /// The run's ID where it was known; one that says something else is refused.
    fn add_run(
        &self,
        connection: &Connection,
        session: i64,
        cell: i64,
        record: &Record,
        added: &mut Added,
    ) -> Result<Option<i64>, Fault> {
        let (reason, stage, message) = failure(&record.outcome);
        let started = seconds(record.started_at);
        let words = |cell: i64, started: f64, reason: Option<&str>| {
            let outcome = reason.unwrap_or("ok");
            format!("cell {cell}, started {started}, {outcome}")
        };
        let known = connection
            .prepare_cached(
                "SELECT id, cell_id, started, reason FROM runs \
                 WHERE session_id = ? AND name = ? AND attempt = ?",
            )?
            .query_row((session, &record.run, record.attempt), |row| {
                let reason: Option<String> = row.get(3)?;
                let words = words(row.get(1)?, row.get(2)?, reason.as_deref());
                Ok((row.get(0)?, words))
            })
            .optional()?;
        if let Some((id, there)) = known {
            let here = words(cell, started, reason.as_deref());
            same(
                &self.session.session,
                &format!("run {}", record.run),
                &there,
                &here,
            )?;
            return Ok(Some(id));
        }
        connection
            .prepare_cached(
                "INSERT INTO runs (session_id, cell_id, name, attempt, block, started, \
                 point_count, image_id, reason, stage, message) \
                 VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
            )?
            .execute((
                session,
                cell,
                &record.run,
                record.attempt,
                record.block,
                started,
                &record.image_id,
                &reason,
                stage,
                message,
            ))?;
        added.runs += 1;
        added.failed += usize::from(reason.is_some());
        Ok(None)
    }
}

/// Adds those points that are not there, which may be metrics that an older Torchgauge did not
/// follow.
fn add_points(
    connection: &Connection,
    (session, cell, run): (i64, i64, i64),
    record: &Record,
    revision: &str,
    added: &mut Added,
) -> Result<(), Fault> {
    let started = seconds(record.started_at);
    let revision = revision_id(connection, revision)?;
    let mut insert =
        connection.prepare_cached("INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?)")?;
    let mut new = 0_usize;
    for (metric, value) in values(record) {
        let series = series_id(connection, cell, &measure(metric))?;
        new += insert.execute((series, started, run, session, revision, value))?;
    }
    if new > 0 {
        let count = "UPDATE runs SET point_count = point_count + ? WHERE id = ?";
        connection
            .prepare_cached(count)?
            .execute((i64::try_from(new).unwrap_or(i64::MAX), run))?;
    }
    added.points += new;
    Ok(())
}

/// The metrics of a run.
fn values(record: &Record) -> impl Iterator<Item = (&'static Metric, f64)> {
    Metric::followed().filter_map(|metric| Some((metric, metric.of(record)?)))
}

fn measure(metric: &Metric) -> Measure<'static> {
    Measure {
        metric: metric.name,
        unit: metric.unit.sign(),
        direction: metric.direction,
        kind: metric.kind,
    }
}

/// Reason, stage and message of a run that failed.
fn failure(outcome: &Outcome) -> (Option<String>, Option<String>, Option<&str>) {
    match outcome {
        Outcome::Ok => (None, None, None),
        Outcome::Failed {
            reason,
            stage,
            message,
        } => (Some(reason.word()), Some(word(stage)), Some(message)),
    }
}

/// The label, of which there may be one.
fn one(
    session: &str,
    what: &'static str,
    there: Option<&String>,
    here: Option<&String>,
) -> Result<Option<String>, HistoryError> {
    match (there, here) {
        (Some(there), Some(here)) if there != here => Err(HistoryError::Labelled {
            session: session.to_owned(),
            what,
            there: there.clone(),
            here: here.clone(),
        }),
        (there, here) => Ok(there.or(here).cloned()),
    }
}

fn same(session: &str, what: &str, there: &str, here: &str) -> Result<(), HistoryError> {
    if there == here {
        return Ok(());
    }
    Err(HistoryError::Conflict {
        session: session.to_owned(),
        what: what.to_owned(),
        there: there.to_owned(),
        here: here.to_owned(),
    })
}

/// Since 1970-01-01 UTC.
fn seconds(time: Timestamp) -> f64 {
    time.as_nanosecond() as f64 / 1e9
}

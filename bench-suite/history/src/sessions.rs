//! Sessions by name and by branch, and as baselines.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use crate::{
    History, HistoryError,
    error::Fault,
    key::{fits, matches},
    sql::count,
};

/// A session in the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Its name.
    pub session: String,
    /// When it began, in seconds since 1970-01-01 UTC.
    pub started: f64,
    /// When it ended; `None` where it was cut off.
    pub ended: Option<f64>,
    /// Whether every planned run had a record.
    pub complete: bool,
    /// The machine's name.
    pub machine: String,
    /// The NVIDIA driver's version, or `none`.
    pub driver: String,
    /// Version of the Torchgauge that measured.
    pub tool_version: String,
    /// What was measured, such as a commit; `None` where each image's ID stands for it.
    pub revision: Option<String>,
    /// The branch, where one was given.
    pub branch: Option<String>,
    /// The images, by name.
    pub images: Vec<String>,
    /// Runs.
    pub runs: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Points in all series.
    pub points: u64,
    /// Baselines that this session is.
    pub baselines: Vec<String>,
}

/// Which sessions to take. A part that is `None` takes all; `*` stands for any run of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Of this branch; sessions without one are left out.
    pub branch: Option<String>,
    /// In which this image ran.
    pub image: Option<String>,
    /// Of this machine.
    pub machine: Option<String>,
    /// Those whose every planned run has a record.
    pub complete_only: bool,
}

impl SessionFilter {
    fn takes(&self, session: &SessionInfo) -> bool {
        let image = self.image.as_ref();
        fits(self.branch.as_deref(), session.branch.as_deref())
            && image.is_none_or(|image| session.images.iter().any(|has| matches(image, has)))
            && fits(self.machine.as_deref(), Some(&session.machine))
            && (session.complete || !self.complete_only)
    }
}

/// What was taken out of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Runs.
    pub runs: usize,
    /// Points.
    pub points: usize,
}

impl History {
    /// The sessions that fit, newest first.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, HistoryError> {
        let mut sessions = self.read("read the sessions", |connection| Ok(list(connection)?))?;
        sessions.retain(|session| filter.takes(session));
        Ok(sessions)
    }

    /// The session of this name.
    pub fn session(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        let all = self.sessions(&SessionFilter::default())?;
        all.into_iter()
            .find(|session| session.session == name)
            .ok_or_else(|| no_session(name))
    }

    /// Takes a session with its runs and points out. Its folder is not touched.
    pub fn remove(&self, name: &str) -> Result<Removed, HistoryError> {
        self.write("remove a session", |connection| remove(connection, name))
    }

    /// Makes a session the baseline of this name. Returns the session that was it before.
    pub fn set_baseline(&self, name: &str, session: &str) -> Result<Option<String>, HistoryError> {
        check_name("baseline", name)?;
        self.write("set a baseline", |connection| {
            let before = baselines(connection)?.remove(name);
            name_baseline(connection, name, session)?;
            Ok(before)
        })
    }

    /// The session that is the baseline of this name.
    pub fn baseline(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        match self.baselines()?.get(name) {
            Some(session) => self.session(session),
            None => Err(no_baseline(name)),
        }
    }

    /// The session of every baseline.
    pub fn baselines(&self) -> Result<BTreeMap<String, String>, HistoryError> {
        self.read("read the baselines", |connection| {
            Ok(baselines(connection)?)
        })
    }

    /// Removes a baseline's name; the session stays.
    pub fn remove_baseline(&self, name: &str) -> Result<(), HistoryError> {
        self.write("remove a baseline", |connection| {
            match connection.execute("DELETE FROM baselines WHERE name = ?", [name])? {
                0 => Err(no_baseline(name).into()),
                _ => Ok(()),
            }
        })
    }
}

/// Names come back in tables and on command lines.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), HistoryError> {
    let reason = if name.trim().is_empty() {
        "it is empty"
    } else if name.chars().any(char::is_control) {
        "it has control characters in it"
    } else if name.chars().count() > 200 {
        "it is longer than 200 characters"
    } else {
        return Ok(());
    };
    Err(HistoryError::Name {
        what,
        name: name.to_owned(),
        reason,
    })
}

/// Sets a baseline within the caller's transaction.
pub(crate) fn name_baseline(
    connection: &Connection,
    name: &str,
    session: &str,
) -> Result<(), Fault> {
    let id = session_id(connection, session)?;
    connection.execute("REPLACE INTO baselines VALUES (?, ?)", (name, id))?;
    Ok(())
}

fn no_session(name: &str) -> HistoryError {
    HistoryError::NoSession(name.to_owned())
}

fn no_baseline(name: &str) -> HistoryError {
    HistoryError::NoBaseline(name.to_owned())
}

fn session_id(connection: &Connection, name: &str) -> Result<i64, Fault> {
    let find = "SELECT id FROM sessions WHERE name = ?";
    let found = connection.query_row(find, [name], |row| row.get(0));
    found.optional()?.ok_or_else(|| no_session(name).into())
}

fn baselines(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    connection
        .prepare_cached(
            "SELECT baselines.name, sessions.name FROM baselines \
             JOIN sessions ON sessions.id = session_id",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<SessionInfo>> {
    let mut images: HashMap<i64, BTreeSet<String>> = HashMap::new();
    let mut of_runs = connection.prepare_cached(
        "SELECT DISTINCT session_id, json_extract(attributes, '$.image') FROM cell_metadata",
    )?;
    let mut rows = of_runs.query([])?;
    while let Some(row) = rows.next()? {
        images.entry(row.get(0)?).or_default().insert(row.get(1)?);
    }
    let baselines = baselines(connection)?;
    connection
        .prepare_cached(
            "SELECT sessions.id, sessions.name, sessions.started, ended, complete, machine, \
             driver, tool_version, revision, branch, count(runs.id), count(reason), \
             coalesce(sum(point_count), 0) \
             FROM sessions LEFT JOIN runs ON session_id = sessions.id \
             GROUP BY sessions.id ORDER BY sessions.started DESC, sessions.id DESC",
        )?
        .query_map([], |row| {
            let session: String = row.get(1)?;
            let mine = baselines.iter().filter(|(_, of)| **of == session);
            Ok(SessionInfo {
                baselines: mine.map(|(name, _)| name.clone()).collect(),
                session,
                started: row.get(2)?,
                ended: row.get(3)?,
                complete: row.get(4)?,
                machine: row.get(5)?,
                driver: row.get(6)?,
                tool_version: row.get(7)?,
                revision: row.get(8)?,
                branch: row.get(9)?,
                images: images.remove(&row.get(0)?).into_iter().flatten().collect(),
                runs: count(row, 10)?,
                failed: count(row, 11)?,
                points: count(row, 12)?,
            })
        })?
        .collect()
}

fn remove(connection: &Connection, name: &str) -> Result<Removed, Fault> {
    let id = session_id(connection, name)?;
    let mut baselines = baselines(connection)?.into_iter();
    if let Some((baseline, session)) = baselines.find(|(_, session)| session == name) {
        return Err(HistoryError::IsBaseline { session, baseline }.into());
    }
    let mut gone = [0; 2];
    for (gone, table) in gone.iter_mut().zip(["points", "runs"]) {
        *gone = connection.execute(&format!("DELETE FROM {table} WHERE session_id = ?"), [id])?;
    }
    connection.execute("DELETE FROM cell_metadata WHERE session_id = ?", [id])?;
    connection.execute("DELETE FROM sessions WHERE id = ?", [id])?;
    drop_unused(connection)?;
    let [points, runs] = gone;
    Ok(Removed { runs, points })
}

/// Drops series without points, cells without series and runs, and methods without cells.
pub(crate) fn drop_unused(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM series WHERE id NOT IN (SELECT series_id FROM points);
         DELETE FROM cells WHERE id NOT IN (SELECT cell_id FROM series)
             AND id NOT IN (SELECT cell_id FROM runs);
         DELETE FROM methods WHERE fingerprint NOT IN (SELECT method FROM cells);",
    )
}

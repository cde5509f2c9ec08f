//! Sessions by name, by branch, and as baselines.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};
use serde::Serialize;

use crate::{
    History, HistoryError,
    fault::Fault,
    key::matches,
    rows::{
        BaselineRow, BranchRow, CellRow, PointRow, Row, RunRow, SeriesRow, SessionRow, next_id,
    },
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

/// A name for a session to compare with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Baseline {
    /// The baseline's name.
    pub name: String,
    /// The session's name.
    pub session: String,
}

/// What was taken out of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Runs.
    pub runs: u64,
    /// Points.
    pub points: u64,
}

impl History {
    /// The sessions that fit, newest first.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, HistoryError> {
        self.read("read the sessions", |connection| list(connection, filter))
    }

    /// The newest session that fits: of a branch, of an image, of a machine.
    pub fn newest(&self, filter: &SessionFilter) -> Result<Option<SessionInfo>, HistoryError> {
        Ok(self.sessions(filter)?.into_iter().next())
    }

    /// The session of this name.
    pub fn session(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        self.sessions(&SessionFilter::default())?
            .into_iter()
            .find(|session| session.session == name)
            .ok_or_else(|| HistoryError::NoSession {
                name: name.to_owned(),
            })
    }

    /// Takes a session with its runs and points out. Its folder is not touched.
    pub fn remove(&self, name: &str) -> Result<Removed, HistoryError> {
        self.write("remove a session", |connection| remove(connection, name))
    }

    /// Makes a session the baseline of this name. Returns the session that was it before.
    pub fn set_baseline(&self, name: &str, session: &str) -> Result<Option<String>, HistoryError> {
        check_name("baseline", name)?;
        self.write("set a baseline", |connection| {
            let row = find_session(connection, session)?;
            let Some(mut there) = BaselineRow::find(connection, "name", &name)? else {
                let id = next_id::<BaselineRow>(connection)?;
                BaselineRow {
                    id,
                    name: name.to_owned(),
                    session_id: row.id,
                }
                .insert(connection)?;
                return Ok(None);
            };
            let before = SessionRow::find(connection, "id", &there.session_id)?;
            there.session_id = row.id;
            there.update(connection)?;
            Ok(before.map(|row| row.name))
        })
    }

    /// The session that is the baseline of this name.
    pub fn baseline(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        let missing = || HistoryError::NoBaseline {
            name: name.to_owned(),
        };
        let found = self
            .baselines()?
            .into_iter()
            .find(|baseline| baseline.name == name);
        self.session(&found.ok_or_else(missing)?.session)
    }

    /// Every baseline, by name.
    pub fn baselines(&self) -> Result<Vec<Baseline>, HistoryError> {
        self.read("read the baselines", |connection| {
            let sessions = SessionRow::select(connection, "", &[])?;
            let names: HashMap<_, _> = sessions.iter().map(|row| (row.id, &row.name)).collect();
            let rows = BaselineRow::select(connection, "ORDER BY name", &[])?;
            rows.into_iter()
                .map(|row| match names.get(&row.session_id) {
                    Some(session) => Ok(Baseline {
                        name: row.name,
                        session: (*session).clone(),
                    }),
                    None => Err(Fault::Damage(format!(
                        "baseline {} has no session",
                        row.name
                    ))),
                })
                .collect()
        })
    }

    /// Removes a baseline's name; the session stays.
    pub fn remove_baseline(&self, name: &str) -> Result<(), HistoryError> {
        self.write("remove a baseline", |connection| {
            let gone = connection.execute("DELETE FROM baselines WHERE name = ?", [name])?;
            if gone == 0 {
                return Err(HistoryError::NoBaseline {
                    name: name.to_owned(),
                }
                .into());
            }
            Ok(())
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

fn find_session(connection: &Connection, name: &str) -> Result<SessionRow, Fault> {
    SessionRow::find(connection, "name", &name)?.ok_or_else(|| {
        HistoryError::NoSession {
            name: name.to_owned(),
        }
        .into()
    })
}

fn list(connection: &Connection, filter: &SessionFilter) -> Result<Vec<SessionInfo>, Fault> {
    let mut branches: HashMap<_, _> = BranchRow::select(connection, "", &[])?
        .into_iter()
        .map(|row| (row.session_id, row.branch))
        .collect();
    let mut baselines: HashMap<i64, Vec<String>> = HashMap::new();
    for row in BaselineRow::select(connection, "ORDER BY name", &[])? {
        baselines.entry(row.session_id).or_default().push(row.name);
    }
    let images: HashMap<_, _> = CellRow::select(connection, "", &[])?
        .into_iter()
        .map(|row| (row.id, row.image))
        .collect();
    let mut found: HashMap<i64, (HashSet<i64>, u64)> = HashMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT session_id, cell_id, count(reason) FROM runs GROUP BY session_id, cell_id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (cells, failed) = found.entry(row.get(0)?).or_default();
        cells.insert(row.get(1)?);
        *failed += u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
    }

    let fits = |wanted: &Option<String>, text: Option<&str>| match (wanted, text) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(pattern), Some(text)) => matches(pattern, text),
    };
    let mut sessions = Vec::new();
    for row in SessionRow::select(connection, "ORDER BY started DESC, id DESC", &[])? {
        let branch = branches.remove(&row.id);
        let (cells, failed) = found.remove(&row.id).unwrap_or_default();
        let mut ran: Vec<String> = cells
            .iter()
            .filter_map(|id| images.get(id).cloned())
            .collect();
        ran.sort();
        ran.dedup();
        let taken = fits(&filter.branch, branch.as_deref())
            && fits(&filter.machine, Some(&row.machine))
            && (filter.image.is_none() || ran.iter().any(|image| fits(&filter.image, Some(image))))
            && (row.complete || !filter.complete_only);
        if taken {
            sessions.push(SessionInfo {
                session: row.name,
                started: row.started,
                ended: row.ended,
                complete: row.complete,
                machine: row.machine,
                driver: row.driver,
                tool_version: row.tool_version,
                revision: row.revision,
                branch,
                images: ran,
                runs: u64::try_from(row.run_count).unwrap_or(0),
                failed,
                points: u64::try_from(row.point_count).unwrap_or(0),
                baselines: baselines.remove(&row.id).unwrap_or_default(),
            });
        }
    }
    Ok(sessions)
}

fn remove(connection: &Connection, name: &str) -> Result<Removed, Fault> {
    let session = find_session(connection, name)?;
    if let Some(row) = BaselineRow::find(connection, "session_id", &session.id)? {
        let (session, baseline) = (name.to_owned(), row.name);
        return Err(HistoryError::IsBaseline { session, baseline }.into());
    }
    let of_session = "WHERE session_id = ?";
    let runs = RunRow::select(connection, of_session, &[&session.id])?;
    let cells: HashSet<i64> = runs.iter().map(|run| run.cell_id).collect();
    for cell_id in cells {
        for mut series in SeriesRow::select(connection, "WHERE cell_id = ?", &[&cell_id])? {
            let gone = connection
                .prepare_cached("DELETE FROM points WHERE series_id = ? AND session_id = ?")?
                .execute(params![series.id, session.id])?;
            if gone == 0 {
                continue;
            }
            let mut left = (0, None::<f64>, None::<f64>);
            PointRow::visit(connection, "WHERE series_id = ?", &[&series.id], |point| {
                left.0 += 1;
                left.1 = Some(left.1.map_or(point.timestamp, |at| at.min(point.timestamp)));
                left.2 = Some(left.2.map_or(point.timestamp, |at| at.max(point.timestamp)));
                Ok(())
            })?;
            (series.point_count, series.oldest, series.newest) = left;
            series.update(connection)?;
        }
    }
    for table in ["runs", "branches", "cells_in_sessions"] {
        connection.execute(&format!("DELETE FROM {table} {of_session}"), [session.id])?;
    }
    connection.execute("DELETE FROM sessions WHERE id = ?", [session.id])?;
    connection.execute_batch(
        "DELETE FROM series WHERE point_count = 0;
         DELETE FROM cells WHERE id NOT IN (SELECT cell_id FROM series)
             AND id NOT IN (SELECT cell_id FROM runs);",
    )?;
    let number = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok(Removed {
        runs: number(session.run_count),
        points: number(session.point_count),
    })
}

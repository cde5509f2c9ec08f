//! Adding the runs of a session, and their points.

use jiff::Timestamp;
use metrics::Metric;
use record::{Outcome, Record};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    HistoryError,
    error::Fault,
    sql::{Measure, revision_id, series_id, word},
};

/// A run of a session and a cell that have these IDs.
pub(crate) struct Run<'r> {
    pub(crate) session: i64,
    pub(crate) cell: i64,
    pub(crate) record: &'r Record,
}

impl Run<'_> {
    /// Adds it, and those of its points that are not there: an older Torchgauge did not follow all
    /// metrics. Whether it is new, and how many points are.
    pub(crate) fn add(
        &self,
        connection: &Connection,
        session: &str,
        revision: &str,
    ) -> Result<(bool, usize), Fault> {
        let known = self.known(connection, session)?;
        let id = match known {
            Some(id) => id,
            None => self.insert(connection)?,
        };
        let started = seconds(self.record.started_at);
        let revision = revision_id(connection, revision)?;
        let mut insert =
            connection.prepare_cached("INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?)")?;
        let mut points = 0;
        for (metric, value) in values(self.record) {
            let series = series_id(connection, self.cell, &measure(metric))?;
            points += insert.execute((series, started, id, self.session, revision, value))?;
        }
        if points > 0 {
            connection
                .prepare_cached("UPDATE runs SET point_count = point_count + ? WHERE id = ?")?
                .execute((i64::try_from(points).unwrap_or(i64::MAX), id))?;
        }
        Ok((known.is_none(), points))
    }

    /// Its ID where it is there; one that says something else is refused.
    fn known(&self, connection: &Connection, session: &str) -> Result<Option<i64>, Fault> {
        let words = |cell: i64, started: f64, reason: Option<String>| {
            let outcome = reason.unwrap_or_else(|| "ok".into());
            format!("cell {cell}, started {started}, {outcome}")
        };
        let known = connection
            .prepare_cached(
                "SELECT id, cell_id, started, reason FROM runs \
                 WHERE session_id = ? AND name = ? AND attempt = ?",
            )?
            .query_row(
                (self.session, &self.record.run, self.record.attempt),
                |row| Ok((row.get(0)?, words(row.get(1)?, row.get(2)?, row.get(3)?))),
            )
            .optional()?;
        let Some((id, there)) = known else {
            return Ok(None);
        };
        let (reason, ..) = failure(&self.record.outcome);
        let here = words(self.cell, seconds(self.record.started_at), reason);
        same(session, &format!("run {}", self.record.run), &there, &here)?;
        Ok(Some(id))
    }

    fn insert(&self, connection: &Connection) -> rusqlite::Result<i64> {
        let record = self.record;
        let (reason, stage, message) = failure(&record.outcome);
        connection
            .prepare_cached(
                "INSERT INTO runs (session_id, cell_id, name, attempt, block, started, \
                 point_count, image_id, reason, stage, message) \
                 VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
            )?
            .execute((
                self.session,
                self.cell,
                &record.run,
                record.attempt,
                record.block,
                seconds(record.started_at),
                &record.image_id,
                reason,
                stage,
                message,
            ))?;
        Ok(connection.last_insert_rowid())
    }
}

/// Refuses what the history holds otherwise under the same name.
pub(crate) fn same(session: &str, what: &str, there: &str, here: &str) -> Result<(), HistoryError> {
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
pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_nanosecond() as f64 / 1e9
}

/// The metrics of a run.
pub(crate) fn values(record: &Record) -> impl Iterator<Item = (&'static Metric, f64)> {
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
        Outcome::Expected {
            reason,
            stage,
            message,
        }
        | Outcome::Failed {
            reason,
            stage,
            message,
        } => (Some(reason.word()), Some(word(stage)), Some(message)),
    }
}

//! Reading series.

use std::collections::HashMap;

use judge::{
    compare::{Direction, Kind},
    trend,
};
use rusqlite::Connection;
use serde::Serialize;

use crate::{
    History, HistoryError, SeriesFilter, SeriesKey,
    fault::Fault,
    reader::Reader,
    rows::{CellRow, Row, RunRow, SeriesRow, SessionRow},
    writer::{direction_of, find_cell, find_series, kind_of},
};

/// A series and what is known of it without reading its points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesInfo {
    /// What identifies it.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// Unit of its values.
    pub unit: String,
    /// Which way they improve.
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
    /// Points, of all branches.
    pub points: u64,
    /// Timestamp of the oldest point, in seconds since 1970-01-01 UTC.
    pub oldest: Option<f64>,
    /// Timestamp of the newest.
    pub newest: Option<f64>,
}

/// Which points of a series to take.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PointFilter {
    /// Of sessions on branches like this, where `*` stands for any run of characters. Sessions
    /// without a branch, and imported points, are left out.
    pub branch: Option<String>,
    /// Not before this, in seconds since 1970-01-01 UTC.
    pub since: Option<f64>,
    /// Before this.
    pub until: Option<f64>,
}

/// What one point stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// The median of a session's runs, at the time of the first of them. What a trend reads: runs
    /// of one session say nothing about change over time.
    #[default]
    Session,
    /// One run.
    Run,
}

/// One value of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// When it was measured, in seconds since 1970-01-01 UTC.
    pub timestamp: f64,
    /// What was measured: a commit, an image ID.
    pub revision: String,
    /// In the series' unit.
    pub value: f64,
    /// Runs that it stands for.
    pub runs: u64,
    /// The session; `None` for an imported point.
    pub session: Option<String>,
    /// The run's name; `None` for an imported point and for a session's median.
    pub run: Option<String>,
    /// Which try at the run it was.
    pub attempt: Option<u32>,
    /// The block; `None` as for the run.
    pub block: Option<u32>,
    /// The largest relative change that counts as none, where the session's suite sets its own;
    /// `None` where it leaves that to [`metrics::Metric::threshold`].
    pub margin: Option<f64>,
    /// UUID of the card, `GPU-…`; `None` on the processor, for an imported point, and where it is
    /// not known.
    pub card: Option<String>,
}

impl From<Point> for trend::Point {
    fn from(point: Point) -> Self {
        Self {
            timestamp: point.timestamp,
            revision: point.revision,
            value: point.value,
        }
    }
}

/// A run without figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedRun {
    /// The cell; the metric is empty.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The session.
    pub session: String,
    /// The run's name.
    pub run: String,
    /// Which try at it.
    pub attempt: u32,
    /// The block.
    pub block: u32,
    /// When it began, in seconds since 1970-01-01 UTC.
    pub started: f64,
    /// Why it failed, as [`record::Reason`] writes it.
    pub reason: String,
    /// Where, as [`record::Stage`] writes it.
    pub stage: String,
    /// Why, in words.
    pub message: String,
}

impl History {
    /// The series that fit, in order of their keys.
    pub fn series(&self, filter: &SeriesFilter) -> Result<Vec<SeriesInfo>, HistoryError> {
        self.read("read the series", |connection| {
            let found = series_rows(connection, filter)?;
            found.into_iter().map(|(key, row)| info(key, row)).collect()
        })
    }

    /// The points of a series, oldest first.
    pub fn points(
        &self,
        key: &SeriesKey,
        filter: &PointFilter,
        aggregate: Aggregate,
    ) -> Result<Vec<Point>, HistoryError> {
        self.read("read a series", |connection| {
            let row = match find_cell(connection, key)? {
                Some(cell) => find_series(connection, cell.id, &key.metric)?,
                None => None,
            };
            let row = row.ok_or_else(|| HistoryError::NoSeries {
                key: key.to_string(),
            })?;
            Reader::new(connection, filter)?.points(&row, aggregate)
        })
    }

    /// The newest point of a series; `None` where the filter leaves none.
    pub fn latest(
        &self,
        key: &SeriesKey,
        filter: &PointFilter,
    ) -> Result<Option<Point>, HistoryError> {
        Ok(self.points(key, filter, Aggregate::Session)?.pop())
    }

    /// Runs without figures in the cells that fit, oldest first. The filter's metric is not
    /// looked at.
    pub fn failures(&self, filter: &SeriesFilter) -> Result<Vec<FailedRun>, HistoryError> {
        let filter = SeriesFilter {
            metric: None,
            ..filter.clone()
        };
        self.read("read the failed runs", |connection| {
            failures(connection, &filter)
        })
    }
}

/// By key.
pub(crate) fn series_rows(
    connection: &Connection,
    filter: &SeriesFilter,
) -> Result<Vec<(SeriesKey, SeriesRow)>, Fault> {
    let cells: HashMap<i64, CellRow> = CellRow::select(connection, "", &[])?
        .into_iter()
        .map(|row| (row.id, row))
        .collect();
    let mut found = Vec::new();
    for row in SeriesRow::select(connection, "", &[])? {
        let cell = cells
            .get(&row.cell_id)
            .ok_or_else(|| orphan("series", row.id))?;
        let key = cell.key(&row.metric);
        if filter.takes(&key) {
            found.push((key, row));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

pub(crate) fn orphan(what: &str, id: i64) -> Fault {
    Fault::Damage(format!("{what} {id} belongs to a row that is gone"))
}

pub(crate) fn info(key: SeriesKey, row: SeriesRow) -> Result<SeriesInfo, Fault> {
    let word = || {
        Fault::Damage(format!(
            "series {} has an unknown direction or kind",
            row.id
        ))
    };
    Ok(SeriesInfo {
        key,
        direction: direction_of(&row.direction).ok_or_else(word)?,
        kind: kind_of(&row.kind).ok_or_else(word)?,
        points: u64::try_from(row.point_count).unwrap_or(0),
        oldest: row.oldest,
        newest: row.newest,
        unit: row.unit,
    })
}

fn failures(connection: &Connection, filter: &SeriesFilter) -> Result<Vec<FailedRun>, Fault> {
    let cells: HashMap<i64, SeriesKey> = CellRow::select(connection, "", &[])?
        .into_iter()
        .map(|row| (row.id, row.key("")))
        .collect();
    let sessions: HashMap<i64, String> = SessionRow::select(connection, "", &[])?
        .into_iter()
        .map(|row| (row.id, row.name))
        .collect();
    let mut found = Vec::new();
    let failed = "WHERE reason IS NOT NULL ORDER BY started, id";
    for row in RunRow::select(connection, failed, &[])? {
        let key = cells
            .get(&row.cell_id)
            .ok_or_else(|| orphan("run", row.id))?;
        if !filter.takes(key) {
            continue;
        }
        let session = sessions
            .get(&row.session_id)
            .ok_or_else(|| orphan("run", row.id))?;
        found.push(FailedRun {
            key: key.clone(),
            session: session.clone(),
            run: row.name,
            attempt: u32::try_from(row.attempt).unwrap_or(0),
            block: u32::try_from(row.block).unwrap_or(0),
            started: row.started,
            reason: row.reason.unwrap_or_default(),
            stage: row.stage.unwrap_or_default(),
            message: row.message.unwrap_or_default(),
        });
    }
    Ok(found)
}

//! Series and their points.

use std::collections::HashMap;

use judge::{
    compare::{Direction, Kind},
    trend,
};
use record::Method;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::{
    Attributes, History, HistoryError, JoinedMethod, PointFilter, SeriesFilter, SeriesKey,
    key::fits,
    method,
    sql::{Json, KEY_COLUMNS, Word, count, find_series, key},
};

/// A series and what is known of it without reading its points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesInfo {
    /// What identifies it.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The settings of its method; `None` where the history does not know them.
    #[serde(rename = "method_settings", skip_serializing_if = "Option::is_none")]
    pub settings: Option<Method>,
    /// What it is joined with, the oldest first, where [`crate::join`] put series together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedMethod>,
    /// Unit of its values.
    pub unit: String,
    /// Which way they improve.
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none, as an import set it.
    #[serde(skip)]
    pub threshold: Option<f64>,
    /// Points, of all branches.
    pub points: u64,
    /// Timestamp of the oldest point, in seconds since 1970-01-01 UTC.
    pub oldest: Option<f64>,
    /// Timestamp of the newest.
    pub newest: Option<f64>,
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
    /// Which attempt at the run it was.
    pub attempt: Option<u32>,
    /// The block; `None` as for the run.
    pub block: Option<u32>,
    /// The largest relative change that counts as none, where the session's suite sets its own;
    /// `None` where it leaves that to [`metrics::Metric::threshold`].
    pub threshold: Option<f64>,
    /// What it was measured with; empty for an imported point.
    pub attributes: Attributes,
}

impl Point {
    /// The attributes that the next point has otherwise: name, value here, value there. What is not
    /// known of both is left out, and so is the ID where the image itself is another.
    pub fn changes_to<'p>(
        &'p self,
        next: &'p Self,
    ) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
        changed_attributes(&self.attributes, &next.attributes)
    }
}

/// The attributes that are otherwise there than here.
pub(crate) fn changed_attributes<'p>(
    here: &'p Attributes,
    there: &'p Attributes,
) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
    let changed = move |name: &str| {
        let pair = here.get(name).zip(there.get(name));
        pair.filter(|(here, there)| here != there)
    };
    let other_image = changed("image").or(changed("libtorch")).is_some();
    let names = here.keys().map(String::as_str);
    names
        .filter(move |name| !(other_image && *name == "image_id"))
        .filter_map(move |name| {
            let (here, there) = changed(name)?;
            Some((name, here.as_str(), there.as_str()))
        })
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

impl History {
    /// The series that fit, in order of their keys.
    pub fn series(&self, filter: &SeriesFilter) -> Result<Vec<SeriesInfo>, HistoryError> {
        self.read("read the series", |connection| {
            Ok(series(connection, filter)?)
        })
    }

    /// The points of a series that fit, oldest first.
    pub fn points(
        &self,
        key: &SeriesKey,
        filter: &PointFilter,
        aggregate: Aggregate,
    ) -> Result<Vec<Point>, HistoryError> {
        self.read("read a series", |connection| {
            points(connection, key, filter, aggregate)?
                .ok_or_else(|| HistoryError::NoSeries(key.to_string()).into())
        })
    }

    /// As [`History::points`], with those of the series that it is joined with.
    pub fn points_of(
        &self,
        info: &SeriesInfo,
        filter: &PointFilter,
        aggregate: Aggregate,
    ) -> Result<Vec<Point>, HistoryError> {
        self.read("read a series", |connection| {
            method::points_of(connection, info, filter, aggregate)?
                .ok_or_else(|| HistoryError::NoSeries(info.key.to_string()).into())
        })
    }
}

pub(crate) fn series(
    connection: &Connection,
    filter: &SeriesFilter,
) -> rusqlite::Result<Vec<SeriesInfo>> {
    let mut found: Vec<SeriesInfo> = connection
        .prepare_cached(&format!(
            "SELECT {KEY_COLUMNS}, metric, unit, direction, kind, threshold, count(value), \
             min(timestamp), max(timestamp), settings FROM series \
             JOIN cells ON cells.id = cell_id LEFT JOIN methods ON fingerprint = method \
             LEFT JOIN points ON series_id = series.id GROUP BY series.id"
        ))?
        .query_map([], |row| {
            Ok(SeriesInfo {
                key: key(row, row.get(7)?)?,
                settings: row
                    .get::<_, Option<Json<_>>>(15)?
                    .map(|Json(method)| method),
                joined: Vec::new(),
                unit: row.get(8)?,
                direction: row.get::<_, Word<_>>(9)?.0,
                kind: row.get::<_, Word<_>>(10)?.0,
                threshold: row.get(11)?,
                points: count(row, 12)?,
                oldest: row.get(13)?,
                newest: row.get(14)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    found.retain(|info| filter.takes(&info.key));
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// `None` where there is no such series.
pub(crate) fn points(
    connection: &Connection,
    key: &SeriesKey,
    filter: &PointFilter,
    aggregate: Aggregate,
) -> rusqlite::Result<Option<Vec<Point>>> {
    let Some((series_id, cell_id)) = find_series(connection, key)? else {
        return Ok(None);
    };
    let mut statement = connection.prepare_cached(
        "SELECT timestamp, revisions.revision, value, sessions.name, runs.name, attempt, block, \
         json_extract(thresholds, ?3), coalesce(attributes, '{}'), branch FROM points \
         JOIN revisions ON revisions.id = revision_id \
         LEFT JOIN sessions ON sessions.id = points.session_id \
         LEFT JOIN runs ON runs.id = ordinal AND runs.session_id = points.session_id \
         LEFT JOIN cell_metadata ON cell_metadata.cell_id = ?2 \
             AND cell_metadata.session_id = points.session_id \
         WHERE series_id = ?1 ORDER BY timestamp, ordinal",
    )?;
    let place = format!("$.\"{}\"", key.metric);
    let mut rows = statement.query(params![series_id, cell_id, place])?;
    let mut points = Vec::new();
    while let Some(row) = rows.next()? {
        let branch: Option<String> = row.get(9)?;
        let attributes: Attributes = row.get::<_, Json<_>>(8)?.0;
        let attribute = |name| attributes.get(name).map(String::as_str);
        if fits(filter.branch.as_deref(), branch.as_deref())
            && fits(filter.image.as_deref(), attribute("image"))
            && fits(filter.driver.as_deref(), attribute("driver"))
        {
            points.push(Point {
                timestamp: row.get(0)?,
                revision: row.get(1)?,
                value: row.get(2)?,
                runs: 1,
                session: row.get(3)?,
                run: row.get(4)?,
                attempt: row.get(5)?,
                block: row.get(6)?,
                threshold: row.get(7)?,
                attributes,
            });
        }
    }
    Ok(Some(match aggregate {
        Aggregate::Run => points,
        Aggregate::Session => medians(points),
    }))
}

/// A session's runs may alternate with another session's; it stands where its first run does.
fn medians(points: Vec<Point>) -> Vec<Point> {
    let mut groups: Vec<Vec<Point>> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for point in points {
        // One session may have measured two revisions: images whose IDs stand for them.
        let place = match &point.session {
            Some(session) => *places
                .entry((session.clone(), point.revision.clone()))
                .or_insert(groups.len()),
            None => groups.len(),
        };
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(point);
    }
    let of_group = |group: Vec<Point>| {
        let value = judge::median(group.iter().map(|point| point.value))?;
        let runs = group.len() as u64;
        let first = group.into_iter().next()?;
        Some(Point {
            value,
            runs,
            run: None,
            attempt: None,
            block: None,
            ..first
        })
    };
    groups.into_iter().filter_map(of_group).collect()
}

//! Between Rust and rows.

use record::Method;
use rusqlite::{
    Connection, OptionalExtension, Row, ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::SeriesKey;

/// A value as JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(serde_json::json!(self.0).to_string().into())
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(FromSqlError::other)
    }
}

/// An enum as the word that files have for it.
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(word(&self.0).into())
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?.to_owned();
        let word = serde_json::from_value(Value::String(text)).map_err(FromSqlError::other)?;
        Ok(Self(word))
    }
}

/// The word that files have for a value of an enum.
pub(crate) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}

/// The columns of `cells` in the order in which [`key`] reads them.
pub(crate) const KEY_COLUMNS: &str =
    "cells.machine, device, track, suite, scenario, variant, method";

/// The key in a row that begins with [`KEY_COLUMNS`].
pub(crate) fn key(row: &Row, metric: String) -> rusqlite::Result<SeriesKey> {
    Ok(SeriesKey {
        machine: row.get(0)?,
        device: row.get(1)?,
        track: row.get(2)?,
        suite: row.get(3)?,
        scenario: row.get(4)?,
        variant: row.get(5)?,
        method: row.get(6)?,
        metric,
    })
}

/// The row of a table with these values in these columns, and its ID; made where there is none.
pub(crate) fn id_of(
    connection: &Connection,
    table: &str,
    columns: &[&str],
    values: &[&dyn ToSql],
) -> rusqlite::Result<i64> {
    let places = columns.iter().map(|column| format!("{column} = ?"));
    let places = places.collect::<Vec<_>>().join(" AND ");
    let found = connection
        .prepare_cached(&format!("SELECT id FROM {table} WHERE {places}"))?
        .query_row(values, |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    let (columns, marks) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
    connection
        .prepare_cached(&format!("INSERT INTO {table} ({columns}) VALUES ({marks})"))?
        .execute(values)?;
    Ok(connection.last_insert_rowid())
}

/// The cell of a key, whose metric is not looked at; made where there is none.
///
/// Sessions of older versions do not tell all of their method: where the first comes that does, the
/// newest of their series that it does not contradict goes on as its own.
pub(crate) fn cell_id(
    connection: &Connection,
    key: &SeriesKey,
    method: &Method,
) -> rusqlite::Result<i64> {
    let parts = key.parts();
    let columns = parts.map(|(name, _)| name);
    let values = parts.each_ref().map(|(_, value)| value as &dyn ToSql);
    let (cell, others) = (parts.len() - 1, parts.len() - 2);
    if !method.is_of_session() {
        let places = columns[..others].iter().map(|name| format!("{name} = ?"));
        let places = places.collect::<Vec<_>>().join(" AND ");
        let sql = format!(
            "SELECT cells.id, method, settings FROM cells LEFT JOIN methods ON \
             fingerprint = method WHERE {places} ORDER BY cells.id DESC"
        );
        let mut find = connection.prepare_cached(&sql)?;
        let mut rows = find.query(&values[..others])?;
        let mut goes_on = None;
        while let Some(row) = rows.next()? {
            let fingerprint: String = row.get(1)?;
            if fingerprint == key.method {
                return row.get(0);
            }
            let settings: Option<Json<Method>> = row.get(2)?;
            let is_open = fingerprint.is_empty()
                || settings.is_some_and(|Json(settings)| {
                    settings.is_of_session() && settings.differences(method).is_empty()
                });
            if is_open && goes_on.is_none() {
                goes_on = Some(row.get::<_, i64>(0)?);
            }
        }
        if let Some(id) = goes_on {
            connection
                .prepare_cached("UPDATE cells SET method = ? WHERE id = ?")?
                .execute((&key.method, id))?;
            return Ok(id);
        }
    }
    id_of(connection, "cells", &columns[..cell], &values[..cell])
}

/// The series of a key, if there is one, and its cell.
pub(crate) fn find_series(
    connection: &Connection,
    key: &SeriesKey,
) -> rusqlite::Result<Option<(i64, i64)>> {
    let parts = key.parts();
    let places = parts.map(|(name, _)| format!("{name} = ?")).join(" AND ");
    let sql = format!(
        "SELECT series.id, cell_id FROM series JOIN cells ON cells.id = cell_id WHERE {places}"
    );
    connection
        .prepare_cached(&sql)?
        .query_row(
            rusqlite::params_from_iter(parts.map(|(_, value)| value)),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
}

/// What a series measures.
pub(crate) struct Measure<'m> {
    pub(crate) metric: &'m str,
    pub(crate) unit: &'m str,
    pub(crate) direction: judge::compare::Direction,
    pub(crate) kind: judge::compare::Kind,
}

/// The series of a cell and a metric; made where there is none.
pub(crate) fn series_id(
    connection: &Connection,
    cell_id: i64,
    measure: &Measure,
) -> rusqlite::Result<i64> {
    let found = connection
        .prepare_cached("SELECT id FROM series WHERE cell_id = ? AND metric = ?")?
        .query_row((cell_id, measure.metric), |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    connection
        .prepare_cached(
            "INSERT INTO series (cell_id, metric, unit, direction, kind) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute((
            cell_id,
            measure.metric,
            measure.unit,
            Word(measure.direction),
            Word(measure.kind),
        ))?;
    Ok(connection.last_insert_rowid())
}

pub(crate) fn revision_id(connection: &Connection, revision: &str) -> rusqlite::Result<i64> {
    id_of(connection, "revisions", &["revision"], &[&revision])
}

/// Counts are never below 0.
pub(crate) fn count(row: &Row, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

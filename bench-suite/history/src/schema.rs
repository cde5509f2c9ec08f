//! The schema and its versions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;

use crate::track;

/// The version that is written, in SQLite's `user_version`.
pub(crate) const VERSION: i64 = 6;
/// The oldest that can be brought up to date.
pub(crate) const OLDEST: i64 = 3;

/// Stands in SQLite's `application_id`: "Torc".
pub(crate) const APPLICATION_ID: i64 = 0x546f_7263;

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// Whether nothing was ever written.
pub(crate) fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0 && version(connection)? == 0 && application_id(connection)? == 0)
}

/// Makes the tables, or brings those of an older version up to date, within the caller's
/// transaction.
pub(crate) fn bring_up_to_date(connection: &Connection) -> rusqlite::Result<()> {
    let from = version(connection)?;
    if from == VERSION {
        return Ok(());
    }
    if from == 3 {
        connection.execute_batch(include_str!("schema/3-to-4.sql"))?;
    }
    match from {
        0 => connection.execute_batch(include_str!("schema/5.sql"))?,
        3 | 4 => from_4(connection)?,
        _ => {}
    }
    connection.execute_batch(include_str!("schema/5-to-6.sql"))?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Cells were of an image and a driver; they are of a track.
fn from_4(connection: &Connection) -> rusqlite::Result<()> {
    for table in [
        "sessions",
        "baselines",
        "cells",
        "cell_metadata",
        "series",
        "revisions",
        "runs",
        "points",
    ] {
        connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO old_{table}"))?;
    }
    connection.execute_batch(include_str!("schema/5.sql"))?;
    connection.execute_batch(
        "CREATE TABLE moved (old INTEGER, session INTEGER, track TEXT, PRIMARY KEY (old, session))",
    )?;
    let mut cells: HashMap<i64, Vec<(i64, String)>> = HashMap::new();
    let mut find = connection.prepare(
        "SELECT session_id, cell_id, image FROM old_runs JOIN old_cells ON old_cells.id = cell_id \
         UNION SELECT 0, id, '' FROM old_cells WHERE machine = ?",
    )?;
    let mut rows = find.query([crate::SeriesKey::IMPORTED])?;
    while let Some(row) = rows.next()? {
        let of_session = cells.entry(row.get(0)?).or_default();
        of_session.push((row.get(1)?, row.get(2)?));
    }
    let mut insert = connection.prepare("INSERT INTO moved VALUES (?, ?, ?)")?;
    for (session, cells) in &cells {
        let images: BTreeSet<&str> = cells.iter().map(|(_, image)| image.as_str()).collect();
        let tracks = track::tracks(&images, &BTreeMap::new());
        for (cell, image) in cells {
            insert.execute((cell, session, &tracks[image]))?;
        }
    }
    connection.execute_batch(include_str!("schema/4-to-5.sql"))
}

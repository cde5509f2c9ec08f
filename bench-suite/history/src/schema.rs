//! The schema's versions, one SQL file each. A file that was released never changes.

use rusqlite::Connection;

use crate::beside;

/// Step n brings a database from version n to n + 1.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema/0001-points.sql"),
    include_str!("schema/0002-names-for-sessions.sql"),
    include_str!("schema/0003-cells-in-sessions.sql"),
];

/// The version whose table [`beside::fill`] fills for what was there before.
const CELLS_IN_SESSIONS: usize = 3;

/// Newest version, which stands in SQLite's `user_version`.
#[expect(clippy::cast_possible_wrap, reason = "a handful of steps")]
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// Stands in SQLite's `application_id`: "Torc".
pub(crate) const APPLICATION_ID: i64 = 0x546f_7263;

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// Brings the schema from `version` to the newest, within the caller's transaction.
pub(crate) fn migrate(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(version).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        connection.execute_batch(step)?;
    }
    if done < CELLS_IN_SESSIONS {
        beside::fill(connection)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Name and SQL of every table and index. Indexes that SQLite makes itself have no SQL.
fn objects(connection: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    connection
        .prepare("SELECT name, tbl_name, sql FROM sqlite_schema ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

/// The first table or index that is missing or not as the steps made it.
pub(crate) fn deviation(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let fresh = Connection::open_in_memory()?;
    migrate(&fresh, 0)?;
    let found = objects(connection)?;
    let missing = objects(&fresh)?
        .into_iter()
        .find(|object| !found.contains(object));
    Ok(missing.map(|(name, ..)| name))
}

/// Whether nothing was ever written.
pub(crate) fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version(connection)? == 0 && objects(connection)?.is_empty())
}

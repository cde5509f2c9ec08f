//! The schema and its versions.

use rusqlite::Connection;

/// The version that is written, in SQLite's `user_version`.
pub(crate) const VERSION: i64 = 4;
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
    match version(connection)? {
        VERSION => return Ok(()),
        3 => connection.execute_batch(include_str!("schema/3-to-4.sql"))?,
        _ => connection.execute_batch(include_str!("schema/4.sql"))?,
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}

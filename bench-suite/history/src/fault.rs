//! What goes wrong inside, before it is told with the file's name and the next step.

use std::{path::Path, time::Duration};

use rusqlite::ErrorCode;

use crate::{HistoryError, recover};

/// What goes wrong while reading or writing the database.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    /// A row of this table does not fit its seal.
    Seal(&'static str),
    /// The structure is wrong, in these words.
    Damage(String),
    /// Another process wrote for this long.
    Busy(Duration),
    Told(HistoryError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<HistoryError> for Fault {
    fn from(error: HistoryError) -> Self {
        Self::Told(error)
    }
}

/// Whether another connection is in the way, so that waiting helps.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

impl Fault {
    /// As an error for the user. `doing` is what was tried, such as `read a series`.
    pub(crate) fn tell(self, path: &Path, doing: &'static str) -> HistoryError {
        let path = path.to_owned();
        match self {
            Self::Told(error) => error,
            Self::Busy(waited) => HistoryError::Busy { path, waited },
            Self::Seal(table) => damaged(
                &path,
                format!("a row of the table {table} was changed from outside or by a faulty disk"),
            ),
            Self::Damage(detail) => damaged(&path, detail),
            Self::Sqlite(source) => match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    damaged(&path, source.to_string())
                }
                Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                    HistoryError::ReadOnly { path }
                }
                Some(ErrorCode::CannotOpen) => HistoryError::Open {
                    path,
                    message: source.to_string(),
                },
                Some(ErrorCode::DiskFull) => HistoryError::DiskFull { path, doing },
                _ => HistoryError::Sqlite {
                    path,
                    doing,
                    source,
                },
            },
        }
    }
}

pub(crate) fn damaged(path: &Path, detail: String) -> HistoryError {
    let salvage = recover::survey(path).unwrap_or_default();
    HistoryError::Damaged {
        path: path.to_owned(),
        detail,
        salvage,
    }
}

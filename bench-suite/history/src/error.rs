//! What can go wrong, each with the next step.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use record::FolderError;
use rusqlite::ErrorCode;

/// Why the history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no database at this path.
    #[error("there is no history at {0}; `history add SESSION` makes one")]
    Missing(PathBuf),
    /// The file cannot be opened or made.
    #[error("cannot open the history {path}: {message}; give another file with --db")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The file is no SQLite database, or one of another program.
    #[error(
        "{0} is not a history of Torchgauge; give another file with --db, or move it away to \
         start a new history there"
    )]
    NotAHistory(PathBuf),
    /// Of a version that this program does not read.
    #[error(
        "{path} has schema version {got}, this Torchgauge reads {oldest} to {newest}; use the \
         Torchgauge that wrote it, or another file with --db",
        oldest = crate::schema::OLDEST,
        newest = crate::schema::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: i64,
    },
    /// Of an older version, in a file that can only be read.
    #[error(
        "{path} has schema version {got} and must be brought to {newest} before it can be read: \
         make it and its folder writable for one `history list`, or copy it to a folder that is",
        newest = crate::schema::VERSION
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: i64,
    },
    /// Neither the file nor its folder may be changed.
    #[error(
        "the history {0} cannot be written: the file, its folder or the disk is read-only; \
         change the permissions, or give another file with --db"
    )]
    ReadOnly(PathBuf),
    /// The disk is full. What was said to be written is.
    #[error("no space left to {doing} in {path}; free some and do it again: nothing was changed")]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        doing: &'static str,
    },
    /// Another process kept writing for longer than the wait allowed.
    #[error(
        "another process has been writing to {path} for {} s; nothing was changed: wait for it \
         to end, or end it, and do this again",
        waited.as_secs()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The file is damaged, or gone while its sources are there.
    #[error(
        "the history {path} is damaged: {detail}; `history rebuild` makes it again from the \
         sessions' folders and {}",
        crate::location::sources_of(path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// A rebuilt history would lack these sessions: their folders are not found.
    #[error(
        "the folders of {} sessions are not found, and nothing was changed: {}; name the folder \
         they lie in, as in `history rebuild FOLDER`, or leave them out with --drop-missing",
        .0.len(),
        listed(.0)
    )]
    MissingFolders(Vec<String>),
    /// SQLite says something else.
    #[error("cannot {doing} in {path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        doing: &'static str,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The session's folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A session's folder contradicts itself.
    #[error("the session in {path} cannot be added: {message}")]
    Session {
        /// The session's folder.
        path: PathBuf,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// The history holds something else under the same name.
    #[error(
        "session {session} stands in the history already, but with another {what} \
         (there {there}, here {here}); `history remove {session}` takes the old one out"
    )]
    Conflict {
        /// The session.
        session: String,
        /// What differs.
        what: String,
        /// In the history.
        there: String,
        /// In the folder.
        here: String,
    },
    /// The session has another label.
    #[error(
        "session {session} has the {what} {there} already, not {here}; to change it, \
         `history remove {session}`, edit `labels` in its session.json, and add it again"
    )]
    Labelled {
        /// The session.
        session: String,
        /// `branch`, `revision` or `track`.
        what: &'static str,
        /// The label that it has.
        there: String,
        /// The one it was to get.
        here: String,
    },
    /// A track for an image that the session does not have, or for several.
    #[error(
        "track {track} is not that of one image of session {session}, which has {}; name one, as \
         in `--track IMAGE={track}`",
        images.join(", ")
    )]
    Track {
        /// The session.
        session: String,
        /// The track.
        track: String,
        /// The session's images.
        images: Vec<String>,
    },
    /// No such session.
    #[error("no session {0} in the history; `history list --sessions` names them")]
    NoSession(String),
    /// No such imported series.
    #[error("no imported series {0}; `history list --machine imported` names them")]
    NoImport(String),
    /// No such baseline.
    #[error("no baseline {0}; `history baseline list` names them")]
    NoBaseline(String),
    /// A name that cannot be used.
    #[error("{what} {name:?} cannot be used: {reason}")]
    Name {
        /// What it was to name.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A session that baselines point to cannot be removed.
    #[error(
        "session {session} is the baseline {baseline}; `history baseline remove {baseline}` first"
    )]
    IsBaseline {
        /// The session.
        session: String,
        /// The baseline.
        baseline: String,
    },
    /// No such series.
    #[error("no series {0} in the history; `history list` names them")]
    NoSeries(String),
    /// A series of this name measures something else.
    #[error(
        "the series {name} stands in the history with {what} {there:?}, not {here:?}; import it \
         with the same, or under another name"
    )]
    OtherMeasure {
        /// The series' name.
        name: String,
        /// `unit`, `direction` or `kind`.
        what: &'static str,
        /// In the history.
        there: String,
        /// In the import.
        here: String,
    },
    /// Points of an import have other values than stand in the history.
    #[error(
        "{count} points to import into {name} have other values than stand there at the same \
         timestamp and revision; the first: timestamp {timestamp}, revision {revision:?}: there \
         {there}, here {here}. Nothing was imported; `--replace` puts the new values in place of \
         the old"
    )]
    OtherValue {
        /// The series' name.
        name: String,
        /// How many.
        count: usize,
        /// Of the first, in seconds since 1970-01-01 UTC.
        timestamp: f64,
        /// Of the first.
        revision: String,
        /// In the history.
        there: f64,
        /// In the import.
        here: f64,
    },
    /// A CSV file cannot be imported.
    #[error("{path}: {source}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        source: judge::trend::csv::CsvError,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check the folder and the disk's space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An export cannot be written to where the caller wanted it.
    #[error("cannot write the export: {source}")]
    Export {
        /// Why.
        source: io::Error,
    },
    /// The file that an export would make is there already.
    #[error("{0} is there already; give a new name, or remove it first")]
    Exists(PathBuf),
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    let told = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// What goes wrong while reading or writing the database, before it is told with the file's name.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
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
    /// As an error for the user. `doing` is what was attempted, such as `read a series`.
    pub(crate) fn tell(self, path: &Path, doing: &'static str) -> HistoryError {
        let path = path.to_owned();
        let source = match self {
            Self::Told(error) => return error,
            Self::Busy(waited) => return HistoryError::Busy { path, waited },
            Self::Sqlite(source) => source,
        };
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => not_a_history(&path),
            Some(ErrorCode::DatabaseCorrupt) => HistoryError::Damaged {
                path,
                detail: source.to_string(),
            },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => HistoryError::ReadOnly(path),
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
        }
    }
}

/// The sources beside a file tell that it was a history.
pub(crate) fn not_a_history(path: &Path) -> HistoryError {
    let path = path.to_owned();
    if crate::location::sources_of(&path).exists() {
        let detail = "it is not a history any more".to_owned();
        HistoryError::Damaged { path, detail }
    } else {
        HistoryError::NotAHistory(path)
    }
}

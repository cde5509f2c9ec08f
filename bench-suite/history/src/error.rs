//! What can go wrong, each with the next step.

use std::{io, path::PathBuf, time::Duration};

use record::FolderError;

use crate::Salvage;

/// Why the history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// There is no database at this path.
    #[error("there is no history at {path}; `history add SESSION` makes one")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be opened or made.
    #[error("cannot open the history {path}: {message}; give another file with --db")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The file is there but no SQLite database.
    #[error(
        "{path} is not an SQLite database; move it away to start a new history there, or give \
         another file with --db"
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A file of 0 bytes.
    #[error(
        "{path} is empty, expected a history: it has 0 bytes, and nothing in it can be saved; \
         restore it from a copy, or remove it to start a new history there"
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An SQLite database of another program.
    #[error(
        "{path} is an SQLite database, but not a history of Torchgauge; give another file \
         with --db, or move it away to start a new history there"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer Torchgauge.
    #[error(
        "{path} has schema version {got}, this Torchgauge knows up to {known}; use the newer \
         Torchgauge that wrote it, or another file with --db"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// Something that this file's older schema does not have, in a file opened only to read.
    #[error(
        "{path} has schema version {got} and must be brought to {known} before it can be read: \
         make it and its folder writable for one `history list`, or copy it to a folder that is"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: i64,
        /// The version that is needed.
        known: i64,
    },
    /// Neither the file nor its folder may be changed.
    #[error(
        "the history {path} cannot be written: the file, its folder or the disk is read-only; \
         change the permissions, or give another file with --db"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. What was said to be written is.
    #[error("no space left to {doing} in {path}; free some and do it again: nothing was changed")]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What was tried.
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
    /// The file is damaged.
    #[error(
        "the history {path} is damaged: {detail}. {salvage} can be saved; \
         `history recover --to NEW.sqlite` writes that to a new file and leaves this one alone"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
        /// What can be saved.
        salvage: Salvage,
    },
    /// SQLite says something else.
    #[error("cannot {doing} in {path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was tried.
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
    /// No such session.
    #[error("no session {name} in the history; `history list --sessions` names them")]
    NoSession {
        /// The name asked for.
        name: String,
    },
    /// No such baseline.
    #[error("no baseline {name}; `history baseline list` names them")]
    NoBaseline {
        /// The name asked for.
        name: String,
    },
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
    #[error("no series {key} in the history; `history list` names them")]
    NoSeries {
        /// The series asked for.
        key: String,
    },
    /// A series of points cannot be imported.
    #[error("point {index} cannot be imported: its {field} is {value}, expected a finite number")]
    NotFinite {
        /// The point, from 0.
        index: usize,
        /// `timestamp` or `value`.
        field: &'static str,
        /// What it is.
        value: f64,
    },
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
    /// An export cannot be written.
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
    /// The file that an export or a recovery would make is there already.
    #[error("{path} is there already; give a new name, or remove it first")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Nothing in a damaged file can be read.
    #[error(
        "{path} holds nothing that can be saved; restore it from a copy, or add the sessions' folders again"
    )]
    NothingToSave {
        /// The file.
        path: PathBuf,
    },
}

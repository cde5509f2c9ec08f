//! Why a session cannot begin or go on.

use std::{
    io,
    path::{Path, PathBuf},
};

use record::{FolderError, command_line};

use super::{DecideError, Difference};

/// Why a session cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{path}: {source}; check the folder's permissions and the disk's space")]
    Io { path: PathBuf, source: io::Error },
    /// A run could not be made or write its results for want of room, the session's or the engine's.
    #[error(
        "the disk is full: {message}; make room, then continue the session with `{}`",
        resume(.folder)
    )]
    DiskFull {
        folder: PathBuf,
        /// What the run says, and whose disk it is.
        message: String,
    },
    /// The path is not one that every engine can mount.
    #[error(
        "{path:?} cannot be the folder of a session: containers cannot mount a path with {what}; \
         give another with --out"
    )]
    Path { path: PathBuf, what: &'static str },
    #[error("{} is a file; the folder of a session is a new or empty folder", .0.display())]
    File(PathBuf),
    /// A link, or a folder with files in it.
    #[error("{} {what}; give a new or an empty folder", .path.display())]
    NotNew { path: PathBuf, what: String },
    /// There is a session in the folder already.
    #[error(
        "{} already holds a session; continue it with `{}`, or give another folder",
        .0.display(), resume(.0)
    )]
    Exists(PathBuf),
    #[error("another process works on the session in {}; wait for its end", .0.display())]
    Busy(PathBuf),
    /// It is to add blocks until something is decided that its plan does not have.
    #[error(transparent)]
    Decide(#[from] DecideError),
    #[error(
        "the session in {} has taken its last look, and its error budget is spent; begin a new \
         session, with a longer --time-budget",
        .0.display()
    )]
    Spent(PathBuf),
    #[error("the metrics so far cannot be judged: {0}")]
    Judge(#[from] verdict::SessionError),
    #[error(
        "the session in {path} cannot be resumed, for its metrics could not be compared:\n  {}\n\
         begin a new session instead",
        differences.iter().map(Difference::to_string).collect::<Vec<_>>().join("\n  ")
    )]
    Different {
        path: PathBuf,
        differences: Vec<Difference>,
    },
}

/// The option that goes on with the session in this folder, quoted for a shell.
fn resume(folder: &Path) -> String {
    command_line(&["--resume".to_owned(), folder.display().to_string()])
}

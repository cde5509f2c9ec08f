//! Why a session cannot begin or go on.

use std::{
    io,
    path::{Path, PathBuf},
};

use record::{FolderError, command_line};

use super::Difference;

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
    #[error("another process works on the session in {}; wait for its end", .0.display())]
    Busy(PathBuf),
    /// What was asked for cannot be done: what, and the next step.
    #[error("{0}")]
    Refused(String),
    #[error("the metrics so far cannot be judged: {0}")]
    Judge(#[from] verdict::CompareError),
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
pub(super) fn resume(folder: &Path) -> String {
    command_line(&["--resume".to_owned(), folder.display().to_string()])
}

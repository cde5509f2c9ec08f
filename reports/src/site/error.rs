//! Why there is no site.

use std::{io, path::PathBuf};

use record::FolderError;

use crate::ReportError;

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Nothing was given.
    #[error(
        "nothing to show; give folders of sessions or comparisons, or a history with --db FILE"
    )]
    Nothing,
    /// A folder that was given holds nothing to show.
    #[error(
        "{root} holds no session, comparison or fit, in it or below it; give the folder of a \
         session, or one with such folders"
    )]
    NothingIn {
        /// The folder.
        root: PathBuf,
    },
    /// The place of the site holds something else.
    #[error(
        "{out} holds something that is no site of Torchgauge; give a folder that is empty, not \
         there yet, or a site"
    )]
    NotASite {
        /// The folder.
        out: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check the folder's permissions and the disk's space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A session that was named cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file does not hold what its name says.
    #[error("{path}: {source}; expected what `--out DIR` writes; draw it again")]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A page cannot be put together.
    #[error(transparent)]
    Report(#[from] ReportError),
}

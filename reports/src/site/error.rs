//! Why there is no site.

use std::{io, path::PathBuf};

use crate::write::ReportError;

#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    #[error(
        "nothing to show; give folders of sessions or comparisons, or a history with --history DIR"
    )]
    Nothing,
    #[error(
        "{root} holds no session, comparison or fit, in it or below it; give the folder of a \
         session, or one with such folders"
    )]
    NothingIn { root: PathBuf },
    #[error(
        "{out} holds something that is no site of Torchgauge; give a folder that is empty, not \
         there yet, or a site"
    )]
    NotASite { out: PathBuf },
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}; expected what `--out DIR` writes; draw it again")]
    Form {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(transparent)]
    Report(#[from] ReportError),
}

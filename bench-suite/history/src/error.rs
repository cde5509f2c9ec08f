//! What can go wrong, each with the next step.

use std::{io, path::PathBuf};

use record::FolderError;

/// Why the history, or its ledger, cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// What was asked for or given does not fit: what, where, what is expected and the next step.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot write {path}: {source}; check the folder and the disk's space")]
    Write { path: PathBuf, source: io::Error },
}

pub(crate) fn refused<T>(message: impl Into<String>) -> Result<T, HistoryError> {
    Err(HistoryError::Refused(message.into()))
}

/// Names come back in tables and on command lines.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), HistoryError> {
    let reason = if name.trim().is_empty() {
        "it is empty"
    } else if name.chars().any(char::is_control) {
        "it has control characters in it"
    } else if name.chars().count() > 200 {
        "it is longer than 200 characters"
    } else {
        return Ok(());
    };
    refused(format!("{what} {name:?} cannot be used: {reason}"))
}

/// The first few, and how many there are besides.
pub(crate) fn names(all: &[String]) -> String {
    const MOST: usize = 8;
    if all.is_empty() {
        return "none".to_owned();
    }
    let more = match all.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", all[..all.len().min(MOST)].join(", "))
}

//! What is wrong with a ledger, or with what is asked of it.

use std::{io, path::PathBuf};

/// Why a ledger cannot be read, written or changed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be read.
    #[error("cannot read the ledger {path}: {source}; name another file with --ledger")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no such file.
    #[error(
        "there is no ledger at {0}; `trend --gate` begins one with the first regression, and \
         --ledger FILE names another"
    )]
    Missing(PathBuf),
    /// The file cannot be written.
    #[error("cannot write the ledger {path}: {source}; name another file with --ledger")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git could not merge two branches' ledgers by itself.
    #[error(
        "{path}, line {line}: git left a conflict marker; keep the entries of both sides, delete \
         the lines with markers, and run again"
    )]
    Conflict {
        /// The file.
        path: PathBuf,
        /// The first line with a marker, from 1.
        line: usize,
    },
    /// It is no TOML, or not that of a ledger.
    #[error("{path} is no ledger: {}; fix the file, or name another with --ledger", message.trim_end())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// Of a version that this program does not read.
    #[error(
        "{path} is a ledger of version {got}, this Torchgauge reads version {reads}; use the \
         Torchgauge that wrote it"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: i64,
        /// The version that is read.
        reads: i64,
    },
    /// Two entries of one ID that do not say the same.
    #[error(
        "{path} has two entries {id} that differ, at lines {first} and {second}; keep one, with the \
         acceptances that shall hold"
    )]
    Twice {
        /// The file.
        path: PathBuf,
        /// Their ID.
        id: String,
        /// Line of the first one, from 1.
        first: usize,
        /// Line of the second one.
        second: usize,
    },
    /// There is no entry of this ID.
    #[error("the ledger has no entry {id}; it has {}", names(known))]
    Unknown {
        /// The ID.
        id: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// An acceptance by nobody, or without a reason.
    #[error("{id}: the acceptance's `{field}` is empty; say who accepts, and why")]
    Unsigned {
        /// The entry.
        id: String,
        /// What is empty.
        field: &'static str,
    },
    /// An acceptance for cells or metrics that the entry does not have.
    #[error(
        "{id}: the acceptance fits none of its series; it has {}",
        names(series)
    )]
    FitsNothing {
        /// The entry.
        id: String,
        /// Cells and metrics that it has.
        series: Vec<String>,
    },
    /// An acceptance of what is over.
    #[error("{0} is fixed; there is nothing to accept")]
    Fixed(String),
}

/// The first few, and how many there are besides.
fn names(all: &[String]) -> String {
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

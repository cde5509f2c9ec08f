//! What `xtask/fuzz` checks reading and writing of ledgers with.

use std::io;

use crate::{HistoryError, Ledger, ledger::format};

/// A ledger, and the same after it was written anew.
pub fn ledgers(text: &str) -> Result<[Ledger; 2], HistoryError> {
    let path = std::path::Path::new("regressions.toml");
    let first = format::parse(path, text)?;
    let failed = |error| HistoryError::Write {
        path: path.to_owned(),
        source: io::Error::other(error),
    };
    let written = format::write(&first).map_err(failed)?;
    let second = format::parse(path, &written)?;
    Ok([first, second])
}

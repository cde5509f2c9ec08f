//! What `xtask/fuzz` checks reading and writing of imported series and of ledgers with.

use judge::trend::Point;

use crate::{Ledger, LedgerError, ledger::format, sources};

/// The points as they come back once a history has kept them.
pub fn kept(points: &[Point]) -> Result<Vec<Point>, String> {
    let mut bytes = Vec::new();
    sources::write_points(&mut bytes, points).map_err(|error| error.to_string())?;
    sources::read_points(bytes.as_slice()).map_err(|error| error.to_string())
}

/// A ledger, and the same after it was written anew.
pub fn ledgers(text: &str) -> Result<[Ledger; 2], LedgerError> {
    let path = std::path::Path::new("regressions.toml");
    let first = format::parse(path, text)?;
    let failed = |source| LedgerError::Write {
        path: path.to_owned(),
        source,
    };
    let written = format::write("", &Ledger::default(), &first).map_err(failed)?;
    let second = format::parse(path, &written)?;
    Ok([first, second])
}

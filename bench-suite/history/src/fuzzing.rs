//! What `xtask/fuzz` checks reading and writing of imported series and of ledgers with.

use std::io;

use judge::{
    compare::{Direction, Kind},
    trend::Point,
};

use crate::{HistoryError, ImportedSeries, Ledger, file::Version, import::Import, ledger::format};

/// The points as they come back once a history has kept them.
pub fn kept(points: &[Point]) -> Result<Vec<Point>, String> {
    let series = ImportedSeries {
        name: "series".to_owned(),
        unit: String::new(),
        direction: Direction::HigherIsBetter,
        kind: Kind::TimeLike,
        threshold: None,
    };
    let import = Import {
        version: Version,
        series,
        points: points.to_vec(),
    };
    let written = serde_json::to_vec(&import).map_err(|error| error.to_string())?;
    let read: Import = serde_json::from_slice(&written).map_err(|error| error.to_string())?;
    Ok(read.points)
}

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

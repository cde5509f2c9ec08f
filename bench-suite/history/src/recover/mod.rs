//! Saving what can be read out of a damaged file.
//!
//! Nothing in the file is trusted to lead anywhere: every page is searched for rows, and a row
//! counts when it fits its seal. So a lost header, a torn tree or a missing half of the file
//! cost the rows on the pages concerned and no others.

mod cells;
mod pages;
mod restore;

use std::{collections::HashMap, fmt, io, path::Path};

use rusqlite::types::Value;

use crate::{
    History, HistoryError,
    rows::{
        BaselineRow, BranchRow, CellInSessionRow, CellRow, PointRow, RevisionRow, Row, RunRow,
        SeriesRow, SessionRow,
    },
};

use cells::RawRow;
use pages::Pages;

/// How much of a damaged file can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Sessions.
    pub sessions: u64,
    /// Runs.
    pub runs: u64,
    /// Series.
    pub series: u64,
    /// Points.
    pub points: u64,
}

impl Salvage {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sessions,
            runs,
            series,
            points,
        } = self;
        write!(
            f,
            "{sessions} sessions, {runs} runs and {points} points in {series} series"
        )
    }
}

/// What was saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// What the new file holds.
    pub saved: Salvage,
    /// Sessions of which something is lost. `history add` with their folders brings it back.
    pub incomplete_sessions: Vec<Incomplete>,
    /// Imported series of which points are lost. Importing them again brings them back.
    pub incomplete_imports: Vec<Incomplete>,
    /// Cells of sessions whose cards and margins are lost, or were never kept. `history add` with
    /// the sessions' folders brings them.
    pub silent: u64,
    /// Rows that could be read but belong to nothing that could.
    pub orphans: u64,
}

/// A session or an imported series that was saved in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// Its name.
    pub name: String,
    /// Runs that are lost.
    pub lost_runs: u64,
    /// Points that are lost.
    pub lost_points: u64,
}

/// Writes what can be read in `damaged` to a new history at `fresh`. The damaged file is only
/// read, with its write-ahead log where there is one.
pub fn recover(damaged: &Path, fresh: &Path) -> Result<Recovered, HistoryError> {
    if fresh.exists() {
        return Err(HistoryError::Exists {
            path: fresh.to_owned(),
        });
    }
    let mut found = search(damaged).map_err(|source| HistoryError::Read {
        path: damaged.to_owned(),
        source,
    })?;
    if found.saved().is_empty() {
        return Err(HistoryError::NothingToSave {
            path: damaged.to_owned(),
        });
    }
    let history = History::open(fresh)?;
    history.write("write what was saved", |connection| {
        restore::restore(connection, &mut found)
    })
}

/// Counts what [`recover`] would save.
pub(crate) fn survey(path: &Path) -> io::Result<Salvage> {
    search(path).map(|found| found.saved())
}

/// Whether any row in the file is one of a history, were it one that cannot be saved.
pub(crate) fn is_history(path: &Path) -> bool {
    search(path).is_ok_and(|found| !found.salvage().is_empty())
}

/// Rows that fit their seal, by key.
#[derive(Default)]
struct Found {
    sessions: HashMap<i64, SessionRow>,
    cells: HashMap<i64, CellRow>,
    series: HashMap<i64, SeriesRow>,
    revisions: HashMap<i64, RevisionRow>,
    runs: HashMap<i64, RunRow>,
    points: HashMap<(i64, u64, i64), PointRow>,
    branches: HashMap<i64, BranchRow>,
    baselines: HashMap<i64, BaselineRow>,
    said: HashMap<(i64, i64), CellInSessionRow>,
}

impl Found {
    fn salvage(&self) -> Salvage {
        Salvage {
            sessions: self.sessions.len() as u64,
            runs: self.runs.len() as u64,
            series: self.series.len() as u64,
            points: self.points.len() as u64,
        }
    }

    /// What is left of [`Self::salvage`] without the rows whose relations are lost.
    fn saved(&self) -> Salvage {
        let has_cell = |id: i64| self.cells.contains_key(&id);
        let is_saved =
            |run: &RunRow| has_cell(run.cell_id) && self.sessions.contains_key(&run.session_id);
        let series = |id: i64| {
            self.series
                .get(&id)
                .is_some_and(|row| has_cell(row.cell_id))
        };
        let points = self.points.values().filter(|point| {
            series(point.series_id)
                && (point.session_id.is_none()
                    || self.runs.get(&point.ordinal).is_some_and(is_saved))
        });
        Salvage {
            sessions: self.sessions.len() as u64,
            runs: self.runs.values().filter(|run| is_saved(run)).count() as u64,
            series: self.series.keys().filter(|id| series(**id)).count() as u64,
            points: points.count() as u64,
        }
    }

    fn take(&mut self, raw: &RawRow) {
        let rowid = raw.rowid;
        // The tables have different numbers of columns or names under their seals, so a row
        // fits one of them at most.
        if let Some(row) = read::<PointRow>(raw) {
            self.points
                .insert((row.series_id, row.timestamp.to_bits(), row.ordinal), row);
        } else if let Some(row) = read::<CellInSessionRow>(raw) {
            self.said.insert((row.cell_id, row.session_id), row);
        } else if rowid.is_none() {
            // An index: what it holds stands in its table too.
        } else if let Some(row) = read::<RunRow>(raw) {
            self.runs.insert(row.id, row);
        } else if let Some(row) = read::<SessionRow>(raw) {
            self.sessions.insert(row.id, row);
        } else if let Some(row) = read::<SeriesRow>(raw) {
            self.series.insert(row.id, row);
        } else if let Some(row) = read::<CellRow>(raw) {
            self.cells.insert(row.id, row);
        } else if let Some(row) = read::<RevisionRow>(raw) {
            self.revisions.insert(row.id, row);
        } else if let Some(row) = read::<BranchRow>(raw) {
            self.branches.insert(row.session_id, row);
        } else if let Some(row) = read::<BaselineRow>(raw) {
            self.baselines.insert(row.id, row);
        }
    }
}

fn read<T: Row>(raw: &RawRow) -> Option<T> {
    let (told, values) = raw.values.split_last()?;
    if raw.rowid.is_some() != T::ROWID || values.len() != T::COLUMNS.len() {
        return None;
    }
    let mut values = values.to_vec();
    if let Some(rowid) = raw.rowid {
        // SQLite keeps the key beside the row and NULL in its place.
        values[0] = Value::Integer(rowid);
    }
    // Through the type and back: on the disk a REAL without a fraction is an integer.
    let mut values = T::from_values(&values)?.values();
    values.push(told.clone());
    T::unsealed(&values)
}

fn search(path: &Path) -> io::Result<Found> {
    let mut pages = Pages::open(path)?;
    let mut found = Found::default();
    for number in pages.numbers() {
        for raw in cells::rows(&mut pages, number) {
            found.take(&raw);
        }
    }
    Ok(found)
}

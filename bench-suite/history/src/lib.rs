//! Sessions over time.
//!
//! A [`History`] is one SQLite file: an index that [`History::rebuild`] can make again out of the
//! sessions' folders and the plain files beside it. [`History::add`] takes a session's folder and
//! spreads its metrics over series; a series is what may be followed over time: one metric of one
//! cell on one machine and device, along one track of images ([`SeriesKey`]). [`History::points`] reads a
//! series for the judge's trend, [`History::sessions`] and baselines find sessions to compare
//! with, and [`History::export`] hands everything on.

mod add;
mod cell_metadata;
mod database;
mod error;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod key;
mod ledger;
mod location;
mod method;
mod rebuild;
mod runs;
mod schema;
mod series;
mod sessions;
mod sources;
mod sql;
mod track;

pub use add::Added;
pub use cell_metadata::Attributes;
pub use database::History;
pub use error::HistoryError;
pub use export::{Exported, Format, Selection};
pub use import::{Imported, read_csv};
pub use key::{PointFilter, SeriesFilter, SeriesKey};
pub use ledger::{
    Acceptance, Change, Entry, Kind, Ledger, LedgerError, LedgerFile, Night, Place, Seen, State,
    Time,
};
pub use location::default_path;
pub use method::{JoinedMethod, join, told_apart};
pub use rebuild::Rebuilt;
pub use record::Labels;
pub use series::{Aggregate, Point, SeriesInfo};
pub use sessions::{Removed, SessionFilter, SessionInfo};
pub use sources::ImportedSeries;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

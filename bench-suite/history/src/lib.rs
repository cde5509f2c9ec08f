//! Sessions over time.
//!
//! A [`History`] is one SQLite file. [`History::add`] takes a session's folder and spreads its
//! figures over series; a series is what may be followed over time: one metric of one cell on one
//! machine, device, driver and image ([`SeriesKey`]). [`History::points`] reads a series for the
//! judge's trend, [`History::newest`] and baselines find sessions to compare with, and
//! [`History::export`] hands everything on.
//!
//! What was said to be written is on the disk; a row that was changed from outside is noticed
//! when it is read; [`recover()`] saves what can be read from a damaged file.

mod add;
mod agree;
mod beside;
mod check;
mod database;
mod error;
mod export;
mod fault;
mod import;
mod key;
mod location;
mod names;
mod read;
mod reader;
mod recover;
mod rows;
mod schema;
mod seal;
mod writer;

pub use add::{Added, Labels};
pub use check::Health;
pub use database::History;
pub use error::HistoryError;
pub use export::{Exported, Format, Selection};
pub use import::{Imported, ImportedSeries, read_csv};
pub use key::{SeriesFilter, SeriesKey};
pub use location::default_path;
pub use names::{Baseline, Removed, SessionFilter, SessionInfo};
pub use read::{Aggregate, FailedRun, Point, PointFilter, SeriesInfo};
pub use recover::{Incomplete, Recovered, Salvage, recover};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Sessions over time.
//!
//! A [`History`] is a folder with one small JSON file a session, in a tree by machine, suite and
//! track. [`History::add`] writes the file of a session; [`History::read`] reads those that are
//! asked for, and [`Contents::series`] spreads their metrics over series: one metric of one cell on
//! one machine and device, along one track of images ([`SeriesKey`]). Several machines may write
//! into one folder at once, and git can hold it.

mod add;
mod disk;
mod error;
mod file;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod ledger;
mod method;
mod of_records;
mod series;
mod sessions;
mod spread;

pub use add::Added;
pub use error::HistoryError;
pub use file::Attributes;
pub use folder::{Contents, History};
pub use key::{PointFilter, SeriesFilter, SeriesKey};
pub use ledger::{Acceptance, Change, Entry, Kind, Ledger, LedgerFile, Night, Place, Seen, State};
pub use method::{join, told_apart};
pub use record::Labels;
pub use series::{Aggregate, JoinedMethod, Origin, Point, Series, SeriesInfo, moment};
pub use sessions::{SessionFilter, SessionInfo};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

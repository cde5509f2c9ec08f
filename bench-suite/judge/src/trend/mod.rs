//! Change points in a series over time.
//!
//! [`change_points`] reads a whole series and its newest end: steps, drift, and noise that grew;
//! [`news`] says what of it the last run brought to light; [`csv::parse`] reads the form in which series are
//! exchanged; [`staleness`] notices results that stopped coming.

mod candidates;
mod constants;
pub mod csv;
mod detect;
mod history;
mod model;
mod newest;
mod news;
mod noise;
mod robust;
mod series;
mod slope;
mod stale;
mod week;

pub use detect::change_points;
pub use model::{
    ChangePoint, Point, TOO_SHORT, Trend, TrendError, TrendOptions, is_beyond, put_in_order,
};
pub use news::{follow, follow_many, news};
pub use stale::{Staleness, staleness};

//! What the numbers say: comparisons, change points and claims.
//!
//! Pure statistics on numbers handed in. Nothing here knows of sessions, containers,
//! files or plots.
//!
//! - [`compare`]: did one metric of one pair of cells change? An effect as a ratio with
//!   its interval, and a [`Verdict`](compare::Verdict).
//! - [`family`]: the same for many metrics at once, with the false discovery rate
//!   controlled.
//! - [`sequential`]: looking again after every block, with the price of looking paid.
//! - [`trend`]: change points in a series over time, its CSV form, and missing data.
//! - [`claims`]: does an interval bear out what somebody claimed?
//!
//! `docs/statistics.md` gives every formula, its source and a worked example; the README
//! beside this crate has the measured error rates.

pub mod claims;
pub mod compare;
pub mod dist;
pub mod family;
pub mod prior;
pub mod sequential;
pub mod trend;

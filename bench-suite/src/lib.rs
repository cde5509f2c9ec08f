//! How it is measured: plan, executors, monitors, sessions.

pub mod bisect;
pub mod device;
mod disk;
mod evaluation;
pub mod executors;
pub mod fit;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
mod invariants;
pub mod live;
mod log;
pub mod outcome;
pub mod overhead;
pub mod plan;
pub mod results;
pub mod scratch_run;
pub mod session;
pub mod suite;
mod validity;

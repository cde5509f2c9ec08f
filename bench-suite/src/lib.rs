//! How it is measured: plan, executors, monitors, sessions.

pub mod bisect;
pub mod device;
mod disk;
mod evaluation;
pub mod executors;
pub mod fit;
#[doc(hidden)]
#[path = "../tests/support/fuzzing.rs"]
pub mod fuzzing;
#[doc(hidden)]
pub mod hook;
pub mod host;
pub mod log;
pub mod outcome;
pub mod plan;
pub mod results;
pub mod scratch_run;
pub mod session;
pub mod suite;
mod validity;
mod values;

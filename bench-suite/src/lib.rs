//! How it is measured: plan, executors, monitors, sessions.

pub mod device;
pub mod execute;
mod invariants;
pub mod machine;
pub mod monitor;
pub mod outcome;
pub mod plan;
pub mod results;
pub mod session;
pub mod suite;

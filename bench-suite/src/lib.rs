//! How it is measured: plan, executors, monitors, sessions.

pub mod device;
pub mod execute;
pub mod fit;
pub mod gpu_lock;
mod invariants;
pub mod live;
mod log;
pub mod machine;
pub mod monitor;
pub mod nvml;
pub mod outcome;
pub mod overhead;
pub mod plan;
pub mod results;
pub mod session;
pub mod suite;
pub mod trial;
mod validity;

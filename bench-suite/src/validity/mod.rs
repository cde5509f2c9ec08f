//! Whether the machine is fit to measure on: before a run, and in hindsight.
//!
//! Nothing here ends a process or changes a clock: what is wrong is waited for, or told.

mod before;
mod during;

pub(crate) use before::{Fitness, wait};
pub(crate) use during::contamination;

use crate::host::Host;

/// Processes in words, with their names where they can be seen.
fn processes(pids: &[u32], host: &dyn Host) -> String {
    let word = |&pid: &u32| match host.process_name(pid) {
        Some(name) => format!("{pid} ({name})"),
        None => pid.to_string(),
    };
    pids.iter().map(word).collect::<Vec<_>>().join(", ")
}

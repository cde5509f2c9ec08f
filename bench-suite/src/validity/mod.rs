//! Whether the machine is fit to measure on: before a run, and in hindsight.
//!
//! Nothing here ends a process or changes a clock: what is wrong is waited for, or told.

mod before;
mod during;

pub(crate) use before::{Fitness, wait};
pub(crate) use during::{Host, contamination};

/// Processes in words.
fn processes(pids: &[u32]) -> String {
    let names: Vec<String> = pids.iter().map(|&pid| process(pid)).collect();
    names.join(", ")
}

/// A process with its name, where it can be seen from here.
fn process(pid: u32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => {
            let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
            format!("{pid} ({name})")
        }
        Err(_) => pid.to_string(),
    }
}

//! Which rank a process is, by the variables that torchrun sets.

use std::env;

use rustix::process::{Signal, set_parent_process_death_signal};

/// A process among those of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From 0.
    pub rank: u32,
    /// The same on its host: the device, of those that it sees, on which it works.
    pub local_rank: u32,
    /// How many there are in all.
    pub world_size: u32,
}

impl Place {
    /// That of this process; `None` where nobody gave it one, as of a supervisor.
    pub fn of_this_process() -> Option<Self> {
        let number = |name: &str| env::var(name).ok()?.parse().ok();
        let rank = number("RANK")?;
        Some(Self {
            rank,
            local_rank: number("LOCAL_RANK").unwrap_or(rank),
            world_size: number("WORLD_SIZE").unwrap_or(rank + 1),
        })
    }

    /// What tells a rank of a run on one host its place, and where the first one listens.
    pub(crate) fn environment(rank: u32, count: u32, port: u16) -> [(&'static str, String); 6] {
        [
            ("RANK", rank.to_string()),
            ("LOCAL_RANK", rank.to_string()),
            ("WORLD_SIZE", count.to_string()),
            ("LOCAL_WORLD_SIZE", count.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", port.to_string()),
        ]
    }
}

/// Has the kernel end this process when the one that started it ends, however that goes.
pub fn die_with_supervisor() {
    // Without it the deadline of the run ends it.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

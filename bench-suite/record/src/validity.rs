//! Whether the machine was fit to measure on, before a run and during it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was found out about the machine, and by which limits it was judged.
///
/// A record of a time when nobody looked has none of this.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// What was held against the readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ValidityLimits>,
    /// What was read before the run started, at the end of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// Why the sample is worth nothing; empty where it may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contamination: Vec<String>,
}

/// From when on a machine is not fit to measure on. `None`: not looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidityLimits {
    /// Longest wait for a machine that is idle enough, in seconds; 0: do not wait.
    pub wait_seconds: f64,
    /// How often a contaminated run is repeated.
    pub repeats: u32,
    /// Before a run: most that the GPU may be at work.
    pub gpu_utilization_percent: Option<f64>,
    /// Before a run: how warm the GPU may be.
    pub gpu_temperature_celsius: Option<f64>,
    /// Before and during a run: how many processes of others may use the GPU.
    pub gpu_processes: Option<u32>,
    /// During a run: most of the samples in which heat, a fault or the supply held the clocks
    /// back.
    pub throttled_percent: Option<f64>,
    /// During a run: most of the samples in which the power cap held the clocks back.
    pub power_cap_percent: Option<f64>,
    /// Before and during a run: most that others may use of all CPUs.
    pub host_busy_percent: Option<f64>,
    /// During a run: most of its time in which something on the host waited for memory.
    pub memory_stall_percent: Option<f64>,
}

impl Default for ValidityLimits {
    fn default() -> Self {
        Self {
            wait_seconds: 120.0,
            repeats: 2,
            gpu_utilization_percent: Some(10.0),
            gpu_temperature_celsius: Some(75.0),
            gpu_processes: Some(0),
            throttled_percent: Some(5.0),
            // A large model reaches the cap by itself; that is the GPU, not its neighbours.
            power_cap_percent: None,
            // Of runs on the CPU alone: on a GPU, a node's other jobs may fill its CPUs.
            host_busy_percent: None,
            memory_stall_percent: Some(10.0),
        }
    }
}

/// The machine before a run. `None` is «cannot be known here», never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    /// How long was waited.
    pub waited_seconds: f64,
    /// What the wait was for, at its begin; empty where there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waited_for: Vec<String>,
    /// How much the GPU was at work.
    pub gpu_utilization_percent: Option<f64>,
    /// How warm the GPU was.
    pub gpu_temperature_celsius: Option<f64>,
    /// Processes that used the GPU.
    pub gpu_processes: Option<Vec<u32>>,
    /// How much of all CPUs was in use.
    pub host_busy_percent: Option<f64>,
    /// Memory that could be had without swapping.
    pub host_available_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_takes_no_room() {
        assert_eq!(serde_json::to_string(&Validity::default()).unwrap(), "{}");
        assert_eq!(
            serde_json::from_str::<Validity>("{}").unwrap(),
            Validity::default()
        );
    }
}

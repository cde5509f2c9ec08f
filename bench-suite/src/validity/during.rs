//! What contaminated a run, in hindsight.

use record::{Monitor, ValidityLimits};

use super::processes;
use crate::host::Host;

/// Reasons that say that the GPU works as it was told to: a cap on power, and clocks that
/// somebody set.
const POWER_CAP: &str = "sw_power_cap";
const SET: [&str; 3] = [
    "applications_clocks_setting",
    "sync_boost",
    "display_clock_setting",
];

/// Below this share of its memory, a host that waits for memory has too little of it.
const SCARCE_PERCENT: f64 = 10.0;

/// Everything for which a run's metrics are worth nothing, in words; empty where they may be used.
pub(crate) fn contamination(
    limits: &ValidityLimits,
    monitor: &Monitor,
    host: &dyn Host,
    memory_bytes: u64,
    shares_gpu: bool,
) -> Vec<String> {
    let mut found = Vec::new();
    let others = &monitor.other_gpu_processes;
    if let Some(most) = limits.gpu_processes
        && !shares_gpu
        && others.len() > most as usize
    {
        found.push(format!(
            "other processes used the GPU: {}",
            processes(others, host)
        ));
    }
    for (reason, share) in &monitor.gpu_throttled_percent {
        let limit = match reason.as_str() {
            POWER_CAP => limits.power_cap_percent,
            reason if SET.contains(&reason) => None,
            _ => limits.throttled_percent,
        };
        if let Some(limit) = limit.filter(|limit| share > limit) {
            found.push(format!(
                "the GPU's clocks were held back by {reason} in {share:.0} % of the samples \
                 (limit {limit} %)"
            ));
        }
    }
    if let (Some(limit), Some(cores)) = (limits.host_busy_percent, &monitor.other_cores) {
        let share = 100.0 * cores.mean / host.cpus();
        if share > limit {
            found.push(format!(
                "others used {share:.0} % of the host's CPUs (limit {limit} %)"
            ));
        }
    }
    // A run at its own memory limit waits too, on a host with plenty; that is its own affair.
    let least = monitor
        .host_available_bytes
        .as_ref()
        .map(|series| 100.0 * series.minimum / memory_bytes as f64);
    if let (Some(limit), Some(share), Some(left)) = (
        limits.memory_stall_percent,
        monitor.memory_stall_percent,
        least,
    ) && share > limit
        && left < SCARCE_PERCENT
    {
        found.push(format!(
            "the host waited for memory in {share:.0} % of the time (limit {limit} %), with \
             {left:.0} % of it left"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use record::{Sample, Series};

    use super::*;

    fn check(monitor: &Monitor, shares_gpu: bool, expect: &[&str]) {
        let limits = ValidityLimits {
            host_busy_percent: Some(10.0),
            ..ValidityLimits::default()
        };
        let host = crate::host::open();
        assert_eq!(
            contamination(&limits, monitor, host.as_ref(), 1000, shares_gpu),
            expect,
            "{monitor:?}"
        );
    }

    #[test]
    fn what_contaminates_a_run_is_named_and_what_is_normal_is_not() {
        check(&Monitor::default(), false, &[]);
        let throttled = |reason: &str, share| Monitor {
            gpu_throttled_percent: [(reason.to_owned(), share)].into(),
            ..Monitor::default()
        };
        check(
            &throttled("hw_thermal_slowdown", 40.0),
            false,
            &[
                "the GPU's clocks were held back by hw_thermal_slowdown in 40 % of the samples \
               (limit 5 %)",
            ],
        );
        check(&throttled("hw_thermal_slowdown", 4.0), false, &[]);
        check(&throttled("sw_power_cap", 100.0), false, &[]);
        check(&throttled("applications_clocks_setting", 100.0), false, &[]);
        let shared = Monitor {
            other_gpu_processes: vec![u32::MAX],
            ..Monitor::default()
        };
        check(
            &shared,
            false,
            &["other processes used the GPU: 4294967295"],
        );
        check(&shared, true, &[]);
        let host = Monitor {
            other_cores: Series::of(&[Sample(0.0, 0.25 * crate::host::open().cpus())]),
            memory_stall_percent: Some(33.0),
            host_available_bytes: Series::of(&[Sample(0.0, 500.0), Sample(1.0, 40.0)]),
            ..Monitor::default()
        };
        check(
            &host,
            false,
            &[
                "others used 25 % of the host's CPUs (limit 10 %)",
                "the host waited for memory in 33 % of the time (limit 10 %), with 4 % of it left",
            ],
        );
        let own_limit = Monitor {
            memory_stall_percent: Some(33.0),
            host_available_bytes: Series::of(&[Sample(0.0, 500.0)]),
            ..Monitor::default()
        };
        check(&own_limit, false, &[]);
    }

    #[test]
    fn a_power_cap_counts_where_the_suite_says_so() {
        let limits = ValidityLimits {
            power_cap_percent: Some(1.0),
            ..ValidityLimits::default()
        };
        let monitor = Monitor {
            gpu_throttled_percent: [("sw_power_cap".to_owned(), 12.0)].into(),
            ..Monitor::default()
        };
        let host = crate::host::open();
        let found = contamination(&limits, &monitor, host.as_ref(), 1000, false);
        assert_eq!(found.len(), 1);
    }
}

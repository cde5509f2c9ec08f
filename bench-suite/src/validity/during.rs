//! What contaminated a run, in hindsight.

use record::{Monitor, RunPolicy, Sampled, ValidityLimits};

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
/// `hosts` are those of its ranks, and what the monitor has of a host is of the first one.
pub(crate) fn contamination(
    limits: &ValidityLimits,
    monitor: &Monitor,
    hosts: &[&dyn Host],
    memory_bytes: u64,
    policy: &RunPolicy,
) -> Vec<String> {
    let mut found = Vec::new();
    for (rank, gpu) in monitor.gpus.iter().enumerate() {
        let the_gpu = match monitor.gpus.len() {
            1 => "the GPU".to_owned(),
            _ => format!("the GPU of rank {rank}"),
        };
        let others = &gpu.other_processes;
        if let Some(most) = limits.gpu_processes
            && !policy.shares_gpu
            && others.len() > most as usize
        {
            let others = processes(others, *hosts.get(rank).unwrap_or(&hosts[0]));
            found.push(format!("other processes used {the_gpu}: {others}"));
        }
        for (reason, share) in &gpu.throttled_percent {
            let limit = match reason.as_str() {
                POWER_CAP => limits.power_cap_percent,
                reason if SET.contains(&reason) => None,
                _ => limits.throttled_percent,
            };
            if let Some(limit) = limit.filter(|limit| share > limit) {
                found.push(format!(
                    "{the_gpu}'s clocks were held back by {reason} in {share:.0} % of the samples \
                     (limit {limit} %)"
                ));
            }
        }
    }
    let busy = limits.host_busy_percent.filter(|_| !policy.shares_cpu);
    if let (Some(limit), Some(cores)) = (busy, monitor.get(Sampled::OtherCores)) {
        let share = 100.0 * cores.mean / hosts[0].cpus();
        if share > limit {
            found.push(format!(
                "others used {share:.0} % of the host's CPUs (limit {limit} %)"
            ));
        }
    }
    // A run at its own memory limit waits too, on a host with plenty; that is its own affair.
    let least = monitor
        .get(Sampled::HostAvailableBytes)
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
    use record::{GpuMonitor, Sample, Series};

    use super::*;

    fn check(monitor: &Monitor, shares_gpu: bool, expect: &[&str]) {
        let limits = ValidityLimits {
            host_busy_percent: Some(10.0),
            ..ValidityLimits::default()
        };
        let host = crate::host::local::open();
        let policy = RunPolicy {
            shares_gpu,
            ..RunPolicy::default()
        };
        assert_eq!(
            contamination(&limits, monitor, &[host.as_ref()], 1000, &policy),
            expect,
            "{monitor:?}"
        );
    }

    fn throttled(reason: &str, share: f64) -> Monitor {
        Monitor {
            gpus: vec![GpuMonitor {
                throttled_percent: [(reason.to_owned(), share)].into(),
                ..GpuMonitor::default()
            }],
            ..Monitor::default()
        }
    }

    fn series(what: Sampled, samples: &[Sample]) -> (Sampled, Series) {
        (what, Series::of(samples).unwrap())
    }

    #[test]
    fn what_contaminates_a_run_is_named_and_what_is_normal_is_not() {
        check(&Monitor::default(), false, &[]);
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
        let mut shared = throttled("sw_power_cap", 1.0);
        shared.gpus[0].other_processes = vec![u32::MAX];
        check(
            &shared,
            false,
            &["other processes used the GPU: 4294967295"],
        );
        check(&shared, true, &[]);
        let quarter = 0.25 * crate::host::local::open().cpus();
        let scarce = [Sample(0.0, 500.0), Sample(1.0, 40.0)];
        let of_host = |series| Monitor {
            series,
            memory_stall_percent: Some(33.0),
            ..Monitor::default()
        };
        let busy = series(Sampled::OtherCores, &[Sample(0.0, quarter)]);
        let scarce = series(Sampled::HostAvailableBytes, &scarce);
        let host = of_host([busy, scarce].into());
        check(
            &host,
            false,
            &[
                "others used 25 % of the host's CPUs (limit 10 %)",
                "the host waited for memory in 33 % of the time (limit 10 %), with 4 % of it left",
            ],
        );
        let plenty = series(Sampled::HostAvailableBytes, &[Sample(0.0, 500.0)]);
        let own_limit = of_host([plenty].into());
        check(&own_limit, false, &[]);
    }

    #[test]
    fn a_power_cap_counts_where_the_suite_says_so() {
        let limits = ValidityLimits {
            power_cap_percent: Some(1.0),
            ..ValidityLimits::default()
        };
        let monitor = throttled("sw_power_cap", 12.0);
        let host = crate::host::local::open();
        let policy = RunPolicy::default();
        let found = contamination(&limits, &monitor, &[host.as_ref()], 1000, &policy);
        assert_eq!(found.len(), 1);
    }
}

//! The wait for a machine that is idle enough.

use std::time::{Duration, Instant};

use protocol::Device;
use record::{Before, RunPolicy, ValidityLimits};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::processes;
use crate::host::Host;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, PartialEq)]
pub(crate) enum Fitness {
    Fit,
    /// It was not within the time, in words.
    Busy(String),
    /// The GPU is lost, in words.
    Lost(String),
    Interrupted,
}

/// Waits until the hosts and devices of all ranks are fit to measure on, at most as long as the
/// limits say. Of several, the worst readings are given.
pub(crate) async fn wait(
    limits: &ValidityLimits,
    places: &[(&dyn Host, Device)],
    policy: &RunPolicy,
    cancel: &CancellationToken,
) -> (Before, Fitness) {
    let began = Instant::now();
    let patience = Duration::try_from_secs_f64(limits.wait_seconds).unwrap_or_default();
    let mut waited_for = Vec::new();
    // The load is read only where it is asked for.
    let with_load = limits.host_busy_percent.is_some() && !policy.shares_cpu;
    loop {
        let mut before: Option<Before> = None;
        let mut found = Vec::new();
        for (host, device) in places {
            let state = match host.state(*device, with_load).await {
                Ok(state) => state,
                Err(lost) => return (Before::default(), Fitness::Lost(lost)),
            };
            let here = obstacles(limits, &state, policy, *host).into_iter();
            found.extend(here.map(|obstacle| match places {
                [_] => obstacle,
                _ => format!("{}, {device}: {obstacle}", host.name()),
            }));
            before = Some(match before {
                Some(before) => worst(before, state),
                None => state,
            });
        }
        let mut before = before.unwrap_or_default();
        if waited_for.is_empty() {
            waited_for.clone_from(&found);
        }
        before.waited_seconds = if waited_for.is_empty() {
            0.0
        } else {
            began.elapsed().as_secs_f64()
        };
        before.waited_for.clone_from(&waited_for);
        if found.is_empty() {
            return (before, Fitness::Fit);
        }
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            let words = format!(
                "the machine was not fit to measure on within {} s: {}",
                limits.wait_seconds,
                found.join("; ")
            );
            return (before, Fitness::Busy(words));
        }
        tokio::select! {
            () = sleep(PAUSE.min(left)) => {}
            () = cancel.cancelled() => return (before, Fitness::Interrupted),
        }
    }
}

/// The worst of two readings.
fn worst(one: Before, other: Before) -> Before {
    let most = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
    let processes = one.gpu_processes.into_iter().chain(other.gpu_processes);
    Before {
        gpu_utilization_percent: most(one.gpu_utilization_percent, other.gpu_utilization_percent),
        gpu_temperature_celsius: most(one.gpu_temperature_celsius, other.gpu_temperature_celsius),
        gpu_processes: processes.reduce(|one, other| [one, other].concat()),
        host_busy_percent: most(one.host_busy_percent, other.host_busy_percent),
        host_available_bytes: (one.host_available_bytes.into_iter())
            .chain(other.host_available_bytes)
            .min(),
        ..one
    }
}

/// What keeps the machine from being fit. Whoever shares a GPU, or the CPUs, has agreed to their
/// being in use.
fn obstacles(
    limits: &ValidityLimits,
    before: &Before,
    policy: &RunPolicy,
    host: &dyn Host,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut over = |value: Option<f64>, limit: Option<f64>, words: &dyn Fn(f64, f64) -> String| {
        if let (Some(value), Some(limit)) = (value, limit)
            && value > limit
        {
            found.push(words(value, limit));
        }
    };
    if !policy.shares_gpu {
        over(
            before.gpu_utilization_percent,
            limits.gpu_utilization_percent,
            &|value, limit| format!("the GPU is {value:.0} % at work (limit {limit} %)"),
        );
    }
    over(
        before.gpu_temperature_celsius,
        limits.gpu_temperature_celsius,
        &|value, limit| format!("the GPU is at {value:.0} °C (limit {limit} °C)"),
    );
    let busy = limits.host_busy_percent.filter(|_| !policy.shares_cpu);
    over(before.host_busy_percent, busy, &|value, limit| {
        format!("{value:.0} % of the host's CPUs are in use (limit {limit} %)")
    });
    if let (Some(pids), Some(most), false) = (
        &before.gpu_processes,
        limits.gpu_processes,
        policy.shares_gpu,
    ) && pids.len() > most as usize
    {
        found.push(format!(
            "other processes use the GPU: {}",
            processes(pids, host)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharing(shares: bool) -> RunPolicy {
        RunPolicy {
            shares_gpu: shares,
            shares_cpu: shares,
            ..RunPolicy::default()
        }
    }

    fn check(before: &Before, shares: bool, expect: &[&str]) {
        let limits = ValidityLimits {
            host_busy_percent: Some(20.0),
            ..ValidityLimits::default()
        };
        let host = crate::host::local::open();
        assert_eq!(
            obstacles(&limits, before, &sharing(shares), host.as_ref()),
            expect
        );
    }

    #[test]
    fn every_obstacle_is_named_with_its_limit() {
        check(&Before::default(), false, &[]);
        let busy = Before {
            gpu_utilization_percent: Some(97.0),
            gpu_temperature_celsius: Some(81.0),
            gpu_processes: Some(vec![u32::MAX]),
            host_busy_percent: Some(55.4),
            ..Before::default()
        };
        check(
            &busy,
            false,
            &[
                "the GPU is 97 % at work (limit 10 %)",
                "the GPU is at 81 °C (limit 75 °C)",
                "55 % of the host's CPUs are in use (limit 20 %)",
                "other processes use the GPU: 4294967295",
            ],
        );
        check(&busy, true, &["the GPU is at 81 °C (limit 75 °C)"]);
    }

    #[tokio::test]
    async fn a_host_that_stays_busy_is_waited_for_and_then_told() {
        // More than nothing is always in use on a machine that runs this test.
        let limits = ValidityLimits {
            wait_seconds: 0.8,
            host_busy_percent: Some(-1.0),
            ..ValidityLimits::default()
        };
        let (host, cancel) = (crate::host::local::open(), CancellationToken::new());
        let (before, fitness) = wait(
            &limits,
            &[(host.as_ref(), Device::Cpu)],
            &sharing(false),
            &cancel,
        )
        .await;
        let Fitness::Busy(words) = fitness else {
            panic!("{fitness:?}")
        };
        assert!(words.contains("within 0.8 s: "), "{words}");
        assert!(before.waited_seconds >= 0.8 && before.waited_for.len() == 1);

        cancel.cancel();
        let (_, fitness) = wait(
            &limits,
            &[(host.as_ref(), Device::Cpu)],
            &sharing(false),
            &cancel,
        )
        .await;
        assert_eq!(fitness, Fitness::Interrupted);
    }

    #[tokio::test]
    async fn without_limits_nothing_is_waited_for() {
        let (host, cancel) = (crate::host::local::open(), CancellationToken::new());
        let (before, fitness) = wait(
            &ValidityLimits::default(),
            &[(host.as_ref(), Device::Cpu)],
            &sharing(false),
            &cancel,
        )
        .await;
        assert_eq!(fitness, Fitness::Fit);
        assert!(before.waited_seconds < 1e-9 && before.host_available_bytes.is_some());
    }
}

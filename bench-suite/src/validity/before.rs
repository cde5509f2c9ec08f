//! The wait for a machine that is idle enough.

use std::time::{Duration, Instant};

use protocol::Device;
use record::{Before, ValidityLimits};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::processes;
use crate::host::Host;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// What a wait came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Fitness {
    /// The machine is fit.
    Fit,
    /// It was not within the time, in words.
    Busy(String),
    /// The GPU is lost, in words.
    Lost(String),
    /// The session was interrupted.
    Interrupted,
}

/// Waits until the machine is fit to measure on, at most as long as the limits say.
pub(crate) async fn wait(
    limits: &ValidityLimits,
    host: &dyn Host,
    device: Device,
    shares_gpu: bool,
    cancel: &CancellationToken,
) -> (Before, Fitness) {
    let began = Instant::now();
    let patience = Duration::try_from_secs_f64(limits.wait_seconds).unwrap_or_default();
    let mut waited_for = Vec::new();
    // The load is read only where it is asked for.
    let with_load = limits.host_busy_percent.is_some();
    loop {
        let mut before = match host.state(device, with_load).await {
            Ok(before) => before,
            Err(lost) => return (Before::default(), Fitness::Lost(lost)),
        };
        let found = obstacles(limits, &before, shares_gpu, host);
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

/// What keeps the machine from being fit. Whoever shares a GPU has agreed to its being in use.
fn obstacles(
    limits: &ValidityLimits,
    before: &Before,
    shares_gpu: bool,
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
    if !shares_gpu {
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
    over(
        before.host_busy_percent,
        limits.host_busy_percent,
        &|value, limit| format!("{value:.0} % of the host's CPUs are in use (limit {limit} %)"),
    );
    if let (Some(pids), Some(most), false) =
        (&before.gpu_processes, limits.gpu_processes, shares_gpu)
        && pids.len() > most as usize
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

    fn check(before: &Before, shares_gpu: bool, expect: &[&str]) {
        let limits = ValidityLimits {
            host_busy_percent: Some(20.0),
            ..ValidityLimits::default()
        };
        let host = crate::host::open();
        assert_eq!(
            obstacles(&limits, before, shares_gpu, host.as_ref()),
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
        check(
            &busy,
            true,
            &[
                "the GPU is at 81 °C (limit 75 °C)",
                "55 % of the host's CPUs are in use (limit 20 %)",
            ],
        );
    }

    #[tokio::test]
    async fn a_host_that_stays_busy_is_waited_for_and_then_told() {
        // More than nothing is always in use on a machine that runs this test.
        let limits = ValidityLimits {
            wait_seconds: 0.8,
            host_busy_percent: Some(-1.0),
            ..ValidityLimits::default()
        };
        let (host, cancel) = (crate::host::open(), CancellationToken::new());
        let (before, fitness) = wait(&limits, host.as_ref(), Device::Cpu, false, &cancel).await;
        let Fitness::Busy(words) = fitness else {
            panic!("{fitness:?}")
        };
        assert!(words.contains("within 0.8 s: "), "{words}");
        assert!(before.waited_seconds >= 0.8 && before.waited_for.len() == 1);

        cancel.cancel();
        let (_, fitness) = wait(&limits, host.as_ref(), Device::Cpu, false, &cancel).await;
        assert_eq!(fitness, Fitness::Interrupted);
    }

    #[tokio::test]
    async fn without_limits_nothing_is_waited_for() {
        let (host, cancel) = (crate::host::open(), CancellationToken::new());
        let (before, fitness) = wait(
            &ValidityLimits::default(),
            host.as_ref(),
            Device::Cpu,
            false,
            &cancel,
        )
        .await;
        assert_eq!(fitness, Fitness::Fit);
        assert!(before.waited_seconds < 1e-9 && before.host_available_bytes.is_some());
    }
}

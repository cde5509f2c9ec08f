//! The whole machine: what everything on it uses, and what is left.

use std::path::Path;

use procfs::{CpuTime, Current as _, CurrentSI as _, KernelStats, MemoryPressure};
use record::Sampled;

use super::facts;
use crate::host::Samples;

/// CPU times of the host since it started, in ticks summed over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    busy: u64,
    total: u64,
}

impl Times {
    /// Of now; `None` where `/proc/stat` cannot be read.
    pub(super) fn now() -> Option<Self> {
        KernelStats::current()
            .ok()
            .map(|stats| Self::of(&stats.total))
    }

    /// Guests are part of user (proc(5)). Time that the hypervisor gave to others is as lost as
    /// time that others here took.
    fn of(time: &CpuTime) -> Self {
        let rest = [time.irq, time.softirq, time.steal];
        let rest: u64 = rest.into_iter().flatten().sum();
        let busy = time.user + time.nice + time.system + rest;
        Self {
            busy,
            total: busy + time.idle + time.iowait.unwrap_or(0),
        }
    }

    /// Share of all CPUs in use since `before`, from 0 to 1.
    pub(super) fn busy_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        let busy = self.busy.checked_sub(before.busy)?;
        (total > 0).then(|| busy as f64 / total as f64)
    }
}

#[derive(Debug)]
pub(super) struct SystemMonitor {
    cpus: f64,
    last: Option<Times>,
    /// When the first sample was taken, and how long something had waited for memory then.
    stalled: Option<(f64, u64)>,
}

impl SystemMonitor {
    pub(super) fn new() -> Self {
        Self {
            cpus: cpus(),
            last: Times::now(),
            stalled: None,
        }
    }

    /// `own` is what the run itself used since the last sample, in CPUs' worth.
    pub(super) fn sample(&mut self, at: f64, own: Option<f64>, samples: &mut Samples) {
        let now = Times::now();
        if let (Some(now), Some(before)) = (now, self.last)
            && let Some(share) = now.busy_since(before)
        {
            let busy = share * self.cpus;
            let others = own.map(|own| (busy - own).max(0.0));
            samples.push(Sampled::HostBusyCores, at, Some(busy));
            samples.push(Sampled::OtherCores, at, others);
        }
        self.last = now;
        let available = facts::meminfo(Path::new("/"), "MemAvailable:").map(|bytes| bytes as f64);
        samples.push(Sampled::HostAvailableBytes, at, available);
        if let Ok(pressure) = MemoryPressure::current() {
            // Microseconds in which at least one task has waited, since the machine started.
            let total = pressure.some.total;
            let (began, first) = *self.stalled.get_or_insert((at, total));
            if at > began {
                let stalled = total.saturating_sub(first) as f64 / 1e6;
                let percent = (100.0 * stalled / (at - began)).min(100.0);
                samples.rest.memory_stall_percent = Some(percent);
            }
        }
    }
}

/// CPUs of the whole machine, whatever part of them this process may use.
pub(super) fn cpus() -> f64 {
    let cpus = KernelStats::current().map_or(1, |stats| stats.cpu_time.len());
    cpus.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let times = |busy, total| Times { busy, total };
        let share = times(290, 1200).busy_since(times(200, 1000)).unwrap();
        assert!((share - 0.45).abs() < 1e-12, "{share}");
        assert_eq!(times(200, 1000).busy_since(times(290, 1200)), None);
        assert_eq!(times(200, 1000).busy_since(times(200, 1000)), None);
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let mut system = SystemMonitor::new();
        let mut samples = Samples::default();
        for at in [0.0, 0.1, 0.2] {
            system.sample(at, Some(0.0), &mut samples);
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        let monitor = samples.monitor();
        assert!(monitor.get(Sampled::HostAvailableBytes).unwrap().minimum > 1e6);
        assert!(monitor.get(Sampled::HostBusyCores).unwrap().maximum <= cpus() + 1e-9);
    }
}

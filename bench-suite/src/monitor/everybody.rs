//! The whole host: what everybody on it uses, and what is left.

use std::{
    fs,
    path::{Path, PathBuf},
};

use record::Monitor;

use super::Column;

/// CPU times of the host since it started, in ticks summed over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    busy: u64,
    total: u64,
}

impl Times {
    /// Of now; `None` where `/proc/stat` cannot be read.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?;
        let mut ticks = fields.split_ascii_whitespace().map(str::parse::<u64>);
        // user nice system idle iowait irq softirq steal; guests are part of user (proc(5)). Time
        // that the hypervisor gave to others is as lost as time that others here took.
        let mut next = || ticks.next()?.ok();
        let working = next()? + next()? + next()?;
        let idle = next()? + next()?;
        let rest = next()? + next()? + next().unwrap_or(0);
        Some(Self {
            busy: working + rest,
            total: working + idle + rest,
        })
    }

    /// Share of all CPUs in use since `before`, from 0 to 1.
    pub(crate) fn busy_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        let busy = self.busy.checked_sub(before.busy)?;
        (total > 0).then(|| busy as f64 / total as f64)
    }
}

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Everybody {
    root: PathBuf,
    cpus: f64,
    last: Option<Times>,
    busy: Column,
    others: Column,
    available: Column,
    stalled: Option<(f64, u64)>,
    stall_percent: Option<f64>,
}

impl Everybody {
    pub(super) fn new() -> Self {
        Self {
            root: PathBuf::from("/"),
            cpus: cpus(),
            last: Times::now(),
            busy: Column::default(),
            others: Column::default(),
            available: Column::default(),
            stalled: None,
            stall_percent: None,
        }
    }

    /// `own` is what the run itself used since the last sample, in CPUs' worth.
    pub(super) fn sample(&mut self, at: f64, own: Option<f64>) {
        let now = Times::now();
        // Ticks are a hundredth of a second: over less than a few, a share is noise.
        if let (Some(now), Some(before)) = (now, self.last)
            && let Some(share) = now.busy_since(before)
        {
            let busy = share * self.cpus;
            self.busy.push(at, Some(busy));
            self.others.push(at, own.map(|own| (busy - own).max(0.0)));
        }
        self.last = now;
        let available = crate::machine::available_memory_bytes();
        self.available.push(at, available.map(|bytes| bytes as f64));
        if let Some(total) = stalled_microseconds(&self.root) {
            let (began, first) = *self.stalled.get_or_insert((at, total));
            if at > began {
                let stalled = total.saturating_sub(first) as f64 / 1e6;
                self.stall_percent = Some((100.0 * stalled / (at - began)).min(100.0));
            }
        }
    }

    pub(super) fn finish(self, monitor: &mut Monitor) {
        monitor.host_busy_cores = self.busy.series();
        monitor.other_cores = self.others.series();
        monitor.host_available_bytes = self.available.series();
        monitor.memory_stall_percent = self.stall_percent;
    }
}

/// CPUs of the whole host, whatever part of them this process may use.
pub(crate) fn cpus() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbered = |line: &&str| {
        let number = line
            .strip_prefix("cpu")
            .and_then(|rest| rest.chars().next());
        number.is_some_and(|first| first.is_ascii_digit())
    };
    (text.lines().filter(numbered).count().max(1)) as f64
}

/// Time that at least one task on the host has waited for memory, since the host started; `None`
/// where the kernel does not count it.
fn stalled_microseconds(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/pressure/memory")).ok()?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        let before = Times::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2\n").unwrap();
        let after = Times::parse("cpu  150 0 120 900 10 0 0 20 0 0\n").unwrap();
        let share = after.busy_since(before).unwrap();
        assert!((share - 0.45).abs() < 1e-12, "{share}");
        assert_eq!(before.busy_since(after), None);
        assert_eq!(before.busy_since(before), None);
        assert_eq!(Times::parse("intr 1 2 3"), None);
    }

    #[test]
    fn pressure_is_read_where_the_kernel_has_it() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(stalled_microseconds(root.path()), None);
        fs::create_dir_all(root.path().join("proc/pressure")).unwrap();
        fs::write(
            root.path().join("proc/pressure/memory"),
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=7\n",
        )
        .unwrap();
        assert_eq!(stalled_microseconds(root.path()), Some(1234));
    }

    #[test]
    fn this_host_has_cpus_and_memory() {
        let mut everybody = Everybody::new();
        for at in [0.0, 0.1, 0.2] {
            everybody.sample(at, Some(0.0));
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        let mut monitor = Monitor::default();
        everybody.finish(&mut monitor);
        assert!(monitor.host_available_bytes.unwrap().minimum > 1e6);
        assert!(monitor.host_busy_cores.unwrap().maximum <= cpus() + 1e-9);
    }
}

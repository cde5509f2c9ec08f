//! What the kernel says about this process. `None` where it does not say.

use std::{fmt, fs, time::Duration};

/// Most resident bytes of the process so far: `VmHWM` of `/proc/self/status`.
pub fn peak_resident_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// How long ago the kernel started this process: field 22 of `/proc/self/stat` against
/// `/proc/uptime`, in the hundredths of a second that both are counted in.
pub fn since_process_start() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    age(&stat, &uptime)
}

/// CPU time of the process so far, all threads together, in seconds: fields 14 and 15 of
/// `/proc/self/stat`, in hundredths.
pub fn cpu_seconds() -> Option<f64> {
    cpu_seconds_of("self")
}

/// As [`cpu_seconds`], of another process.
pub fn cpu_seconds_of(process: impl fmt::Display) -> Option<f64> {
    cpu_time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Bytes of memory that this process may still take: what the machine has available, and what its
/// cgroup leaves it (`memory.max`).
pub fn available_bytes() -> Option<u64> {
    let machine = kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let group = |file: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?;
        text.trim().parse().ok()
    };
    let left = group("memory.max").zip(group("memory.current"));
    Some(left.map_or(machine, |(most, held)| {
        machine.min(most.saturating_sub(held))
    }))
}

/// The bytes on the line that begins so.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

pub fn between(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some((after? - before?).max(0.0))
}

fn cpu_time(stat: &str) -> Option<f64> {
    let mut fields = after_name(stat)?.skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// The kernel's `USER_HZ` is 100 on every architecture that libtorch runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The fields from the third on: the command's name in brackets, which may hold spaces, is the
/// second.
fn after_name(stat: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

fn age(stat: &str, uptime: &str) -> Option<Duration> {
    let began: f64 = after_name(stat)?.nth(19)?.parse().ok()?;
    let now: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64((now - began / TICKS_PER_SECOND).max(0.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_read() {
        assert_eq!(
            kib(
                "VmPeak:\t  99 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n",
                "VmHWM:"
            ),
            Some(2 << 20)
        );
        assert_eq!(kib("VmRSS:\t 1 kB\n", "VmHWM:"), None);
        assert_eq!(
            kib("MemTotal: 9 kB\nMemAvailable:   4 kB\n", "MemAvailable:"),
            Some(4096)
        );
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1250 20";
        assert_eq!(age(stat, "14.75 3.00\n"), Some(Duration::from_millis(2250)));
        assert_eq!(age("nonsense", "14.75"), None);
        assert_eq!(cpu_time(stat), Some(0.23));
        assert_eq!(cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_metrics() {
        assert!(peak_resident_bytes().unwrap() > 1 << 20);
        assert!(available_bytes().unwrap() > 1 << 20);
        let before = cpu_seconds().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(100) {}
        let took = cpu_seconds().unwrap() - before;
        assert!((0.02..60.0).contains(&took), "{took}");
        assert!(since_process_start().unwrap() < Duration::from_hours(1));
    }
}

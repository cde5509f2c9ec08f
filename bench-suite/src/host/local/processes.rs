//! Memory, CPU time and threads of a run, out of `/proc` and the cgroup's files.

use std::{collections::HashSet, fs, path::Path};

use procfs::process::Process;
use record::Sampled;

use super::cgroup::{Cgroup, Reading};
use crate::host::{Samples, Target};

/// Whether this process is the run's; `None` where it cannot be seen from here.
pub(super) fn owns(target: &Target, pid: u32) -> Option<bool> {
    match target {
        Target::Process { pid: leader } => {
            let stat = process(pid)?.stat().ok()?;
            Some(u32::try_from(stat.pgrp).ok()? == *leader)
        }
        Target::Container { id, .. } => {
            let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
            Some(cgroup.contains(id.as_str()))
        }
    }
}

/// Where readings of a run come from.
#[derive(Debug)]
pub(super) enum Source {
    Processes(u32),
    Cgroup(Cgroup),
    None,
}

impl Source {
    pub(super) fn of(target: &Target) -> Self {
        match target {
            Target::Process { pid } => Self::Processes(*pid),
            Target::Container { id, pid } => pid
                .and_then(|pid| Cgroup::of(Path::new("/"), pid, id))
                .map_or(Self::None, Self::Cgroup),
        }
    }
}

#[derive(Debug)]
pub(super) struct RunMonitor {
    source: Source,
    last_cpu: Option<(f64, f64)>,
}

impl RunMonitor {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            source: Source::of(target),
            last_cpu: None,
        }
    }

    /// Takes one sample, and gives the CPUs' worth of time used since the last.
    pub(super) fn sample(&mut self, at: f64, samples: &mut Samples) -> Option<f64> {
        let reading = match &self.source {
            Source::Processes(pid) => processes(*pid),
            Source::Cgroup(cgroup) => cgroup.read(),
            Source::None => return None,
        };
        samples.push(Sampled::MemoryBytes, at, reading.memory_bytes);
        samples.push(Sampled::Pids, at, reading.pids);
        // The last that could be read stays: a process that ended has no more to tell.
        if let Some((read, written)) = reading.io {
            samples.rest.read_bytes = Some(read);
            samples.rest.written_bytes = Some(written);
        }
        let cpu = reading.cpu_seconds?;
        let cores = self.last_cpu.filter(|(then, _)| at > *then);
        // A child that ended takes its time out of the sum.
        let cores = cores.map(|(then, before)| (cpu - before).max(0.0) / (at - then));
        samples.push(Sampled::CpuCores, at, cores);
        self.last_cpu = Some((at, cpu));
        cores
    }
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// Sums over a process and its descendants. Bytes read and written are the process's own; its
/// children's follow when they are reaped.
fn processes(leader: u32) -> Reading {
    let (mut pages, mut ticks, mut threads) = (0, 0, 0);
    let mut seen = HashSet::new();
    let mut open = vec![leader];
    while let Some(pid) = open.pop() {
        let Some(process) = process(pid).filter(|_| seen.insert(pid)) else {
            continue;
        };
        let Ok(stat) = process.stat() else { continue };
        ticks += stat.utime + stat.stime;
        threads += stat.num_threads;
        pages += process.statm().map_or(0, |memory| memory.resident);
        let children = process.task_main_thread().and_then(|main| main.children());
        open.extend(children.unwrap_or_default());
    }
    if threads == 0 {
        return Reading::default();
    }
    let io = process(leader).and_then(|process| process.io().ok());
    Reading {
        memory_bytes: Some((pages * procfs::page_size()) as f64).filter(|bytes| *bytes > 0.0),
        cpu_seconds: Some(ticks as f64 / procfs::ticks_per_second() as f64),
        pids: Some(threads as f64),
        io: io.map(|io| (io.read_bytes, io.write_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_is_its_own() {
        let pid = std::process::id();
        let reading = processes(pid);
        assert!(reading.memory_bytes.unwrap() > 1e5);
        assert!(reading.pids.unwrap() >= 1.0);
        let group = process(pid).unwrap().stat().unwrap().pgrp.cast_unsigned();
        let own = Target::Process { pid: group };
        assert_eq!(owns(&own, pid), Some(true));
        assert_eq!(owns(&own, 1).unwrap_or(false), group == 1);
        let container = Target::Container {
            id: "0123456789abcdef".into(),
            pid: None,
        };
        assert_eq!(owns(&container, pid), Some(false));
        assert_eq!(owns(&container, u32::MAX), None);
    }
}

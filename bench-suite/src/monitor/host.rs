//! Memory, CPU time and threads of a run, out of `/proc` and the cgroup's files.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use record::Monitor;

use super::Column;
use crate::live;

/// Whom to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process and its descendants, in a process group of their own.
    Process {
        /// The group's leader.
        pid: u32,
    },
    /// A container on this machine.
    Container {
        /// The engine's ID, which is part of its cgroup's name.
        id: String,
        /// Its main process, as seen from this machine.
        pid: Option<u32>,
    },
}

impl Target {
    /// Whether this process is the run's; `None` where it cannot be seen from here.
    pub(super) fn owns(&self, pid: u32) -> Option<bool> {
        match self {
            Self::Process { pid: leader } => Some(stat(pid)?.group == *leader),
            Self::Container { id, .. } => {
                let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
                Some(cgroup.contains(id.as_str()))
            }
        }
    }
}

impl Target {
    /// Whether its memory and CPU time can be read from here.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        !matches!(Source::of(self), Source::None)
    }
}

/// One reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reading {
    memory_bytes: Option<f64>,
    cpu_seconds: Option<f64>,
    pids: Option<f64>,
    io: Option<(u64, u64)>,
}

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Host {
    source: Source,
    memory: Column,
    cores: Column,
    pids: Column,
    last_cpu: Option<(f64, f64)>,
    io: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Source {
    Processes(u32),
    Cgroup(Cgroup),
    None,
}

impl Source {
    fn of(target: &Target) -> Self {
        match target {
            Target::Process { pid } => Self::Processes(*pid),
            Target::Container { id, pid } => pid
                .and_then(|pid| Cgroup::of(Path::new("/"), pid, id))
                .map_or(Self::None, Self::Cgroup),
        }
    }
}

impl Host {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            source: Source::of(target),
            memory: Column::default(),
            cores: Column::default(),
            pids: Column::default(),
            last_cpu: None,
            io: None,
        }
    }

    /// Takes one sample, and gives the CPUs' worth of time used since the last.
    pub(super) fn sample(&mut self, at: f64) -> Option<f64> {
        let reading = match &self.source {
            Source::Processes(pid) => processes(*pid),
            Source::Cgroup(cgroup) => cgroup.read(),
            Source::None => return None,
        };
        self.memory.push(at, reading.memory_bytes);
        self.pids.push(at, reading.pids);
        // The last that could be read: a process that ended has no more to tell.
        self.io = reading.io.or(self.io);
        let cpu = reading.cpu_seconds?;
        let cores = self.last_cpu.filter(|(then, _)| at > *then);
        // A child that ended takes its time out of the sum.
        let cores = cores.map(|(then, before)| (cpu - before).max(0.0) / (at - then));
        self.cores.push(at, cores);
        self.last_cpu = Some((at, cpu));
        cores
    }

    /// The newest readings.
    pub(super) fn tell(&self, reading: &mut live::Reading) {
        reading.memory_bytes = self.memory.last();
        reading.cpu_cores = self.cores.last();
        reading.pids = self.pids.last();
    }

    pub(super) fn finish(self, monitor: &mut Monitor) {
        monitor.memory_bytes = self.memory.series();
        monitor.cpu_cores = self.cores.series();
        monitor.pids = self.pids.series();
        monitor.read_bytes = self.io.map(|(read, _)| read);
        monitor.written_bytes = self.io.map(|(_, written)| written);
    }
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    group: u32,
    cpu_ticks: u64,
    threads: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The fields behind the name, which itself may hold anything, `)` and spaces included (proc(5)).
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Stat {
        group: fields.get(2)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        threads: number(17)?,
    })
}

/// Sums over a process and its descendants.
fn processes(leader: u32) -> Reading {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page = rustix::param::page_size() as f64;
    let (mut memory, mut cpu, mut threads) = (0.0, 0.0, 0.0);
    let mut seen = HashSet::new();
    let mut open = vec![leader];
    while let Some(pid) = open.pop() {
        let Some(stat) = stat(pid).filter(|_| seen.insert(pid)) else {
            continue;
        };
        cpu += stat.cpu_ticks as f64 / ticks;
        threads += stat.threads as f64;
        let pages = fs::read_to_string(format!("/proc/{pid}/statm"))
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        memory += pages.unwrap_or(0) as f64 * page;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        open.extend(
            children
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    if threads == 0.0 {
        return Reading::default();
    }
    Reading {
        memory_bytes: Some(memory).filter(|bytes| *bytes > 0.0),
        cpu_seconds: Some(cpu),
        pids: Some(threads),
        io: process_io(leader),
    }
}

/// Bytes that a process itself read from and wrote to block devices; its children's follow when
/// they are reaped.
fn process_io(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((field("read_bytes:")?, field("write_bytes:")?))
}

/// Members of a process group that are still there.
pub(crate) fn group_members(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.group == group))
        .collect()
}

/// The files of a container's control group, of either version.
#[derive(Debug, PartialEq, Eq)]
enum Cgroup {
    V2(PathBuf),
    V1 {
        memory: Option<PathBuf>,
        cpu: Option<PathBuf>,
        pids: Option<PathBuf>,
        blkio: Option<PathBuf>,
    },
}

impl Cgroup {
    /// Of the container's main process, as far as the files can be read from here.
    fn of(root: &Path, pid: u32, id: &str) -> Option<Self> {
        let text = fs::read_to_string(root.join(format!("proc/{pid}/cgroup"))).ok()?;
        let mount = root.join("sys/fs/cgroup");
        let mut v1 = [None, None, None, None];
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            // Elsewhere the process would be counted together with others.
            if !path.contains(id) {
                continue;
            }
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                let folder = mount.join(path);
                if folder.join("memory.current").exists() {
                    return Some(Self::V2(folder));
                }
                continue;
            }
            let names = ["memory", "cpuacct", "pids", "blkio"];
            for (slot, name) in v1.iter_mut().zip(names) {
                if controllers.split(',').any(|controller| controller == name) {
                    let folders = [mount.join(controllers), mount.join(name)];
                    *slot = folders
                        .into_iter()
                        .map(|folder| folder.join(path))
                        .find(|f| f.exists());
                }
            }
        }
        let [memory, cpu, pids, blkio] = v1;
        memory.is_some().then_some(Self::V1 {
            memory,
            cpu,
            pids,
            blkio,
        })
    }

    fn read(&self) -> Reading {
        match self {
            Self::V2(folder) => Reading {
                memory_bytes: used(
                    number(&folder.join("memory.current")),
                    field(&folder.join("memory.stat"), "inactive_file"),
                ),
                cpu_seconds: field(&folder.join("cpu.stat"), "usage_usec").map(|us| us / 1e6),
                pids: number(&folder.join("pids.current")),
                io: fs::read_to_string(folder.join("io.stat"))
                    .ok()
                    .map(|text| (sum_v2(&text, "rbytes="), sum_v2(&text, "wbytes="))),
            },
            Self::V1 {
                memory,
                cpu,
                pids,
                blkio,
            } => Reading {
                memory_bytes: memory.as_ref().and_then(|folder| {
                    used(
                        number(&folder.join("memory.usage_in_bytes")),
                        field(&folder.join("memory.stat"), "total_inactive_file"),
                    )
                }),
                cpu_seconds: cpu
                    .as_ref()
                    .and_then(|folder| number(&folder.join("cpuacct.usage")))
                    .map(|ns| ns / 1e9),
                pids: pids
                    .as_ref()
                    .and_then(|folder| number(&folder.join("pids.current"))),
                io: blkio.as_ref().and_then(|folder| {
                    let file = folder.join("blkio.throttle.io_service_bytes");
                    let text = fs::read_to_string(file).ok()?;
                    Some((sum_v1(&text, "Read"), sum_v1(&text, "Write")))
                }),
            },
        }
    }
}

/// Sum over devices of one key of `io.stat`: `8:0 rbytes=90 wbytes=0 rios=2 …` a line.
fn sum_v2(text: &str, key: &str) -> u64 {
    text.split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok())
        .sum()
}

/// Sum over devices of one kind of `blkio.throttle.io_service_bytes`: `8:0 Read 90` a line.
fn sum_v1(text: &str, kind: &str) -> u64 {
    text.lines()
        .filter_map(|line| {
            let (rest, bytes) = line.rsplit_once(' ')?;
            rest.ends_with(kind).then(|| bytes.parse::<u64>().ok())?
        })
        .sum()
}

/// Memory in use less the file cache that can be given back at once, as engines show it.
fn used(usage: Option<f64>, cache: Option<f64>) -> Option<f64> {
    usage.map(|usage| (usage - cache.unwrap_or(0.0)).max(0.0))
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(path: &Path, name: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_name_does_not_confuse_its_numbers() {
        let text = "42 (a) b (c) S 1 40 40 0 -1 4194304 1 2 3 4 70 30 0 0 20 0 5 0 100 1 1";
        assert_eq!(
            parse_stat(text),
            Some(Stat {
                group: 40,
                cpu_ticks: 100,
                threads: 5
            })
        );
        assert_eq!(parse_stat("garbage"), None);
    }

    #[test]
    fn this_process_uses_memory_and_is_its_own() {
        let pid = std::process::id();
        let reading = processes(pid);
        assert!(reading.memory_bytes.unwrap() > 1e5);
        assert!(reading.pids.unwrap() >= 1.0);
        let group = stat(pid).unwrap().group;
        assert!(group_members(group).contains(&pid));
        assert_eq!(Target::Process { pid: group }.owns(pid), Some(true));
        assert_eq!(
            Target::Process { pid: group }.owns(1).unwrap_or(false),
            group == 1
        );
        let container = Target::Container {
            id: "0123456789abcdef".into(),
            pid: None,
        };
        assert_eq!(container.owns(pid), Some(false));
        assert_eq!(container.owns(u32::MAX), None);
    }

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/7/cgroup", "0::/system.slice/docker-abc.scope\n");
        let folder = "sys/fs/cgroup/system.slice/docker-abc.scope";
        put(&format!("{folder}/memory.current"), "1000\n");
        put(
            &format!("{folder}/memory.stat"),
            "anon 1\ninactive_file 200\n",
        );
        put(
            &format!("{folder}/cpu.stat"),
            "usage_usec 2500000\nuser_usec 1\n",
        );
        put(&format!("{folder}/pids.current"), "3\n");
        put(
            &format!("{folder}/io.stat"),
            "8:0 rbytes=90 wbytes=5 rios=1\n8:16 rbytes=10 wbytes=0\n",
        );
        let expect = Reading {
            memory_bytes: Some(800.0),
            cpu_seconds: Some(2.5),
            pids: Some(3.0),
            io: Some((100, 5)),
        };
        assert_eq!(Cgroup::of(root.path(), 7, "abc").unwrap().read(), expect);
        assert_eq!(Cgroup::of(root.path(), 7, "xyz"), None);

        put(
            "proc/8/cgroup",
            "9:memory:/docker/abc\n8:blkio:/docker/abc\n5:cpu,cpuacct:/docker/abc\n3:pids:/docker/abc\n0::/docker/abc\n",
        );
        put(
            "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes",
            "1000\n",
        );
        put(
            "sys/fs/cgroup/memory/docker/abc/memory.stat",
            "total_inactive_file 200\n",
        );
        put(
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpuacct.usage",
            "2500000000\n",
        );
        put("sys/fs/cgroup/pids/docker/abc/pids.current", "3\n");
        put(
            "sys/fs/cgroup/blkio/docker/abc/blkio.throttle.io_service_bytes",
            "8:0 Read 100\n8:0 Write 5\n8:0 Total 105\nTotal 105\n",
        );
        assert_eq!(Cgroup::of(root.path(), 8, "abc").unwrap().read(), expect);
    }
}

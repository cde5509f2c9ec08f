//! The files of a container's control group, of either version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use procfs::{FromBufRead as _, ProcessCGroups};

/// What is read of a run at once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) memory_bytes: Option<f64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) pids: Option<f64>,
    /// Bytes read from and written to block devices.
    pub(super) io: Option<(u64, u64)>,
}

/// Where the files of each controller lie; in version 2 all in one folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroup {
    is_v2: bool,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    pids: Option<PathBuf>,
    blkio: Option<PathBuf>,
}

impl Cgroup {
    /// Of the container's main process, as far as the files can be read from here.
    pub(super) fn of(root: &Path, pid: u32, id: &str) -> Option<Self> {
        let text = fs::read(root.join(format!("proc/{pid}/cgroup"))).ok()?;
        let groups = ProcessCGroups::from_buf_read(&*text).ok()?;
        let mount = root.join("sys/fs/cgroup");
        let mut found = Self::default();
        // Elsewhere the process would be counted together with others.
        for group in groups.0.iter().filter(|group| group.pathname.contains(id)) {
            let path = group.pathname.trim_start_matches('/');
            if group.controllers.is_empty() {
                let folder = mount.join(path);
                if folder.join("memory.current").exists() {
                    let folder = || Some(folder.clone());
                    return Some(Self {
                        is_v2: true,
                        memory: folder(),
                        cpu: folder(),
                        pids: folder(),
                        blkio: folder(),
                    });
                }
                continue;
            }
            for name in &group.controllers {
                let slot = match name.as_str() {
                    "memory" => &mut found.memory,
                    "cpuacct" => &mut found.cpu,
                    "pids" => &mut found.pids,
                    "blkio" => &mut found.blkio,
                    _ => continue,
                };
                let folders = [group.controllers.join(","), name.clone()];
                let folders = folders.map(|folder| mount.join(folder).join(path));
                *slot = folders.into_iter().find(|folder| folder.exists());
            }
        }
        found.memory.is_some().then_some(found)
    }

    pub(super) fn read(&self) -> Reading {
        let file = |folder: &Option<PathBuf>, v1, v2| {
            let name = if self.is_v2 { v2 } else { v1 };
            folder.as_ref().map(|folder| folder.join(name))
        };
        let (cache, read, written) = if self.is_v2 {
            ("inactive_file", "rbytes=", "wbytes=")
        } else {
            ("total_inactive_file", "Read ", "Write ")
        };
        let usage = file(&self.memory, "memory.usage_in_bytes", "memory.current");
        let stat = file(&self.memory, "memory.stat", "memory.stat");
        let cpu = file(&self.cpu, "cpuacct.usage", "cpu.stat");
        let io = file(&self.blkio, "blkio.throttle.io_service_bytes", "io.stat");
        let io = io.and_then(|file| fs::read_to_string(file).ok());
        Reading {
            // Less the file cache that can be given back at once, as engines show it.
            memory_bytes: usage.and_then(|file| number(&file)).map(|usage| {
                let cache = stat.and_then(|file| field(&file, cache));
                (usage - cache.unwrap_or(0.0)).max(0.0)
            }),
            cpu_seconds: if self.is_v2 {
                cpu.and_then(|file| field(&file, "usage_usec"))
                    .map(|us| us / 1e6)
            } else {
                cpu.and_then(|file| number(&file)).map(|ns| ns / 1e9)
            },
            pids: file(&self.pids, "pids.current", "pids.current").and_then(|file| number(&file)),
            io: io.map(|text| (sum(&text, read), sum(&text, written))),
        }
    }
}

/// Sum over devices of what follows `key`: in `io.stat` `8:0 rbytes=90 wbytes=0 …` a line, in
/// `blkio.throttle.io_service_bytes` `8:0 Read 90`.
fn sum(text: &str, key: &str) -> u64 {
    let numbers = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(key)?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    numbers.sum()
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

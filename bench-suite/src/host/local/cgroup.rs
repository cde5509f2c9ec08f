//! The files of a container's control group, of either version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::processes::Reading;

/// The files of a container's control group, of either version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cgroup {
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
    pub(super) fn of(root: &Path, pid: u32, id: &str) -> Option<Self> {
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

    pub(super) fn read(&self) -> Reading {
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

//! Who made a container, and whether they are still there.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _};

/// Label with the session that made the container.
pub const LABEL_SESSION: &str = "org.torchgauge.session";
/// Label with the run that the container is for.
pub const LABEL_RUN: &str = "org.torchgauge.run";
/// Label with the process id of the maker.
pub const LABEL_PID: &str = "org.torchgauge.pid";
/// Label with the start of the maker, so that a recycled process id is told apart:
/// boot id, process-id namespace and clock ticks since boot, joined by `/`.
pub const LABEL_START: &str = "org.torchgauge.start";
/// Label with the machine of the maker.
pub const LABEL_HOST: &str = "org.torchgauge.host";

/// The process that makes containers, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub session: String,
    /// Run, unique in the session.
    pub run: String,
    pub pid: u32,
    /// See [`LABEL_START`].
    pub start: String,
    /// Machine id, or the host name where there is none.
    pub host: String,
}

/// Whether the owner of a container is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The very process still runs.
    Alive,
    /// It does not run any more.
    Dead,
    /// It cannot be seen from here: another machine, another process-id namespace,
    /// or labels that cannot be read.
    Unknown,
}

impl Owner {
    pub fn this_process(session: &str, run: &str) -> Self {
        let pid = std::process::id();
        Self {
            session: session.to_owned(),
            run: run.to_owned(),
            pid,
            start: format!(
                "{}/{}/{}",
                boot_id(),
                pid_namespace(),
                start_ticks(pid).unwrap_or(0)
            ),
            host: host(),
        }
    }

    /// Labels for [`crate::ContainerSpec::labels`].
    pub fn labels(&self) -> BTreeMap<String, String> {
        [
            (LABEL_SESSION, self.session.clone()),
            (LABEL_RUN, self.run.clone()),
            (LABEL_PID, self.pid.to_string()),
            (LABEL_START, self.start.clone()),
            (LABEL_HOST, self.host.clone()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// The owner in a container's labels; `None` where they are not ours or not whole.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        let label = |key| labels.get(key).cloned();
        Some(Self {
            session: label(LABEL_SESSION)?,
            run: label(LABEL_RUN)?,
            pid: label(LABEL_PID)?.parse().ok()?,
            start: label(LABEL_START)?,
            host: label(LABEL_HOST)?,
        })
    }

    /// Whether the owner still runs, as far as can be seen from this process.
    pub fn liveness(&self) -> Liveness {
        let parts: Vec<&str> = self.start.split('/').collect();
        let [boot, namespace, ticks] = parts[..] else {
            return Liveness::Unknown;
        };
        let Ok(ticks) = ticks.parse::<u64>() else {
            return Liveness::Unknown;
        };
        if self.host != host() || boot.is_empty() {
            return Liveness::Unknown;
        }
        // The machine has been started again since.
        if boot != boot_id() {
            return Liveness::Dead;
        }
        // A process of another container: its ids mean nothing here.
        if namespace != pid_namespace() {
            return Liveness::Unknown;
        }
        match start_ticks(self.pid) {
            Some(now) if now == ticks => Liveness::Alive,
            _ => Liveness::Dead,
        }
    }
}

fn boot_id() -> String {
    read("/proc/sys/kernel/random/boot_id")
}

fn host() -> String {
    let id = read("/etc/machine-id");
    if id.is_empty() {
        read("/proc/sys/kernel/hostname")
    } else {
        id
    }
}

fn pid_namespace() -> String {
    fs::metadata("/proc/self/ns/pid")
        .map_or_else(|_| "0".to_owned(), |facts| facts.ino().to_string())
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Field 22 of `/proc/PID/stat` (proc(5)): start in clock ticks since boot. `None`
/// where there is no such process, or only its corpse (a zombie).
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name, is in brackets and may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Owner), expect: Liveness) {
        let mut owner = Owner::this_process("s", "r");
        change(&mut owner);
        let read_back = Owner::from_labels(&owner.labels()).unwrap();
        assert_eq!(read_back, owner);
        assert_eq!(read_back.liveness(), expect, "{owner:?}");
    }

    /// With another part of its start: 0 the boot, 1 the namespace, 2 the ticks.
    fn with_other(part: usize) -> impl FnOnce(&mut Owner) {
        move |owner| {
            let mut parts: Vec<String> = owner.start.split('/').map(str::to_owned).collect();
            parts[part].push('1');
            owner.start = parts.join("/");
        }
    }

    #[test]
    fn only_what_is_surely_dead_is_dead() {
        check(|_| {}, Liveness::Alive);
        check(with_other(0), Liveness::Dead);
        check(with_other(1), Liveness::Unknown);
        check(with_other(2), Liveness::Dead);
        check(
            |owner| owner.host = "another machine".to_owned(),
            Liveness::Unknown,
        );
        check(
            |owner| owner.start = "garbage".to_owned(),
            Liveness::Unknown,
        );
        // Above every kernel's pid_max.
        check(|owner| owner.pid = 1 << 30, Liveness::Dead);
    }

    #[test]
    fn an_ended_child_is_dead_before_and_after_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        // A zombie until `wait`.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_ticks(pid).is_some() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(start_ticks(pid), None);
        child.wait().unwrap();
        assert_eq!(start_ticks(pid), None);
    }
}

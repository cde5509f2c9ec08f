//! What a container is to be: image, command, mounts, limits, hardening.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    gpu::GpuAccess,
};

/// Everything that [`crate::Engine::create`] needs to know. Whatever it says, the container runs as
/// an unprivileged user without capabilities or a network, on a root file system that is read-only,
/// with a memory file system on `/tmp`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContainerSpec {
    /// Name; the engine makes one up where `None`.
    pub name: Option<String>,
    /// Id or reference of an image that the engine has; nothing is pulled.
    pub image: String,
    /// Replaces the image's entry point where `Some`.
    pub entrypoint: Option<Vec<String>>,
    /// Replaces the image's command where not empty.
    pub command: Vec<String>,
    /// Added to the image's environment. The unprivileged user has no home: give
    /// `HOME` and cache folders a writable place.
    pub environment: BTreeMap<String, String>,
    /// Labels; [`crate::Owner::labels`] has those that sweeping needs.
    pub labels: BTreeMap<String, String>,
    /// Files and folders of the engine's machine.
    pub mounts: Vec<Mount>,
    /// What the container may use.
    pub limits: Limits,
    /// A GPU, by a path that [`crate::gpu::candidates`] finds possible.
    pub gpu: Option<GpuAccess>,
    /// Interprocess communication.
    pub ipc: Ipc,
    /// Run without an init process that passes signals on and reaps orphans: where the engine has
    /// none, see [`crate::Container::fallbacks`].
    pub without_init: bool,
}

/// A file or folder of the engine's machine, bound into the container.
///
/// A file that the container is to write must be there beforehand and be
/// writable for that user: create it, and give it mode 0666, or give it
/// to uid 65534 where the caller is root. Its folder can stay private.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the engine's machine; must exist.
    pub source: PathBuf,
    /// Absolute path in the container.
    pub target: String,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// What a container may use. `None`: no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory, swap included: none of it may be swapped.
    pub memory_bytes: Option<u64>,
    /// CPUs' worth of time, such as 1.5.
    pub cpus: Option<f64>,
    /// CPUs by number, such as `0-3,8`.
    pub cpuset: Option<String>,
    /// Size of `/dev/shm`; the engine's default (64 MiB) where `None`.
    pub shm_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Best effort: an engine may refuse them, see [`crate::Container::fallbacks`].
    pub ulimits: Vec<Ulimit>,
    /// Size of the memory file system on `/tmp`.
    pub tmp_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            cpus: None,
            cpuset: None,
            shm_bytes: None,
            // A fork bomb is stopped; libtorch on a machine of 256 CPUs is not.
            pids: Some(8192),
            ulimits: Vec::new(),
            tmp_bytes: None,
        }
    }
}

/// One resource limit, as in `ulimit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ulimit {
    /// Name without `RLIMIT_`, such as `memlock`, `nofile`, `stack`.
    pub name: String,
    /// Soft limit; -1 is unlimited.
    pub soft: i64,
    /// Hard limit; -1 is unlimited.
    pub hard: i64,
}

/// A container's interprocess communication: shared memory and `/dev/shm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipc {
    /// Its own.
    #[default]
    Private,
    /// The host's: `/dev/shm` is the host's, whatever `shm_bytes` says.
    Host,
}

/// How much log the engine keeps before it drops the oldest lines: several times what a run may
/// write before it is ended, so that its first lines are still there.
pub(crate) const LOG_BYTES: u64 = 128 << 20;

/// Docker refuses less.
const LEAST_MEMORY_BYTES: u64 = 6 << 20;

impl ContainerSpec {
    /// Finds what no engine could run, before anything is asked of one.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field, its value and what was expected.
    pub fn check(&self) -> Result<()> {
        let wrong = |field: &str, value: &dyn std::fmt::Display, expected: &str| {
            Err(Error::Spec {
                field: field.to_owned(),
                value: value.to_string(),
                expected: expected.to_owned(),
            })
        };
        if self.image.trim().is_empty() {
            return wrong("image", &"empty", "an id or a reference");
        }
        if let Some(name) = &self.name {
            let mut letters = name.chars();
            let first = letters.next().is_some_and(|c| c.is_ascii_alphanumeric());
            let rest = letters.all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
            if !first || !rest || name.len() < 2 || name.len() > 200 {
                let expected =
                    "2 to 200 of letters, digits, `_`, `.`, `-`, a letter or digit first";
                return wrong("name", &format!("`{name}`"), expected);
            }
        }
        for (key, value) in &self.environment {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                let expected = "a key without `=`, and no NUL in key or value";
                return wrong(
                    "environment",
                    &format!("`{}`", key.escape_debug()),
                    expected,
                );
            }
        }
        for mount in &self.mounts {
            let source = mount.source.to_string_lossy();
            if !mount.source.is_absolute() {
                return wrong("mounts.source", &format!("`{source}`"), "an absolute path");
            }
            // Podman hands mounts on as a line of comma-separated fields.
            if source.contains([',', '\n', '\0']) || mount.target.contains([',', '\n', '\0']) {
                let value = format!("`{}`", source.escape_debug());
                return wrong("mounts", &value, "paths without comma, line break or NUL");
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for target in self.mounts.iter().map(|mount| &mount.target) {
            let field = "mounts.target";
            let usable = target.starts_with('/') && target.len() > 1;
            if !usable || target.split('/').any(|part| part == "..") {
                return wrong(
                    field,
                    &format!("`{target}`"),
                    "an absolute path other than /",
                );
            }
            if !seen.insert(target.trim_end_matches('/')) {
                return wrong(field, &format!("`{target}`, twice"), "each path once");
            }
        }
        self.limits.check()
    }
}

impl Limits {
    fn check(&self) -> Result<()> {
        let wrong = |field: &str, value: String, expected: &str| {
            Err(Error::Spec {
                field: format!("limits.{field}"),
                value,
                expected: expected.into(),
            })
        };
        if let Some(bytes) = self.memory_bytes
            && !(LEAST_MEMORY_BYTES..=i64::MAX as u64).contains(&bytes)
        {
            return wrong("memory_bytes", bytes.to_string(), "at least 6 MiB");
        }
        if let Some(cpus) = self.cpus
            && !(0.01..=65536.0).contains(&cpus)
        {
            return wrong("cpus", cpus.to_string(), "at least 0.01");
        }
        if let Some(bytes) = self.shm_bytes
            && !(1..=i64::MAX as u64).contains(&bytes)
        {
            return wrong("shm_bytes", bytes.to_string(), "at least 1");
        }
        if let Some(bytes) = self.tmp_bytes
            && !(1..=i64::MAX as u64).contains(&bytes)
        {
            return wrong("tmp_bytes", bytes.to_string(), "at least 1");
        }
        if self.pids == Some(0) {
            return wrong("pids", "0".to_owned(), "at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ContainerSpec), expect: &str) {
        let mut spec = ContainerSpec {
            image: "image".to_owned(),
            ..Default::default()
        };
        spec.check().unwrap();
        change(&mut spec);
        let found = spec
            .check()
            .map_or_else(|error| error.to_string(), |()| "fine".to_owned());
        assert!(found.contains(expect), "{found}");
    }

    fn mount(source: &str, target: &str) -> Mount {
        Mount {
            source: source.into(),
            target: target.into(),
            read_only: true,
        }
    }

    #[test]
    fn impossible_specs_are_named() {
        check(|spec| spec.image.clear(), "image is empty");
        check(|spec| spec.name = Some("../x".into()), "name is `../x`");
        check(|spec| spec.name = Some("session-1.run_2".into()), "fine");
        check(
            |spec| _ = spec.environment.insert("A=B".into(), "c".into()),
            "environment is `A=B`",
        );
        check(
            |spec| spec.mounts.push(mount("here", "/x")),
            "mounts.source is `here`",
        );
        check(
            |spec| spec.mounts.push(mount("/a,b", "/x")),
            "paths without comma",
        );
        check(
            |spec| spec.mounts.push(mount("/a", "x")),
            "mounts.target is `x`",
        );
        check(
            |spec| spec.mounts.push(mount("/a", "/")),
            "mounts.target is `/`",
        );
        check(
            |spec| spec.mounts.push(mount("/a", "/x/../..")),
            "mounts.target",
        );
        check(
            |spec| spec.mounts.extend([mount("/a", "/x"), mount("/b", "/x/")]),
            "twice",
        );
        check(
            |spec| spec.limits.memory_bytes = Some(1),
            "limits.memory_bytes is 1",
        );
        check(|spec| spec.limits.cpus = Some(-1.0), "limits.cpus is -1");
        check(
            |spec| spec.limits.cpus = Some(f64::NAN),
            "limits.cpus is NaN",
        );
        check(
            |spec| spec.limits.shm_bytes = Some(u64::MAX),
            "limits.shm_bytes",
        );
        check(|spec| spec.limits.pids = Some(0), "limits.pids is 0");
    }
}

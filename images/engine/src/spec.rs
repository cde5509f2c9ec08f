//! What a container is to be: image, command, mounts, limits, hardening.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    gpu::GpuAccess,
    images::ImageFacts,
};

/// User and group that containers run as unless the spec says otherwise:
/// `nobody` and `nogroup` on Debian, an overflow id everywhere else.
pub(crate) const UNPRIVILEGED: &str = "65534:65534";

/// Everything that [`crate::Engine::create`] needs to know. Whatever it says, the container has no
/// capabilities and no way to more of them. Unless it says otherwise, it runs as an unprivileged user
/// without a network, on a root file system that is read-only, with a memory file system on `/tmp`
/// from which nothing is executed.
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
    pub limits: Limits,
    /// GPUs, all by one path that [`crate::gpu::candidates`] finds possible.
    pub gpus: Vec<GpuAccess>,
    pub ipc: Ipc,
    pub user: User,
    /// The folder that it starts in; the image's own where `None`.
    pub workdir: Option<String>,
    pub network: Network,
    /// Its name on the network; the engine makes one up where `None`.
    pub hostname: Option<String>,
    /// Whether it may write to its root file system, which goes with it.
    pub is_root_writable: bool,
    /// Whether what lies on `/tmp` may be executed: compilers of kernels load libraries from there.
    pub is_tmp_executable: bool,
    /// Further folders that get an empty memory file system.
    pub shadowed: Vec<String>,
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
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Memory, swap included: none of it may be swapped.
    pub memory_bytes: Option<u64>,
    /// CPUs' worth of time, such as 1.5.
    pub cpus: Option<f64>,
    /// CPUs by number, such as `0-3,8`.
    pub cpuset: Option<String>,
    /// Size of `/dev/shm`; the engine's default (64 MiB) where `None`.
    pub shm_bytes: Option<u64>,
    pub pids: Option<u32>,
    /// By name without `RLIMIT_`, such as `memlock`, `nofile`, `stack`. Best effort: an engine may
    /// refuse them, see [`crate::Container::fallbacks`].
    pub ulimits: BTreeMap<String, Ulimit>,
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
            ulimits: BTreeMap::new(),
            tmp_bytes: None,
        }
    }
}

/// One resource limit; -1 is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ulimit {
    /// Soft limit.
    #[schemars(range(min = -1))]
    pub soft: i64,
    /// Hard limit.
    #[schemars(range(min = -1))]
    pub hard: i64,
}

/// Whose shared memory a container sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ipc {
    /// Its own.
    #[default]
    Private,
    /// The host's: `/dev/shm` is the host's, whatever `shm` says.
    Host,
}

impl Ipc {
    pub fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Host => "host",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum User {
    /// Nobody: a user without a name.
    #[default]
    Unprivileged,
    /// Whom the image says, which is root where it says nothing.
    OfImage,
    /// A user by name, or `UID:GID`.
    Named(String),
}

/// What of a network a program has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None.
    #[default]
    None,
    /// The engine's: the program reaches other machines.
    Bridge,
    /// The host's own.
    Host,
}

impl Network {
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bridge => "bridge",
            Self::Host => "host",
        }
    }
}

/// How much log the engine keeps before it drops the oldest lines: several times what a run may
/// write before it is ended, so that its first lines are still there.
pub(crate) const LOG_BYTES: u64 = 128 << 20;

impl ContainerSpec {
    /// What is started in this image.
    ///
    /// # Errors
    /// [`Error::Unpacked`] where neither of the two says what.
    pub(crate) fn command_in(&self, image: &ImageFacts) -> Result<Vec<String>> {
        let command = match &self.entrypoint {
            Some(entrypoint) => [entrypoint, &self.command[..]].concat(),
            None if self.command.is_empty() => [&image.entrypoint[..], &image.command].concat(),
            None => [&image.entrypoint[..], &self.command].concat(),
        };
        if command.is_empty() {
            let message = format!("the image {} has no command to start", image.id);
            return Err(Error::Unpacked(message));
        }
        Ok(command)
    }

    /// Refuses what Podman would take for more than a mount: it hands them on as a line of
    /// comma-separated fields.
    pub(crate) fn check(&self) -> Result<()> {
        let is_unfit = |text: &str| text.contains([',', '\n', '\0']);
        let unfit = self.mounts.iter().find(|Mount { source, target, .. }| {
            is_unfit(&source.to_string_lossy()) || is_unfit(target)
        });
        unfit.map_or(Ok(()), |mount| Err(Error::Mount(mount.source.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_one_field_of_a_line() {
        let check = |source: &str, target: &str| {
            let mount = Mount {
                source: source.into(),
                target: target.into(),
                read_only: true,
            };
            let mounts = vec![mount];
            let spec = ContainerSpec {
                mounts,
                ..ContainerSpec::default()
            };
            spec.check()
        };
        check("/a", "/x").unwrap();
        let refusals =
            [("/a,b", "/x"), ("/a", "/x,rw"), ("/a\nb", "/x")].map(|(source, target)| {
                let error = check(source, target).unwrap_err();
                assert!(matches!(error, Error::Mount(_)), "{error:?}");
                error.to_string()
            });
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        cannot mount "/a,b": expected paths without comma, line break or NUL
        cannot mount "/a": expected paths without comma, line break or NUL
        cannot mount "/a\nb": expected paths without comma, line break or NUL
        "#);
    }
}

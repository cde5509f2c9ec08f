//! Three ways to give a container a GPU, and which of them can work here.
//!
//! An engine may ignore a request that it does not understand without a word
//! (Podman does), so even a path that looks possible has to be checked from inside
//! the container: does CUDA see the device?

mod host;
mod passthrough;

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use host::GpuHost;

use crate::{
    error::{Error, Result},
    facts::{EngineFacts, Product},
    spec::Mount,
};

/// A way to give a container a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuPath {
    /// Container Device Interface: Docker 28.2 or newer, Podman 5.4 or newer, and a
    /// spec that `nvidia-ctk cdi generate` has written.
    Cdi,
    /// NVIDIA's container toolkit, registered with Docker.
    NvidiaRuntime,
    /// Device files and driver libraries, mounted by hand; any engine.
    Passthrough,
}

impl fmt::Display for GpuPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cdi => "CDI",
            Self::NvidiaRuntime => "the NVIDIA runtime",
            Self::Passthrough => "passthrough",
        })
    }
}

/// One path and whether it can work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: GpuPath,
    /// Why it cannot work, with what to do about it; `None` where it can.
    pub obstacle: Option<String>,
}

/// All paths, the possible ones first, in order of preference: CDI mounts exactly
/// what the driver's own tool lists, the runtime does so behind a hook, passthrough
/// relies on what is found here.
pub fn candidates(engine: &EngineFacts, host: &GpuHost) -> Vec<Candidate> {
    let passthrough = no_gpu(host).or_else(|| passthrough::obstacle(host));
    let mut all = [
        (GpuPath::Cdi, cdi_obstacle(engine, host)),
        (GpuPath::NvidiaRuntime, runtime_obstacle(engine, host)),
        (GpuPath::Passthrough, passthrough),
    ]
    .map(|(path, obstacle)| Candidate { path, obstacle })
    .to_vec();
    all.sort_by_key(|candidate| candidate.obstacle.is_some());
    all
}

fn no_gpu(host: &GpuHost) -> Option<String> {
    host.devices.is_empty().then(|| {
        "no NVIDIA GPU on this machine (no /dev/nvidia0 and the like); install the driver or run \
         on the CPU"
            .to_owned()
    })
}

fn cdi_obstacle(engine: &EngineFacts, host: &GpuHost) -> Option<String> {
    let version = engine.version_numbers();
    let needed = match engine.product {
        Product::Docker => (28, 2),
        Product::Podman => (5, 4),
    };
    if version < needed {
        return Some(format!(
            "{} {} does not serve CDI requests; {} {}.{} does",
            engine.product, engine.version, engine.product, needed.0, needed.1
        ));
    }
    if let Some(obstacle) = no_gpu(host) {
        return Some(obstacle);
    }
    if engine.product == Product::Docker && engine.cdi_spec_folders.is_empty() {
        return Some(
            "CDI is switched off in Docker; set `\"features\": {\"cdi\": true}` in \
             /etc/docker/daemon.json and restart it"
                .to_owned(),
        );
    }
    let folders = &engine.cdi_spec_folders;
    let known = |spec: &PathBuf| {
        folders.is_empty() || folders.iter().any(|folder| spec.starts_with(folder))
    };
    (!host.cdi_specs.iter().any(known)).then(|| {
        "no CDI spec of kind nvidia.com/gpu; write one with `nvidia-ctk cdi generate \
         --output=/etc/cdi/nvidia.yaml`"
            .to_owned()
    })
}

fn runtime_obstacle(engine: &EngineFacts, host: &GpuHost) -> Option<String> {
    if engine.product == Product::Podman {
        return Some(
            "Podman ignores requests for the NVIDIA runtime without a word; use CDI".to_owned(),
        );
    }
    if let Some(obstacle) = no_gpu(host) {
        return Some(obstacle);
    }
    // dockerd serves `driver: nvidia` where it finds this hook in its PATH
    // (moby, daemon/nvidia_linux.go); the runtime of that name comes with it.
    let is_there = host.has_nvidia_hook || engine.runtimes.iter().any(|name| name == "nvidia");
    (!is_there).then(|| {
        "Docker has no NVIDIA runtime and nvidia-container-runtime-hook is not in PATH; install \
         nvidia-container-toolkit and run `nvidia-ctk runtime configure`"
            .to_owned()
    })
}

/// A GPU for a container, resolved to what has to be asked of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuAccess {
    pub path: GpuPath,
    /// Index in PCI order, as `nvidia-smi` counts.
    pub index: u32,
    /// Device files to pass through; passthrough only.
    pub devices: Vec<PathBuf>,
    /// Driver libraries to mount read-only; passthrough only.
    pub mounts: Vec<Mount>,
    /// Folders in the container that the caller must put in front of
    /// `LD_LIBRARY_PATH`; passthrough only. The caller's, because only the caller
    /// knows what the image has there.
    pub library_folders: Vec<String>,
}

impl GpuAccess {
    /// Finds out what the path needs for one GPU.
    pub fn resolve(
        engine: &EngineFacts,
        host: &GpuHost,
        path: GpuPath,
        index: u32,
    ) -> Result<Self> {
        let mut all = candidates(engine, host).into_iter();
        let found = all.find(|one| one.path == path);
        Self::of(host, path, index, found.and_then(|one| one.obstacle))
    }

    /// The same of the path that needs no engine.
    pub fn passed_through(host: &GpuHost, index: u32) -> Result<Self> {
        let obstacle = no_gpu(host).or_else(|| passthrough::obstacle(host));
        Self::of(host, GpuPath::Passthrough, index, obstacle)
    }

    fn of(host: &GpuHost, path: GpuPath, index: u32, obstacle: Option<String>) -> Result<Self> {
        let refuse = |reason: String, next: &str| {
            Err(Error::Gpu {
                path,
                index,
                reason,
                next: next.to_owned(),
            })
        };
        if let Some(reason) = obstacle {
            return refuse(reason, "or choose another path, or the CPU");
        }
        let Some(device) = host.devices.get(index as usize) else {
            let count = host.devices.len();
            return refuse(
                format!("this machine has {count} (0 to {})", count - 1),
                "choose one",
            );
        };
        let mut access = Self {
            path,
            index,
            devices: Vec::new(),
            mounts: Vec::new(),
            library_folders: vec![],
        };
        if path == GpuPath::Passthrough {
            passthrough::fill(&mut access, host, device);
        }
        Ok(access)
    }

    /// What the caller's `LD_LIBRARY_PATH` becomes with [`GpuAccess::library_folders`]
    /// in front; `None` where nothing has to change.
    pub fn library_path(&self, before: Option<&str>) -> Option<String> {
        if self.library_folders.is_empty() {
            return None;
        }
        let mut folders = self.library_folders.clone();
        folders.extend(before.filter(|path| !path.is_empty()).map(str::to_owned));
        Some(folders.join(":"))
    }
}

//! The machine that runs happen on: its facts, its locks, and what can be seen there of a run.
//!
//! Executors and sessions know it as a [`Host`] alone. A host of another kind is a folder beside
//! `local`, and chosen in [`open`].

mod local;
mod samples;
mod watch;

use std::{collections::BTreeSet, fmt, io, path::PathBuf, sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use protocol::Device;
use record::{Before, Gpu, Machine};
use serde::{Deserialize, Serialize};

use crate::live::Live;
pub use local::{LIBRARY_VARIABLE, LOCKS_VARIABLE};
pub use samples::{Sampled, Samples};
pub use watch::Watch;

/// A machine that runs can happen on. Nothing here ends a process or changes a GPU's settings.
pub trait Host: fmt::Debug + Send + Sync {
    /// Everything that is known about the machine.
    fn facts(&self) -> Machine;

    /// CPUs of the whole machine, whatever part of them this process may use.
    fn cpus(&self) -> f64;

    /// Bytes of memory that can be had without swapping.
    fn available_memory_bytes(&self) -> Option<u64>;

    /// Why no GPU can be seen, with the next step; `None` where they can.
    fn gpu_obstacle(&self) -> Option<String>;

    /// Locks a GPU for the session of this name until the lock is dropped; with `share`, together
    /// with other sessions that share it.
    fn lock_gpu(&self, gpu: &Gpu, session: &str, share: bool) -> Result<GpuLock, GpuLockError>;

    /// The name of a process, where it can be seen.
    fn process_name(&self, pid: u32) -> Option<String>;

    /// Processes that use the device now.
    fn gpu_processes(&self, device: Device) -> BTreeSet<u32>;

    /// The machine and the device before a run. Reading the load takes a moment, and is done
    /// `with_load` alone.
    ///
    /// # Errors
    /// Why the GPU counts as lost, in words.
    fn state(&self, device: Device, with_load: bool) -> BoxFuture<'_, Result<Before, String>>;

    /// Whether memory and CPU time of a run can be read.
    fn can_see(&self, target: &Target) -> bool;

    /// Begins to watch a run.
    fn watch(&self, subject: Subject) -> Watch;

    /// The newest readings of the runs that are watched.
    fn live(&self) -> Live;
}

/// The host that this process measures on.
#[must_use]
pub fn open() -> Arc<dyn Host> {
    Arc::new(local::Local::default())
}

/// A GPU that is one session's until this is dropped.
pub type GpuLock = Box<dyn fmt::Debug + Send>;

/// A run to watch.
#[derive(Debug)]
pub struct Subject {
    /// Its name.
    pub run: String,
    /// Where it runs.
    pub device: Device,
    /// When it began: samples count their seconds from here.
    pub began: Instant,
    /// What belongs to it.
    pub target: Target,
    /// Processes that used the device before it began.
    pub bystanders: BTreeSet<u32>,
}

/// What belongs to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process and its descendants, in a process group of their own.
    Process {
        /// The group's leader.
        pid: u32,
    },
    /// A container.
    Container {
        /// The engine's ID, which is part of its cgroup's name.
        id: String,
        /// Its main process, as the host numbers it.
        pid: Option<u32>,
    },
}

/// Who holds a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The session.
    pub session: String,
    /// Its process.
    pub pid: u32,
    /// Since when.
    pub since: Timestamp,
}

/// Why a GPU cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum GpuLockError {
    /// Another session measures on it.
    #[error(
        "cuda:{index} ({gpu}) is in use by {}; wait for its end, take another GPU with \
         --device cuda:N, or give --share-gpu to both where the metrics need not be worth much",
        who(holder.as_ref())
    )]
    Held {
        /// The GPU.
        index: u32,
        /// Its name and UUID.
        gpu: String,
        /// Who; `None` where that is not known.
        holder: Option<Holder>,
    },
    /// The lock's file cannot be used.
    #[error(
        "cannot lock cuda:{index} with {path}: {source}; {LOCKS_VARIABLE}=DIR names another \
         folder, the same for every session of this machine"
    )]
    Io {
        /// The GPU.
        index: u32,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn who(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder {
            session,
            pid,
            since,
        }) => format!(
            "the session {session}, process {pid}, since {}",
            since.strftime("%F %T UTC")
        ),
        None => "another session of Torchgauge".to_owned(),
    }
}

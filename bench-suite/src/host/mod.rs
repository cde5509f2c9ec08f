//! The machine that runs happen on: its facts, its locks, and what can be seen there of a run.
//!
//! An executor brings its hosts; sessions know them as [`Host`]s alone. A host of another kind is a
//! folder beside `local`, or a part of its executor's.

pub mod local;
mod samples;
mod watch;

use std::{collections::BTreeSet, fmt, time::Instant};

use futures_util::future::BoxFuture;
use protocol::Device;
use record::{Before, Gpu, Machine};

pub(crate) use samples::Columns;
pub use samples::Samples;
pub use watch::Watch;

/// Names another folder for the locks; every session of the machine must use the same.
pub const LOCKS_VARIABLE: &str = "TORCHGAUGE_LOCKS";

/// Folders that every user may write to and that go with a reboot, the best for locks first.
pub(crate) const LOCK_FOLDERS: [&str; 3] = ["/run/lock", "/var/lock", "/tmp"];

/// Names this machine where its host name does not: a scheduler's name of a node, which a pod's host
/// name is not.
pub const NAME_VARIABLE: &str = "TORCHGAUGE_NODE";

/// A machine that runs can happen on. Nothing here ends a process or changes a GPU's settings. What has
/// a body here is that of a machine of which nothing more can be seen, and which nobody else can use.
pub trait Host: fmt::Debug + Send + Sync {
    /// Its name, which no other host of its executor has.
    fn name(&self) -> &str;

    /// Everything that is known about the machine.
    fn facts(&self) -> Machine;

    /// CPUs of the whole machine, whatever part of them this process may use.
    fn cpus(&self) -> f64 {
        0.0
    }

    /// Bytes of memory that can be had without swapping.
    fn available_memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Why no GPU can be seen, with the next step; `None` where they can.
    fn gpu_obstacle(&self) -> Option<String> {
        None
    }

    /// Locks a GPU, or the CPUs where there is none, for the session of this name until the lock is
    /// dropped; where the last argument says so, together with other sessions that share it.
    fn lock(&self, _: Option<&Gpu>, _: &str, _: bool) -> Result<DeviceLock, LockError> {
        Ok(Box::new(()))
    }

    /// The name of a process, where it can be seen.
    fn process_name(&self, _: u32) -> Option<String> {
        None
    }

    /// Processes that use the device now.
    fn gpu_processes(&self, _: Device) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    /// The machine and the device before a run. Reading the load takes a moment, and is done where
    /// the second argument says so.
    ///
    /// # Errors
    /// Why the GPU counts as lost, in words.
    fn state(&self, _: Device, _: bool) -> BoxFuture<'_, Result<Before, String>> {
        Box::pin(async { Ok(Before::default()) })
    }

    /// Whether memory and CPU time of a run can be read.
    fn can_see(&self, _: &Target) -> bool {
        false
    }

    fn watch(&self, _: Subject) -> Watch {
        Watch::none()
    }
}

/// A device that is one session's until this is dropped.
pub type DeviceLock = Box<dyn fmt::Debug + Send>;

#[derive(Debug)]
pub struct Subject {
    /// Its ranks on this host, and the device of each.
    pub ranks: Vec<(usize, Device)>,
    /// When it began: samples count their seconds from here.
    pub began: Instant,
    pub target: Target,
    /// Processes that used the devices before it began.
    pub bystanders: BTreeSet<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process and its descendants, in a process group of their own.
    Process {
        /// The group's leader.
        pid: u32,
    },
    Container {
        /// The engine's ID, which is part of its cgroup's name.
        id: String,
        /// Its main process, as the host numbers it.
        pid: Option<u32>,
    },
}

/// Why a device cannot be locked: who has it, and what else can be done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LockError(pub(crate) String);

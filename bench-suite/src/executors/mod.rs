//! Where runs execute. An executor is a folder here, its `mod` line and its line in [`EXECUTORS`].
//!
//! An executor is opened first and brings its hosts: facts, devices, locks and monitors are theirs.
//! It carries out one [`Order`] at a time or several, gives what it saw as an [`Execution`], and
//! leaves nothing behind. Blocks, attempts and verdicts are the session's.

mod choice;
pub mod container;
mod executor;
mod group;
mod guard;
mod images;
mod kubernetes;
pub mod mounts;
mod nodes;
mod oom_kills;
mod order;
pub mod process;
mod slurm;
mod unpacked;

/// For tests of everything around it, of the real program among them; no release has it.
#[cfg(debug_assertions)]
#[path = "../../tests/mock/mod.rs"]
pub mod mock;

use std::path::Path;

pub use choice::{Choice, Opened};
pub use executor::{Executor, ExecutorError, Finding, Opening, Prepared, Registration, State};
pub use images::{ImageSource, Loaded, LocalRuntime, SourceError};
pub use kubernetes::parcel;
pub use nodes::{Scheduler, inside::IMAGE_VARIABLE};
pub(crate) use order::KERNEL_CACHE;
pub use order::{Execution, Order, RunPaths};
pub use slurm::step_spec;

/// Every executor, in the order in which `auto` tries them.
pub const EXECUTORS: &[Registration] = &[
    container::REGISTRATION,
    unpacked::APPTAINER,
    process::REGISTRATION,
    unpacked::CHROOT,
    slurm::REGISTRATION,
    kubernetes::REGISTRATION,
    nodes::REGISTRATION,
    #[cfg(debug_assertions)]
    mock::REGISTRATION,
];

/// Ends what is left of runs whose folders are in this one and whose harness was killed. Whoever
/// calls this holds the session's folder, so no run of it is under way. Gives how many were ended.
pub(crate) fn sweep(work: &Path) -> usize {
    let all = EXECUTORS.iter();
    all.map(|executor| (executor.sweep)(work)).sum()
}

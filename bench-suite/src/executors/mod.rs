//! Where runs execute. An executor is a folder here and its line in [`EXECUTORS`].
//!
//! An executor gets an [`Order`], carries it out and tells what it saw as an [`Execution`]. It
//! knows nothing of suites, records or blocks, and it leaves nothing behind.

pub mod container;
mod guard;
mod images;
pub mod mock;
mod oom_kills;
mod order;
pub mod process;
mod registration;

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use protocol::Device;
use record::{EngineFacts, ImageFacts, Isolation};
use tokio_util::sync::CancellationToken;

pub use images::{ImageSource, Loaded, LocalRuntime, SourceError};
pub(crate) use order::KERNEL_CACHE;
pub use order::{Execution, Order, RunPaths};
pub use registration::{
    Choice, EXECUTORS, ExecutorError, Finding, Opened, Opening, Registration, State,
};

use crate::host::Host;

/// Carries runs out, one at a time or several at once.
pub trait Executor: Send + Sync {
    /// The machine that its runs happen on.
    fn host(&self) -> &Arc<dyn Host>;

    /// Where its runs execute, such as `as plain processes`.
    fn describe(&self) -> String;

    /// Makes ready whatever runs of these images on these devices need; once, before any run.
    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        devices: &'a [Device],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>>;

    /// Carries one run out. It comes back when nothing of the run is left, also where `cancel`
    /// ends it.
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution>;

    /// What separates its runs from the rest of the machine.
    fn isolation(&self) -> Isolation;

    /// Whether it ends a run at its memory limit.
    fn limits_memory(&self) -> bool {
        true
    }

    /// Waits for the engine to answer again after it failed a run. `false` where it does not, or
    /// `cancel` came first: then nothing more can run.
    fn recover<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => true,
                () = cancel.cancelled() => false,
            }
        })
    }

    /// Removes what the session's runs left that could not be removed at once.
    fn clean_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Before a run that the engine failed is attempted again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What there is to say once an executor is ready.
#[derive(Debug, Clone, Default)]
pub struct Prepared {
    /// Where runs execute.
    pub engine: EngineFacts,
    /// The images.
    pub images: Vec<ImageFacts>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Ends what is left of runs whose folders are in this one and whose harness was killed. Whoever
/// calls this holds the session's folder, so no run of it is under way. Gives how many were ended.
pub(crate) fn sweep(work: &Path) -> usize {
    EXECUTORS
        .iter()
        .map(|executor| (executor.sweep)(work))
        .sum()
}

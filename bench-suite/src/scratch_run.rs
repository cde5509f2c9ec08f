//! Single runs outside of a session, in a folder that goes with them.

use std::{collections::BTreeMap, fs, io, path::Path};

use protocol::{Started, Values};
use record::{Machine, Monitor, Outcome};
use tokio_util::sync::CancellationToken;

use crate::{
    evaluation::Evaluation,
    executors::{Executor, Order, RunPaths},
    plan::Cell,
};

#[derive(Debug, Clone, Copy)]
pub struct ScratchRuns<'a> {
    /// The machines that runs happen on, by name.
    pub hosts: &'a BTreeMap<String, Machine>,
    /// Name of the runs' session, which labels the containers.
    pub session: &'a str,
    /// Folder for the runs' files, which go with each run.
    pub folder: &'a Path,
    /// Whether monitors look on.
    pub is_watched: bool,
}

/// Why a single run cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    #[error("cannot make a folder for a run in {folder}: {source}; is the disk full?")]
    Folder { folder: String, source: io::Error },
    #[error("stopped before the last run")]
    Stopped,
}

/// What came of a single run.
#[derive(Debug)]
pub struct Ran {
    pub outcome: Outcome,
    /// What ran, as the first process reports it.
    pub(crate) started: Option<Started>,
    /// What it yielded; nothing where it failed.
    pub values: Values,
    pub(crate) monitor: Monitor,
    pub(crate) seconds: f64,
}

/// Makes one run of a cell.
pub async fn run(
    runs: ScratchRuns<'_>,
    cell: &Cell,
    name: &str,
    executor: &dyn Executor,
    cancel: &CancellationToken,
) -> Result<Ran, ScratchError> {
    let failed = |source| ScratchError::Folder {
        folder: runs.folder.display().to_string(),
        source,
    };
    let folder = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(runs.folder)
        .map_err(failed)?;
    let work = folder.path().join("work");
    fs::create_dir(&work).map_err(failed)?;
    let log = folder.path().join("log");
    let paths = RunPaths {
        folder: &work,
        shared: runs.folder,
        log: &log,
    };
    let mut order = Order::new(runs.session, name, 1, cell, runs.hosts, paths);
    order.is_watched = runs.is_watched;
    let execution = executor.run(&order, cancel).await;
    if cancel.is_cancelled() {
        return Err(ScratchError::Stopped);
    }
    let Evaluation {
        outcome,
        values,
        results,
        ..
    } = Evaluation::of(&order, &execution);
    Ok(Ran {
        values: if outcome.is_ok() {
            values
        } else {
            Values::new()
        },
        outcome,
        started: results.first().started.clone(),
        monitor: execution.record.monitor,
        seconds: execution.record.wall_seconds,
    })
}

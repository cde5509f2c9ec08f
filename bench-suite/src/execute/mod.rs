//! Where a run executes: in a fresh container, as a plain process, or not at all (the mock).
//!
//! An executor gets an [`Order`], carries it out and tells what it saw as an [`Execution`]. It
//! knows nothing of suites, records or blocks, and it leaves nothing behind.

mod container;
mod mock;
mod probe;
mod process;
mod silence;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use protocol::{Device, KernelCache, RunFile};
use record::{CellPlan, HarnessCost, Isolation, Machine, Monitor, Reason, Stage, Validity};
use tokio_util::sync::CancellationToken;

pub use container::{Container, ContainerImage, path_word};
pub use mock::{Mock, MockError};
pub use probe::{GpuProbe, find_gpu};
pub(crate) use process::sweep as sweep_processes;
pub use process::{LocalRuntime, Process};

use crate::{device, outcome::End, plan::Cell, suite::Limits};

/// Carries runs out, one at a time or several at once.
pub trait Executor: Send + Sync {
    /// Carries one run out. It comes back when nothing of the run is left, also where `cancel`
    /// ends it.
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution>;

    /// What separates its runs from the rest of the machine.
    fn isolation(&self) -> Isolation;

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
}

/// Before a run that the engine failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The session's name.
    pub session: String,
    /// Which try at the run this is, from 1.
    pub attempt: u32,
    /// The image's name.
    pub image: String,
    /// What the workload is asked for.
    pub asked: RunFile,
    /// Where the work runs, as the host counts.
    pub device: Device,
    /// What the run may use.
    pub limits: Limits,
    /// Whether the monitors look on.
    pub is_watched: bool,
    /// Variables for the workload, over those of the image.
    pub environment: BTreeMap<String, String>,
    /// A folder for this run alone, which is there and empty.
    pub folder: PathBuf,
    /// The folder that all runs of the session share.
    pub shared: PathBuf,
    /// Where what the workload says goes.
    pub log: PathBuf,
}

/// Where a run's files go.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// A folder for this run alone, which is there and empty.
    pub folder: &'a Path,
    /// The folder that all runs of the session share.
    pub shared: &'a Path,
    /// Where what the workload says goes.
    pub log: &'a Path,
}

/// Of compiled kernels, in the folder of a run or of a session.
pub(crate) const KERNEL_CACHE: &str = "kernel-cache";

/// A workload ends by itself this long after the harness would have ended it: it runs on so long
/// only where the harness is gone.
const ORPHAN_GRACE: Duration = Duration::from_mins(1);

impl Order {
    /// One try at a run of this cell.
    #[must_use]
    pub fn new(
        session: &str,
        run: &str,
        attempt: u32,
        cell: &Cell,
        machine: &Machine,
        place: Place<'_>,
    ) -> Self {
        let CellPlan {
            model,
            task,
            variant,
            steps,
            seed,
            image,
            ..
        } = &cell.plan;
        let device = cell.device;
        let mut environment: BTreeMap<_, _> =
            device::environment(device, machine).into_iter().collect();
        environment.extend(variant.environment(device));
        Self {
            session: session.to_owned(),
            attempt,
            image: image.clone(),
            asked: RunFile {
                version: protocol::VERSION,
                run: run.to_owned(),
                model: *model,
                task: *task,
                variant: variant.clone(),
                device: device::inside(device),
                steps: *steps,
                seed: *seed,
                threads: cell.threads,
                gpu_memory_bytes: cell.limits.gpu_memory_bytes.filter(|_| device.is_cuda()),
                allocator_memory_bytes: cell
                    .limits
                    .allocator_memory_bytes
                    .filter(|_| device.is_cuda()),
                deadline_seconds: Some((cell.limits.time + ORPHAN_GRACE).as_secs_f64()),
            },
            device,
            limits: cell.limits.clone(),
            is_watched: true,
            environment,
            folder: place.folder.to_owned(),
            shared: place.shared.to_owned(),
            log: place.log.to_owned(),
        }
    }

    /// The file that tells the workload what to do.
    #[must_use]
    pub fn run_file(&self) -> PathBuf {
        self.folder.join("run.json")
    }

    /// The file that the workload writes events to.
    #[must_use]
    pub fn results_file(&self) -> PathBuf {
        self.folder.join("events.ndjson")
    }

    /// The folder of compiled kernels that the session's runs share, where this run is one of them.
    #[must_use]
    pub fn shared_kernel_cache(&self) -> Option<PathBuf> {
        let is_shared =
            self.device.is_cuda() && self.asked.variant.kernel_cache == KernelCache::Session;
        is_shared.then(|| self.shared.join(KERNEL_CACHE))
    }

    /// Writes the run file and an empty results file.
    fn write_files(&self) -> io::Result<()> {
        fs::write(self.run_file(), serde_json::to_vec_pretty(&self.asked)?)?;
        fs::write(self.results_file(), "")
    }
}

/// What an executor saw of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// When it began.
    pub started_at: Timestamp,
    /// Wall time of everything, in seconds.
    pub wall_seconds: f64,
    /// What separated the run from the rest of the machine.
    pub isolation: Isolation,
    /// The ID of the image that ran, where there is one.
    pub image_id: Option<String>,
    /// How it ended.
    pub end: End,
    /// What the harness itself took.
    pub cost: HarnessCost,
    /// What was seen from outside.
    pub monitor: Monitor,
    /// Whether the machine was fit to measure on.
    pub validity: Validity,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Execution {
    /// At its start, with nothing seen yet.
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self {
            started_at: Timestamp::now(),
            wall_seconds: 0.0,
            isolation,
            image_id: None,
            end: End::Interrupted,
            cost: HarnessCost::default(),
            monitor: Monitor::default(),
            validity: Validity::default(),
            notes: Vec::new(),
        }
    }

    fn ended(mut self, began: Instant, end: End) -> Self {
        self.wall_seconds = began.elapsed().as_secs_f64();
        self.end = end;
        self
    }
}

/// It never ran because its files could not be made.
fn no_files(error: &io::Error) -> End {
    End::NotStarted {
        reason: Reason::Engine,
        stage: Stage::Create,
        message: format!("cannot write the run's files: {error}; is the disk full?"),
    }
}

/// It never ran because the executor has no such image.
fn no_image(image: &str) -> End {
    End::NotStarted {
        reason: Reason::ImageBroken,
        stage: Stage::Create,
        message: format!("the image `{image}` is not here"),
    }
}

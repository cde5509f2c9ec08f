//! Where a run executes: in a fresh container, as a plain process, or not at all (the mock).
//!
//! An executor gets an [`Order`], carries it out and tells what it saw as an [`Execution`]. It
//! knows nothing of suites, records or blocks, and it leaves nothing behind.

mod container;
mod mock;
mod probe;
mod process;
mod silence;

use std::{collections::BTreeMap, fs, io, path::PathBuf, time::Instant};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use protocol::{Device, RunFile};
use record::{HarnessCost, Isolation, Monitor, Reason, Stage};
use tokio_util::sync::CancellationToken;

pub use container::{Container, ContainerImage, path_word};
pub use mock::{Mock, MockError};
pub use probe::{GpuProbe, find_gpu};
pub use process::{LocalRuntime, Process};

use crate::{outcome::End, suite::Limits};

/// Carries runs out, one at a time or several at once.
pub trait Executor: Send + Sync {
    /// Carries one run out. It comes back when nothing of the run is left, also where `cancel`
    /// ends it.
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution>;
}

/// What to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The session's name.
    pub session: String,
    /// The image's name.
    pub image: String,
    /// What the workload is asked for.
    pub asked: RunFile,
    /// Where the work runs, as the host counts.
    pub device: Device,
    /// What the run may use.
    pub limits: Limits,
    /// Variables for the workload, over those of the image.
    pub environment: BTreeMap<String, String>,
    /// A folder for this run alone, which is there and empty.
    pub folder: PathBuf,
    /// Where what the workload says goes.
    pub log: PathBuf,
}

impl Order {
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
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Execution {
    /// At its start, with nothing seen yet.
    fn new(isolation: Isolation) -> Self {
        Self {
            started_at: Timestamp::now(),
            wall_seconds: 0.0,
            isolation,
            image_id: None,
            end: End::Interrupted,
            cost: HarnessCost::default(),
            monitor: Monitor::default(),
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

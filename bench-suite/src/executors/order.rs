//! What an executor is asked for, and what it tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use protocol::{Device, KernelCache, RunFile};
use record::{CellPlan, HarnessCost, Isolation, Machine, Monitor, Reason, Stage, Validity};
use sha2::{Digest as _, Sha256};

use crate::{
    device, disk,
    host::{Host, Subject, Target, Watch},
    outcome::End,
    plan::Cell,
    suite::Limits,
};

/// What to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The session's name.
    pub session: String,
    /// The run's name, unique in its session.
    pub run: String,
    /// Which attempt at the run this is, from 1.
    pub attempt: u32,
    /// The image's name.
    pub image: String,
    /// What the workload is asked for.
    pub asked: RunFile,
    /// Where the work runs, as the host counts.
    pub device: Device,
    /// What the run may use.
    pub limits: Limits,
    /// Memory of the machine; 0 where that is not known.
    pub machine_memory_bytes: u64,
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
pub struct RunPaths<'a> {
    /// A folder for this run alone, which is there and empty.
    pub folder: &'a Path,
    /// The folder that all runs of the session share.
    pub shared: &'a Path,
    /// Where what the workload says goes.
    pub log: &'a Path,
}

/// In the folder of a run.
pub(super) const RUN_FILE: &str = "run.json";
pub(super) const RESULTS_FILE: &str = "events.ndjson";

/// Of compiled kernels, in the folder of a run or of a session.
pub(crate) const KERNEL_CACHE: &str = "kernel-cache";

/// A workload ends by itself this long after the harness would have ended it: it runs on so long
/// only where the harness is gone.
const ORPHAN_GRACE: Duration = Duration::from_mins(1);

/// The name that the workload is told: the run's number, and what tells it from all others. It is as
/// long for every run, for strings lie in the heap below what a model allocates: with an image's name
/// 7 letters longer, the same image was 4 % faster on the CPU.
fn told_name(session: &str, run: &str, attempt: u32) -> String {
    const LENGTH: usize = 24;
    let number = run.split('-').next().unwrap_or_default();
    let digest = Sha256::digest(format!("{session}/{run}/{attempt}"));
    let name = format!("{number}-{digest:x}");
    name.chars().take(LENGTH).collect()
}

impl Order {
    /// One attempt at a run of this cell.
    #[must_use]
    pub fn new(
        session: &str,
        run: &str,
        attempt: u32,
        cell: &Cell,
        machine: &Machine,
        paths: RunPaths<'_>,
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
        let mut environment = BTreeMap::from(device::environment(device, machine));
        environment.extend(variant.environment(device));
        Self {
            session: session.to_owned(),
            run: run.to_owned(),
            attempt,
            image: image.clone(),
            asked: RunFile {
                version: protocol::VERSION,
                run: told_name(session, run, attempt),
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
            machine_memory_bytes: machine.memory_bytes,
            is_watched: true,
            environment,
            folder: paths.folder.to_owned(),
            shared: paths.shared.to_owned(),
            log: paths.log.to_owned(),
        }
    }

    /// The file that tells the workload what to do.
    #[must_use]
    pub fn run_file(&self) -> PathBuf {
        self.folder.join(RUN_FILE)
    }

    /// The file that the workload writes events to.
    #[must_use]
    pub fn results_file(&self) -> PathBuf {
        self.folder.join(RESULTS_FILE)
    }

    /// The folder of compiled kernels that the session's runs share, where this run is one of them.
    #[must_use]
    pub fn shared_kernel_cache(&self) -> Option<PathBuf> {
        let is_shared =
            self.device.is_cuda() && self.asked.variant.kernel_cache == KernelCache::Session;
        is_shared.then(|| self.shared.join(KERNEL_CACHE).join("shared"))
    }

    /// Begins to watch the run, where the monitors are to look on.
    pub(super) fn watch(
        &self,
        host: &dyn Host,
        began: Instant,
        target: Target,
        bystanders: BTreeSet<u32>,
    ) -> Watch {
        if !self.is_watched {
            return Watch::none();
        }
        host.watch(Subject {
            run: self.run.clone(),
            device: self.device,
            began,
            target,
            bystanders,
        })
    }

    /// Writes the run file and an empty results file.
    pub(super) fn write_files(&self) -> io::Result<()> {
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
    /// The same moment as `started_at`, which everything that has a time is counted from.
    pub(crate) began: Instant,
}

impl Execution {
    /// At its start, with nothing seen yet.
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self {
            started_at: Timestamp::now(),
            wall_seconds: 0.0,
            isolation,
            image_id: None,
            end: End::interrupted(),
            cost: HarnessCost::default(),
            monitor: Monitor::default(),
            validity: Validity::default(),
            notes: Vec::new(),
            began: Instant::now(),
        }
    }

    /// How long the workload can have been there at most, by the harness's clock.
    pub(crate) fn lived_seconds(&self) -> f64 {
        self.wall_seconds - self.cost.create_seconds - self.cost.remove_seconds
    }

    pub(super) fn ended(mut self, end: End) -> Self {
        self.wall_seconds = self.began.elapsed().as_secs_f64();
        self.end = end;
        self
    }
}

/// It never ran because its files could not be made.
pub(super) fn no_files(error: &io::Error) -> End {
    let reason = if disk::is_for_want_of_room(error) {
        Reason::DiskFull
    } else {
        Reason::Engine
    };
    End::never(
        reason,
        Stage::Create,
        format!("cannot write the run's files: {error}"),
    )
}

/// It never ran because the executor has no such image.
pub(super) fn no_image(image: &str) -> End {
    let message = format!("the image `{image}` is not here");
    End::never(Reason::ImageBroken, Stage::Create, message)
}

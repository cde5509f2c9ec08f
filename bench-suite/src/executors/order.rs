//! What an executor is asked for, and what it tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use protocol::{Device, KernelCache, ProgramRun, RunFile, Until};
use record::{Isolation, Machine, Reason, Record, Stage, Window};
use sha2::{Digest as _, Sha256};

use crate::{
    device, disk,
    host::{Host, Subject, Target, Watch},
    outcome::End,
    plan::Cell,
    results::{self, Results},
    suite::{Launcher, Program, Work},
};

#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub session: String,
    /// The run's name, unique in its session.
    pub run: String,
    /// Which attempt at the run this is, from 1.
    pub attempt: u32,
    /// The name that the workload is given.
    pub told: String,
    /// What the run is to do, and where.
    pub cell: Cell,
    /// Memory of the machine; 0 where that is not known.
    pub machine_memory_bytes: u64,
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

#[derive(Debug, Clone, Copy)]
pub struct RunPaths<'a> {
    /// A folder for this run alone, which is there and empty.
    pub folder: &'a Path,
    /// The folder that all runs of the session share.
    pub shared: &'a Path,
    /// Where what the workload says goes.
    pub log: &'a Path,
}

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
    pub fn new(
        session: &str,
        run: &str,
        attempt: u32,
        cell: &Cell,
        hosts: &BTreeMap<String, Machine>,
        paths: RunPaths<'_>,
    ) -> Self {
        let device = cell.device();
        let machine = hosts.get(&cell.places[0].host);
        let machine = machine.or_else(|| hosts.values().next());
        let devices = cell.places.iter().map(|place| place.device);
        let environment = device::environment(devices, machine);
        let mut environment = BTreeMap::from(environment);
        environment.extend(cell.work.variant().environment(device));
        if let Some(program) = cell.work.program() {
            const THREADS: [&str; 2] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS"];
            // As torchrun does, but with all cores.
            let share = || {
                let cores = machine.map(|machine| f64::from(machine.cpu.logical_cores));
                let cpus = cell.limits.cpus.or(cores)?;
                let is_shared = cell.plan.ranks > 1 && program.launcher == Launcher::Torchgauge;
                let each = (cpus / f64::from(cell.plan.ranks)).floor().max(1.0);
                is_shared.then(|| each.to_string())
            };
            let threads = cell.threads.map(|threads| threads.to_string());
            let threads = threads.or_else(share).into_iter();
            let threads = threads.flat_map(|count| THREADS.map(|name| (name, count.clone())));
            environment.extend(threads.map(|(name, count)| (name.to_owned(), count)));
            environment.extend(program.file.environment.clone());
        }
        Self {
            session: session.to_owned(),
            run: run.to_owned(),
            attempt,
            told: told_name(session, run, attempt),
            cell: cell.clone(),
            machine_memory_bytes: machine.map_or(0, |machine| machine.memory_bytes),
            is_watched: true,
            environment,
            folder: paths.folder.to_owned(),
            shared: paths.shared.to_owned(),
            log: paths.log.to_owned(),
        }
    }

    /// What the built-in workload is to do; `None` of a program.
    pub fn builtin(&self) -> Option<RunFile> {
        let Cell {
            plan, limits, work, ..
        } = &self.cell;
        let Work::Builtin {
            model,
            task,
            variant,
            trace,
        } = work
        else {
            return None;
        };
        let device = self.cell.device();
        Some(RunFile {
            version: protocol::VERSION,
            run: self.told.clone(),
            model: *model,
            task: *task,
            variant: variant.clone(),
            device: device::inside(device),
            steps: plan.steps,
            seed: plan.seed,
            trace: trace.as_deref().cloned(),
            ranks: plan.ranks,
            threads: self.cell.threads,
            gpu_memory_bytes: limits.gpu_memory_bytes.filter(|_| device.is_cuda()),
            allocator_memory_bytes: limits.allocator_memory_bytes.filter(|_| device.is_cuda()),
            oversubscribe: self.cell.oversubscribes,
            deadline_seconds: Some((limits.time + ORPHAN_GRACE).as_secs_f64()),
        })
    }

    fn of_program(&self, program: &Program) -> ProgramRun {
        let steps = self.cell.plan.steps;
        ProgramRun {
            version: protocol::VERSION,
            run: self.told.clone(),
            warmup: steps.warmup,
            warmup_seconds: steps.warmup_seconds,
            measured: steps.measured,
            profiled: steps.profiled,
            attribution: steps.attribution,
            snapshot: steps.snapshot,
            snapshot_entries: steps.snapshot_entries,
            samples_per_step: program.samples_per_step,
            until: program.file.until,
        }
    }

    /// What the workload reads.
    pub(crate) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        match self.cell.work.program() {
            Some(program) => serde_json::to_vec_pretty(&self.of_program(program)),
            None => serde_json::to_vec_pretty(&self.builtin()),
        }
    }

    /// The file that tells the workload what to do.
    pub fn run_file(&self) -> PathBuf {
        self.folder.join(RUN_FILE)
    }

    /// The file that the workload writes events to.
    pub fn results_file(&self) -> PathBuf {
        self.folder.join(RESULTS_FILE)
    }

    /// What the workload has reported so far.
    pub(crate) fn results(&self) -> Results {
        let limit = self.cell.limits.results_bytes;
        results::read(
            &self.results_file(),
            &self.told,
            self.cell.places.len(),
            limit,
        )
    }

    /// The file that the allocator's history goes to, where it is recorded.
    pub fn snapshot_file(&self) -> Option<PathBuf> {
        let snapshot = self.cell.plan.steps.snapshot;
        (!snapshot.is_never()).then(|| self.folder.join(protocol::SNAPSHOT_FILE))
    }

    /// The folder of compiled kernels that the session's runs of its image share, where this run is one
    /// of them: an image runs nothing that another one wrote.
    pub fn shared_kernel_cache(&self) -> Option<PathBuf> {
        let Cell { work, plan, .. } = &self.cell;
        let is_shared = self.cell.device().is_cuda()
            && work.program().is_none()
            && work.variant().kernel_cache == KernelCache::Session;
        is_shared.then(|| {
            let image = format!("{:x}", Sha256::digest(&plan.image));
            self.shared.join(KERNEL_CACHE).join(image)
        })
    }

    /// Whether the run is over by what the workload reported, although it may go on.
    pub(super) fn ends_by_report(&self) -> bool {
        let program = self.cell.work.program();
        program.is_some_and(|program| program.file.until == Until::Measured)
    }

    pub(super) fn ranks(&self) -> u32 {
        u32::try_from(self.cell.places.len()).unwrap_or(u32::MAX)
    }

    /// Whether it has ranks that its program does not start itself.
    pub(super) fn launches_ranks(&self) -> bool {
        let program = self.cell.work.program();
        let launches = program.is_some_and(|program| program.launcher == Launcher::Torchgauge);
        launches && self.ranks() > 1
    }

    fn ranks_on(&self, host: &dyn Host) -> Vec<(usize, Device)> {
        let all = self.cell.places.iter().enumerate();
        let here = all.filter(|(_, at)| at.host.is_empty() || at.host == host.name());
        here.map(|(rank, place)| (rank, place.device)).collect()
    }

    /// The processes that hold the GPUs of the run on a host, before it has begun.
    pub(super) fn bystanders(&self, host: &dyn Host) -> BTreeSet<u32> {
        let ranks = self.ranks_on(host).into_iter();
        ranks
            .flat_map(|(_, device)| host.gpu_processes(device))
            .collect()
    }

    /// Begins to watch the ranks on a host, where the monitors are to look on.
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
            ranks: self.ranks_on(host),
            began,
            target,
            bystanders,
        })
    }

    /// Writes the run file and empty files for what comes back.
    pub(super) fn write_files(&self) -> io::Result<()> {
        fs::write(self.run_file(), self.to_json()?)?;
        if let Some(snapshot) = self.snapshot_file() {
            fs::write(snapshot, "")?;
        }
        fs::write(self.results_file(), "")
    }
}

/// What an executor saw of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub end: End,
    /// As far as it follows from that: isolation, times, what was seen from outside, warnings, notes.
    pub record: Record,
    /// The moment at which it started, which everything that has a time is counted from.
    pub(crate) began: Instant,
}

impl Execution {
    /// At its start, with nothing seen yet.
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self {
            end: End::interrupted(),
            record: Record {
                started_at: Timestamp::now(),
                isolation,
                ..Record::default()
            },
            began: Instant::now(),
        }
    }

    /// From the workload's start to its end, by the harness's clock.
    pub(crate) fn life(&self) -> Window {
        let cost = &self.record.harness;
        let from = cost.create_seconds + cost.start_seconds;
        let to = self.record.wall_seconds - cost.notice_seconds - cost.remove_seconds;
        Window {
            from,
            to: to.max(from),
        }
    }

    /// How long the workload can have been there at most, by the harness's clock.
    pub(crate) fn lived_seconds(&self) -> f64 {
        let cost = &self.record.harness;
        self.record.wall_seconds - cost.create_seconds - cost.remove_seconds
    }

    pub(super) fn ended(mut self, end: End) -> Self {
        self.record.wall_seconds = self.began.elapsed().as_secs_f64();
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

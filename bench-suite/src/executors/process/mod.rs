//! Runs as plain processes, where there is no container engine.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;
use protocol::Axis;
use record::{Isolation, Place, Reason, Stage};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::{
    Execution, Executor, ExecutorError, ImageSource, KERNEL_CACHE, LocalRuntime, Order, Prepared,
    Registration,
    group::{self, follow},
    order::{RESULTS_FILE, RUN_FILE, no_files, no_image},
};
use crate::{
    host::{
        Host,
        local::{self, LIBRARY_VARIABLE},
    },
    outcome::End,
};

pub(super) const REGISTRATION: Registration = Registration {
    word: "process",
    help: "as plain processes, without containers: not isolated",
    argument: None,
    aliases: &[],
    is_automatic: true,
    is_scheduler: false,
    is_hidden: false,
    open: |_| {
        let process = Process::new(local::open(), BTreeMap::new());
        Box::pin(async { Ok(Box::new(process) as Box<dyn Executor>) })
    },
    examine: || Box::pin(async { Vec::new() }),
    sweep: group::sweep,
};

/// Runs as plain processes: the same runs and records as in containers, with less isolation,
/// which the record says.
#[derive(Debug)]
pub struct Process {
    hosts: [Arc<dyn Host>; 1],
    runtimes: BTreeMap<String, LocalRuntime>,
}

/// How often a program that is still open for writing is started again, and how long after.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// What a container would have separated.
const MISSING: [&str; 8] = [
    "file system",
    "network",
    "process ids",
    "memory limit",
    "CPU limits",
    "limit of processes",
    "/dev/shm of its own",
    "user and capabilities",
];

/// What of it each run's container of a Pod does not separate either.
const MISSING_IN_POD: [&str; 4] = [
    "network",
    "memory limit",
    "CPU limits",
    "limit of processes",
];

impl Process {
    /// With a runtime for each image's name.
    pub fn new(host: Arc<dyn Host>, runtimes: BTreeMap<String, LocalRuntime>) -> Self {
        let hosts = [host];
        Self { hosts, runtimes }
    }

    async fn carry_out(&self, order: &Order, cancel: &CancellationToken) -> Execution {
        let mut execution = Execution::new(self.isolation());
        execution.record.warnings.extend(unapplied(order));
        let Some(runtime) = self.runtimes.get(&order.cell.plan.image) else {
            return execution.ended(no_image(&order.cell.plan.image));
        };
        if let Err(error) = order.write_files() {
            return execution.ended(no_files(&error));
        }
        let host = self.hosts[0].as_ref();
        let spawn = || spawn(runtime, order);
        let end = follow(order, host, &mut execution, cancel, spawn).await;
        let end = end.unwrap_or_else(|error| {
            let message = format!("cannot start {}: {error}", runtime.program.display());
            End::never(Reason::ImageBroken, Stage::Start, message)
        });
        execution.ended(end)
    }
}

impl Executor for Process {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    fn describe(&self) -> String {
        REGISTRATION.help.to_owned()
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        _: &'a [Place],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        Box::pin(async move {
            let mut prepared = Prepared::named(REGISTRATION.word, &[]);
            for image in images {
                let unpacked = source.unpack(image).await;
                let (runtime, facts) = unpacked.map_err(ExecutorError::Image)?;
                self.runtimes.insert(image.clone(), runtime);
                prepared.images.push(facts);
            }
            Ok(prepared)
        })
    }

    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(self.carry_out(order, cancel))
    }

    fn isolation(&self) -> Isolation {
        if env::var_os(super::IMAGE_VARIABLE).is_some() {
            return Isolation::without(REGISTRATION.word, &MISSING_IN_POD);
        }
        Isolation::without(REGISTRATION.word, &MISSING)
    }

    fn limits_memory(&self) -> bool {
        false
    }
}

/// Limits that only a container can hold.
fn unapplied(order: &Order) -> Option<String> {
    let names = order.cell.limits.of_containers().join(", ");
    (!names.is_empty()).then(|| format!("limits not applied without a container: {names}"))
}

fn spawn(runtime: &LocalRuntime, order: &Order) -> io::Result<Child> {
    let log = File::create(&order.log)?;
    let mut command = Command::new(&runtime.program);
    command
        // Without the folder, whose name would be another's in length: so would be what the workload
        // keeps of it.
        .args([RUN_FILE, RESULTS_FILE])
        .current_dir(&order.folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true);
    // Neither the user's secrets nor a setting of the user's shell are the workload's.
    command
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| is_passed_on(name)));
    if !runtime.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", library_path(runtime)?);
    }
    if order.cell.device().is_cuda() {
        // The user's own holds what earlier sessions compiled.
        let own = || order.folder.join(KERNEL_CACHE);
        let cache = order.shared_kernel_cache().unwrap_or_else(own);
        fs::create_dir_all(&cache)?;
        command.env(protocol::KERNEL_CACHE_VARIABLE, cache);
    }
    command
        .envs(&order.environment)
        .env(group::FOLDER_VARIABLE, &order.folder);
    // Whoever wrote the program a moment ago may have it open still, or a process forked meanwhile.
    for _ in 0..BUSY_ATTEMPTS {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(BUSY_PAUSE);
            }
            ended => return ended,
        }
    }
    command.spawn()
}

/// Whether a workload gets a variable of the harness's: what programs, libtorch and the driver need
/// to find their files and the user's language. What an axis sets comes from the run alone.
fn is_passed_on(name: &OsStr) -> bool {
    const NAMES: [&str; 11] = [
        "HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "PATH",
        "RUST_BACKTRACE",
        "TMPDIR",
        "TZ",
        "USER",
        LIBRARY_VARIABLE,
    ];
    const BEGINNINGS: [&str; 4] = ["CUDA_", "LC_", "NCCL_", "NVIDIA_"];
    let of_axis = |name| Axis::ALL.iter().any(|axis| axis.variables.contains(&name));
    name.to_str().is_some_and(|name| {
        let is_known = NAMES.contains(&name) || BEGINNINGS.iter().any(|of| name.starts_with(of));
        is_known && !of_axis(name)
    })
}

fn library_path(runtime: &LocalRuntime) -> io::Result<OsString> {
    let inherited = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited = env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty());
    env::join_paths(runtime.library_path.iter().cloned().chain(inherited)).map_err(io::Error::other)
}

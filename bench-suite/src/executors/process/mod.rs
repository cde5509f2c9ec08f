//! Runs as plain processes, where there is no container engine.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    sync::Arc,
};

use engine::Network;
use futures_util::future::BoxFuture;
use protocol::Axis;
use record::{Isolation, Place, Reason, Stage};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::{
    Execution, Executor, ExecutorError, ImageSource, KERNEL_CACHE, LocalRuntime, Order, Prepared,
    Registration,
    container::{end::unless_started, program},
    executor::takes_none,
    group::{self, follow},
    nodes::inside::{Inside, Steps, inside},
    order::{RESULTS_FILE, RUN_FILE, no_files, no_image},
};
use crate::{
    host::{
        Host,
        local::{self, LIBRARY_VARIABLE},
    },
    outcome::End,
    suite::Program,
};

pub(crate) const REGISTRATION: Registration = Registration {
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

/// What to do where the image that this process is in does not have what is to be started.
const NEXT_INSIDE: &str = "; give a program's whole command, for the image's entry point is passed by; \
                           the built-in workload is in images that `images build` made";

/// What of it each run's container of Slurm's own does not separate either; a Pod's has a user of its
/// own, which comes last. A step of Pyxis's separates the file system alone, the first in [`MISSING`].
const MISSING_IN_OCI: [&str; 5] = [
    "network",
    "memory limit",
    "CPU limits",
    "limit of processes",
    "user of its own",
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
        let command = order.write_files().and_then(|()| command(runtime, order));
        let command = match command {
            Ok(command) => command,
            Err(error) => return execution.ended(no_files(&error)),
        };
        let program = command.as_std().get_program().display().to_string();
        let host = self.hosts[0].as_ref();
        let spawn = || group::spawn(command, &order.log);
        let end = follow(order, host, &mut execution, cancel, spawn).await;
        let end = end.unwrap_or_else(|error| {
            let next = inside().map_or("", |_| NEXT_INSIDE);
            let message = format!("cannot start {program}: {error}{next}");
            End::never(Reason::ImageBroken, Stage::Start, message)
        });
        // A workload of the user's own (--scenario-binary) may end so by itself.
        execution.ended(match inside() {
            Some(_) => unless_started(end, order),
            None => end,
        })
    }
}

impl Executor for Process {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    fn describe(&self) -> String {
        let place = match inside() {
            None => REGISTRATION.help,
            Some(Inside::Pod) => "in a Pod",
            Some(Inside::Step(steps)) => return format!("in {}", steps.container()),
        };
        place.to_owned()
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        _: &'a [Place],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        Box::pin(async move {
            let mut prepared = Prepared::named(&self.isolation().engine, &[]);
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

    /// Inside of its image; what cannot be there was refused when the session was planned.
    fn takes(&self, _: &Program) -> Result<(), String> {
        if inside().is_some() {
            return Ok(());
        }
        takes_none(&self.describe())
    }

    fn isolation(&self) -> Isolation {
        match inside() {
            None => Isolation::without(REGISTRATION.word, &MISSING),
            Some(Inside::Pod) => Isolation::without(REGISTRATION.word, &MISSING_IN_OCI[..4]),
            Some(Inside::Step(steps @ Steps::Pyxis)) => {
                Isolation::without(steps.word(), &MISSING[1..])
            }
            Some(Inside::Step(steps @ Steps::Oci)) => {
                Isolation::without(steps.word(), &MISSING_IN_OCI)
            }
        }
    }

    fn limits_memory(&self) -> bool {
        false
    }
}

/// What of an order is not done without a container, or by one that something else made.
fn unapplied(order: &Order) -> Vec<String> {
    let (by, runs_as, network, has_writable) = match inside() {
        // Programs, which all but the first are about, are not run there.
        None => ("without a container".to_owned(), String::new(), "", false),
        Some(Inside::Pod) => (
            "in a Pod".to_owned(),
            "a Pod runs everything as one user, 65532".to_owned(),
            "the Pod's, which a NetworkPolicy closes",
            false,
        ),
        Some(Inside::Step(steps)) => (
            format!("by {}", steps.name()),
            format!("{} runs everything as who submits", steps.name()),
            "the node's",
            true,
        ),
    };
    let mut warnings = group::unapplied(order, &by, &[], &runs_as);
    let Some(Program { file, .. }) = order.cell.work.program() else {
        return warnings;
    };
    if file.network != Network::Bridge {
        let word = file.network.word();
        warnings.push(format!(
            "`network: {word}` not applied: the run has {network}"
        ));
    }
    if file.writable && !has_writable {
        warnings.push("`writable` not applied: a Pod's root is read-only".to_owned());
    }
    warnings
}

/// What variables begin with that are neither the image's nor the run's.
const OF_OTHERS: [&str; 6] = [
    "ENROOT_",
    "KUBERNETES_",
    "PYXIS_",
    "SLURMD_",
    "SLURM_",
    "TORCHGAUGE_",
];

/// What carries an order out, once its files are there.
fn command(runtime: &LocalRuntime, order: &Order) -> io::Result<Command> {
    let mut environment = order.environment.clone();
    let mut command = match order.cell.work.program() {
        Some(program) => of_program(program, order, &mut environment)?,
        None => workload(runtime, order)?,
    };
    if order.cell.device().is_cuda() {
        // The user's own holds what earlier sessions compiled.
        let own = || order.folder.join(KERNEL_CACHE);
        let cache = order.shared_kernel_cache().unwrap_or_else(own);
        fs::create_dir_all(&cache)?;
        command.env(protocol::KERNEL_CACHE_VARIABLE, cache);
    }
    command.envs(environment);
    command.env(group::FOLDER_VARIABLE, &order.folder);
    Ok(command)
}

fn workload(runtime: &LocalRuntime, order: &Order) -> io::Result<Command> {
    let mut command = Command::new(&runtime.program);
    // Without the folder, whose name would be another's in length: so would be what the workload
    // keeps of it.
    command.args([RUN_FILE, RESULTS_FILE]);
    command.current_dir(&order.folder);
    // Neither the user's secrets nor a setting of the user's shell are the workload's.
    command
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| is_passed_on(name)));
    if !runtime.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", library_path(runtime)?);
    }
    Ok(command)
}

/// A program of the user's inside of its image, where the folder and the variables that this process has
/// are those of the image and of the Job.
fn of_program(
    program: &Program,
    order: &Order,
    environment: &mut BTreeMap<String, String>,
) -> io::Result<Command> {
    let text = |(name, value): (OsString, OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_own = !OF_OTHERS.iter().any(|of| name.starts_with(of));
        is_own.then_some((name, value))
    };
    let declared: BTreeMap<_, _> = env::vars_os().filter_map(text).collect();
    program::write_hook(order)?;
    program::set_environment(environment, &order.folder, program, &declared)?;
    let words = program::command(&order.folder, program, order);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(declared);
    Ok(command)
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

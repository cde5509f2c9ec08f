//! Runs as plain processes, where there is no container engine.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Instant,
};

use futures_util::future::BoxFuture;
use protocol::{Axis, Device};
use record::{Isolation, Reason, Stage};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{Execution, Executor, KERNEL_CACHE, Order, no_files, no_image, silence::silence};
use crate::{
    live::Live,
    machine::oom_kills,
    monitor::{self, Gpu, Target, Watch},
    outcome::End,
    suite::Ipc,
};

/// What runs without a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRuntime {
    /// The `scenario` binary.
    pub program: PathBuf,
    /// Folders with libtorch's libraries, before those of the environment.
    pub library_path: Vec<PathBuf>,
}

/// Runs as plain processes: the same runs and records as in containers, with less isolation,
/// which the record says.
#[derive(Debug)]
pub struct Process {
    runtimes: BTreeMap<String, LocalRuntime>,
    gpus: BTreeMap<Device, Gpu>,
    live: Live,
}

/// Tells a run's processes whose they are, so that they can be found when the harness is gone.
const FOLDER_VARIABLE: &str = "TORCHGAUGE_RUN_FOLDER";
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

impl Process {
    /// With a runtime for each image's name, on these devices.
    #[must_use]
    pub fn new(runtimes: BTreeMap<String, LocalRuntime>, devices: &[Device]) -> Self {
        let open = |device: &Device| match device {
            Device::Cuda(index) => Some((*device, Gpu::open(*index)?)),
            Device::Cpu => None,
        };
        Self {
            runtimes,
            gpus: devices.iter().filter_map(open).collect(),
            live: Live::default(),
        }
    }

    /// Lets the monitors put their newest readings here.
    #[must_use]
    pub fn telling(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    async fn carry_out(&self, order: &Order, cancel: &CancellationToken) -> Execution {
        let mut execution = Execution::new(self.isolation());
        execution.notes = unapplied(order);
        let began = Instant::now();
        let Some(runtime) = self.runtimes.get(&order.image) else {
            return execution.ended(began, no_image(&order.image));
        };
        if let Err(error) = order.write_files() {
            return execution.ended(began, no_files(&error));
        }
        let kills_before = oom_kills();
        let idle = self.gpus.get(&order.device).map(Gpu::before_run);
        execution.cost.create_seconds = began.elapsed().as_secs_f64();

        let starting = Instant::now();
        let child = match spawn(runtime, order) {
            Ok(child) => child,
            Err(error) => {
                let message = format!("cannot start {}: {error}", runtime.program.display());
                let end = End::NotStarted {
                    reason: Reason::ImageBroken,
                    stage: Stage::Start,
                    message,
                };
                return execution.ended(began, end);
            }
        };
        let mut group = Group::of(child);
        execution.cost.start_seconds = starting.elapsed().as_secs_f64();
        let target = Target::Process { pid: group.id };
        let watch = if order.is_watched {
            let live = self.live.run(&order.asked.run, order.device);
            Watch::begin(starting, target, idle, live)
        } else {
            Watch::none()
        };
        let end = group.end(order, watch.gpu_lost(), cancel).await;
        execution.monitor = watch.end();
        let removing = Instant::now();
        if group.leave_nothing() {
            let note = "processes that the workload left behind were ended";
            execution.notes.push(note.to_owned());
        }
        execution.cost.remove_seconds = removing.elapsed().as_secs_f64();
        execution.ended(began, explain(end, kills_before))
    }
}

impl Executor for Process {
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(self.carry_out(order, cancel))
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process {
            missing: MISSING.map(str::to_owned).to_vec(),
        }
    }
}

/// Limits that only a container can hold.
fn unapplied(order: &Order) -> Vec<String> {
    let limits = &order.limits;
    let asked = [
        ("memory", limits.memory_bytes.is_some()),
        ("cpus", limits.cpus.is_some()),
        ("cpuset", limits.cpuset.is_some()),
        ("shm", limits.shm_bytes.is_some()),
        ("ipc", limits.ipc != Ipc::Private),
        ("pids", limits.pids.is_some()),
        ("ulimits", !limits.ulimits.is_empty()),
    ];
    let names: Vec<_> = asked
        .iter()
        .filter(|(_, asked)| *asked)
        .map(|(name, _)| *name)
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "limits not applied without a container: {}",
        names.join(", ")
    )]
}

fn spawn(runtime: &LocalRuntime, order: &Order) -> io::Result<Child> {
    let log = File::create(&order.log)?;
    let mut command = Command::new(&runtime.program);
    command
        .arg(order.run_file())
        .arg(order.results_file())
        .current_dir(&order.folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true);
    // A setting of the user's shell must not act on runs that do not name it.
    for variable in Axis::ALL.iter().flat_map(|axis| axis.variables) {
        command.env_remove(variable);
    }
    if !runtime.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", library_path(runtime)?);
    }
    if order.device.is_cuda() {
        // The user's own holds what earlier sessions compiled.
        let own = || order.folder.join(KERNEL_CACHE);
        let cache = order.shared_kernel_cache().unwrap_or_else(own);
        fs::create_dir_all(&cache)?;
        command.env(protocol::KERNEL_CACHE_VARIABLE, cache);
    }
    command
        .envs(&order.environment)
        .env(FOLDER_VARIABLE, &order.folder)
        .spawn()
}

/// Ends what runs left whose folders are in this one, when their harness was killed: the processes
/// that were started for them. Whoever calls this holds the session's folder, so no run of it is
/// under way. Gives how many were ended.
pub(crate) fn sweep(folder: &Path) -> usize {
    let mut wanted = format!("{FOLDER_VARIABLE}=").into_bytes();
    wanted.extend(folder.as_os_str().as_bytes());
    wanted.push(b'/');
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let mut ended = 0;
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|&pid: &u32| pid != own) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(&wanted));
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_ours)
            && kill_process(pid, Signal::KILL).is_ok()
        {
            ended += 1;
        }
    }
    ended
}

fn library_path(runtime: &LocalRuntime) -> io::Result<OsString> {
    let inherited = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited = env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty());
    env::join_paths(runtime.library_path.iter().cloned().chain(inherited)).map_err(io::Error::other)
}

/// A process group that this process made, its leader not yet reaped.
#[derive(Debug)]
struct Group {
    child: Child,
    id: u32,
    is_reaped: bool,
}

/// How a process ended, or why it was made to.
#[derive(Debug)]
enum Ended {
    By(ExitStatus),
    Lost(io::Error),
    Made(End),
}

impl Group {
    fn of(child: Child) -> Self {
        Self {
            id: child.id().unwrap_or_default(),
            child,
            is_reaped: false,
        }
    }

    async fn end(
        &mut self,
        order: &Order,
        gpu_lost: impl Future<Output = String>,
        cancel: &CancellationToken,
    ) -> Ended {
        let limits = &order.limits;
        let results = order.results_file();
        let made = tokio::select! {
            status = self.child.wait() => {
                self.is_reaped = true;
                return match status {
                    Ok(status) => Ended::By(status),
                    Err(error) => Ended::Lost(error),
                };
            }
            () = sleep(limits.time) => End::TimeLimit(limits.time),
            () = silence(&results, limits.silence) => {
                End::Silent(limits.silence.unwrap_or_default())
            }
            message = gpu_lost => End::GpuLost { message },
            () = cancel.cancelled() => End::Interrupted,
        };
        self.kill();
        if let Err(error) = self.child.wait().await {
            tracing::warn!("cannot wait for process {}: {error}", self.id);
        }
        self.is_reaped = true;
        Ended::Made(made)
    }

    /// Ends the whole group. Its number is nobody else's: the leader is not reaped, or members
    /// were just seen.
    fn kill(&self) {
        let group = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            // It ended by itself in the meantime.
            tracing::debug!("cannot end process group {}: {error}", self.id);
        }
    }

    /// Ends what the workload left behind; tells whether there was something.
    fn leave_nothing(&self) -> bool {
        let left = self.id != 0 && !monitor::group_members(self.id).is_empty();
        if left {
            self.kill();
        }
        left
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
        }
    }
}

fn explain(ended: Ended, kills_before: Option<u64>) -> End {
    let status = match ended {
        Ended::Made(end) => return end,
        Ended::Lost(error) => {
            return End::EngineLost {
                message: format!("cannot wait for the workload's process: {error}"),
            };
        }
        Ended::By(status) => status,
    };
    let Some(signal) = status.signal() else {
        return End::Exited(status.code().unwrap_or(-1).into());
    };
    let killed_for_memory = match (kills_before, oom_kills()) {
        (Some(before), Some(after)) => after > before,
        _ => false,
    };
    if signal == Signal::KILL.as_raw() && killed_for_memory {
        return End::OutOfMemory {
            message: "ended by the kernel for want of host memory while it ran; \
                      take a smaller batch, or give the machine more"
                .to_owned(),
        };
    }
    End::Signalled(signal)
}

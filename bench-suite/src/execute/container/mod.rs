//! Runs in fresh, hardened containers.

mod spec;

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use engine::{Engine, Exit, GpuAccess, GpuPath, Oom};
use futures_util::{StreamExt as _, future::BoxFuture};
use jiff::Timestamp;
use protocol::Device;
use record::{Isolation, Monitor, Reason, Sample, Series, Stage};
use tokio_util::sync::CancellationToken;

use super::{Execution, Executor, Order, RETRY_PAUSE, silence::silence};
use crate::{
    live::Live,
    log,
    monitor::{Gpu, Target, Watch},
    outcome::{End, signal_name},
};

/// Where a container finds what it is to do, and writes what it did.
const RUN_FILE: &str = "/run/torchgauge/run.json";
const RESULTS_FILE: &str = "/run/torchgauge/events.ndjson";
/// Where a container finds the compiled kernels of the runs before it.
const KERNEL_CACHE_FOLDER: &str = "/run/torchgauge/kernel-cache";
/// An engine that was stopped is waited for this long; one that is started anew takes seconds.
const ENGINE_PATIENCE: Duration = Duration::from_mins(1);
/// The only writable folder of a container, in memory: home of whoever wants one.
const HOME: &str = "/tmp";

/// What runs in containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerImage {
    /// ID or reference in the engine; an ID cannot come to mean something else half way.
    pub image: String,
    /// What to start, before run file and results file; the image's own entry point where `None`.
    pub entrypoint: Option<Vec<String>>,
    /// Variables over those of the image.
    pub environment: BTreeMap<String, String>,
}

/// Runs in fresh, hardened containers, through one engine.
#[derive(Debug)]
pub struct Container {
    engine: Engine,
    images: BTreeMap<String, ContainerImage>,
    gpus: BTreeMap<Device, GpuAccess>,
    watched: BTreeMap<Device, Gpu>,
    live: Live,
}

impl Container {
    /// With an image for each image's name, and the GPUs where the work runs on some.
    #[must_use]
    pub fn new(
        engine: Engine,
        images: BTreeMap<String, ContainerImage>,
        gpus: impl IntoIterator<Item = GpuAccess>,
    ) -> Self {
        let gpus: BTreeMap<_, _> = gpus
            .into_iter()
            .map(|gpu| (Device::Cuda(gpu.index), gpu))
            .collect();
        let open = |gpu: &GpuAccess| Some((Device::Cuda(gpu.index), Gpu::open(gpu.index)?));
        Self {
            engine,
            images,
            watched: gpus.values().filter_map(open).collect(),
            gpus,
            live: Live::default(),
        }
    }

    /// Lets the monitors put their newest readings here.
    #[must_use]
    pub fn telling(mut self, live: Live) -> Self {
        self.live = live;
        self
    }

    /// Removes the containers of these runs that are still there, as after an engine was away.
    /// What cannot be removed now is swept by the next session.
    pub async fn clean_up(&self) {
        if let Err(error) = self.engine.cleanup().await {
            tracing::warn!("{error}");
        }
    }

    async fn carry_out(&self, order: &Order, cancel: &CancellationToken) -> Execution {
        let mut execution = Execution::new(self.isolation());
        let began = Instant::now();
        let spec = match self.prepare(order, &mut execution).await {
            Ok(spec) => spec,
            Err(end) => return execution.ended(began, end),
        };
        let mut container = match self.engine.create(&spec).await {
            Ok(container) => container,
            Err(error) => return execution.ended(began, not_started(&error, Stage::Create)),
        };
        execution.cost.create_seconds = began.elapsed().as_secs_f64();
        let end = self
            .watch(order, cancel, &mut container, &mut execution)
            .await;

        let removing = Instant::now();
        note_container(&container, &mut execution);
        if let Err(error) = container.save_logs(&order.log).await {
            execution.notes.push(format!("no log: {error}"));
        }
        // The log tells whose exit code it is.
        let end = match end {
            End::Exited(code) if told_nothing(order) && not_executed(code, order) => {
                End::NotStarted {
                    reason: Reason::ImageBroken,
                    stage: Stage::Start,
                    message: format!(
                        "the image's program cannot be started (status {code}); the log {} says why",
                        order.log.display()
                    ),
                }
            }
            end => end,
        };
        if let Err(error) = container.remove().await {
            execution.notes.push(error.to_string());
        }
        execution.cost.remove_seconds = removing.elapsed().as_secs_f64();
        execution.ended(began, end)
    }

    /// From the start to the end of the workload.
    async fn watch(
        &self,
        order: &Order,
        cancel: &CancellationToken,
        container: &mut engine::Container,
        execution: &mut Execution,
    ) -> End {
        let idle = self.watched.get(&order.device).map(Gpu::before_run);
        let (ordered_at, starting) = (Timestamp::now(), Instant::now());
        if let Err(error) = container.start().await {
            return not_started(&error, Stage::Start);
        }
        execution.cost.start_seconds = starting.elapsed().as_secs_f64();
        let pid = if self.engine.facts().is_local() {
            container.host_pid().await.ok().flatten()
        } else {
            None
        };
        let target = Target::Container {
            id: container.id().to_owned(),
            pid,
        };
        // Ten samples a second of its files, or about one a second of the engine's.
        let is_visible = target.is_visible() || !order.is_watched;
        let watch = if order.is_watched {
            let live = self.live.run(&order.asked.run, order.device);
            Watch::begin(starting, target, idle, live)
        } else {
            Watch::none()
        };
        let gpu_lost = watch.gpu_lost();
        let stats = async {
            if is_visible {
                Monitor::default()
            } else {
                stats(container, starting).await
            }
        };
        let results = order.results_file();
        let ending = async {
            tokio::select! {
                exit = container.wait(order.limits.time) => match exit {
                    Ok(exit) => Ok(exit),
                    Err(error) => Err(engine_lost(&error)),
                },
                () = silence(&results, order.limits.silence) => {
                    Err(End::Silent(order.limits.silence.unwrap_or_default()))
                }
                message = gpu_lost => Err(End::GpuLost { message }),
                () = cancel.cancelled() => Err(End::Interrupted),
            }
        };
        let (ended, stats) = {
            let (mut ending, mut stats) = (Box::pin(ending), Box::pin(stats));
            let mut seen = None;
            // The stream of statistics ends with the container, but need not where the engine
            // is lost; nothing waits for it.
            let ended = loop {
                tokio::select! {
                    ended = &mut ending => break ended,
                    stats = &mut stats, if seen.is_none() => seen = Some(stats),
                }
            };
            let left = tokio::time::timeout(Duration::from_millis(200), stats);
            let stats = match seen {
                Some(seen) => seen,
                None => left.await.unwrap_or_default(),
            };
            (ended, stats)
        };
        let noticed_at = Timestamp::now();
        execution.monitor = merged(watch.end(), stats);
        let exit = match ended {
            Ok(exit) => exit,
            Err(end) => {
                if let Err(error) = container.kill().await {
                    execution.notes.push(error.to_string());
                }
                return end;
            }
        };
        if let Some(seconds) = between(Some(ordered_at), time(exit.started_at.as_deref())) {
            execution.cost.start_seconds = seconds;
        }
        if let Some(seconds) = between(time(exit.finished_at.as_deref()), Some(noticed_at)) {
            execution.cost.notice_seconds = seconds;
        }
        self.explain(&exit, order, execution).await
    }

    async fn explain(&self, exit: &Exit, order: &Order, execution: &mut Execution) -> End {
        if exit.timed_out {
            return End::TimeLimit(order.limits.time);
        }
        let limit = match order.limits.memory_bytes {
            Some(bytes) => format!("the container's memory limit of {bytes} bytes"),
            None => "the host's memory".to_owned(),
        };
        match exit.oom {
            Oom::Container => {
                let message = format!("ended for want of memory: {limit}; raise `limits.memory`");
                return End::OutOfMemory { message };
            }
            Oom::Unknown => {
                let message = format!(
                    "ended by a SIGKILL that nobody here sent, under {limit}; the engine cannot \
                     tell whether memory ran out, but most likely it did"
                );
                return End::OutOfMemory { message };
            }
            Oom::Child => {
                let note = format!("a child process was ended for want of memory: {limit}");
                execution.notes.push(note);
            }
            Oom::No => {}
        }
        match (exit.signal, exit.code) {
            // An engine that stops ends its containers with SIGKILL.
            (Some(signal), _) => match self.engine.ping().await {
                Ok(()) => End::Signalled(signal),
                Err(error) => End::EngineLost {
                    message: format!("ended by {}, and {error}", signal_name(signal)),
                },
            },
            (None, Some(code)) => End::Exited(code),
            (None, None) => End::EngineLost {
                message: "the engine does not know how the container ended".to_owned(),
            },
        }
    }
}

impl Executor for Container {
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(self.carry_out(order, cancel))
    }

    fn isolation(&self) -> Isolation {
        let path = self.gpus.values().next().map(|gpu| path_word(gpu.path));
        Isolation::Container {
            id: None,
            gpu_path: path.map(str::to_owned),
        }
    }

    fn recover<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let began = Instant::now();
            loop {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE) => {}
                    () = cancel.cancelled() => return false,
                }
                if self.engine.ping().await.is_ok() {
                    return true;
                }
                if began.elapsed() > ENGINE_PATIENCE {
                    return false;
                }
            }
        })
    }
}

/// The word for a path in records.
#[must_use]
pub fn path_word(path: GpuPath) -> &'static str {
    match path {
        GpuPath::Cdi => "cdi",
        GpuPath::NvidiaRuntime => "nvidia-runtime",
        GpuPath::Passthrough => "passthrough",
    }
}

fn note_container(container: &engine::Container, execution: &mut Execution) {
    if let Isolation::Container { id, .. } = &mut execution.isolation {
        *id = Some(container.id().to_owned());
    }
    for warning in container.warnings() {
        execution
            .notes
            .push(format!("the engine warns: {}", warning.trim()));
    }
    for given_up in container.fallbacks() {
        let note = format!("the engine refused {}: {}", given_up.what, given_up.reason);
        execution.notes.push(note);
    }
}

fn not_started(error: &engine::Error, stage: Stage) -> End {
    // What cannot be executed is the image's fault, everything else the engine's.
    let words = error.to_string();
    let is_image = matches!(error, engine::Error::ImageMissing { .. })
        || stage == Stage::Start
            && !error.is_engine_gone()
            && [
                "executable file",
                "no such file or directory",
                "exec format",
                "permission denied",
            ]
            .iter()
            .any(|sign| words.to_lowercase().contains(sign));
    End::NotStarted {
        reason: if is_image {
            Reason::ImageBroken
        } else {
            Reason::Engine
        },
        stage,
        message: words,
    }
}

/// Whether the init process could not execute the program: Docker's says so by its exit code, and
/// Podman's (catatonit), which exits with 1, in the log.
fn not_executed(code: i64, order: &Order) -> bool {
    const PODMANS_WORDS: &str = "failed to exec pid1";
    matches!(code, 126 | 127)
        || log::tail(&order.log).is_ok_and(|said| said.contains(PODMANS_WORDS))
}

fn told_nothing(order: &Order) -> bool {
    fs::metadata(order.results_file()).map_or(true, |file| file.len() == 0)
}

fn engine_lost(error: &engine::Error) -> End {
    End::EngineLost {
        message: error.to_string(),
    }
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// Seconds between two readings of this machine's clock; `None` where one is missing. A clock
/// that was set in between gives 0 rather than nonsense.
fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<f64> {
    let seconds = to?.duration_since(from?).as_secs_f64();
    Some(seconds.max(0.0))
}

/// The engine's own readings, for containers whose files cannot be read from here.
async fn stats(container: &engine::Container, began: Instant) -> Monitor {
    let (mut memory, mut cores, mut pids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut read_bytes, mut written_bytes) = (None, None);
    let mut readings = container.stats();
    while let Some(Ok(reading)) = readings.next().await {
        let at = began.elapsed().as_secs_f64();
        let push = |column: &mut Vec<Sample>, value: Option<f64>| {
            column.extend(value.map(|value| Sample(at, value)));
        };
        push(&mut memory, reading.memory_bytes.map(|bytes| bytes as f64));
        push(&mut cores, reading.cpus_used);
        push(&mut pids, reading.pids.map(|pids| pids as f64));
        read_bytes = reading.read_bytes.or(read_bytes);
        written_bytes = reading.written_bytes.or(written_bytes);
    }
    Monitor {
        memory_bytes: Series::of(&memory),
        cpu_cores: Series::of(&cores),
        pids: Series::of(&pids),
        read_bytes,
        written_bytes,
        ..Monitor::default()
    }
}

fn merged(own: Monitor, engine: Monitor) -> Monitor {
    Monitor {
        memory_bytes: own.memory_bytes.or(engine.memory_bytes),
        cpu_cores: own.cpu_cores.or(engine.cpu_cores),
        pids: own.pids.or(engine.pids),
        read_bytes: own.read_bytes.or(engine.read_bytes),
        written_bytes: own.written_bytes.or(engine.written_bytes),
        ..own
    }
}

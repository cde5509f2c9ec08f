//! Runs in fresh, hardened containers.

pub(super) mod end;
mod gpu_probe;
pub(super) mod program;
mod ready;
pub(super) mod spec;
mod stats;

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Endpoint, Engine, Exit, GpuAccess, Product, Store};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use protocol::Device;
use record::{Isolation, Place, Reason, Stage, word_of};
use tokio_util::sync::CancellationToken;

pub use gpu_probe::{Obstacle, find_gpu};

use super::{
    Execution, Executor, ExecutorError, ImageSource, Order, Prepared, Registration,
    executor::RETRY_PAUSE,
    guard::{flooded, guard},
    oom_kills::OomKills,
};
use crate::{
    host::{self, Host, Samples, Target},
    outcome::End,
    suite::Program,
};
use end::not_started;

pub(super) const REGISTRATION: Registration = Registration {
    word: "container",
    argument: Some("ENGINE"),
    aliases: &[
        ("docker", "docker", "in containers, through Docker"),
        ("podman", "podman", "in containers, through Podman"),
    ],
    help: "in containers, through Docker or Podman",
    is_automatic: true,
    is_scheduler: false,
    is_hidden: false,
    open: |product| {
        Box::pin(async move {
            let engine = connect(&product).await?;
            engine.facts().check_here()?;
            let container = Container::new(host::local::open(), engine, BTreeMap::new(), None);
            Ok(Box::new(container) as Box<dyn Executor>)
        })
    },
    examine: || Box::pin(ready::examine()),
    sweep: |_| 0,
};

/// Connects to the engine of this product; to the first that answers where it is empty.
async fn connect(product: &str) -> Result<Engine, ExecutorError> {
    if product.is_empty() {
        return Ok(Engine::connect(&Endpoint::Auto).await?);
    }
    let wanted = [Product::Docker, Product::Podman];
    let word = |product: Product| product.to_string().to_lowercase();
    let Some(wanted) = wanted.into_iter().find(|one| word(*one) == product) else {
        let message = format!("no engine `{product}` for containers; expected docker or podman");
        return Err(ExecutorError::Argument(message.into()));
    };
    let engines = Engine::connect_all(&Endpoint::Auto).await?;
    let others: Vec<String> = engines.iter().map(|one| one.facts().describe()).collect();
    let found = engines
        .into_iter()
        .find(|one| one.facts().product == wanted);
    found.ok_or_else(|| {
        let others = others.join(", ");
        let message = format!(
            "{wanted} does not answer, {others} does; start {wanted}, or pass --engine container"
        );
        ExecutorError::Unavailable(message.into())
    })
}

impl From<engine::Error> for ExecutorError {
    fn from(error: engine::Error) -> Self {
        match &error {
            engine::Error::Endpoint { .. } => Self::Argument(Box::new(error)),
            _ => Self::Unavailable(Box::new(error)),
        }
    }
}

/// Where a container finds what it is to do, and writes what it did.
const FOLDER: &str = "/run/torchgauge";
const RUN_FILE: &str = "/run/torchgauge/run.json";
const RESULTS_FILE: &str = "/run/torchgauge/events.ndjson";
/// Beside it, as [`protocol::SNAPSHOT_FILE`].
const SNAPSHOT_FILE: &str = "/run/torchgauge/snapshot.pickle";
/// Where a container finds the compiled kernels of the runs before it.
const KERNEL_CACHE_FOLDER: &str = "/run/torchgauge/kernel-cache";
/// An engine that was stopped is waited for this long; one that is started anew takes seconds.
const ENGINE_PATIENCE: Duration = Duration::from_mins(1);
/// The only writable folder of a container, in memory: home of whoever wants one.
const HOME: &str = "/tmp";

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
    hosts: [Arc<dyn Host>; 1],
    engine: Engine,
    images: BTreeMap<String, ContainerImage>,
    gpus: BTreeMap<Device, GpuAccess>,
}

impl Container {
    /// With an image for each image's name, and the GPUs where the work runs on some.
    pub fn new(
        host: Arc<dyn Host>,
        engine: Engine,
        images: BTreeMap<String, ContainerImage>,
        gpus: impl IntoIterator<Item = GpuAccess>,
    ) -> Self {
        let gpus = gpus.into_iter();
        Self {
            hosts: [host],
            engine,
            images,
            gpus: gpus.map(|gpu| (Device::Cuda(gpu.index), gpu)).collect(),
        }
    }

    async fn carry_out(&self, order: &Order, cancel: &CancellationToken) -> Execution {
        let mut execution = Execution::new(self.isolation());
        let spec = match self.container_spec(order, &mut execution).await {
            Ok(spec) => spec,
            Err(end) => return execution.ended(end),
        };
        let mut container = match self.engine.create(&spec).await {
            Ok(container) => container,
            Err(error) => return execution.ended(not_started(&error, Stage::Create)),
        };
        execution.record.harness.create_seconds = execution.began.elapsed().as_secs_f64();
        let end = self
            .watch(order, cancel, &mut container, &mut execution)
            .await;

        let removing = Instant::now();
        note_container(&container, &mut execution);
        let saved = container.save_logs(&order.log, order.cell.limits.log_bytes);
        if let Err(error) = saved.await {
            execution.record.notes.push(format!("no log: {error}"));
        }
        let end = end::unless_started(end, order);
        if let Err(error) = container.remove().await {
            execution.record.warnings.push(error.to_string());
        }
        execution.record.harness.remove_seconds = removing.elapsed().as_secs_f64();
        execution.ended(end)
    }

    /// From the start to the end of the workload.
    async fn watch(
        &self,
        order: &Order,
        cancel: &CancellationToken,
        container: &mut engine::Container,
        execution: &mut Execution,
    ) -> End {
        let host = &self.hosts[0];
        let bystanders = order.bystanders(host.as_ref());
        let kills_before = OomKills::now();
        let (ordered_at, starting) = (Timestamp::now(), Instant::now());
        if let Err(error) = container.start().await {
            return not_started(&error, Stage::Start);
        }
        execution.record.harness.start_seconds = starting.elapsed().as_secs_f64();
        let target = Target::Container {
            id: container.id().to_owned(),
            pid: container.host_pid().await.ok().flatten(),
        };
        // Ten samples a second of its files, or about one a second of the engine's.
        let is_visible = host.can_see(&target) || !order.is_watched;
        let watch = order.watch(host.as_ref(), execution.began, target, bystanders);
        let gpu_lost = watch.gpu_lost();
        let stats = async {
            if is_visible {
                Samples::default()
            } else {
                stats::samples(container, execution.began).await
            }
        };
        let results = order.results_file();
        let ending = async {
            tokio::select! {
                exit = container.wait(order.cell.limits.time) => match exit {
                    Ok(exit) => Ok(exit),
                    Err(error) => Err(End::ended(Reason::Engine, error.to_string())),
                },
                end = guard(&results, None, &order.cell.limits) => Err(end),
                () = program::reported(order) => Err(End::Reported),
                () = container.log_exceeds(order.cell.limits.log_bytes) => {
                    Err(flooded("log", order.cell.limits.log_bytes))
                }
                message = gpu_lost => Err(End::ended(Reason::GpuLost, message)),
                () = cancel.cancelled() => Err(End::interrupted()),
            }
        };
        let (ended, stats) = with_stats(ending, stats).await;
        let (noticed_at, lived) = (Timestamp::now(), starting.elapsed());
        execution.record.monitor = watch.end().or(stats).monitor();
        let exit = match ended {
            Ok(exit) => exit,
            Err(End::Reported) => match program::end(container).await {
                Ok(exit) => exit,
                Err(how) => {
                    execution.record.notes.push(how.to_owned());
                    return End::Reported;
                }
            },
            Err(end) => {
                if let Err(error) = container.kill().await {
                    execution.record.warnings.push(error.to_string());
                }
                return end;
            }
        };
        note_times(&exit, ordered_at, noticed_at, lived, execution);
        let kernel_killed = kills_before.have_risen();
        self.explain(&exit, order, kernel_killed, execution).await
    }
}

impl Executor for Container {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    fn store(&self) -> Option<Store<'_>> {
        Some(Store::Engine(&self.engine))
    }

    fn takes(&self, program: &Program) -> Result<(), String> {
        program.check_files()
    }

    fn describe(&self) -> String {
        format!("in containers: {}", self.engine.facts().describe())
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        places: &'a [Place],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        Box::pin(self.make_ready(images, places, source))
    }

    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution> {
        Box::pin(self.carry_out(order, cancel))
    }

    fn isolation(&self) -> Isolation {
        let gpu = self.gpus.values().next();
        Isolation {
            engine: "container".to_owned(),
            gpu_path: gpu.map(|gpu| word_of(gpu.path)),
            ..Isolation::default()
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

    fn clean_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // What cannot be removed now is swept by the next session.
            if let Err(error) = self.engine.cleanup().await {
                tracing::warn!("{error}");
            }
        })
    }
}

fn note_container(container: &engine::Container, execution: &mut Execution) {
    execution.record.isolation.id = Some(container.id().to_owned());
    for warning in container.warnings() {
        let warning = format!("the engine warns: {}", warning.trim());
        execution.record.warnings.push(warning);
    }
    for given_up in container.fallbacks() {
        let warning = format!("the engine refused {}: {}", given_up.what, given_up.reason);
        execution.record.warnings.push(warning);
    }
}

/// Waits for the end of a run. The stream of statistics ends with the container, but need not where
/// the engine is lost; nothing waits for it.
async fn with_stats<T>(
    ending: impl Future<Output = T>,
    stats: impl Future<Output = Samples>,
) -> (T, Samples) {
    let (mut ending, mut stats) = (pin!(ending), pin!(stats));
    tokio::select! {
        ended = &mut ending => {
            let left = tokio::time::timeout(Duration::from_millis(200), stats);
            (ended, left.await.unwrap_or_default())
        }
        stats = &mut stats => (ending.await, stats),
    }
}

/// How long the container took to start, and its end to be noticed, by the engine's own times. It all
/// took as long as `lived`.
fn note_times(
    exit: &Exit,
    ordered: Timestamp,
    noticed: Timestamp,
    lived: Duration,
    execution: &mut Execution,
) {
    let started = time(exit.started_at.as_deref());
    if let Some(seconds) = between(Some(ordered), started, lived) {
        execution.record.harness.start_seconds = seconds;
    }
    if let Some(seconds) = between(time(exit.finished_at.as_deref()), Some(noticed), lived) {
        execution.record.harness.notice_seconds = seconds;
    }
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// Seconds between two readings of this machine's clock; `None` where one is missing, and where the
/// clock was set forward in between. One that was set back gives 0 rather than nonsense.
fn between(from: Option<Timestamp>, to: Option<Timestamp>, most: Duration) -> Option<f64> {
    let seconds = to?.duration_since(from?).as_secs_f64();
    (seconds <= most.as_secs_f64()).then_some(seconds.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_in_the_middle_of_a_run_gives_no_nonsense() {
        let at = |text: &str| time(Some(text));
        let check = |to: &str, expect: Option<f64>| {
            let from = at("2026-11-26T12:00:00Z");
            assert_eq!(
                between(from, at(to), Duration::from_mins(1)),
                expect,
                "{to}"
            );
        };
        check("2026-11-26T12:00:05Z", Some(5.0));
        check("2026-11-26T13:00:05Z", None);
        check("2026-11-26T11:00:05Z", Some(0.0));
        check("never", None);
    }
}

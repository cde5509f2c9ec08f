//! Runs in the unpacked roots of images, where there is no engine: the same images and programs, in
//! containers of Apptainer's, or by the kernel alone.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path, sync::Arc};

use engine::{Apptainer, Error, GpuAccess, GpuHost, ImageFacts, Network, Store, Unpacked};
use futures_util::future::BoxFuture;
use protocol::Device;
use record::{EngineFacts, Isolation, Place, Reason, Stage};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::{
    Execution, Executor, ExecutorError, Finding, ImageSource, Order, Prepared, Registration,
    container::{ContainerImage, end::unless_started, spec},
    group::{self, FOLDER_VARIABLE, follow},
    order::{no_files, no_image},
};
use crate::{
    host::{self, Host},
    log,
    outcome::End,
    session::remove_folder,
    suite::Program,
};

pub(super) const APPTAINER: Registration = Registration {
    word: "apptainer",
    help: "in containers, through Apptainer: isolated, without limits",
    argument: None,
    aliases: &[],
    is_automatic: true,
    is_scheduler: false,
    is_hidden: false,
    open: |_| Box::pin(async { Ok(opened(Unpacked::Apptainer(find().await?))) }),
    examine: || Box::pin(examine()),
    // Its processes are found as those without containers are.
    sweep: |_| 0,
};

pub(super) const CHROOT: Registration = Registration {
    word: "chroot",
    help: "in an image's unpacked root, by the kernel alone: isolated but for the network, without limits",
    argument: None,
    aliases: &[],
    is_automatic: false,
    is_scheduler: false,
    is_hidden: false,
    open: |_| {
        Box::pin(async {
            let by = Unpacked::chroot();
            by.map(opened)
                .map_err(|error| ExecutorError::Unavailable(error.into()))
        })
    },
    examine: || Box::pin(async { Vec::new() }),
    sweep: |_| 0,
};

/// What an engine's container would have separated or limited.
const MISSING: [&str; 4] = [
    "memory limit",
    "CPU limits",
    "limit of processes",
    "user of its own",
];
/// What is there for a run alone, in its folder.
const SCRATCH: &str = "scratch";
/// What it exits with where its container or the command in it could not be started.
const NOT_STARTED: i64 = 255;

pub(super) async fn find() -> Result<Apptainer, ExecutorError> {
    let found = tokio::task::spawn_blocking(Apptainer::find).await;
    let found = found.map_err(|error| ExecutorError::Unavailable(error.into()))?;
    found.map_err(|error| ExecutorError::Unavailable(error.into()))
}

async fn examine() -> Vec<Finding> {
    let what = "Apptainer";
    vec![match find().await {
        Ok(found) if found.takes_network => Finding::ok(what, found.version),
        Ok(found) => Finding::ok(what, format!("{}, runs keep the network", found.version)),
        Err(error) => {
            let fix = "needed for --engine apptainer alone, where there is no engine";
            Finding::missing(what, error.to_string(), fix)
        }
    }]
}

struct InRoots {
    hosts: [Arc<dyn Host>; 1],
    by: Unpacked,
    images: BTreeMap<String, (ContainerImage, ImageFacts)>,
    /// Of the kernel's; Apptainer finds them itself.
    gpus: BTreeMap<Device, GpuAccess>,
    reaches_gpus: bool,
}

fn opened(by: Unpacked) -> Box<dyn Executor> {
    Box::new(InRoots {
        hosts: [host::local::open()],
        by,
        images: BTreeMap::new(),
        gpus: BTreeMap::new(),
        reaches_gpus: false,
    })
}

impl InRoots {
    fn word(&self) -> &'static str {
        match self.by {
            Unpacked::Apptainer(_) => APPTAINER.word,
            Unpacked::Chroot => CHROOT.word,
        }
    }

    async fn carry_out(&self, order: &Order, cancel: &CancellationToken) -> Execution {
        let mut execution = Execution::new(self.isolation());
        let end = match self.command(order, &mut execution) {
            Ok(command) => {
                let program = command.as_std().get_program().display().to_string();
                let host = self.hosts[0].as_ref();
                let spawn = || group::spawn(command, &order.log);
                let end = follow(order, host, &mut execution, cancel, spawn).await;
                let left = order.folder.join(SCRATCH);
                if let Err(error) = remove_folder(&left) {
                    let note = format!("{} is left: {error}", left.display());
                    execution.record.notes.push(note);
                }
                let cannot = |error| {
                    let message = format!("cannot start {program}: {error}");
                    End::never(Reason::Engine, Stage::Start, message)
                };
                let end = explain(end.unwrap_or_else(cannot), &order.log, self.word());
                unless_started(end, order)
            }
            Err(end) => end,
        };
        execution.ended(end)
    }

    /// What carries an order out, with its files.
    fn command(&self, order: &Order, execution: &mut Execution) -> Result<Command, End> {
        let image = self.images.get(&order.cell.plan.image);
        let (image, facts) = image.ok_or_else(|| no_image(&order.cell.plan.image))?;
        execution.record.image_id = Some(facts.id.clone());
        let record = &mut execution.record;
        record.warnings.extend(unapplied(order, &self.by));
        let mut spec = spec::of(order, image, facts, &self.gpus)?;
        // Of the container's own processes, which everything else of it goes with.
        let folder = order.folder.display().to_string();
        spec.environment.insert(FOLDER_VARIABLE.to_owned(), folder);
        let scratch = order.folder.join(SCRATCH);
        fs::create_dir(&scratch).map_err(|error| no_files(&error))?;
        let is_cuda = order.cell.device().is_cuda();
        let command = self.by.command(facts, &spec, &scratch, is_cuda);
        let mut command = command.map_err(|error| {
            let reason = match &error {
                Error::Bundle { error, .. } if error.kind() == ErrorKind::StorageFull => {
                    Reason::DiskFull
                }
                Error::Bundle { .. } => Reason::Engine,
                _ => Reason::ImageBroken,
            };
            End::never(reason, Stage::Create, error.to_string())
        })?;
        command.current_dir(&order.folder);
        Ok(command.into())
    }
}

/// What of an order is not done.
fn unapplied(order: &Order, by: &Unpacked) -> Vec<String> {
    // Whose shared memory a run sees it does say.
    let (name, keeps): (_, &[&str]) = match by {
        Unpacked::Apptainer(_) => ("Apptainer", &["ipc"]),
        Unpacked::Chroot => ("`chroot`", &["ipc", "shm", "tmp"]),
    };
    let runs_as = format!("{name} runs everything as who calls it");
    let mut warnings = group::unapplied(order, &format!("by {name}"), keeps, &runs_as);
    let program = order.cell.work.program().map(|program| &program.file);
    let wants_none = program.is_none_or(|program| program.network == Network::None);
    if wants_none && !by.takes_network() {
        warnings.push(match by {
            Unpacked::Apptainer(_) => {
                "the run kept the network: Apptainer may not take it here".to_owned()
            }
            Unpacked::Chroot => "the run kept the network".to_owned(),
        });
    }
    warnings
}

/// What the exit of `apptainer` means: it passes on that of the command, and tells signals and its own
/// failures by their numbers alone. This program tells its own as Apptainer does.
fn explain(end: End, log: &Path, by: &str) -> End {
    let End::Exited(code) = end else { return end };
    if (129..=192).contains(&code) {
        return End::Signalled(i32::try_from(code - 128).unwrap_or_default());
    }
    // Its own words are the last ones, behind the colour that they have on a terminal.
    let said = log::tail(log).unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    if let Some(words) = last.filter(|_| code == 1 && said.starts_with("unshare: ")) {
        return End::never(Reason::Engine, Stage::Start, words.to_owned());
    }
    let fatal = last.and_then(|line| line.split_once("FATAL: "));
    let fatal = fatal.filter(|(before, _)| before.is_empty() || before.starts_with('\u{1b}'));
    let Some((_, words)) = fatal.filter(|_| code == NOT_STARTED) else {
        return end;
    };
    let words = words.trim().to_owned();
    if words.contains("no space left on device") {
        return End::never(Reason::DiskFull, Stage::Start, words);
    }
    let of_image = [
        "no such file",
        "permission denied",
        "exec format",
        "not found",
    ];
    let is_image = !words.starts_with("container creation failed")
        && of_image
            .iter()
            .any(|sign| words.to_lowercase().contains(sign));
    if is_image {
        let message = format!("the image's program cannot be started: {words}");
        return End::never(Reason::ImageBroken, Stage::Start, message);
    }
    End::never(Reason::Engine, Stage::Start, format!("{by}: {words}"))
}

impl Executor for InRoots {
    fn hosts(&self) -> &[Arc<dyn Host>] {
        &self.hosts
    }

    fn store(&self) -> Option<Store<'_>> {
        Some(Store::Unpacked(&self.by))
    }

    fn takes(&self, program: &Program) -> Result<(), String> {
        program.check_files()
    }

    fn describe(&self) -> String {
        match &self.by {
            Unpacked::Apptainer(apptainer) => format!("in containers: {}", apptainer.describe()),
            Unpacked::Chroot => CHROOT.help.to_owned(),
        }
    }

    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        places: &'a [Place],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>> {
        Box::pin(async move {
            let mut prepared = Prepared::default();
            for name in images {
                let loaded = source.load(name, Store::Unpacked(&self.by)).await;
                let mut loaded = loaded.map_err(ExecutorError::Image)?;
                let facts = loaded.unpacked.take().unwrap_or_default();
                let image = prepared.take(loaded);
                self.images.insert(name.clone(), (image, facts));
            }
            let gpus = GpuHost::discover();
            for Place { device, .. } in places {
                let Device::Cuda(index) = *device else {
                    continue;
                };
                self.reaches_gpus = true;
                if self.by == Unpacked::Chroot {
                    let access = GpuAccess::passed_through(&gpus, index);
                    let access =
                        access.map_err(|error| ExecutorError::Unavailable(error.into()))?;
                    self.gpus.insert(*device, access);
                }
            }
            prepared.engine = EngineFacts {
                kind: self.word().to_owned(),
                version: match &self.by {
                    Unpacked::Apptainer(apptainer) => Some(apptainer.version.clone()),
                    Unpacked::Chroot => None,
                },
                gpu_path: self.isolation().gpu_path,
                ..EngineFacts::default()
            };
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
        let network = (!self.by.takes_network()).then_some("network");
        let path = match self.by {
            Unpacked::Apptainer(_) => "nv",
            Unpacked::Chroot => "passthrough",
        };
        let missing: Vec<&str> = MISSING.into_iter().chain(network).collect();
        Isolation {
            gpu_path: self.reaches_gpus.then(|| path.to_owned()),
            ..Isolation::without(self.word(), &missing)
        }
    }

    fn limits_memory(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_the_program_s_unless_apptainer_says_that_it_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let explained = |code: i64, said: &str| {
            fs::write(&log, said).unwrap();
            explain(End::Exited(code), &log, "x")
        };
        assert_eq!(explained(3, "FATAL: x"), End::Exited(3));
        assert_eq!(explained(255, "x"), End::Exited(255));
        assert_eq!(explained(137, ""), End::Signalled(9));
        // A program's own, which is not the last word or stands in a line of its own making.
        assert_eq!(
            explained(255, "FATAL: data not found\nbye"),
            End::Exited(255)
        );
        assert_eq!(explained(255, "db: FATAL: not found"), End::Exited(255));
        let reason = |said: &str| match explained(255, said) {
            End::Failed { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        let missing = "FATAL:   stat /entry: no such file or directory\n";
        assert_eq!(reason(missing), Reason::ImageBroken);
        let mount = "FATAL:   container creation failed: mount /x: no such file or directory\n";
        assert_eq!(reason(mount), Reason::Engine);
        let namespaces = "unshare: unshare failed: No space left on device\n";
        let ended = explained(1, namespaces);
        assert!(
            matches!(
                ended,
                End::Failed {
                    reason: Reason::Engine,
                    ..
                }
            ),
            "{ended:?}"
        );
        assert_eq!(explained(1, "x\nunshare: y"), End::Exited(1));
        let full = "FATAL:   container creation failed: write: no space left on device\n";
        assert_eq!(reason(full), Reason::DiskFull);
    }
}

//! Blocks as the tasks of a Slurm job array.
//!
//! Jobs are found again by their name, which follows from the session's: a submitter that dies loses
//! none. Results come over the shared folder.

mod oci;
mod profile;
mod pyxis;
mod queue;
mod steps;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use record::command_line;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    Executor, ExecutorError, Finding, Registration,
    nodes::{self, CLEAN_UP, Nodes, PAUSES, SILENCE, Scheduler, inside::Steps},
    process, unpacked,
};
use crate::session::Part;
pub use oci::step_spec;
use profile::Profile;
use queue::{NO_PROGRAM, NOT_SHARED, Task, slurm};

pub(super) const REGISTRATION: Registration = Registration {
    word: "slurm",
    help: "on the nodes of a Slurm cluster, each block as a task of a job array",
    argument: Some("PROFILE"),
    aliases: &[],
    is_automatic: false,
    is_scheduler: true,
    is_hidden: false,
    open: |profile| Box::pin(open(profile)),
    examine: || Box::pin(examine()),
    sweep: |_| 0,
};

/// How long a task that left the queue may be unknown to the accounts.
const ACCOUNTS: Duration = Duration::from_secs(30);

async fn open(file: String) -> Result<Box<dyn Executor>, ExecutorError> {
    if file.is_empty() {
        let message = "slurm needs a profile, a YAML file with partition, account, gres and time: \
                       --engine slurm:FILE; docs/fleets.md describes it";
        return Err(ExecutorError::Argument(message.into()));
    }
    let mut profile = Profile::read(Path::new(&file))
        .map_err(|error| ExecutorError::Argument(error.to_string().into()))?;
    version().await.map_err(|said| {
        let message = format!("no Slurm here: {said}; run this where `sbatch` and `squeue` work");
        ExecutorError::Unavailable(message.into())
    })?;
    let mut by = profile.engine().to_owned();
    if profile.engine.is_none()
        && let Some((steps, why)) = found().await
    {
        steps.word().clone_into(&mut by);
        profile.engine = Some(by.clone());
        by = format!("{by}, for {why} (`engine` in the profile names another)");
    }
    // As a Pod does, a step runs what is inside of its image.
    let engine = match profile.steps() {
        Some(_) => process::REGISTRATION.word,
        None => profile.engine(),
    };
    let engine = engine.to_owned();
    let gpus = profile.gpus();
    let slurm = Box::new(Slurm { profile, file, by });
    Ok(Box::new(Nodes::new(
        REGISTRATION.word,
        gpus,
        engine,
        slurm,
    )?))
}

/// Slurm's version, where its controller answers.
async fn version() -> Result<String, String> {
    slurm(&["scontrol", "ping"], "").await?;
    let version = slurm(&["sbatch", "--version"], "").await?;
    Ok(version.trim().to_owned())
}

async fn examine() -> Vec<Finding> {
    let what = "Slurm";
    vec![match version().await {
        Ok(version) => {
            let by = match found().await {
                Some((steps, _)) => format!("runs are steps by `{}`", steps.word()),
                None => "nodes choose Podman or Apptainer".to_owned(),
            };
            Finding::ok(
                what,
                format!("{version}; without `engine` in a profile, {by}"),
            )
        }
        Err(said) => {
            let fix = "needed for --engine slurm alone; run this where `sbatch` works";
            Finding::missing(what, said, fix)
        }
    }]
}

/// By its block, a task's number, and since when the queue does not know it any more.
type Open = BTreeMap<u32, (String, Option<Instant>)>;

fn unavailable(said: &str) -> ExecutorError {
    let message =
        format!("Slurm does not answer: {said}; its jobs go on, and --resume finds them again");
    ExecutorError::Unavailable(message.into())
}

struct Slurm {
    profile: Profile,
    /// Where the profile is.
    file: String,
    /// What runs blocks on nodes, and why where the profile leaves it open.
    by: String,
}

impl Slurm {
    fn program(&self) -> String {
        let own = || env::current_exe().unwrap_or_else(|_| PathBuf::from("torchgauge"));
        let program = self.profile.program.clone();
        program.unwrap_or_else(|| own().display().to_string())
    }

    /// What each task runs.
    fn script(&self, parts: &Path) -> String {
        let quoted = |word: String| command_line(&[word]);
        let (parts, program) = (quoted(parts.display().to_string()), quoted(self.program()));
        let engine = match self.profile.engine() {
            "podman" => PODMAN.to_owned(),
            "auto" => format!("if command -v podman >/dev/null; then\n{PODMAN}fi\n"),
            _ => String::new(),
        };
        let run = match self.profile.steps() {
            Some(by) => steps::script(by, &program, self.profile.gpus() > 0),
            None => format!("exec {program} node \"$part\"\n"),
        };
        format!(
            "#!/bin/sh\n\
             part={parts}/$(printf %03d \"$SLURM_ARRAY_TASK_ID\")\n\
             [ -f \"$part/session.json\" ] || exit {NOT_SHARED}\n\
             command -v {program} >/dev/null || exit {NO_PROGRAM}\n\
             export TORCHGAUGE_NODE=\"$SLURMD_NODENAME\"\n\
             {engine}{run}"
        )
    }

    /// Submits these parts under this name; gives the job's number.
    async fn submit(&self, name: &str, parts: &[&Part]) -> Result<String, ExecutorError> {
        let folder = parts[0].folder.parent().unwrap_or(Path::new("."));
        let by = self.profile.steps();
        parts.iter().try_for_each(|part| match by {
            Some(by) => steps::write_steps(by, part),
            None => steps::check_isolated(part, self.profile.engine()),
        })?;
        let blocks: Vec<String> = parts.iter().map(|part| part.block.to_string()).collect();
        let mut words = vec![
            "sbatch".to_owned(),
            "--parsable".to_owned(),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "--nodes=1".to_owned(),
            format!("--job-name={name}"),
            format!("--array={}", blocks.join(",")),
            format!("--signal=B:TERM@{}", self.profile.notice_seconds()),
            format!("--output={}/%3a/slurm.log", folder.display()),
        ];
        words.extend(self.profile.options());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = slurm(&words, &self.script(folder)).await;
        let said = said.map_err(|said| queue::refused(&said, &self.file))?;
        // `12;cluster` where there are several.
        let job = said.trim().split(';').next().unwrap_or_default();
        Ok(job.to_owned())
    }

    /// Cancels every job of this name and waits until none is left.
    async fn end(&self, name: &str, tell: &mut (dyn FnMut(&str) + Send)) {
        let of_name = format!("--name={name}");
        // Slurm ends what runs by SIGKILL alone, for it is the job's script: asked before, it cleans up.
        let running = ["--state=RUNNING", "--batch", "--signal=TERM"];
        let _ = slurm(&["scancel", &of_name, "--state=PENDING"], "").await;
        let _ = slurm(&[&["scancel", &of_name], &running[..]].concat(), "").await;
        let mut cancelled = Ok(String::new());
        let began = Instant::now();
        while began.elapsed() < CLEAN_UP {
            match queue::live(name).await {
                Ok(tasks) if tasks.is_empty() => return,
                _ if began.elapsed() > CLEAN_UP / 2 => {
                    cancelled = slurm(&["scancel", &of_name], "").await;
                }
                _ => {}
            }
            sleep(PAUSES[0]).await;
        }
        let said = cancelled.err().unwrap_or_default();
        tell(&format!(
            "jobs are left in the queue ({said}); end them with `scancel {of_name}`"
        ));
    }

    /// The tasks of these parts: those that a submitter before this one left, and new ones for what
    /// is left.
    async fn begin(
        &self,
        name: &str,
        parts: &[Part],
        tell: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Open, ExecutorError> {
        let live = queue::live(name)
            .await
            .map_err(|said| unavailable(&said))?
            .into_iter();
        let mut open: Open = live.map(|task| (task.block, (task.id, None))).collect();
        let left = |part: &&Part| !part.is_complete && !open.contains_key(&part.block);
        let left: Vec<&Part> = parts.iter().filter(left).collect();
        if !left.is_empty() {
            let job = self.submit(name, &left).await?;
            tell(&format!("job {job} of {} blocks: {name}", left.len()));
            let id = |block: u32| (format!("{job}_{block}"), None);
            open.extend(left.iter().map(|part| (part.block, id(part.block))));
        }
        Ok(open)
    }

    async fn carry_out(
        &self,
        name: &str,
        parts: &[Part],
        tell: &mut (dyn FnMut(&str) + Send),
        cancel: &CancellationToken,
    ) -> Result<(), ExecutorError> {
        let mut open = self.begin(name, parts, tell).await?;
        let (mut pause, mut answered) = (PAUSES[0], Instant::now());
        let mut told: BTreeMap<u32, Task> = BTreeMap::new();
        while !open.is_empty() {
            tokio::select! {
                () = sleep(pause) => pause = (pause * 3 / 2).min(PAUSES[1]),
                () = cancel.cancelled() => {
                    self.end(name, tell).await;
                    return Ok(());
                }
            }
            let tasks = match queue::live(name).await {
                Ok(tasks) => tasks,
                Err(said) if answered.elapsed() > SILENCE => return Err(unavailable(&said)),
                Err(_) => continue,
            };
            answered = Instant::now();
            let mut out_of_service = None;
            for task in &tasks {
                let mut words = task.to_string();
                let before = told.insert(task.block, task.clone());
                if before.as_ref().map(Task::to_string).as_ref() != Some(&words) {
                    if queue::waits_for_nodes(&task.reason) {
                        if out_of_service.is_none() {
                            let partition = self.profile.partition.as_deref();
                            out_of_service = Some(queue::out_of_service(partition).await);
                        }
                        words.extend(out_of_service.iter().map(String::as_str));
                    }
                    let ran = before.filter(|before| task.is_pending && !before.is_pending);
                    if let Some(Task { nodes, .. }) = ran {
                        words = format!("{words}; Slurm took it off {nodes} and runs it again");
                    }
                    tell(&words);
                    pause = PAUSES[0];
                }
                if let Some(next) = queue::never(&task.reason).filter(|_| task.is_pending) {
                    self.end(name, tell).await;
                    let message = format!("{words}; profile {}: {next}", self.file);
                    return Err(ExecutorError::Argument(message.into()));
                }
            }
            let is_open = |block: &u32| tasks.iter().any(|task| task.block == *block);
            let gone: Vec<u32> = open
                .keys()
                .copied()
                .filter(|block| !is_open(block))
                .collect();
            for block in gone {
                let Some((id, since)) = open.get_mut(&block) else {
                    continue;
                };
                let ending = queue::ending(id).await;
                let is_known = ending.is_some();
                let since = since.get_or_insert_with(Instant::now);
                if !is_known && since.elapsed() < ACCOUNTS {
                    continue;
                }
                open.remove(&block);
                if let Some(part) = parts.iter().find(|part| part.block == block) {
                    tell(&self.ended(part, &ending.unwrap_or_default()));
                }
                pause = PAUSES[0];
            }
        }
        Ok(())
    }

    /// What is to be told of a part that no job carries out any more.
    fn ended(&self, part: &Part, ending: &queue::Ending) -> String {
        let node = match ending.nodes.as_str() {
            "None" => "",
            nodes => nodes,
        };
        let why = || ending.why(&part.folder, &self.program(), self.profile.steps());
        nodes::ended(part, node, why)
    }
}

/// Starts Podman's service for the task; it ends with it.
const PODMAN: &str = "socket=${TMPDIR:-/tmp}/podman-$SLURM_JOB_ID.sock\n\
    podman system service --time=0 \"unix://$socket\" &\n\
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S \"$socket\" ] && break; sleep 1; done\n\
    export CONTAINER_HOST=\"unix://$socket\"\n";

impl Scheduler for Slurm {
    fn carry<'a>(
        &'a self,
        session: &'a str,
        parts: &'a [Part],
        tell: &'a mut (dyn FnMut(&str) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let name = format!("torchgauge-{session}");
            self.carry_out(&name, parts, tell, cancel).await
        })
    }

    fn container(&self) -> Option<&str> {
        self.profile.steps().map(Steps::container)
    }

    fn runs_by<'a>(&'a self, _: &'a str) -> &'a str {
        &self.by
    }

    fn by_hand(&self, _: &Path) -> Option<String> {
        None
    }
}

/// What makes containers of steps on this cluster, and the sign of it here.
pub(super) async fn found() -> Option<(Steps, &'static str)> {
    let help = slurm(&["srun", "--help"], "").await.unwrap_or_default();
    if help.contains("--container-image") {
        return Some((Steps::Pyxis, "`srun` has --container-image"));
    }
    let settings = if let Some(file) = env::var_os("SLURM_CONF") {
        PathBuf::from(file)
    } else {
        let shown = slurm(&["scontrol", "show", "config"], "").await.ok()?;
        let line = shown.lines().find(|line| line.starts_with("SLURM_CONF "))?;
        PathBuf::from(line.split_once('=')?.1.trim())
    };
    // Apptainer unpacks their images, on nodes that have what is here.
    let is_there = settings.with_file_name("oci.conf").is_file();
    let is_taken = is_there && unpacked::find().await.is_ok();
    is_taken.then_some((Steps::Oci, "an oci.conf lies beside Slurm's settings"))
}

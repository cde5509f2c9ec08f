//! The processes of a run that no engine starts: a group of their own, which leaves nothing behind.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io,
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::Path,
    process::{ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use procfs::process::{Process, all_processes};
use record::Reason;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Execution, Order,
    container::program::{BY_ITSELF, BY_SIGTERM, ENDED, KILLED, reported},
    guard::guard,
    nodes::inside::{Inside, inside},
    oom_kills::OomKills,
};
use crate::{
    host::{Host, Target},
    log,
    outcome::End,
    suite::Program,
};

/// Tells a run's processes whose they are, so that they can be found when the harness is gone.
pub(super) const FOLDER_VARIABLE: &str = "TORCHGAUGE_RUN_FOLDER";

/// Ends what runs left whose folders are in this one, when their harness was killed: the processes
/// that were started for them. Gives how many were ended.
pub(super) fn sweep(folder: &Path) -> usize {
    let folder = [folder.as_os_str().as_bytes(), b"/"].concat();
    let is_ours = |environment: HashMap<OsString, OsString>| {
        let of = environment.get(std::ffi::OsStr::new(FOLDER_VARIABLE));
        of.is_some_and(|of| of.as_bytes().starts_with(&folder))
    };
    let own = std::process::id().cast_signed();
    processes()
        .filter(|process| process.pid != own && process.environ().is_ok_and(is_ours))
        .filter_map(|process| Pid::from_raw(process.pid))
        .filter(|&pid| kill_process(pid, Signal::KILL).is_ok())
        .count()
}

fn processes() -> impl Iterator<Item = Process> {
    all_processes().into_iter().flatten().flatten()
}

/// Members of a process group that are still there.
fn members(group: u32) -> usize {
    let group = group.cast_signed();
    // In a container nobody waits for those whose parent is gone.
    let is_member = |process: &Process| {
        let stat = process.stat();
        stat.is_ok_and(|stat| stat.pgrp == group && stat.state != 'Z')
    };
    processes().filter(is_member).count()
}

/// How often a program that is still open for writing is started again, and how long after.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// How much later than a run this program may get a signal that was for both.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Starts a command as the leader of a group of its own, with what it says in this log.
pub(super) fn spawn(mut command: Command, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?);
    command.stderr(log).process_group(0).kill_on_drop(true);
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

/// What of an order is not done that an engine would do, `by` whatever carries it out, but for limits
/// that it `keeps`. `runs_as`: whose user everything is.
pub(super) fn unapplied(order: &Order, by: &str, keeps: &[&str], runs_as: &str) -> Vec<String> {
    let mut limits = order.cell.limits.of_containers();
    limits.retain(|limit| !keeps.contains(limit));
    let limits = limits.join(", ");
    let limits = (!limits.is_empty()).then(|| format!("limits not applied {by}: {limits}"));
    let program = order.cell.work.program();
    let user = program.and_then(|program: &Program| program.file.user.as_ref());
    let user = user.map(|user| format!("`user: {user}` not applied: {runs_as}"));
    limits.into_iter().chain(user).collect()
}

/// Starts a run by `spawn`, watches it on this host to its end, and leaves nothing of it.
///
/// # Errors
/// That of `spawn`.
pub(super) async fn follow(
    order: &Order,
    host: &dyn Host,
    execution: &mut Execution,
    cancel: &CancellationToken,
    spawn: impl FnOnce() -> io::Result<Child>,
) -> Result<End, io::Error> {
    let kills_before = OomKills::now();
    let bystanders = order.bystanders(host);
    execution.record.harness.create_seconds = execution.began.elapsed().as_secs_f64();
    let starting = Instant::now();
    let mut group = Group::of(spawn()?);
    let record = &mut execution.record;
    record.harness.start_seconds = starting.elapsed().as_secs_f64();
    let target = Target::Process { pid: group.id };
    let watch = order.watch(host, execution.began, target, bystanders);
    let mut ended = group.end(order, watch.gpu_lost(), cancel).await;
    record.monitor = watch.end().monitor();
    let removing = Instant::now();
    if let Ended::Made(End::Reported) = ended {
        match group.end_reported().await {
            Ok(status) => ended = Ended::By(status),
            Err(how) => record.notes.push(how.to_owned()),
        }
    } else if group.leave_nothing() {
        let note = "processes that the workload left behind were ended";
        record.notes.push(note.to_owned());
    }
    if let Err(error) = log::shorten(&order.log, order.cell.limits.log_bytes) {
        record.notes.push(format!("log not shortened: {error}"));
    }
    record.harness.remove_seconds = removing.elapsed().as_secs_f64();
    Ok(explain(ended, kills_before))
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
        let limits = &order.cell.limits;
        let results = order.results_file();
        let made = tokio::select! {
            status = self.child.wait() => {
                self.is_reaped = true;
                // A scheduler ends a run and this program at once, and the run may be the first.
                let is_ended = !status.as_ref().is_ok_and(ExitStatus::success);
                let may_be = is_ended && matches!(inside(), Some(Inside::Step(_)));
                if may_be && timeout(AT_ONCE, cancel.cancelled()).await.is_ok() {
                    return Ended::Made(End::interrupted());
                }
                return match status {
                    Ok(status) => Ended::By(status),
                    Err(error) => Ended::Lost(error),
                };
            }
            () = sleep(limits.time) => End::time_limit(limits.time),
            end = guard(&results, Some(&order.log), limits) => end,
            message = gpu_lost => End::ended(Reason::GpuLost, message),
            () = reported(order) => return Ended::Made(End::Reported),
            () = cancel.cancelled() => End::interrupted(),
        };
        self.kill().await;
        Ended::Made(made)
    }

    /// Ends a program that has reported all that was asked for.
    ///
    /// # Errors
    /// How it was ended, in words, where it did not end by itself.
    async fn end_reported(&mut self) -> Result<ExitStatus, &'static str> {
        if let Ok(Ok(status)) = timeout(BY_ITSELF, self.child.wait()).await {
            self.is_reaped = true;
            self.leave_nothing();
            return Ok(status);
        }
        self.send(Signal::TERM);
        let is_ended = timeout(BY_SIGTERM, self.child.wait()).await.is_ok();
        if is_ended {
            self.is_reaped = true;
            self.leave_nothing();
            return Err(ENDED);
        }
        self.kill().await;
        Err(KILLED)
    }

    async fn kill(&mut self) {
        self.send(Signal::KILL);
        if let Err(error) = self.child.wait().await {
            tracing::warn!("cannot wait for process {}: {error}", self.id);
        }
        self.is_reaped = true;
    }

    /// Signals the whole group. Its number is nobody else's: the leader is not reaped, or members
    /// were just seen.
    fn send(&self, signal: Signal) {
        let group = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, signal)
        {
            // It ended by itself in the meantime.
            tracing::debug!("cannot signal process group {}: {error}", self.id);
        }
    }

    /// Ends what the workload left behind; tells whether there was something.
    fn leave_nothing(&self) -> bool {
        let left = self.id != 0 && members(self.id) > 0;
        if left {
            self.send(Signal::KILL);
        }
        left
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.send(Signal::KILL);
        }
    }
}

/// How whoever stands between tells a SIGKILL: Apptainer, a shell.
const KILLED_BELOW: i32 = 128 + Signal::KILL.as_raw();

fn explain(ended: Ended, kills_before: OomKills) -> End {
    let status = match ended {
        Ended::Made(end) => return end,
        Ended::Lost(error) => {
            let message = format!("cannot wait for the workload's process: {error}");
            return End::ended(Reason::Engine, message);
        }
        Ended::By(status) => status,
    };
    let signal = status.signal();
    let is_killed = signal == Some(Signal::KILL.as_raw()) || status.code() == Some(KILLED_BELOW);
    if is_killed && kills_before.have_risen() {
        let message = "ended by the kernel for lack of host memory while it ran; \
                       take a smaller batch, or give the machine more";
        return End::ended(Reason::HostOutOfMemory, message);
    }
    match signal {
        Some(signal) => End::Signalled(signal),
        None => End::Exited(status.code().unwrap_or(-1).into()),
    }
}

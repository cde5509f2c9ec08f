//! The processes of a run: a group of their own, which leaves nothing behind.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::Path,
    process::ExitStatus,
};

use procfs::process::{Process, all_processes};
use record::Reason;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{process::Child, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    executors::{Order, guard::guard, oom_kills::OomKills},
    outcome::End,
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
    let is_member = |process: &Process| process.stat().is_ok_and(|stat| stat.pgrp == group);
    processes().filter(is_member).count()
}

/// A process group that this process made, its leader not yet reaped.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    pub(super) id: u32,
    is_reaped: bool,
}

/// How a process ended, or why it was made to.
#[derive(Debug)]
pub(super) enum Ended {
    By(ExitStatus),
    Lost(io::Error),
    Made(End),
}

impl Group {
    pub(super) fn of(child: Child) -> Self {
        Self {
            id: child.id().unwrap_or_default(),
            child,
            is_reaped: false,
        }
    }

    pub(super) async fn end(
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
                return match status {
                    Ok(status) => Ended::By(status),
                    Err(error) => Ended::Lost(error),
                };
            }
            () = sleep(limits.time) => End::time_limit(limits.time),
            end = guard(&results, Some(&order.log), limits) => end,
            message = gpu_lost => End::ended(Reason::GpuLost, message),
            () = cancel.cancelled() => End::interrupted(),
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
    pub(super) fn leave_nothing(&self) -> bool {
        let left = self.id != 0 && members(self.id) > 0;
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

pub(super) fn explain(ended: Ended, kills_before: OomKills) -> End {
    let status = match ended {
        Ended::Made(end) => return end,
        Ended::Lost(error) => {
            let message = format!("cannot wait for the workload's process: {error}");
            return End::ended(Reason::Engine, message);
        }
        Ended::By(status) => status,
    };
    let Some(signal) = status.signal() else {
        return End::Exited(status.code().unwrap_or(-1).into());
    };
    if signal == Signal::KILL.as_raw() && kills_before.have_risen() {
        let message = "ended by the kernel for want of host memory while it ran; \
                       take a smaller batch, or give the machine more";
        return End::ended(Reason::HostOutOfMemory, message);
    }
    End::Signalled(signal)
}

//! The processes of a run that has several, its ranks: started together, ended together.
//!
//! The supervisor starts as many copies of a program as a run has ranks, each with the variables
//! that torchrun sets. The first that dies or fails ends all, and so does one that still runs long
//! after others are done. What the supervisor alone can know goes to the results file as the
//! `failed` of that rank; ranks that went because another one had are not named.

mod place;
mod report;

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{Ipv4Addr, TcpListener},
    os::unix::process::ExitStatusExt as _,
    process::{self, Child, Command, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use protocol::FailureReason;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

pub use place::{Place, die_with_supervisor};
pub use report::report;

/// How long ranks may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Least time that the others have when the first rank has ended well. They have as long as it
    /// took, where that is longer.
    pub others: Duration,
}

impl Patience {
    /// What a run has.
    pub const USUAL: Self = Self {
        grace: Duration::from_secs(5),
        others: Duration::from_secs(30),
    };
}

/// The rank that ended a run, and how.
#[derive(Debug)]
pub struct Lost {
    pub rank: u32,
    pub how: How,
}

#[derive(Debug)]
pub enum How {
    NotStarted(io::Error),
    /// With another status than 0.
    Exited(i32),
    Signalled(i32),
    /// It still ran so long after the first one had ended well.
    Hung(Duration),
}

impl How {
    fn of(status: ExitStatus) -> Option<Self> {
        match status.signal() {
            Some(signal) => Some(Self::Signalled(signal)),
            None if status.success() => None,
            None => Some(Self::Exited(status.code().unwrap_or(-1))),
        }
    }

    /// The failure's type in records.
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::NotStarted(_) | Self::Exited(_) => FailureReason::RankExit,
            Self::Signalled(_) => FailureReason::RankCrash,
            Self::Hung(_) => FailureReason::RankHang,
        }
    }

    /// Whether it is no answer of a rank's to the end of another: a process that loses its peer
    /// throws, and aborts where nobody catches that.
    fn is_from_outside(&self) -> bool {
        matches!(self, Self::Signalled(signal) if *signal != Signal::ABORT.as_raw())
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "cannot be started: {error}"),
            Self::Exited(status) => write!(f, "ended with status {status}"),
            Self::Signalled(signal) => {
                let hint = match signal {
                    7 => "; a mapped file had no room, most likely in /dev/shm (`limits.shm`)",
                    9 => "; somebody killed it, or the kernel for lack of memory",
                    _ => "",
                };
                write!(f, "ended by signal {signal}{hint}")
            }
            Self::Hung(waited) => write!(
                f,
                "still ran {:.0} s after the first rank was done, and was ended",
                waited.as_secs_f64()
            ),
        }
    }
}

/// Ranks that run.
struct Running {
    children: BTreeMap<u32, Child>,
    /// Hears of each that ended, in order; a process is reaped here alone, so that the number of one
    /// that is still to be ended is nobody else's.
    ended: Receiver<u32>,
}

/// Runs so many ranks to their end, each by the command that `command` makes; none is left when this
/// comes back.
///
/// # Errors
/// The rank that failed first, or hung.
pub fn run(
    count: u32,
    patience: Patience,
    mut command: impl FnMut(u32) -> Command,
) -> Result<(), Lost> {
    let (sender, ended) = channel();
    let mut running = Running {
        children: BTreeMap::new(),
        ended,
    };
    let mut start = |rank, port| {
        let child = command(rank)
            .envs(Place::environment(rank, count, port))
            .spawn()?;
        watch(rank, &child, &sender);
        running.children.insert(rank, child);
        Ok(())
    };
    let not_started = |rank| {
        move |error| Lost {
            rank,
            how: How::NotStarted(error),
        }
    };
    let started = free_port().map_err(not_started(0)).and_then(|port| {
        (0..count).try_for_each(|rank| start(rank, port).map_err(not_started(rank)))
    });
    let outcome = started.and_then(|()| running.wait(patience.others));
    running.end(patience.grace);
    outcome
}

/// For the first rank to listen on, where the others find it: below the ports that systems give out
/// by themselves, one of which a connection of another process could take before the rank listens.
fn free_port() -> io::Result<u16> {
    // Supervisors that look at once begin apart.
    let own = usize::try_from(process::id() % 10_000).unwrap_or_default();
    let mut ports = (20_000..30_000).cycle().skip(own).take(10_000);
    ports
        .find(|&port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok())
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// Tells when this rank ends, and leaves it to be reaped.
fn watch(rank: u32, child: &Child, sender: &Sender<u32>) {
    let (pid, sender) = (Pid::from_child(child), sender.clone());
    thread::spawn(move || {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), ended) {}
        // Nobody listens any more where all are ended.
        let _ = sender.send(rank);
    });
}

impl Running {
    /// Waits until all have ended well.
    fn wait(&mut self, least: Duration) -> Result<(), Lost> {
        let began = Instant::now();
        // For the others, once the first is done: since when, and how long.
        let mut limit: Option<(Instant, Duration)> = None;
        while let Some(slowest) = self.children.keys().next().copied() {
            let left = limit.map_or(Duration::MAX, |(since, time)| {
                time.saturating_sub(since.elapsed())
            });
            let Ok(rank) = self.ended.recv_timeout(left) else {
                let how = How::Hung(limit.map_or(Duration::ZERO, |(since, _)| since.elapsed()));
                return Err(Lost { rank: slowest, how });
            };
            if let Some(how) = self.reap(rank) {
                return Err(self.first(Lost { rank, how }));
            }
            limit.get_or_insert_with(|| (Instant::now(), least.max(began.elapsed())));
        }
        Ok(())
    }

    /// Of the ranks that have ended by now, the one that the others went with.
    fn first(&mut self, heard: Lost) -> Lost {
        let mut all = vec![heard];
        while let Ok(rank) = self.ended.try_recv() {
            all.extend(self.reap(rank).map(|how| Lost { rank, how }));
        }
        let place = all.iter().position(|lost| lost.how.is_from_outside());
        all.swap_remove(place.unwrap_or(0))
    }

    /// How it failed; `None` where it did not.
    fn reap(&mut self, rank: u32) -> Option<How> {
        match self.children.remove(&rank)?.wait() {
            Ok(status) => How::of(status),
            Err(error) => Some(How::NotStarted(error)),
        }
    }

    /// Ends all that still run, first by SIGTERM.
    fn end(&mut self, grace: Duration) {
        for child in self.children.values() {
            // One that has ended meanwhile is not reaped yet.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        let since = Instant::now();
        while !self.children.is_empty() {
            let left = grace.saturating_sub(since.elapsed());
            match self.ended.recv_timeout(left) {
                Ok(rank) => _ = self.reap(rank),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for (_, mut child) in std::mem::take(&mut self.children) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests;

//! How a run ended, out of what the executor saw and what the workload told.

use std::time::Duration;

use record::{Outcome, Reason, Stage};

use crate::results::{Fault, Results, WorkloadEnd};

/// How a run ended, as the executor saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The workload ended by itself with this status.
    Exited(i64),
    /// A signal ended it.
    Signalled(i32),
    /// The host's memory limit ended it.
    OutOfMemory {
        /// In words, what ended and by which limit.
        message: String,
    },
    /// It ran into its time limit and was ended.
    TimeLimit(Duration),
    /// It told nothing for so long that it was ended.
    Silent(Duration),
    /// It never ran.
    NotStarted {
        /// Why, as a type.
        reason: Reason,
        /// Where.
        stage: Stage,
        /// Why, in words.
        message: String,
    },
    /// The GPU was lost while it ran.
    GpuLost {
        /// Why, in words.
        message: String,
    },
    /// The machine was not fit to measure on, and the run was not started.
    NotIdle {
        /// Why, in words.
        message: String,
    },
    /// The engine was lost while it ran.
    EngineLost {
        /// Why, in words.
        message: String,
    },
    /// The session was interrupted, and the run ended with it.
    Interrupted,
}

/// The outcome of a run whose metrics, where it has any, are not looked at yet.
pub(crate) fn judge(end: &End, results: &Results, log: Option<&str>) -> Outcome {
    let stage = stage(results);
    let (reason, stage, message) = match (end, &results.end) {
        (
            End::NotStarted {
                reason,
                stage,
                message,
            },
            _,
        ) => (*reason, *stage, message.clone()),
        (End::Interrupted, _) => (
            Reason::Interrupted,
            stage,
            "the session was interrupted; `--resume` runs it again".to_owned(),
        ),
        (End::EngineLost { message }, _) => (Reason::Engine, stage, message.clone()),
        (End::GpuLost { message }, _) => (Reason::GpuLost, stage, message.clone()),
        (End::NotIdle { message }, _) => (Reason::Contaminated, Stage::Create, message.clone()),
        (End::TimeLimit(limit), _) => (
            Reason::TimeLimit,
            stage,
            format!(
                "longer than its limit of {}; raise `limits.time`, or take fewer steps",
                seconds(*limit)
            ),
        ),
        (End::Silent(limit), _) => (
            Reason::Hang,
            stage,
            format!(
                "no event for {}; it hangs, or `limits.silence` is too short",
                seconds(*limit)
            ),
        ),
        (End::OutOfMemory { message }, _) => (Reason::HostOutOfMemory, stage, message.clone()),
        (
            _,
            Some(WorkloadEnd::Failed {
                reason,
                phase,
                message,
                ..
            }),
        ) => ((*reason).into(), Stage::Workload(*phase), message.clone()),
        (End::Signalled(signal), told) => {
            let when = if told.is_some() { Stage::Exit } else { stage };
            (Reason::Crash, when, crash(*signal, log))
        }
        (End::Exited(0), Some(WorkloadEnd::Finished(_))) if results.fault.is_none() => {
            return Outcome::Ok;
        }
        (End::Exited(0), _) => {
            let fault = results.fault.as_ref().unwrap_or(&Fault::NoEnd);
            (
                Reason::UnreadableResults,
                Stage::Exit,
                format!("{fault}{}", last_words(log)),
            )
        }
        (End::Exited(status), told) => {
            let when = if told.is_some() { Stage::Exit } else { stage };
            let message = format!("ended with status {status}{}", last_words(log));
            (Reason::ExitStatus, when, message)
        }
    };
    Outcome::Failed {
        reason,
        stage,
        message,
    }
}

fn stage(results: &Results) -> Stage {
    match (&results.started, results.phase) {
        (_, Some(phase)) => Stage::Workload(phase),
        (Some(_), None) => Stage::Workload(protocol::Phase::ProcessStart),
        (None, None) => Stage::Start,
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn crash(signal: i32, log: Option<&str>) -> String {
    let hint = match signal {
        // What maps a file into memory is told so late that the file has no room.
        7 => {
            "; a mapped file had no room, most likely in /dev/shm, whose size is `limits.shm` \
             (64 MiB unless the suite says otherwise)"
        }
        9 => "; somebody or something killed it (the kernel's log says so where memory ran out)",
        _ => "",
    };
    format!("ended by {}{hint}{}", signal_name(signal), last_words(log))
}

/// The end of the log, for failures that the workload itself did not explain.
fn last_words(log: Option<&str>) -> String {
    const LINES: usize = 5;
    const LETTERS: usize = 600;
    let Some(log) = log else { return String::new() };
    let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let skipped = last.chars().count().saturating_sub(LETTERS);
    let last: String = last.chars().skip(skipped).collect();
    format!("; its log ends with: {last}")
}

/// The name of a signal on Linux, from `signal(7)`.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use protocol::{FailureReason, Phase};

    use super::*;

    fn told(reason: FailureReason) -> Results {
        Results {
            end: Some(WorkloadEnd::Failed {
                reason,
                phase: Phase::Warmup,
                message: "tried to allocate 2 GiB".into(),
                memory: None,
            }),
            ..Results::default()
        }
    }

    fn check(end: &End, results: &Results, log: Option<&str>, expect: &str) {
        let found = match judge(end, results, log) {
            Outcome::Ok => "ok".into(),
            Outcome::Failed {
                reason,
                stage,
                message,
            } => format!("{} {stage:?} {message}", reason.word()),
        };
        assert!(found.contains(expect), "{found}");
    }

    #[test]
    fn the_best_witness_is_heard() {
        let nothing = Results {
            fault: Some(Fault::Empty),
            ..Results::default()
        };
        check(
            &End::Exited(3),
            &told(FailureReason::OutOfMemory),
            None,
            "out-of-memory Workload(Warmup) tried",
        );
        check(
            &End::Exited(0),
            &nothing,
            None,
            "unreadable-results Exit the results file is empty",
        );
        check(
            &End::Exited(3),
            &nothing,
            Some("a\nb\n"),
            "exit-status Start ended with status 3; its log ends with: a\nb",
        );
        check(
            &End::Signalled(11),
            &nothing,
            None,
            "crash Start ended by SIGSEGV",
        );
        check(
            &End::Signalled(9),
            &nothing,
            None,
            "SIGKILL; somebody or something killed it",
        );
        check(
            &End::Signalled(7),
            &nothing,
            None,
            "ended by SIGBUS; a mapped file had no room, most likely in /dev/shm",
        );
        check(&End::Signalled(64), &nothing, None, "ended by signal 64");
        check(
            &End::TimeLimit(Duration::from_millis(1500)),
            &nothing,
            None,
            "time-limit Start longer than its limit of 1.5 s",
        );
        check(
            &End::OutOfMemory {
                message: "4 GiB".into(),
            },
            &Results {
                phase: Some(Phase::Data),
                ..nothing.clone()
            },
            None,
            "host-out-of-memory Workload(Data) 4 GiB",
        );
        check(
            &End::Interrupted,
            &told(FailureReason::Libtorch),
            None,
            "interrupted",
        );
        check(
            &End::Silent(Duration::from_secs(9)),
            &nothing,
            None,
            "no event for 9 s",
        );
    }
}

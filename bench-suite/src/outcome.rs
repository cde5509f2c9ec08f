//! How a run ended, out of what the executor saw and what the workload told.

use std::time::Duration;

use protocol::Phase;
use record::{Failure, Outcome, Reason, Stage};

use crate::results::{Fault, RankResults, Results};

/// How a run ended, as the executor saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The workload ended by itself with this status.
    Exited(i64),
    Signalled(i32),
    /// The harness ended it, for it had reported all that was asked for.
    Reported,
    /// Something other than the workload ended it, or kept it from running: whatever the workload
    /// told does not count.
    Failed {
        reason: Reason,
        /// Where; `None` is as far as the workload told that it got.
        stage: Option<Stage>,
        message: String,
    },
}

impl End {
    /// It was ended while it ran.
    pub(crate) fn ended(reason: Reason, message: impl Into<String>) -> Self {
        Self::Failed {
            reason,
            stage: None,
            message: message.into(),
        }
    }

    pub(crate) fn never(reason: Reason, stage: Stage, message: impl Into<String>) -> Self {
        Self::Failed {
            reason,
            stage: Some(stage),
            message: message.into(),
        }
    }

    /// The session was interrupted, and the run ended with it.
    pub(crate) fn interrupted() -> Self {
        let message = "the session was interrupted; `--resume` runs it again";
        Self::ended(Reason::Interrupted, message)
    }

    /// It ran into its time limit.
    pub(crate) fn time_limit(limit: Duration) -> Self {
        let message = format!(
            "longer than its limit of {} s; raise `limits.time`, or take fewer steps",
            limit.as_secs_f64()
        );
        Self::ended(Reason::TimeLimit, message)
    }

    /// It reported nothing for so long that it counts as hanging.
    pub(crate) fn hang(limit: Duration) -> Self {
        let message = format!(
            "no event for {} s; it hangs, or `limits.silence` is too short",
            limit.as_secs_f64()
        );
        Self::ended(Reason::Hang, message)
    }
}

/// The outcome of a run whose metrics, where it has any, are not looked at yet.
pub(crate) fn judge(end: &End, results: &Results, log: Option<&str>) -> Outcome {
    // Of several processes the one that failed says why.
    let told = results.failed().unwrap_or(results.first());
    let at_exit = || match told.end {
        Some(_) => Stage::Exit,
        None => stage(told),
    };
    let (reason, stage, message) = match end {
        End::Failed {
            reason,
            stage: at,
            message,
        } => (*reason, at.unwrap_or(stage(told)), message.clone()),
        _ if let Some(Err(failure)) = &told.end => {
            return Outcome::Failed(unfit(failure.clone(), &failure.message));
        }
        End::Signalled(signal) => (Reason::Crash, at_exit(), crash(*signal, log)),
        End::Exited(0) | End::Reported if results.finished() && results.fault.is_none() => {
            return Outcome::Ok;
        }
        End::Exited(0) | End::Reported => {
            let fault = results.fault.as_ref().unwrap_or(&Fault::NoEnd(0));
            let reason = match fault {
                Fault::TooLarge(_) => Reason::Flooded,
                _ => Reason::UnreadableResults,
            };
            (reason, Stage::Exit, format!("{fault}{}", last_words(log)))
        }
        End::Exited(status) => {
            let message = format!("ended with status {status}{}", last_words(log));
            (Reason::ExitStatus, at_exit(), message)
        }
    };
    let failure = Failure {
        reason,
        stage,
        message,
    };
    Outcome::Failed(match end {
        End::Failed { .. } => failure,
        _ => unfit(failure, &at_the_end(log)),
    })
}

/// How CUDA (`cudaGetErrorString` of 209, 35, 222, 803 and 804) and PyTorch word that an image does not
/// fit the machine's GPU or driver, and what to do.
const UNFIT: [(&str, &str); 6] = [
    (
        "no kernel image is available for execution on the device",
        "the image has no code for this GPU; take an image that is built for it",
    ),
    (
        "The NVIDIA driver on your system is too old",
        "the driver is older than the image's CUDA needs; upgrade it, or take an image with an older \
         CUDA",
    ),
    (
        "CUDA driver version is insufficient for CUDA runtime version",
        "the run got no driver, or one older than the image's CUDA needs; give it a GPU, upgrade the \
         driver, or take an image with an older CUDA",
    ),
    (
        "the provided PTX was compiled with an unsupported toolchain",
        "PTX newer than the driver had to be compiled; upgrade the driver, or take an image that is \
         built for this GPU",
    ),
    (
        "system has unsupported display driver / cuda driver combination",
        "the image's compat libraries are found before the driver's, which is no older, or the driver \
         was upgraded without a reboot; remove them from `LD_LIBRARY_PATH` and `/etc/ld.so.conf.d`, or \
         reboot",
    ),
    (
        "forward compatibility was attempted on non supported HW",
        "compat libraries start on data-centre GPUs only; upgrade the driver, or take an image with \
         an older CUDA",
    ),
];

/// With the next step in front where `words`, the failure's own or the end of its log, have CUDA's error
/// that the image does not fit the machine: libtorch adds lines to an error, and a list shows the first.
/// A failure that has another reason keeps it.
fn unfit(failure: Failure, words: &str) -> Failure {
    let may_be = matches!(
        failure.reason,
        Reason::Libtorch | Reason::ExitStatus | Reason::Crash | Reason::DeviceUnavailable
    );
    let mut known = UNFIT.iter().filter(|_| may_be);
    let Some((_, next)) = known.find(|(error, _)| words.contains(error)) else {
        return failure;
    };
    Failure {
        reason: Reason::DeviceUnavailable,
        message: format!(
            "{next}; `{} images inspect` with --driver and --gpu checks an image without running it: {}",
            protocol::program(),
            failure.message
        ),
        ..failure
    }
}

/// The last lines of a log, among which PyTorch's longest error of CUDA has room, without warnings,
/// after which a program may have gone on.
fn at_the_end(log: Option<&str>) -> String {
    const LINES: usize = 10;
    let lines = log.unwrap_or_default().lines().rev();
    let lines = lines.filter(|line| !line.trim().is_empty()).take(LINES);
    let lines: Vec<&str> = lines.filter(|line| !line.contains("Warning:")).collect();
    lines.join("\n")
}

fn stage(results: &RankResults) -> Stage {
    match (&results.started, results.phase) {
        (_, Some(phase)) => Stage::Workload(phase),
        (Some(_), None) => Stage::Workload(Phase::ProcessStart),
        (None, None) => Stage::Start,
    }
}

fn crash(signal: i32, log: Option<&str>) -> String {
    let hint = match signal {
        // What maps a file into memory is told so late that the file has no room.
        7 => {
            "; a mapped file had no room, most likely in /dev/shm, whose size is `limits.shm` \
             (by default 64 MiB, and 1 GiB for several ranks)"
        }
        9 => {
            "; somebody or something killed it (the kernel's log has an entry where memory ran out)"
        }
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
pub fn signal_name(signal: i32) -> String {
    const NAMES: &str = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM \
        STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS";
    let place = usize::try_from(signal - 1).ok();
    match place.and_then(|place| NAMES.split(' ').nth(place)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reason: Reason) -> Results {
        let mut results = Results::of(1);
        results.first_failed = Some(0);
        results.ranks[0].end = Some(Err(Failure {
            reason,
            stage: Stage::Workload(Phase::Warmup),
            message: "tried to allocate 2 GiB".into(),
        }));
        results
    }

    fn check(end: &End, results: &Results, log: Option<&str>, expect: &str) {
        let found = judge(end, results, log);
        let found = found.failure().map_or_else(
            || "ok".to_owned(),
            |Failure {
                 reason,
                 stage,
                 message,
             }| format!("{} {stage:?} {message}", reason.word()),
        );
        assert!(found.contains(expect), "{found}");
    }

    #[test]
    fn the_best_witness_is_heard() {
        let nothing = Results {
            fault: Some(Fault::Empty),
            ..Results::of(1)
        };
        let mut in_data = nothing.clone();
        in_data.ranks[0].phase = Some(Phase::Data);
        check(
            &End::Exited(3),
            &told(Reason::OutOfMemory),
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
            &End::time_limit(Duration::from_millis(1500)),
            &nothing,
            None,
            "time-limit Start longer than its limit of 1.5 s",
        );
        check(
            &End::ended(Reason::HostOutOfMemory, "4 GiB"),
            &in_data,
            None,
            "host-out-of-memory Workload(Data) 4 GiB",
        );
        check(
            &End::interrupted(),
            &told(Reason::Libtorch),
            None,
            "interrupted",
        );
        check(
            &End::hang(Duration::from_secs(9)),
            &nothing,
            None,
            "no event for 9 s",
        );
    }

    #[test]
    fn an_image_that_does_not_fit_the_machine_is_named_with_what_to_do() {
        let thrown = |reason: Reason, error: &str| {
            let mut results = told(reason);
            if let Some(Err(failure)) = &mut results.ranks[0].end {
                failure.message = error.to_owned();
            }
            results
        };
        for (error, next) in UNFIT {
            let expect = format!(
                "device-unavailable Workload(Warmup) {next}; `cargo xtask images inspect` with --driver and \
                 --gpu checks an image without running it: libtorch: CUDA error: {error}"
            );
            let error = format!("libtorch: CUDA error: {error}\nCompile with `TORCH_USE_CUDA_DSA`");
            let results = thrown(Reason::Libtorch, &error);
            check(&End::Exited(3), &results, None, &expect);
        }
        let nothing = Results {
            fault: Some(Fault::Empty),
            ..Results::of(1)
        };
        let error = UNFIT[0].0;
        let log =
            format!("RuntimeError: CUDA error: {error}\nFor debugging consider\nCompile with\n");
        let expect = "device-unavailable Start the image has no code for this GPU; take an image";
        check(&End::Exited(1), &nothing, Some(&log), expect);
        // What failed for another reason keeps it, whatever the log has.
        let memory = told(Reason::OutOfMemory);
        let expect = "out-of-memory Workload(Warmup) tried to allocate 2 GiB";
        check(&End::Exited(1), &memory, Some(&log), expect);
        let limit = End::time_limit(Duration::from_secs(1));
        check(&limit, &nothing, Some(&log), "time-limit Start longer");
        let expect = "unreadable-results Exit the results file is empty";
        check(&End::Exited(0), &nothing, Some(&log), expect);
        let warned = format!(
            "UserWarning: CUDA initialization: Error 803: {}\n",
            UNFIT[4].0
        );
        let log = format!("{warned}FileNotFoundError: train.csv\n");
        let expect = "exit-status Start ended with status 1; its log ends with: UserWarning";
        check(&End::Exited(1), &nothing, Some(&log), expect);
        let long_ago = format!("{error}\n{}", "step\n".repeat(20));
        let expect = "exit-status Start ended with status 1";
        check(&End::Exited(1), &nothing, Some(&long_ago), expect);
    }
}

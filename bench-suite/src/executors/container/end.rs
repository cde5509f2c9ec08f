//! How a container ended, or why it never ran.

use std::fs;

use engine::{Exit, Oom};
use record::{Reason, Sampled, Stage};

use super::Container;
use crate::{
    executors::{Execution, Order},
    log,
    outcome::{End, signal_name},
};

const SIGKILL: i32 = 9;

impl Container {
    pub(super) async fn explain(
        &self,
        exit: &Exit,
        order: &Order,
        kernel_killed: bool,
        execution: &mut Execution,
    ) -> End {
        if exit.timed_out {
            return End::time_limit(order.cell.limits.time);
        }
        let limit = match order.cell.limits.memory_bytes {
            Some(bytes) => format!("the container's memory limit of {bytes} bytes"),
            None => "the default memory limit, 90 % of the machine's".to_owned(),
        };
        if let Some(event) = &exit.ended_by {
            let note = format!("somebody asked the engine to end the container (event `{event}`)");
            execution.record.notes.push(note);
        }
        let is_killed = exit.signal == Some(SIGKILL);
        match exit.oom {
            Oom::Container => {
                let message = format!("ended for lack of memory: {limit}; raise `limits.memory`");
                return End::ended(Reason::HostOutOfMemory, message);
            }
            // The kernel counts whom it ends for memory. An engine that cannot know does not say, and
            // a busy one may miss it.
            Oom::Unknown | Oom::No if kernel_killed && is_killed && exit.ended_by.is_none() => {
                let message = format!(
                    "ended by the kernel for lack of memory while it ran: {limit}; raise \
                     `limits.memory`"
                );
                return End::ended(Reason::HostOutOfMemory, message);
            }
            Oom::Unknown => {
                let seen = execution.record.monitor.get(Sampled::MemoryBytes);
                let seen = seen.map_or_else(
                    || "how much it held was not seen".to_owned(),
                    |seen| format!("at most {:.0} bytes were seen", seen.maximum),
                );
                execution.record.notes.push(format!(
                    "the sender of the SIGKILL is not known; it may have been for memory: {limit}, \
                     {seen}"
                ));
            }
            Oom::Child if order.ranks() > 1 && exit.code != Some(0) => {
                let message =
                    format!("a rank was ended for lack of memory: {limit}; raise `limits.memory`");
                return End::ended(Reason::HostOutOfMemory, message);
            }
            Oom::Child => {
                let warning = format!("a child process was ended for lack of memory: {limit}");
                execution.record.warnings.push(warning);
            }
            Oom::No => {}
        }
        match (exit.signal, exit.code) {
            // An engine that stops ends its containers with SIGKILL.
            (Some(signal), _) => match self.engine.ping().await {
                Ok(()) => End::Signalled(signal),
                Err(error) => {
                    let message = format!("ended by {}, and {error}", signal_name(signal));
                    End::ended(Reason::Engine, message)
                }
            },
            (None, Some(code)) => End::Exited(code),
            (None, None) => End::ended(
                Reason::Engine,
                "the engine has no exit status of the container",
            ),
        }
    }
}

pub(super) fn not_started(error: &engine::Error, stage: Stage) -> End {
    // What cannot be executed is the image's fault, a full disk nobody's, everything else the
    // engine's.
    let words = error.to_string();
    if error.is_for_want_of_room() {
        return End::never(Reason::DiskFull, stage, words);
    }
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
    let reason = if is_image {
        Reason::ImageBroken
    } else {
        Reason::Engine
    };
    End::never(reason, stage, words)
}

/// An exit by which the image's program was not even started, as that; the log tells whose exit it is.
pub(in crate::executors) fn unless_started(end: End, order: &Order) -> End {
    match end {
        End::Exited(code) if told_nothing(order) && not_executed(code, order) => {
            let message = format!(
                "the image's program cannot be started (status {code}); the log {} has the cause",
                order.log.display()
            );
            End::never(Reason::ImageBroken, Stage::Start, message)
        }
        end => end,
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

#[cfg(test)]
mod tests {
    use engine::{Cause, Failure};

    use super::*;

    #[track_caller]
    fn check(operation: &'static str, stage: Stage, said: &str, expected: Reason) {
        let error = engine::Error::Failed(Box::new(Failure {
            operation,
            engine: "Docker 20.10.24".to_owned(),
            object: "tg-1".to_owned(),
            cause: Cause::Refused {
                status: 500,
                message: said.to_owned(),
            },
        }));
        let end = not_started(&error, stage);
        let End::Failed {
            reason, message, ..
        } = &end
        else {
            panic!("{end:?}")
        };
        assert_eq!(*reason, expected, "{message}");
        assert!(message.contains(said), "{message}");
    }

    #[test]
    fn a_full_disk_of_the_engine_is_neither_its_fault_nor_the_image_s() {
        let (create, start) = ("create container", "start container");
        for said in [
            "mkdir /var/lib/docker/overlay2/0f1e-init: no space left on device",
            "open /var/lib/containers/storage/overlay-containers/x: No space left on device",
            "write /var/lib/docker/containers/x/.tmp-config.v2.json: disk quota exceeded",
        ] {
            check(create, Stage::Create, said, Reason::DiskFull);
        }
        let said = "OCI runtime create failed: open /run/runc/state.json: no space left on device";
        check(start, Stage::Start, said, Reason::DiskFull);
        let said = "exec: \"/scenario\": no such file or directory";
        check(start, Stage::Start, said, Reason::ImageBroken);
        let said = "Conflict. The container name is in use";
        check(create, Stage::Create, said, Reason::Engine);
    }
}

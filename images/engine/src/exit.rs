//! How a container ended.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bollard::{
    errors::Error as Bollard,
    models::{ContainerState, ContainerWaitResponse},
    query_parameters::{EventsOptionsBuilder, WaitContainerOptionsBuilder},
};
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    container::Container,
    error::{Cause, Error, Result},
};

/// A killed container ends within this time, or the kernel holds it (a process
/// in an uninterruptible call into a driver).
const KILL_LIMIT: Duration = Duration::from_mins(1);
/// How long the engine may take to write down an end that it has reported.
const STATE_LIMIT: Duration = Duration::from_secs(5);
/// How long an out-of-memory event may come after the end that it caused.
const OOM_LIMIT: Duration = Duration::from_millis(500);
/// 128 + SIGKILL.
const KILLED: i64 = 137;

/// Whether the kernel's out-of-memory killer was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oom {
    No,
    /// It killed the container's main process.
    Container,
    /// It killed another process in the container; the main one ended by itself.
    Child,
    /// The main process was killed by a SIGKILL that nobody asked this engine for, in
    /// a container with a memory limit, and the engine cannot tell why.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, 128 + signal for a signal; `None` where the engine does not know.
    pub code: Option<i64>,
    /// Signal that ended the main process, out of the code. A program can also
    /// return such a code by itself.
    pub signal: Option<i32>,
    pub oom: Oom,
    /// What somebody else asked the engine for that ended the container, in its word for the event:
    /// `kill`, `stop`, `destroy` or `remove`.
    pub ended_by: Option<String>,
    /// Whether the limit passed to [`Container::wait`] was reached and the container
    /// was killed for it.
    pub timed_out: bool,
    /// Start as the engine says, RFC 3339.
    pub started_at: Option<String>,
    /// End as the engine says, RFC 3339.
    pub finished_at: Option<String>,
}

impl Exit {
    fn assemble(
        code: Option<i64>,
        state: Option<ContainerState>,
        timed_out: bool,
        unsure: bool,
        events: &[String],
    ) -> Self {
        let state = state.unwrap_or_default();
        let code = code.or(state.exit_code);
        let main_killed = code == Some(KILLED) && !timed_out;
        let told = |words: &[&str]| {
            let mut events = events.iter();
            events
                .find(|event| words.contains(&event.as_str()))
                .cloned()
        };
        let ended_by = told(&["kill", "stop", "destroy", "remove"]);
        let oom = match state.oom_killed {
            Some(true) if main_killed => Oom::Container,
            Some(true) => Oom::Child,
            _ if main_killed && told(&["oom"]).is_some() => Oom::Container,
            _ if unsure && main_killed && ended_by.is_none() => Oom::Unknown,
            _ => Oom::No,
        };
        // Year 1 is how Go writes "never".
        let time = |text: Option<String>| text.filter(|text| !text.starts_with("0001-"));
        Self {
            code,
            signal: code
                .filter(|code| (129..=192).contains(code))
                .and_then(|code| i32::try_from(code - 128).ok()),
            oom,
            ended_by,
            timed_out,
            started_at: time(state.started_at),
            finished_at: time(state.finished_at),
        }
    }
}

impl Container {
    /// Waits until the container has ended. After `limit` it is killed, and
    /// [`Exit::timed_out`] is set. The container stays until it is removed, so that
    /// its logs can be read.
    ///
    /// # Errors
    /// [`Error::Failed`] where the engine went away
    /// ([`Error::is_engine_gone`]) or the container does not end when killed.
    pub async fn wait(&self, limit: Duration) -> Result<Exit> {
        let deadline = Instant::now().checked_add(limit);
        let waited = match deadline {
            Some(deadline) => timeout_at(deadline, self.end()).await,
            None => Ok(self.end().await),
        };
        let (code, timed_out) = if let Ok(answer) = waited {
            (answer?, false)
        } else {
            self.kill().await?;
            let Ok(answer) = timeout(KILL_LIMIT, self.end()).await else {
                let words = "the container does not end although it was killed";
                return Err(self.wait_failed(Cause::Reported(words.to_owned())));
            };
            (answer?, true)
        };
        self.ended.send_replace(true);
        let state = self.final_state(code, timed_out).await?;
        let is_limited = self.spec.limits.memory_bytes.is_some();
        let unsure = is_limited && (state.is_none() || !self.engine.facts().reports_oom());
        let events = match code {
            Some(KILLED) if !timed_out => self.events().await,
            _ => Vec::new(),
        };
        Ok(Exit::assemble(code, state, timed_out, unsure, &events))
    }

    /// What happened to the container within the last minute, in the engine's words; empty where it
    /// does not tell.
    async fn events(&self) -> Vec<String> {
        let mut events = Vec::new();
        let whole = async {
            // Podman 4.3 stops reading its events when `until` comes, however few it has read: the
            // end is among them where it has read them all.
            while !events.iter().any(|event: &String| event.starts_with("die")) {
                match self.events_so_far().await {
                    Ok(told) => events = told,
                    Err(_) => return,
                }
            }
        };
        let _ = timeout(STATE_LIMIT, whole).await;
        events
    }

    /// Engines count whole seconds, so the present one is waited for.
    async fn events_so_far(&self) -> Result<Vec<String>, Bollard> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let filters = HashMap::from([("container", vec![self.id.as_str()])]);
        let options = EventsOptionsBuilder::default()
            .since(&now.saturating_sub(60).to_string())
            .until(&(now + 1).to_string())
            .filters(&filters)
            .build();
        let events = self.engine.docker().events(Some(options));
        let words = events.try_filter_map(|event| future::ready(Ok(event.action)));
        // Where it answers at once, asking again at once would only keep it busy.
        let pause = sleep(Duration::from_millis(100));
        future::join(words.try_collect(), pause).await.0
    }

    fn wait_failed(&self, cause: Cause) -> Error {
        self.failed("wait for container", cause)
    }

    /// The exit code out of the engine's answer to "wait", asked again where the connection breaks while
    /// the container runs on.
    async fn end(&self) -> Result<Option<i64>> {
        loop {
            let options = WaitContainerOptionsBuilder::default()
                .condition("not-running")
                .build();
            let docker = self.engine.patient();
            let mut stream = Box::pin(docker.wait_container(&self.id, Some(options)));
            let cause = match stream.next().await {
                Some(Ok(ContainerWaitResponse { status_code, .. })) => {
                    return Ok(Some(status_code));
                }
                // Every exit code but 0 comes as an error.
                Some(Err(Bollard::DockerContainerWaitError { code, .. })) => return Ok(Some(code)),
                Some(Err(error)) => Cause::from(error),
                None => Cause::Lost("it closed without an answer".to_owned()),
            };
            if !cause.is_engine_gone() {
                return Err(self.wait_failed(cause));
            }
            // The engine may be back at once (a reload), or the container may have
            // ended with it.
            match self.inspect().await {
                Ok(Some(state)) if state.running == Some(true) => {
                    sleep(Duration::from_millis(200)).await;
                }
                Ok(Some(state)) => return Ok(state.exit_code),
                Ok(None) | Err(_) => return Err(self.wait_failed(cause)),
            }
        }
    }

    /// The state as written down; `None` where the container is gone or its state
    /// cannot be read although it has ended.
    async fn final_state(
        &self,
        code: Option<i64>,
        timed_out: bool,
    ) -> Result<Option<ContainerState>> {
        let begin = Instant::now();
        // The event that sets `oom_killed` may come after the end.
        let may_be_oom = code == Some(KILLED)
            && !timed_out
            && self.spec.limits.memory_bytes.is_some()
            && self.engine.facts().reports_oom();
        loop {
            let waited = begin.elapsed();
            match self.inspect().await {
                Ok(Some(state)) => {
                    let is_written = state.running != Some(true);
                    let is_late = may_be_oom && state.oom_killed != Some(true);
                    if waited > STATE_LIMIT || (is_written && (!is_late || waited > OOM_LIMIT)) {
                        return Ok(Some(state));
                    }
                }
                // Podman before 5.6 passes through the state `stopped`, which the
                // API does not know.
                Err(Cause::Unreadable(_)) if waited < STATE_LIMIT => {}
                Ok(None) | Err(Cause::Unreadable(_)) => return Ok(None),
                Err(cause) => return Err(self.wait_failed(cause)),
            }
            sleep(Duration::from_millis(25)).await;
        }
    }

    async fn inspect(&self) -> Result<Option<ContainerState>, Cause> {
        let docker = self.engine.docker();
        let found = Cause::absent(docker.inspect_container(&self.id, None).await)?;
        Ok(found.map(|container| container.state.unwrap_or_default()))
    }

    /// The main process's id on the engine's machine, while it runs.
    pub async fn host_pid(&self) -> Result<Option<u32>> {
        let state = self.inspect().await;
        let state = state.map_err(|cause| self.failed("inspect container", cause))?;
        let pid = state.and_then(|state| u32::try_from(state.pid?).ok());
        Ok(pid.filter(|pid| *pid > 0))
    }
}

//! The soak's own engine, and what is done to it and its containers behind the session's back.

use std::{fs, path::Path, process::Command, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    aftermath::{children_of, nothing, processes_that_name},
    daemon::Daemon,
    faults::{Expected, KILLED_FROM_OUTSIDE},
    image,
};

/// How often the engine ends in a life of the session.
pub(crate) const SHARE_OF_LIVES: f64 = 0.25;
/// An engine that was ended answers again within this time, with room for a run.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(15);
/// The command line of a process that waits for the engine's word to become a container's.
const UNSTARTED: &str = "runc init";
/// The file that says where the engine listens.
pub(crate) const SOCKET: &str = "socket";

/// The engine.
#[derive(Debug)]
pub(crate) struct EngineRoom {
    runtime: tokio::runtime::Runtime,
    daemon: Daemon,
    /// Runs whose containers are to be killed, as their names begin.
    doomed: Vec<String>,
    killed: u32,
    ended: u32,
}

impl EngineRoom {
    /// Starts the engine and brings the image in.
    pub(crate) fn new(home: &Path, expected: &Expected) -> Self {
        let daemon = Daemon::new();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let engine = daemon.connect().await;
            image::load(&engine).await;
        });
        let socket = daemon.socket().display().to_string();
        fs::write(home.join(SOCKET), socket).expect("the socket's place");
        let doomed = expected
            .iter()
            .filter(|(_, run)| run.0 == KILLED_FROM_OUTSIDE);
        Self {
            runtime,
            daemon,
            doomed: doomed.map(|(order, _)| format!("{order:04}-")).collect(),
            killed: 0,
            ended: 0,
        }
    }

    /// Kills the containers that run and are to be killed, as somebody with a shell would.
    pub(crate) fn kill_containers(&mut self) {
        let format = format!("{{{{.ID}}}} {{{{.Label \"{}\"}}}}", engine::LABEL_RUN);
        let Some(running) = self.docker(&["ps", "--no-trunc", "--format", &format]) else {
            return;
        };
        for (id, run) in running.lines().filter_map(|line| line.split_once(' ')) {
            let is_doomed = self
                .doomed
                .iter()
                .any(|name| run.starts_with(name.as_str()));
            if is_doomed && self.docker(&["kill", id]).is_some() {
                self.killed += 1;
            }
        }
    }

    /// What the docker command says; `None` where it fails, as while the engine is away.
    fn docker(&self, arguments: &[&str]) -> Option<String> {
        let host = format!("unix://{}", self.daemon.socket().display());
        let output = Command::new("docker")
            .args(["--host", &host])
            .args(arguments)
            .output()
            .expect("the docker command is installed (apt-get install docker.io)");
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then_some(text)
    }

    /// Whether the engine was ended at all.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended > 0
    }

    /// Ends the engine and starts it again.
    pub(crate) fn end_engine(&mut self, signal: Signal) {
        self.daemon.end(signal);
        self.daemon.start();
        self.ended += 1;
    }

    /// Fails where a container, or a process of one, is left; says what was done.
    pub(crate) fn check(self) -> Result<String, String> {
        let (swept, left) = self
            .runtime
            .block_on(async {
                let engine = self.daemon.connect().await;
                // As the next session does: an engine that went away under the very last removal
                // left nobody who could try again.
                let swept = engine.sweep_dead_owners().await?;
                let left = engine.list_containers(engine::LABEL_SESSION).await?;
                Ok::<_, engine::Error>((swept.len(), left))
            })
            .map_err(|error| error.to_string())?;
        if !left.is_empty() {
            return Err(format!("containers were left: {left:?}"));
        }
        let folder = self.daemon.folder().display().to_string();
        let shims = || processes_that_name("containerd-shim", &folder);
        nothing("processes of containers", || {
            let (_, started) = children(&shims());
            started
        })?;
        // An engine that is killed while it makes a container forgets the shim that it had begun
        // with, which is told and held against nobody: no command of the engine's reaches it.
        let forgotten = shims();
        let (unstarted, _) = children(&forgotten);
        for pid in unstarted.iter().filter_map(|pid| pid.parse().ok()) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        let (forgotten, unstarted) = (forgotten.len(), unstarted.len());
        // An engine makes one container at a time here.
        if unstarted > self.ended as usize {
            return Err(format!(
                "{unstarted} containers never started, and the engine ended {} times",
                self.ended
            ));
        }
        let Self { killed, ended, .. } = self;
        Ok(format!(
            "; the engine was stopped or killed {ended} times, and {killed} containers were \
             killed; {swept} were left to the next session's sweep, and the engine forgot \
             {forgotten} shims, {unstarted} of them with a container that never started"
        ))
    }
}

/// What these shims have under them: the numbers of processes that wait to become a container's
/// and have run nothing of it, and the command lines of the others.
fn children(shims: &[String]) -> (Vec<String>, Vec<String>) {
    let (waiting, started): (Vec<_>, Vec<_>) = children_of(shims)
        .into_iter()
        .partition(|(_, line)| line.trim_end() == UNSTARTED);
    (
        waiting.into_iter().map(|(pid, _)| pid).collect(),
        started.into_iter().map(|(_, line)| line).collect(),
    )
}

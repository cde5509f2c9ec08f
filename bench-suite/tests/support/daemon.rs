//! An engine that the tests start for themselves, and end when they like.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use engine::{Endpoint, Engine};
use rustix::process::{Pid, Signal, kill_process};

/// An engine of this test's own, with its own folder and socket.
#[derive(Debug)]
pub(crate) struct Daemon {
    home: tempfile::TempDir,
    child: Option<Child>,
}

impl Daemon {
    /// Started, and not yet answering.
    pub(crate) fn new() -> Self {
        let mut daemon = Self {
            home: tempfile::tempdir().unwrap(),
            child: None,
        };
        daemon.start();
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Where it keeps everything.
    pub(crate) fn folder(&self) -> &Path {
        self.home.path()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("docker.sock")
    }

    /// What it wrote.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// # Panics
    /// Where Docker's daemon is not installed: `apt-get install docker.io` brings it.
    pub(crate) fn start(&mut self) {
        let program = [
            "/usr/sbin/dockerd",
            "/usr/bin/dockerd",
            "/usr/local/bin/dockerd",
        ]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("dockerd is installed (apt-get install docker.io)");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        // Not the machine's own configuration.
        fs::write(self.path("daemon.json"), "{}").unwrap();
        let mut command = Command::new(program);
        command
            .arg("--config-file")
            .arg(self.path("daemon.json"))
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--pidfile")
            .arg(self.path("pid"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .args(["--storage-driver", "vfs", "--bridge", "none"])
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--shutdown-timeout",
                "2",
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        self.child = Some(command.spawn().unwrap());
    }

    /// Once it answers.
    pub(crate) async fn connect(&self) -> Engine {
        let began = Instant::now();
        loop {
            match Engine::connect(&Endpoint::At(self.socket())).await {
                Ok(engine) => return engine,
                Err(error) => assert!(
                    began.elapsed() < Duration::from_mins(1),
                    "{error}\n{}",
                    self.log()
                ),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Ends it by this signal; [`Daemon::start`] starts it again on the same folder.
    pub(crate) fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.unwrap(), signal);
        let _ = child.wait();
        let _ = fs::remove_file(self.path("pid"));
        // What the daemon started dies with it, and may stay a zombie that the next one takes for
        // alive.
        let _ = fs::remove_file(self.path("exec/containerd/containerd.pid"));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(Signal::TERM);
        // A daemon that was killed leaves its containerd behind, which names its folder.
        let home = self.home.path().display().to_string();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok());
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if let Some(pid) = pid.and_then(Pid::from_raw)
                && String::from_utf8_lossy(&line).contains(&home)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for _ in 0..50 {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            let mut left: Vec<&str> = mounts
                .lines()
                .filter_map(|line| line.split(' ').nth(1))
                .filter(|path| path.starts_with(&home))
                .collect();
            left.reverse();
            if left.is_empty() {
                break;
            }
            for path in left {
                let _ = Command::new("umount").args(["--lazy", path]).output();
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

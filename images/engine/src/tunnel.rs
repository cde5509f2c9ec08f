//! The way to an engine on another machine: its socket, forwarded by the user's own `ssh`, so that
//! keys, agents, jump hosts and known hosts are what they are for that command.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, Command},
    sync::Mutex,
    time::{Instant, sleep},
};

use crate::attempt::Obstacle;

/// How long SSH may take to log in: longer than it takes to connect, so that it says itself why not.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often is looked whether it has.
const PAUSE: Duration = Duration::from_millis(50);
/// What is kept of what `ssh` says.
const WORDS_BYTES: u64 = 4096;

/// A forwarded socket. `ssh` ends with it.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Its standard input is open for as long as this is here.
    ssh: Child,
    folder: TempDir,
    words: Arc<Mutex<Vec<u8>>>,
}

impl Tunnel {
    /// Forwards a socket of another machine.
    pub(crate) async fn open(
        destination: &str,
        port: Option<u16>,
        socket: &Path,
    ) -> Result<Self, Obstacle> {
        let other = |error: io::Error| Obstacle::Other(error.to_string());
        let folder = tempfile::Builder::new()
            .prefix("torchgauge-ssh-")
            .tempdir()
            .map_err(other)?;
        let local = folder.path().join("engine.sock");
        let mut command = Command::new("ssh");
        // Nobody is asked for a password or about a host's key: nobody may be there.
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=30",
            "ExitOnForwardFailure=yes",
            "ServerAliveInterval=15",
        ] {
            command.args(["-o", option]);
        }
        command
            // A connection of its own: one that others share would forward for longer than this.
            .args(["-T", "-S", "none", "-L"])
            .arg(format!("{}:{}", local.display(), socket.display()));
        if let Some(port) = port {
            command.arg("-p").arg(port.to_string());
        }
        command
            // It reads until this process is no more, however that ends.
            .args(["--", destination, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for torchgauge, which then still clears up in the engine.
            .process_group(0)
            .kill_on_drop(true);
        let mut ssh = command.spawn().map_err(|error| {
            Obstacle::Other(match error.kind() {
                io::ErrorKind::NotFound => {
                    "there is no `ssh` here; install OpenSSH's client".to_owned()
                }
                _ => format!("cannot start ssh: {error}"),
            })
        })?;
        let words = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut said) = ssh.stderr.take() {
            let words = Arc::clone(&words);
            tokio::spawn(async move {
                let mut piece = [0; 1024];
                while let Ok(read @ 1..) = said.read(&mut piece).await {
                    let mut words = words.lock().await;
                    if (words.len() as u64) < WORDS_BYTES {
                        words.extend_from_slice(&piece[..read]);
                    }
                }
            });
        }
        let mut tunnel = Self { ssh, folder, words };
        let begun = Instant::now();
        while UnixStream::connect(&local).await.is_err() {
            if let Ok(Some(status)) = tunnel.ssh.try_wait() {
                // What it said last may still be on its way.
                sleep(PAUSE).await;
                let ended = Obstacle::Other(format!("ssh ended ({status})"));
                return Err(tunnel.obstacle(&ended).await);
            }
            if begun.elapsed() > PATIENCE {
                let silent = Obstacle::NoAnswer(PATIENCE.as_secs());
                return Err(tunnel.obstacle(&silent).await);
            }
            sleep(PAUSE).await;
        }
        Ok(tunnel)
    }

    /// Where it leads out of, on this machine.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    /// An obstacle with what `ssh` said of it.
    pub(crate) async fn obstacle(&self, obstacle: &Obstacle) -> Obstacle {
        let words = self.words.lock().await;
        let words = String::from_utf8_lossy(&words);
        let lines: Vec<&str> = words.lines().map(str::trim).collect();
        if lines.is_empty() {
            return obstacle.clone();
        }
        Obstacle::Other(format!("{obstacle}: {}", lines.join("; ")))
    }
}

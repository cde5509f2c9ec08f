//! Where an engine was looked for, and what stood in the way.

use std::fmt;

/// A place where an engine was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The address, such as `unix:///var/run/docker.sock`.
    pub address: String,
    /// Where the address comes from, such as `DOCKER_HOST` or `default of Docker`.
    pub origin: String,
    /// Whether it is another machine's.
    pub is_elsewhere: bool,
    /// What stood in the way.
    pub obstacle: Obstacle,
}

/// What stood between this process and an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no socket at the path.
    NoSocket,
    /// The socket is there, and this user may not use it.
    PermissionDenied,
    /// The socket is there, and nobody listens.
    NobodyListens,
    /// Somebody listens and does not answer within so many seconds.
    NoAnswer(u64),
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str("no such socket"),
            Self::PermissionDenied => f.write_str("permission denied on the socket"),
            Self::NobodyListens => f.write_str("nobody listens (the engine has stopped)"),
            Self::NoAnswer(seconds) => write!(f, "no answer within {seconds} s"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

pub(crate) fn tried(attempts: &[Attempt]) -> String {
    attempts
        .iter()
        .fold(String::from(". Tried:"), |text, attempt| {
            format!(
                "{text}\n  {} ({}): {}",
                attempt.address, attempt.origin, attempt.obstacle
            )
        })
}

pub(crate) fn advice(attempts: &[Attempt]) -> &'static str {
    if attempts
        .iter()
        .any(|attempt| attempt.obstacle == Obstacle::PermissionDenied)
    {
        "This user may not use the socket: join its group (`sudo usermod -aG docker $USER`, then \
         log in again), run as root, or use rootless Podman (`podman system service --time=0 &`)."
    } else if attempts
        .iter()
        .all(|attempt| !attempt.address.starts_with("unix://"))
    {
        "Check that an engine answers at that address, and that this user may speak to it; or unset \
         what names it."
    } else {
        "Start one: `systemctl start docker`, or `dockerd &` where there is no systemd, or \
         `podman system service --time=0 &` for Podman; or set DOCKER_HOST to one that runs."
    }
}

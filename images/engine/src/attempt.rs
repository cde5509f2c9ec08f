//! Where an engine was looked for, and what stood in the way.

/// A place where an engine was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The address, such as `unix:///var/run/docker.sock`.
    pub address: String,
    /// Where the address comes from, such as `DOCKER_HOST` or `default of Docker`.
    pub origin: String,
    /// What stood in the way, such as `no such socket`.
    pub obstacle: String,
}

/// The obstacle that its own advice belongs to.
pub(crate) const PERMISSION_DENIED: &str = "permission denied on the socket";

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
        .any(|attempt| attempt.obstacle == PERMISSION_DENIED)
    {
        "This user may not use the socket: join its group (`sudo usermod -aG docker $USER`, then \
         log in again), run as root, or use rootless Podman (`podman system service --time=0 &`)."
    } else {
        "Start one: `systemctl start docker`, or `dockerd &` where there is no systemd, or \
         `podman system service --time=0 &` for Podman; or set DOCKER_HOST to one that runs."
    }
}

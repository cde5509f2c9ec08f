//! Finding an engine that answers.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use tokio::net::{TcpStream, UnixStream};

use crate::{
    attempt::{Attempt, Obstacle},
    endpoint::{Address, Candidate, Endpoint},
    error::{Cause, Error, Failure, Operation, Result},
    facts::EngineFacts,
    fallback::Fallback,
    registry::Registry,
    tunnel::Tunnel,
};

/// An engine that does not say who it is within this time is not one to measure with.
const GREETING: Duration = Duration::from_secs(20);
/// Ordinary requests. bollard counts until the response headers.
const ORDINARY: Duration = Duration::from_mins(2);
/// Requests whose headers may come only with the first byte of a stream that is
/// silent for long: waits and followed logs. The caller has its own limits.
const PATIENT: Duration = Duration::from_hours(7 * 24);

/// A connection to one engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) docker: Docker,
    /// The same engine with a long time-out.
    pub(crate) patient: Docker,
    pub(crate) facts: EngineFacts,
    pub(crate) registry: Registry,
    /// What leads to an engine on another machine, for as long as it is spoken to.
    _tunnel: Option<Tunnel>,
    /// Best-effort requests that this engine has refused for good.
    unsupported: Mutex<Vec<Fallback>>,
}

impl Inner {
    pub(crate) fn unsupported(&self) -> Vec<Fallback> {
        self.unsupported
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn remember(&self, fallback: &Fallback) {
        let mut known = self
            .unsupported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|one| one.what != fallback.what) {
            known.push(fallback.clone());
        }
    }
}

impl Engine {
    /// Connects to the first engine that answers, and reads its facts.
    ///
    /// # Errors
    /// [`Error::NoEngine`] lists what was tried and how to start one;
    /// [`Error::Endpoint`] where `DOCKER_HOST` or a context cannot be used.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self> {
        let mut attempts = Vec::new();
        for Candidate { address, origin } in endpoint.candidates()? {
            match Self::try_address(&address).await {
                Ok(engine) => return Ok(engine),
                Err(obstacle) => {
                    attempts.push(Attempt {
                        address: address.to_string(),
                        origin,
                        is_elsewhere: !matches!(address, Address::Socket(_)),
                        obstacle,
                    });
                }
            }
        }
        Err(Error::NoEngine(attempts))
    }

    /// Connects to every engine that answers: [`Engine::connect`] takes the first of them. Two
    /// addresses of one engine count once.
    ///
    /// # Errors
    /// As [`Engine::connect`].
    pub async fn connect_all(endpoint: &Endpoint) -> Result<Vec<Self>> {
        let mut engines: Vec<Self> = Vec::new();
        let mut attempts = Vec::new();
        for Candidate { address, origin } in endpoint.candidates()? {
            match Self::try_address(&address).await {
                Ok(engine) => {
                    let same = |known: &Self| {
                        let (a, b) = (known.facts(), engine.facts());
                        a.product == b.product && a.data_folder == b.data_folder
                    };
                    if !engines.iter().any(same) {
                        engines.push(engine);
                    }
                }
                Err(obstacle) => attempts.push(Attempt {
                    address: address.to_string(),
                    origin,
                    is_elsewhere: !matches!(address, Address::Socket(_)),
                    obstacle,
                }),
            }
        }
        if engines.is_empty() {
            return Err(Error::NoEngine(attempts));
        }
        Ok(engines)
    }

    async fn try_address(address: &Address) -> Result<Self, Obstacle> {
        let tunnel = match address {
            Address::Ssh {
                destination,
                port,
                socket,
            } => Some(Tunnel::open(destination, *port, socket).await?),
            _ => None,
        };
        let seconds = ORDINARY.as_secs();
        let by_socket = |path: &Path| {
            Docker::connect_with_unix(&path.to_string_lossy(), seconds, API_DEFAULT_VERSION)
                .map_err(other)
        };
        let mut is_elsewhere = !matches!(address, Address::Socket(_));
        let docker = match (address, &tunnel) {
            (_, Some(tunnel)) => by_socket(&tunnel.socket()),
            (Address::Socket(path), None) => {
                let peer = reach(address, UnixStream::connect(path)).await?.peer_cred();
                is_elsewhere = peer.is_ok_and(|peer| peer.pid().is_some_and(is_forwarded));
                by_socket(path)
            }
            (Address::Tls { host, certificates }, None) => {
                reach(address, TcpStream::connect(host)).await?;
                with_tls(host, certificates)
            }
            (Address::Tcp(host), None) => {
                reach(address, TcpStream::connect(host)).await?;
                Docker::connect_with_http(host, seconds, API_DEFAULT_VERSION).map_err(other)
            }
            (Address::Ssh { .. }, None) => unreachable!("its tunnel is open"),
        }?;
        let docker = docker.with_request_modifier(with_url_safe_login);
        let greeting = async {
            let docker = docker.negotiate_version().await?;
            let mut facts = EngineFacts::read(&docker, address.to_string()).await?;
            facts.is_elsewhere = is_elsewhere;
            Ok((docker, facts))
        };
        let greeted = match tokio::time::timeout(GREETING, greeting).await {
            Err(_) => Err(Obstacle::NoAnswer(GREETING.as_secs())),
            Ok(greeted) => greeted.map_err(other),
        };
        match greeted {
            Err(obstacle) => Err(match &tunnel {
                Some(tunnel) => tunnel.obstacle(&obstacle).await,
                None => obstacle,
            }),
            Ok((docker, facts)) => {
                tracing::debug!(engine = facts.describe(), "connected");
                Ok(Self {
                    inner: Arc::new(Inner {
                        patient: docker.clone().with_timeout(PATIENT),
                        docker,
                        facts,
                        registry: Registry::default(),
                        _tunnel: tunnel,
                        unsupported: Mutex::default(),
                    }),
                })
            }
        }
    }

    /// What the engine said about itself when the connection was made.
    #[must_use]
    pub fn facts(&self) -> &EngineFacts {
        &self.inner.facts
    }

    /// Whether the engine still answers.
    ///
    /// # Errors
    /// An error with [`Error::is_engine_gone`] true, where it does not.
    pub async fn ping(&self) -> Result<()> {
        match tokio::time::timeout(GREETING, self.docker().ping()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.failed(Operation::Facts, "", error)),
            Err(_) => Err(self.failed(Operation::Facts, "", Cause::TimedOut)),
        }
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.inner.docker
    }

    pub(crate) fn patient(&self) -> &Docker {
        &self.inner.patient
    }

    pub(crate) fn failed(
        &self,
        operation: Operation,
        object: impl Into<String>,
        cause: impl Into<Cause>,
    ) -> Error {
        Error::Failed(Box::new(Failure {
            operation,
            engine: self.inner.facts.describe(),
            object: object.into(),
            cause: cause.into(),
        }))
    }
}

/// A plain connection before bollard's: its errors do not tell a missing socket from one that this
/// user may not open.
async fn reach<T>(
    address: &Address,
    connecting: impl Future<Output = std::io::Result<T>>,
) -> Result<T, Obstacle> {
    use std::io::ErrorKind;
    match tokio::time::timeout(GREETING, connecting).await {
        Err(_) => Err(Obstacle::NoAnswer(GREETING.as_secs())),
        Ok(Err(error)) => Err(match (error.kind(), address) {
            (ErrorKind::NotFound, Address::Socket(_)) => Obstacle::NoSocket,
            (ErrorKind::PermissionDenied, _) => Obstacle::PermissionDenied,
            (ErrorKind::ConnectionRefused, _) => Obstacle::NobodyListens,
            _ => Obstacle::Other(error.to_string()),
        }),
        Ok(Ok(reached)) => Ok(reached),
    }
}

/// bollard 0.21 writes who pulls in plain base64, and engines read base64url: some passwords with
/// `~`, `?` or `>` in them would be refused.
fn with_url_safe_login(mut request: BollardRequest) -> BollardRequest {
    if let Some(login) = request.headers_mut().get_mut("x-registry-auth")
        && let Ok(text) = login.to_str()
        && let Ok(safe) = text.replace('+', "-").replace('/', "_").parse()
    {
        *login = safe;
    }
    request
}

/// Whether who listens on a socket is an `ssh` that forwards it (`ssh -L`): one that went into the
/// background left the socket to a child, and is no more.
fn is_forwarded(listener: i32) -> bool {
    listener > 0
        && match fs::read_to_string(format!("/proc/{listener}/comm")) {
            Ok(name) => name.trim().starts_with("ssh"),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
}

/// Has TLS in this process done by ring, unless something chose another provider before.
pub fn choose_tls_provider() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| _ = rustls::crypto::ring::default_provider().install_default());
}

/// By TLS, with the certificates that the docker command would take.
fn with_tls(host: &str, certificates: &Path) -> Result<Docker, Obstacle> {
    choose_tls_provider();
    let [authority, certificate, key] =
        ["ca.pem", "cert.pem", "key.pem"].map(|name| certificates.join(name));
    for file in [&authority, &certificate, &key] {
        fs::File::open(file).map_err(|error| {
            Obstacle::Other(format!(
                "cannot read {}: {error}; ca.pem, cert.pem and key.pem are needed there \
                 (DOCKER_CERT_PATH names another folder)",
                file.display()
            ))
        })?;
    }
    let (seconds, version) = (ORDINARY.as_secs(), API_DEFAULT_VERSION);
    Docker::connect_with_ssl(host, &key, &certificate, &authority, seconds, version).map_err(other)
}

fn other(error: bollard::errors::Error) -> Obstacle {
    Obstacle::Other(Cause::from(error).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_ssh_listens_on_leads_elsewhere() {
        assert!(!is_forwarded(i32::try_from(std::process::id()).unwrap()));
        // In another PID namespace.
        assert!(!is_forwarded(0));
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(gone.id()).unwrap();
        gone.wait().unwrap();
        assert!(is_forwarded(pid));
        let folder = tempfile::tempdir().unwrap();
        let ssh = folder.path().join("sshd-session");
        fs::copy("/bin/sleep", &ssh).unwrap();
        let mut ssh = std::process::Command::new(ssh).arg("60").spawn().unwrap();
        // A program has its name a moment after it was started.
        let pid = i32::try_from(ssh.id()).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while !is_forwarded(pid) {
            assert!(std::time::Instant::now() < until);
        }
        ssh.kill().unwrap();
        ssh.wait().unwrap();
    }
}

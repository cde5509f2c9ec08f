//! Finding an engine that answers.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use tokio::net::UnixStream;

use crate::{
    attempt::{Attempt, PERMISSION_DENIED},
    endpoint::{Candidate, Endpoint},
    error::{Cause, Error, Failure, Result},
    facts::EngineFacts,
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
    /// See [`Engine::live`].
    pub(crate) live: Mutex<BTreeSet<String>>,
}

impl Engine {
    /// Connects to the first engine that answers, and reads its facts.
    ///
    /// # Errors
    /// [`Error::NoEngine`] lists what was tried and how to start one;
    /// [`Error::Endpoint`] where `DOCKER_HOST` or a context cannot be used.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self> {
        Ok(Self::connect_up_to(1, endpoint).await?.remove(0))
    }

    /// Connects to every engine that answers: [`Engine::connect`] takes the first of them. Two
    /// addresses of one engine count once.
    pub async fn connect_all(endpoint: &Endpoint) -> Result<Vec<Self>> {
        Self::connect_up_to(usize::MAX, endpoint).await
    }

    /// Connects to the first engines that answer, of which there is at least one.
    async fn connect_up_to(most: usize, endpoint: &Endpoint) -> Result<Vec<Self>> {
        let mut engines: Vec<Self> = Vec::new();
        let mut attempts = Vec::new();
        for Candidate { socket, origin } in endpoint.candidates()? {
            if engines.len() == most {
                break;
            }
            let address = format!("unix://{}", socket.display());
            match Self::open(&socket, address.clone()).await {
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
                    address,
                    origin,
                    obstacle,
                }),
            }
        }
        if engines.is_empty() {
            return Err(Error::NoEngine(attempts));
        }
        Ok(engines)
    }

    async fn open(socket: &Path, endpoint: String) -> Result<Self, String> {
        reach(socket).await?;
        let path = socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&path, ORDINARY.as_secs(), API_DEFAULT_VERSION)
            .map_err(other)?
            .with_request_modifier(with_url_safe_login);
        let greeting = async {
            let docker = docker.negotiate_version().await?;
            let facts = EngineFacts::read(&docker, endpoint).await?;
            Ok((docker, facts))
        };
        let (docker, facts) = tokio::time::timeout(GREETING, greeting)
            .await
            .map_err(|_| no_answer())?
            .map_err(other)?;
        tracing::debug!(engine = facts.describe(), "connected");
        Ok(Self {
            inner: Arc::new(Inner {
                patient: docker.clone().with_timeout(PATIENT),
                docker,
                facts,
                live: Mutex::default(),
            }),
        })
    }

    /// What the engine said about itself when the connection was made.
    pub fn facts(&self) -> &EngineFacts {
        &self.inner.facts
    }

    pub async fn ping(&self) -> Result<()> {
        match tokio::time::timeout(GREETING, self.docker().ping()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.failed("ask", "", error)),
            Err(_) => Err(self.failed("ask", "", Cause::TimedOut)),
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
        operation: &'static str,
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
async fn reach(socket: &Path) -> Result<(), String> {
    use std::io::ErrorKind;
    let connected = tokio::time::timeout(GREETING, UnixStream::connect(socket)).await;
    match connected.map_err(|_| no_answer())? {
        Ok(_) => Ok(()),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => "no such socket".to_owned(),
            ErrorKind::PermissionDenied => PERMISSION_DENIED.to_owned(),
            ErrorKind::ConnectionRefused => "nobody listens (the engine has stopped)".to_owned(),
            _ => error.to_string(),
        }),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", GREETING.as_secs())
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

fn other(error: bollard::errors::Error) -> String {
    Cause::from(error).to_string()
}

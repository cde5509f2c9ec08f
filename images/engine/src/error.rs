//! What can go wrong with an engine, and what to do then.

use bollard::errors::Error as Bollard;

use crate::attempt::{Attempt, advice, tried};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong; each says where, what, why and what next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No engine answers at any of the places where one may be.
    #[error("no container engine answers{}\n{}", tried(.0), advice(.0))]
    NoEngine(Vec<Attempt>),
    /// An address or a Docker context that cannot be used.
    #[error("cannot use {origin}: {reason}; {next}")]
    Endpoint {
        origin: String,
        reason: String,
        next: String,
    },
    /// A mount that an engine could take for another one.
    #[error("cannot mount {0:?}: expected paths without comma, line break or NUL")]
    Mount(std::path::PathBuf),
    /// What runs images that are unpacked is not here, or does nothing.
    #[error("{0}")]
    Unpacked(String),
    /// What an image that is unpacked is to be run by cannot be written.
    #[error("cannot write {folder}: {error}")]
    Bundle {
        folder: std::path::PathBuf,
        error: std::io::Error,
    },
    /// A GPU cannot be given to a container on the path asked for.
    #[error("cannot give GPU {index} to a container by {path}: {reason}; {next}")]
    Gpu {
        path: crate::GpuPath,
        index: u32,
        reason: String,
        next: String,
    },
    /// The image that a container was to be made from is not in the engine.
    #[error(
        "image {image} is not in {engine}; build or load it first (`images build`), \
         nothing is pulled automatically"
    )]
    ImageMissing { engine: String, image: String },
    /// An operation on an engine failed.
    #[error("cannot {0}")]
    Failed(Box<Failure>),
}

impl Error {
    /// What the engine did, where the error is about an operation on an engine.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether the engine itself went away, so that a retry makes sense once one
    /// answers again.
    pub fn is_engine_gone(&self) -> bool {
        matches!(self, Self::NoEngine(_))
            || self
                .failure()
                .is_some_and(|failure| failure.cause.is_engine_gone())
    }

    /// Whether the engine says that the disk it keeps its data on is full.
    pub fn is_for_want_of_room(&self) -> bool {
        self.failure()
            .is_some_and(|failure| failure.cause.is_for_want_of_room())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{operation} {}{engine}: {cause}; {}", self.on(), cause.next_step())]
pub struct Failure {
    /// What was asked, such as `load image archive into`.
    pub operation: &'static str,
    /// Which engine, such as `Docker 20.10.24 at unix:///var/run/docker.sock`.
    pub engine: String,
    /// What the operation was about: an id, a reference, a path.
    pub object: String,
    pub cause: Cause,
}

impl Failure {
    fn on(&self) -> String {
        match &*self.object {
            "" => String::new(),
            object => format!("{object} on "),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The engine answered with an error status.
    #[error("{}", format!("the engine answered with status {status}: {}", message.trim()).trim_end_matches(": "))]
    Refused { status: u16, message: String },
    /// The engine answered 200 and reported an error in the body.
    #[error("the engine reported: {}", .0.trim())]
    Reported(String),
    #[error("the engine cannot be reached ({0})")]
    Unreachable(String),
    /// The connection broke in the middle.
    #[error("the connection to the engine broke ({0})")]
    Lost(String),
    #[error("the engine did not answer in time")]
    TimedOut,
    /// The answer is not what the API describes.
    #[error("the answer cannot be read ({0})")]
    Unreadable(String),
    /// Reading what was to be sent, or writing what was received, failed on this side.
    #[error(transparent)]
    Local(#[from] std::io::Error),
}

impl Cause {
    /// Whether the engine itself went away.
    pub fn is_engine_gone(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Lost(_) | Self::TimedOut)
    }

    fn is_for_want_of_room(&self) -> bool {
        let message = self.message().to_lowercase();
        let has = |signs: &[&str]| signs.iter().any(|sign| message.contains(sign));
        // Linux says the same where it is out of control groups or of watches.
        has(&["no space left", "disk quota exceeded"]) && !has(&["/sys/fs/cgroup", "inotify"])
    }

    /// The engine's words, where there are any.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Refused { message, .. } | Self::Reported(message) => message,
            _ => "",
        }
    }

    pub(crate) fn has_status(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == wanted)
    }

    /// What was answered; `None` where the engine has no such thing.
    pub(crate) fn absent<T>(answer: Result<T, Bollard>) -> Result<Option<T>, Self> {
        match answer.map_err(Self::from) {
            Ok(found) => Ok(Some(found)),
            Err(cause) if cause.has_status(404) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn next_step(&self) -> &'static str {
        let message = self.message().to_lowercase();
        match self {
            Self::Unreachable(_) | Self::Lost(_) => {
                "check that the engine still runs (`systemctl status docker`, `podman system \
                 service`), start it again and repeat"
            }
            Self::TimedOut => {
                "the engine hangs or the disk is very slow: check its log (`journalctl -u \
                 docker`) and repeat"
            }
            Self::Unreadable(_) => {
                "something other than a Docker or Podman API answers there, or a version of it \
                 that is not known here: check the address"
            }
            Self::Local(_) => "check the path, its permissions and the free disk space",
            _ if self.is_for_want_of_room() => {
                "free disk space where the engine stores its data (`docker system df`, `docker \
                 info --format {{.DockerRootDir}}`)"
            }
            _ if message.contains("bind source path does not exist") => {
                "create the file or folder on the engine's machine first"
            }
            _ if message.contains("rlimit") => {
                "start the engine with higher limits (`ulimit -Hn`), or set default_ulimits in \
                 /etc/containers/containers.conf to what is allowed"
            }
            _ if message.contains("permission denied") => {
                "check the permissions of what is mounted, for the user that the container runs as"
            }
            _ if message.contains("already in use") => {
                "remove the container of this name if it is yours (`docker ps -a` shows it)"
            }
            _ if message.contains("no such image") => "build or load the image first",
            _ if message.contains("no such container") => {
                "somebody else removed the container; repeat the run"
            }
            _ if message.contains("range of cpus") || message.contains("cpuset") => {
                "ask for no more CPUs than the machine has"
            }
            _ if message.contains("unpack") || message.contains("unexpected eof") => {
                "the archive is damaged or incomplete: assemble it again, all layers included"
            }
            _ => "the engine's log has details (`journalctl -u docker`)",
        }
    }
}

impl From<Bollard> for Cause {
    fn from(error: Bollard) -> Self {
        match error {
            Bollard::DockerResponseServerError {
                status_code,
                message,
            } => Self::Refused {
                status: status_code,
                message,
            },
            Bollard::DockerStreamError { error } => Self::Reported(error),
            Bollard::RequestTimeoutError => Self::TimedOut,
            Bollard::SocketNotFoundError(path) => Self::Unreachable(format!("no socket {path}")),
            Bollard::HyperLegacyError { err } if err.is_connect() => Self::Unreachable(chain(&err)),
            Bollard::HyperLegacyError { err } => lost_or_unreadable(chain(&err)),
            Bollard::HyperResponseError { err } => lost_or_unreadable(chain(&err)),
            Bollard::IOError { err } => lost_or_unreadable(err.to_string()),
            other => Self::Unreadable(chain(&other)),
        }
    }
}

/// hyper says "invalid HTTP version parsed" and the like where the other side
/// speaks something else; everything else in the middle of an exchange is a
/// connection that broke.
fn lost_or_unreadable(message: String) -> Cause {
    if message.contains("invalid ") {
        Cause::Unreadable(message)
    } else {
        Cause::Lost(message)
    }
}

/// The error and its sources, without what a source repeats.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = inner.source();
    }
    text
}

//! Every way in which a command can end badly.

use std::{error::Error as StdError, io, path::PathBuf};

use bench_suite::{executors::ExecutorError, suite::SuiteError};
use reports::format::plural;

use crate::exit_code::OwnError;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The answer of a gate, or of what else ends with its code.
    #[error("{0}")]
    Gate(String),
    /// What the user gave cannot be used.
    #[error("{0}")]
    Input(String),
    /// What could not be measured, or not be decided.
    #[error("{0}")]
    Undecided(String),
    /// What the machine did not do.
    #[error("{0}")]
    Trouble(String),
    #[error(
        "no checkout of Torchgauge at {here} or above it; `test`, `codegen` and `dist` need one, whose root has \
         `scenarios/` and `images/`"
    )]
    NoWorkspace { here: PathBuf },
    #[error("cannot start {what}: {source}")]
    Start { what: String, source: io::Error },
    #[error("cannot write {path}: {source}; check the folder and its permissions")]
    Write { path: PathBuf, source: io::Error },
    #[error("{name}: {source}")]
    Series {
        name: String,
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error("the result cannot be written as JSON: {source}")]
    Json { source: serde_json::Error },
    #[error(transparent)]
    Suite(SuiteError),
    #[error(transparent)]
    Folder(#[from] record::FolderError),
    #[error(transparent)]
    Side(#[from] verdict::SideError),
    #[error(transparent)]
    Compare(#[from] verdict::CompareError),
    #[error(transparent)]
    Claim(#[from] verdict::ClaimsError),
    #[error(transparent)]
    Judge(#[from] verdict::SessionError),
    #[error(transparent)]
    Junit(#[from] reports::comparison::JunitError),
    #[error(transparent)]
    Report(#[from] reports::ReportError),
    #[error(transparent)]
    Site(#[from] reports::site::SiteError),
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    History(#[from] history::HistoryError),
    #[error(transparent)]
    Images(#[from] images::Error),
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Device(Box<dyn StdError + Send + Sync>),
    /// One of a command's own.
    #[error("{0}")]
    Own(Box<dyn OwnError>),
    #[error(transparent)]
    Scratch(#[from] bench_suite::scratch_run::ScratchError),
    #[error(transparent)]
    Lock(#[from] bench_suite::host::LockError),
    #[error(transparent)]
    Executor(ExecutorError),
    #[error(transparent)]
    Plan(#[from] bench_suite::plan::PlanError),
    #[error(transparent)]
    Session(#[from] bench_suite::session::SessionError),
    #[error("{failed} of {} failed; the report says why",
        plural(*planned, "run", "runs"))]
    RunsFailed { failed: usize, planned: usize },
    #[error(
        "{} still to do; go on with: {}",
        plural(*remaining, "run is", "runs are"), command
    )]
    Unfinished { remaining: usize, command: String },
    #[error(
        "{option} {now} contradicts the session, which was begun with {then}; leave {option} out, \
         or begin a new session"
    )]
    ResumeDiffers {
        option: &'static str,
        then: String,
        now: String,
    },
    #[error("the output cannot be written: {source}")]
    Output { source: io::Error },
    #[error("{step} failed; to see it alone, run: {command}")]
    TestsFailed { step: &'static str, command: String },
}

impl<E: OwnError> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Own(Box::new(error))
    }
}

/// What an image could not be made for is this program's own error.
impl From<ExecutorError> for Error {
    fn from(error: ExecutorError) -> Self {
        match error {
            ExecutorError::Image(source) => match source.downcast() {
                Ok(own) => *own,
                Err(other) => Self::Executor(ExecutorError::Image(other)),
            },
            other => Self::Executor(other),
        }
    }
}

impl Error {
    /// The same error with what only an engine can add to it: the digest of a base image.
    pub(crate) async fn with_what_engines_know(self) -> Self {
        match self {
            Self::Images(error) => Self::Images(images::with_known_digest(error).await),
            other => other,
        }
    }

    /// The error as it is shown, over several lines where it points into a file.
    pub(crate) fn render(&self, color: bool) -> String {
        match self {
            Self::Suite(error) => error.render(color),
            Self::Images(images::Error::Yaml(error)) => error.render(color),
            Self::Images(images::Error::Unpinned { error, known, .. }) => {
                let known = known.as_ref().map(|known| format!("\n{known}"));
                format!(
                    "{}{}",
                    error.render(color).trim_end(),
                    known.unwrap_or_default()
                )
            }
            other => format!("error: {other}"),
        }
    }
}

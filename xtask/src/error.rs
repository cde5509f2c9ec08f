//! Every way in which a command can end badly, and the exit code of `docs/ci.md` that it ends with.

use std::{error::Error as StdError, io, path::Path, process::ExitCode};

use bench_suite::{
    device::DeviceError, executors::ExecutorError, session::SessionError, suite::SuiteError,
};
use history::HistoryError;
use record::FolderError;
use reports::{ReportError, format::plural, site::SiteError};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// What an exit code means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Code {
    GateSaysNo = 1,
    BadUsage = 2,
    SomeRunsFailed = 3,
    Trouble = 4,
}

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
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(transparent)]
    Images(#[from] images::Error),
    /// Another room's, with its code.
    #[error("{1}")]
    Room(Code, Box<dyn StdError + Send + Sync>),
}

/// The errors of rooms, and what their codes are.
macro_rules! rooms {
    ($($error:ty => $code:expr,)*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                let code: fn(&$error) -> Code = $code;
                Self::Room(code(&error), Box::new(error))
            }
        })*
    };
}

rooms! {
    FolderError => of_folder,
    HistoryError => of_history,
    ReportError => of_report,
    SessionError => of_session,
    SiteError => |error| match error {
        SiteError::Report(error) => of_report(error),
        _ => Code::BadUsage,
    },
    // As without an engine: another machine runs the same command.
    DeviceError => |error| match error {
        DeviceError::NoGpu(_) => Code::Trouble,
        DeviceError::Refused(_) => Code::BadUsage,
    },
    protocol::ParseError => |_| Code::BadUsage,
    bench_suite::host::LockError => |_| Code::Trouble,
    bench_suite::plan::PlanError => |_| Code::BadUsage,
    bench_suite::scratch_run::ScratchError => |_| Code::Trouble,
    engine::Error => |_| Code::Trouble,
    reports::comparison::JunitError => |_| Code::Trouble,
    verdict::ClaimsError => |_| Code::BadUsage,
    verdict::CompareError => |_| Code::BadUsage,
    verdict::SideError => |_| Code::BadUsage,
}

impl From<ExecutorError> for Error {
    fn from(error: ExecutorError) -> Self {
        match error {
            // What an image could not be made for is this program's own error.
            ExecutorError::Image(source) => match source.downcast() {
                Ok(own) => *own,
                Err(other) => Self::Room(Code::Trouble, other),
            },
            ExecutorError::Argument(_) => Self::Room(Code::BadUsage, Box::new(error)),
            ExecutorError::Unavailable(_) => Self::Room(Code::Trouble, Box::new(error)),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(source: serde_json::Error) -> Self {
        Self::Trouble(format!("the result cannot be written as JSON: {source}"))
    }
}

/// What becomes of a file that cannot be written.
pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |source| {
        let words = format!("cannot write {path}: {source}; check the folder and its permissions");
        if is_no_file(&source) {
            Error::Input(words)
        } else {
            Error::Trouble(words)
        }
    }
}

/// What becomes of a file that cannot be read.
pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |source| {
        Error::Input(format!(
            "cannot read {path}: {source}; check the path and its permissions"
        ))
    }
}

/// What becomes of a program that cannot be started.
pub(crate) fn starting<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Error {
    move |source| Error::Trouble(format!("cannot start {what}: {source}"))
}

impl Error {
    /// Some of the runs that were planned failed.
    pub(crate) fn runs_failed(failed: usize, planned: usize) -> Self {
        let planned = plural(planned, "run", "runs");
        Self::Undecided(format!(
            "{failed} of {planned} failed; the report has the causes"
        ))
    }

    /// A step of this program's own tests failed.
    pub(crate) fn tests_failed(step: &str, command: &str) -> Self {
        Self::Gate(format!("{step} failed; to see it alone, run: {command}"))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code() as u8)
    }

    fn code(&self) -> Code {
        use images::Error as I;
        match self {
            Self::Gate(_) => Code::GateSaysNo,
            Self::Undecided(_) => Code::SomeRunsFailed,
            Self::Room(code, _) => *code,
            Self::Images(I::Io { source, .. }) if !is_no_file(source) => Code::Trouble,
            // What the user gave, on the command line or in a file.
            Self::Input(_)
            | Self::Suite(_)
            | Self::Images(I::Input(_) | I::Yaml(_) | I::Io { .. }) => Code::BadUsage,
            Self::Trouble(_) | Self::Images(_) => Code::Trouble,
        }
    }

    /// The error as it is shown, over several lines where it points into a file.
    pub(crate) fn render(&self, color: bool) -> String {
        match self {
            Self::Suite(error) => error.render(color),
            Self::Images(images::Error::Yaml(error)) => error.render(color),
            other => format!("error: {other}"),
        }
    }
}

/// A folder that cannot be read is not that of a session; one that cannot be written is the disk's
/// fault.
fn of_folder(error: &FolderError) -> Code {
    match error {
        FolderError::Write { .. } => Code::Trouble,
        FolderError::Refused(_) => Code::BadUsage,
    }
}

fn of_report(error: &ReportError) -> Code {
    match error {
        ReportError::Folder(error) => of_folder(error),
        ReportError::Nothing => Code::BadUsage,
        _ => Code::Trouble,
    }
}

fn of_session(error: &SessionError) -> Code {
    use SessionError as E;
    match error {
        E::Folder(error) => of_folder(error),
        E::Io { source, .. } if is_no_file(source) => Code::BadUsage,
        E::Io { .. } | E::Busy(_) | E::DiskFull { .. } => Code::Trouble,
        _ => Code::BadUsage,
    }
}

/// Which file is the history, and what is asked of it, is the user's word; that it can be read and
/// written is the machine's part.
fn of_history(error: &HistoryError) -> Code {
    match error {
        HistoryError::Folder(error) => of_folder(error),
        HistoryError::Write { .. } => Code::Trouble,
        HistoryError::Refused(_) => Code::BadUsage,
    }
}

/// A FIFO, a device or a folder where a file is wanted: whoever named it is at fault.
fn is_no_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What no command can be made to do in a test; the others are in `tests/sessions/endings.rs`.
    #[test]
    fn the_machines_part_is_trouble() {
        let path = || PathBuf::from("there");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let unwritten = || FolderError::Write {
            path: path(),
            source: full(),
        };
        let all: Vec<Error> = vec![
            unwritten().into(),
            ReportError::Folder(unwritten()).into(),
            SessionError::Folder(unwritten()).into(),
            SessionError::Busy(path()).into(),
            SessionError::Io {
                path: path(),
                source: full(),
            }
            .into(),
            HistoryError::Folder(unwritten()).into(),
            DeviceError::NoGpu("no driver").into(),
            HistoryError::Write {
                path: path(),
                source: full(),
            }
            .into(),
            writing(&path())(full()),
        ];
        for error in all {
            assert_eq!(error.code() as u8, 4, "{error}");
        }
    }
}

//! The exit codes of `docs/ci.md`.

use std::{io, process::ExitCode};

use bench_suite::{device::DeviceError, executors::ExecutorError};
use reports::{ReportError, site::SiteError};

use crate::error::Error;

/// What an exit code means.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    GateSaysNo = 1,
    BadUsage = 2,
    SomeRunsFailed = 3,
    Trouble = 4,
}

/// An error of one command, beside its code.
pub(crate) trait OwnError: std::error::Error + Send + Sync + 'static {
    fn code(&self) -> Code;
}

impl Error {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code() as u8)
    }

    /// What the machine did not do is trouble.
    fn code(&self) -> Code {
        match self {
            Self::Gate(_) | Self::TestsFailed { .. } => Code::GateSaysNo,
            Self::Undecided(_) | Self::RunsFailed { .. } | Self::Unfinished { .. } => {
                Code::SomeRunsFailed
            }
            Self::Own(error) => error.code(),
            Self::Folder(error)
            | Self::Report(ReportError::Folder(error))
            | Self::Site(SiteError::Report(ReportError::Folder(error))) => of_folder(error),
            Self::Session(error) => of_session(error),
            Self::History(error) => of_history(error),
            Self::Images(error) if is_configuration(error) => Code::BadUsage,
            Self::Write { source, .. } | Self::Images(images::Error::Io { source, .. })
                if is_no_file(source) =>
            {
                Code::BadUsage
            }
            Self::Executor(ExecutorError::Argument(_)) | Self::Report(ReportError::Nothing) => {
                Code::BadUsage
            }
            // As without an engine: another machine runs the same command.
            Self::Device(error) if matches!(error.downcast_ref(), Some(DeviceError::NoGpu(_))) => {
                Code::Trouble
            }
            Self::Trouble(_)
            | Self::Start { .. }
            | Self::Json { .. }
            | Self::Output { .. }
            | Self::Junit(_)
            | Self::Write { .. }
            | Self::Report(_)
            | Self::Site(SiteError::Report(_))
            | Self::Images(_)
            | Self::Engine(_)
            | Self::Executor(_)
            | Self::Lock(_)
            | Self::Scratch(_) => Code::Trouble,
            // What the user gave, on the command line or in a file.
            _ => Code::BadUsage,
        }
    }
}

/// A folder that cannot be read is not that of a session; one that cannot be written is the disk's
/// fault.
fn of_folder(error: &record::FolderError) -> Code {
    use record::FolderError as E;
    match error {
        E::Refused(_) => Code::BadUsage,
        E::Write { .. } => Code::Trouble,
    }
}

fn of_session(error: &bench_suite::session::SessionError) -> Code {
    use bench_suite::session::SessionError as E;
    match error {
        E::Folder(error) => of_folder(error),
        E::Io { source, .. } if is_no_file(source) => Code::BadUsage,
        E::Io { .. } | E::Busy(_) | E::DiskFull { .. } => Code::Trouble,
        _ => Code::BadUsage,
    }
}

/// A FIFO, a device or a folder where a file is wanted: whoever named it is at fault.
fn is_no_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Which file is the history, and what is asked of it, is the user's word; that it can be read and
/// written is the machine's part.
fn of_history(error: &history::HistoryError) -> Code {
    use history::HistoryError as E;
    match error {
        E::Folder(error) => of_folder(error),
        E::Write { .. } => Code::Trouble,
        E::Refused(_) => Code::BadUsage,
    }
}

/// Whether what the user gave is at fault (a spec, a lock, a file or folder named on the command
/// line), and not the machine.
fn is_configuration(error: &images::Error) -> bool {
    use images::Error as E;
    matches!(
        error,
        E::Input(_) | E::Yaml(_) | E::Unpinned { .. } | E::BadLock { .. } | E::BadBase { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bench_suite::session::SessionError;
    use history::HistoryError;
    use record::FolderError;

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
            Error::Device(Box::new(DeviceError::NoGpu("no driver"))),
            HistoryError::Write {
                path: path(),
                source: full(),
            }
            .into(),
        ];
        for error in all {
            assert_eq!(error.code() as u8, 4, "{error}");
        }
    }
}

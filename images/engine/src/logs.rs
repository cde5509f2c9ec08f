//! A container's output, to a file.

use std::path::{Path, PathBuf};

use bollard::{Docker, query_parameters::LogsOptionsBuilder};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufWriter},
    task::JoinHandle,
};

use crate::{
    container::Container,
    error::{Cause, Error, Result},
};

/// What an engine's log file needs for a line besides the line: brackets, stream,
/// time. Estimated low.
const OVERHEAD_BYTES: u64 = 60;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReport {
    /// Bytes in the file.
    pub bytes: u64,
    /// Pieces, mostly lines.
    pub lines: u64,
    /// False where there was so much that the engine may have dropped the oldest
    /// (see [`crate::Limits::log_bytes`]).
    pub is_complete: bool,
}

/// A copy that goes on until the container ends.
#[derive(Debug)]
pub struct LogFollower {
    task: JoinHandle<Result<LogReport, Cause>>,
    explain: (crate::Engine, String),
}

impl LogFollower {
    /// Waits for the end of the output, which comes with the end of the container.
    pub async fn finish(mut self) -> Result<LogReport> {
        let report = match (&mut self.task).await {
            Ok(report) => report,
            Err(error) => Err(Cause::Local(std::io::Error::other(error.to_string()))),
        };
        let (engine, name) = &self.explain;
        report.map_err(|cause| engine.failed(Error::Logs, name, cause))
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Container {
    /// Copies stdout and stderr into a file as they come, until the container ends.
    /// Each piece is handed to the operating system at once, so that the file holds
    /// what was said before a crash of either side.
    ///
    /// Followed logs lose lines: Docker's where the log rotates, Podman's (seen with
    /// 4.3) at the container's end. So [`LogFollower::finish`] replaces the file with
    /// the whole log where that turns out to be longer.
    pub async fn follow_logs(&self, path: &Path) -> Result<LogFollower> {
        let file = self.log_file(path).await?;
        let (docker, id) = (self.engine.patient().clone(), self.id.clone());
        let (limit, path) = (self.spec.limits.log_bytes, path.to_owned());
        let copying = async move {
            let followed = copy(&docker, &id, true, file, limit).await;
            let partial = partial_path(&path);
            let saved = match File::create(&partial).await {
                Ok(file) => copy(&docker, &id, false, file, limit).await,
                Err(error) => Err(Cause::Local(error)),
            };
            let report = match (followed, saved) {
                (Ok(followed), Ok(saved)) if saved.bytes <= followed.bytes => Ok(followed),
                (_, Ok(saved)) => match tokio::fs::rename(&partial, &path).await {
                    Ok(()) => return Ok(saved),
                    Err(error) => Err(Cause::Local(error)),
                },
                // The container is gone, and its log with it.
                (Ok(followed), Err(cause)) if cause.has_status(404) => Ok(LogReport {
                    is_complete: false,
                    ..followed
                }),
                (Err(cause), Err(_)) | (Ok(_), Err(cause)) => Err(cause),
            };
            drop(tokio::fs::remove_file(&partial).await);
            report
        };
        Ok(LogFollower {
            task: tokio::spawn(copying),
            explain: (self.engine.clone(), self.name.clone()),
        })
    }

    /// Writes everything that the engine kept of stdout and stderr into a file, in
    /// the order it was written. For after the end. The file appears whole or not at all.
    pub async fn save_logs(&self, path: &Path) -> Result<LogReport> {
        let failed = |cause: Cause| self.engine.failed(Error::Logs, &self.name, cause);
        let partial = partial_path(path);
        let file = self.log_file(&partial).await?;
        let limit = self.spec.limits.log_bytes;
        let copied = copy(self.engine.patient(), &self.id, false, file, limit).await;
        let renamed = match copied {
            Ok(report) => tokio::fs::rename(&partial, path)
                .await
                .map(|()| report)
                .map_err(Cause::from),
            Err(cause) => Err(cause),
        };
        if renamed.is_err() {
            // Best effort: the error to report is the one above.
            drop(tokio::fs::remove_file(&partial).await);
        }
        renamed.map_err(failed)
    }

    async fn log_file(&self, path: &Path) -> Result<File> {
        File::create(path).await.map_err(|error| {
            let words = format!("{}: {error}", path.display());
            let cause = Cause::Local(std::io::Error::new(error.kind(), words));
            self.engine.failed(Error::Logs, &self.name, cause)
        })
    }
}

/// Beside the file, so that a rename is all that is left to do.
fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

async fn copy(
    docker: &Docker,
    id: &str,
    follow: bool,
    file: File,
    limit: u64,
) -> Result<LogReport, Cause> {
    let options = LogsOptionsBuilder::default()
        .stdout(true)
        .stderr(true)
        .follow(follow)
        .build();
    let mut pieces = Box::pin(docker.logs(id, Some(options)));
    let mut file = BufWriter::new(file);
    let (mut bytes, mut lines) = (0, 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece?.into_bytes();
        file.write_all(&piece).await?;
        if follow {
            file.flush().await?;
        }
        bytes += piece.len() as u64;
        lines += 1;
    }
    file.flush().await?;
    let is_complete = bytes + lines * OVERHEAD_BYTES < limit;
    Ok(LogReport {
        bytes,
        lines,
        is_complete,
    })
}

//! A container's output, to a file.

use std::path::{Path, PathBuf};

use bollard::{Docker, query_parameters::LogsOptionsBuilder};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufWriter},
};

use crate::{
    container::Container,
    error::{Cause, Error, Result},
    spec::LOG_BYTES,
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
    /// lines.
    pub is_complete: bool,
}

impl Container {
    /// Writes everything that the engine kept of stdout and stderr into a file, in
    /// the order it was written. For after the end. The file appears whole or not at all.
    pub async fn save_logs(&self, path: &Path) -> Result<LogReport> {
        let failed = |cause: Cause| self.engine.failed(Error::Logs, &self.name, cause);
        let partial = partial_path(path);
        let file = self.log_file(&partial).await?;
        let copied = copy(self.engine.patient(), &self.id, file).await;
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

async fn copy(docker: &Docker, id: &str, file: File) -> Result<LogReport, Cause> {
    let options = LogsOptionsBuilder::default()
        .stdout(true)
        .stderr(true)
        .build();
    let mut pieces = Box::pin(docker.logs(id, Some(options)));
    let mut file = BufWriter::new(file);
    let (mut bytes, mut lines) = (0, 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece?.into_bytes();
        file.write_all(&piece).await?;
        bytes += piece.len() as u64;
        lines += 1;
    }
    file.flush().await?;
    let is_complete = bytes + lines * OVERHEAD_BYTES < LOG_BYTES;
    Ok(LogReport {
        bytes,
        lines,
        is_complete,
    })
}

//! A container's output, to a file of limited size.

use std::{collections::VecDeque, io, path::Path, time::Duration};

use bollard::{Docker, query_parameters::LogsOptionsBuilder};
use futures_util::StreamExt as _;
use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufWriter},
};

use crate::{
    container::Container,
    error::{Cause, Result},
};

/// Before a log that broke off is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

impl Container {
    /// Writes what the engine kept of stdout and stderr into a file, in the order it was written:
    /// all of it, or the first and the last part with a line between them where it is more than
    /// `limit` bytes. For after the end.
    pub async fn save_logs(&self, path: &Path, limit: u64) -> Result<()> {
        let failed = |cause: Cause| self.failed("save the logs of container", cause);
        let file = File::create(path).await.map_err(|error| {
            let words = format!("{}: {error}", path.display());
            failed(io::Error::new(error.kind(), words).into())
        })?;
        let copied = copy(self.engine.patient(), &self.id, file, limit).await;
        copied.map_err(failed)
    }

    /// Comes back when the container has written more than `limit` bytes to its log; never where it
    /// does not.
    pub async fn log_exceeds(&self, limit: u64) {
        // An engine may break off under load, and the log goes on: so it is read again. Podman 4.3
        // also breaks off early where the container has ended meanwhile, each time; what is there
        // comes whole where nothing is waited for. Whoever asks stops asking when the container has
        // ended.
        loop {
            for follow in [true, false] {
                if self.log_has_more_than(limit, follow).await {
                    return;
                }
            }
            tokio::time::sleep(READ_AGAIN).await;
        }
    }

    async fn log_has_more_than(&self, limit: u64, follow: bool) -> bool {
        let options = LogsOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .follow(follow)
            .build();
        let mut pieces = Box::pin(self.engine.patient().logs(&self.id, Some(options)));
        let mut bytes = 0;
        while let Some(Ok(piece)) = pieces.next().await {
            bytes += piece.as_ref().len() as u64;
            if bytes > limit {
                return true;
            }
        }
        false
    }
}

async fn copy(docker: &Docker, id: &str, file: File, limit: u64) -> Result<(), Cause> {
    let options = LogsOptionsBuilder::default()
        .stdout(true)
        .stderr(true)
        .build();
    let mut pieces = Box::pin(docker.logs(id, Some(options)));
    let mut file = BufWriter::new(file);
    let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    let (mut head, mut left_out) = (0, 0);
    let mut tail = VecDeque::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece?.into_bytes();
        let (first, rest) = piece.split_at(piece.len().min(half - head));
        file.write_all(first).await?;
        head += first.len();
        tail.extend(rest);
        let over = tail.len().saturating_sub(half);
        tail.drain(..over);
        left_out += over;
    }
    if left_out > 0 {
        file.write_all(format!("\n… {left_out} bytes left out …\n").as_bytes())
            .await?;
    }
    let (one, other) = tail.as_slices();
    file.write_all(one).await?;
    file.write_all(other).await?;
    Ok(file.flush().await?)
}

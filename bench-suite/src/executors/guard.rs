//! Noticing from outside that a workload hangs, or writes without end.

use std::{fs, path::Path, time::Duration};

use protocol::SNAPSHOT_FILE;
use record::Reason;
use tokio::time::{Instant, sleep};

use crate::{outcome::End, suite::Limits};

/// Between two looks at a file. What a workload can write meanwhile comes on top of its limit.
const EVERY: Duration = Duration::from_millis(25);

/// Most bytes of the allocator's history: each of its events takes some KB at most.
const MOST_SNAPSHOT_BYTES: u64 = 1 << 30;

/// Comes back when the workload told nothing for too long, or when its results, the allocator's
/// history beside them or its log, where that is a file, are larger than they may be.
///
/// The workload tells of every phase and once a second of its steps, so a silence of many seconds
/// is a hang, or a phase that takes so long.
pub(super) async fn guard(results: &Path, log: Option<&Path>, limits: &Limits) -> End {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let snapshot = results.with_file_name(SNAPSHOT_FILE);
    let (mut told, mut heard) = (0, Instant::now());
    loop {
        sleep(EVERY).await;
        let now = length(results);
        if now > limits.results_bytes {
            return flooded("results", limits.results_bytes);
        }
        if length(&snapshot) > MOST_SNAPSHOT_BYTES {
            let message = "ended for a snapshot of more than 1 GiB; lower `steps.snapshot_entries`";
            return End::ended(Reason::Flooded, message);
        }
        if log.is_some_and(|log| length(log) > limits.log_bytes) {
            return flooded("log", limits.log_bytes);
        }
        if now != told {
            (told, heard) = (now, Instant::now());
        }
        if let Some(limit) = limits.silence
            && heard.elapsed() >= limit
        {
            return End::hang(limit);
        }
    }
}

/// It wrote more than it may.
pub(super) fn flooded(what: &str, limit: u64) -> End {
    let message = format!(
        "ended for writing more than {limit} bytes of {what}; the limit is `limits.{what}`"
    );
    End::ended(Reason::Flooded, message)
}

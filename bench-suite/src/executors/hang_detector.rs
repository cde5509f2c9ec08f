//! Noticing that a workload hangs.

use std::{future, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

/// Comes back when the results file has not grown for `limit`; never where there is no limit.
///
/// The workload tells of every phase and once a second of its steps, so a silence of many seconds
/// is a hang, or a phase that takes so long.
pub(super) async fn hang(results: &Path, limit: Option<Duration>) {
    let Some(limit) = limit else {
        return future::pending().await;
    };
    let pause = (limit / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let (mut length, mut heard) = (0, Instant::now());
    while heard.elapsed() < limit {
        sleep(pause).await;
        let now = std::fs::metadata(results).map_or(0, |file| file.len());
        if now != length {
            (length, heard) = (now, Instant::now());
        }
    }
}

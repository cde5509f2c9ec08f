//! The end of a run whose harness is gone.

use std::{
    io::{self, Write as _},
    process, thread,
    time::Duration,
};

/// Ends the process when the time is over, wherever it then hangs.
///
/// The harness ends a run earlier by itself; this ends what a harness that was killed left behind.
/// `abort` runs no handlers, which could hang in a driver as the run does, and ends also the first
/// process of a container, whom other signals of its own do not reach.
pub(crate) fn arm(seconds: Option<f64>) {
    let Some(time) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else {
        return;
    };
    let watch = move || {
        thread::sleep(time);
        let line = "scenario: past its deadline with nobody to end it; ending\n";
        let _ = io::stderr().write_all(line.as_bytes());
        process::abort();
    };
    // A run without a thread to spare is not worth failing for this.
    let _ = thread::Builder::new().name("deadline".into()).spawn(watch);
}

//! What `xtask/fuzz` reads hostile input with.

use jiff::Timestamp;
use protocol::{Event, Phase, RunFile};
use record::{Metrics, Monitor, Window};

use crate::{
    invariants,
    results::{self, Results},
};

/// Reads the results of the run `run`, without a file around them.
#[must_use]
pub fn results(bytes: &[u8], run: &str) -> Results {
    results::parse(bytes, run)
}

/// The metrics of a run that says to have finished, and the first thing in them that cannot be.
#[must_use]
pub fn metrics(
    results: &Results,
    asked: &RunFile,
    lived_seconds: f64,
) -> Option<(Metrics, Result<(), String>)> {
    let Some(Event::Finished(summary)) = &results.end else {
        return None;
    };
    let monitor = Monitor::default();
    let began = results.phases_since(Timestamp::UNIX_EPOCH, lived_seconds);
    let measured = Window::of(Phase::Measure, &began, &results.phase_seconds);
    let metrics = invariants::metrics(summary, results, &monitor, measured);
    let checked = invariants::check(asked, results, &metrics, &monitor, lived_seconds);
    Some((metrics, checked))
}

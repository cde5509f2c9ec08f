//! What `xtask/fuzz` reads hostile input with.

use protocol::{Phase, RunFile, Values};
use record::{Isolation, Window};

use crate::{
    executors::Execution,
    results::{self, Results},
    values::{self, Seen},
};

/// Reads the results of the run `run`, without a file around them.
pub fn results(bytes: &[u8], run: &str) -> Results {
    results::parse(bytes, run, 1)
}

/// The values of a run that says to have finished, and the first thing in them that cannot be.
pub fn values(
    results: &Results,
    asked: &RunFile,
    lived_seconds: f64,
) -> Option<(Values, Option<String>)> {
    if !results.finished() {
        return None;
    }
    let mut execution = Execution::new(Isolation::default());
    execution.record.wall_seconds = lived_seconds;
    let told = results.first();
    let began = told.phases_since(execution.record.started_at, lived_seconds);
    let values = values::of(&Seen {
        rank: 0,
        told,
        execution: &execution,
        measured: Window::of(Phase::Measure, &began, &told.phase_seconds),
        has_life: false,
    });
    let contradiction = values::contradiction(&values, told, Some(asked), &execution);
    Some((values, contradiction))
}

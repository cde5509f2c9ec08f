//! The table after a bench, for a terminal or a log.

use record::Reason;

use super::cells;
use crate::{
    model::{Failure, View, stage_word},
    render::text::grid,
    words::{
        comparison,
        format::{clean, plural},
    },
};

pub use crate::render::text::{Style, columns};

/// The cells of all sessions, and every failed run under them.
pub fn table(view: &View, style: Style) -> String {
    if view.report.cells.is_empty() {
        return "No cells.\n".to_owned();
    }
    let failures = failures(view);
    let gap = if failures.is_empty() { "" } else { "\n" };
    isolation(view) + &grid(&cells::table(view, true), style) + gap + &failures
}

/// What is to be seen before any number: that runs were not isolated.
fn isolation(view: &View) -> String {
    let runs = view.runs.iter().flatten();
    let count = runs.filter(|run| !run.isolation.missing.is_empty()).count();
    match count {
        0 => String::new(),
        _ => format!(
            "not isolated: {} in no container\n",
            plural(count, "run was", "runs were")
        ),
    }
}

/// Every failed run, one line each with its message.
fn failures(view: &View) -> String {
    let line = |failure: &Failure| {
        let message = failure.message.lines().next().unwrap_or_default();
        let log = failure
            .log
            .as_ref()
            .map_or_else(String::new, |log| format!(" (log: {log})"));
        let word = match failure.reason {
            _ if failure.expected => "expected",
            Reason::Contaminated => "contaminated",
            _ => "failed",
        };
        let reason = failure.reason.word();
        let stage = stage_word(failure.stage);
        let (run, image) = (&failure.run, &failure.image);
        let cell = comparison::spelled(&failure.cell);
        let text = format!("{word}: {run} · {image} · {cell}: {reason} at {stage}: {message}{log}");
        clean(&text) + "\n"
    };
    view.report.failures.iter().map(line).collect()
}

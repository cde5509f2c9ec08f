//! The table after a bench, for a terminal or a log.

use record::{Reason, word_of};

use super::cells;
use crate::{
    model::{Failure, View, not_isolated},
    render::text::grid,
    words::{comparison, format::clean},
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

/// What is to be seen before any number: that runs were not isolated, or not in all.
fn isolation(view: &View) -> String {
    match not_isolated(view) {
        None => String::new(),
        Some((true, count, _)) => format!("not isolated: {count} in no container\n"),
        Some((false, count, missing)) => format!("partly isolated: {count} without {missing}\n"),
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
        let stage = word_of(failure.stage);
        let (run, image) = (&failure.run, &failure.image);
        let cell = comparison::spelled(&failure.cell);
        let text = format!("{word}: {run} · {image} · {cell}: {reason} at {stage}: {message}{log}");
        clean(&text) + "\n"
    };
    view.report.failures.iter().map(line).collect()
}

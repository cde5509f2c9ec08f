//! Verdicts as GitHub's workflow commands, which a step prints to annotate its run.
//!
//! The form and what must be escaped in it: GitHub Docs, *Workflow commands for GitHub Actions*,
//! and `toolkit/packages/core/src/command.ts`.

use judge::compare::Verdict;
use verdict::{CellVerdicts, FailOn, MetricVerdict, Verdicts};

use super::warnings::warnings;
use crate::words::comparison::{
    cell_name, change, failures, headline, interval, label, lost, tally, what_would_help,
};
use crate::words::format;

/// Most annotations of a kind that GitHub shows for a step; those behind them are dropped.
const SHOWN: usize = 10;

/// Verdicts as lines of workflow commands: one notice that sums up; errors for what fails the
/// gate, the largest effects first; warnings for what is inconclusive and for what the reader
/// must know. Of each kind there are no more than GitHub shows; the last one says how many are left.
pub fn annotations(verdicts: &Verdicts, fail_on: FailOn) -> String {
    let (mut errors, mut warned) = (Vec::new(), Vec::new());
    let mut add = |verdict, title: &str, text: &str| {
        if verdict == Verdict::Regressed || fail_on == FailOn::Inconclusive {
            errors.push(command("error", title, text));
        } else {
            warned.push(command("warning", title, text));
        }
    };
    for verdict in [Verdict::Regressed, Verdict::Inconclusive] {
        for cell in &verdicts.cells {
            if let Some((_, why)) = lost(cell).filter(|(of_cell, _)| *of_cell == verdict) {
                add(verdict, &format!("{}: {verdict}", cell_name(cell)), &why);
            }
        }
        let mut of_verdict: Vec<_> = verdicts
            .all()
            .filter(|(cell, _)| lost(cell).is_none())
            .filter(|(_, found)| found.gated && found.comparison.verdict == verdict)
            .collect();
        of_verdict.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
        for (cell, found) in of_verdict {
            let title = format!("{}: {} {}", cell_name(cell), label(found), found.outcome());
            add(verdict, &title, &message(cell, found));
        }
    }
    let known = warnings(verdicts).into_iter();
    let known = known.map(|known| command("warning", "About this comparison", &known));
    let warned: Vec<String> = known.chain(warned).collect();
    listed((&headline(verdicts), &tally(verdicts)), errors, warned)
}

fn size(found: &MetricVerdict) -> f64 {
    found.comparison.ratio.map_or(0.0, |ratio| ratio.ln().abs())
}

/// A notice that sums up, then what is shown of each kind.
pub(crate) fn listed(
    (title, text): (&str, &str),
    errors: Vec<String>,
    warned: Vec<String>,
) -> String {
    let mut lines = vec![command("notice", title, text)];
    lines.extend(shown("error", errors));
    lines.extend(shown("warning", warned));
    lines.concat()
}

/// The first of them, and how many more there are.
fn shown(kind: &str, mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > SHOWN {
        let left = lines.split_off(SHOWN - 1).len();
        let more = format!("{left} more in the report");
        let text = "GitHub shows no more of a kind for one step; --summary and --junit have all.";
        lines.push(command(kind, &more, text));
    }
    lines
}

fn message(cell: &CellVerdicts, found: &MetricVerdict) -> String {
    if found.not_measured_in.is_some() {
        return failures(cell).unwrap_or_else(|| found.outcome());
    }
    let help = what_would_help(found)
        .map(|help| format!("; {help}"))
        .unwrap_or_default();
    format!(
        "{} (interval {}, threshold {}){help}",
        change(found),
        interval(found),
        format::share(found.comparison.threshold),
    )
}

pub(crate) fn command(kind: &str, title: &str, message: &str) -> String {
    let title = data(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{kind} title={title}::{}\n", data(message))
}

fn data(text: &str) -> String {
    // Line breaks would end the command; whatever else is unfit for a terminal goes as well.
    let text = format::clean_lines(text);
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_command() {
        let line = command("error", "a: b, 5 %", "x\n::error::y\u{1b}");
        assert_eq!(
            line,
            "::error title=a%3A b%2C 5 %25::x%0A::error::y\u{fffd}\n"
        );
    }
}

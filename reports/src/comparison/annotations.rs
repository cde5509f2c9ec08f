//! Verdicts as GitHub's workflow commands, which a step prints to annotate its run.
//!
//! The form and what must be escaped in it: GitHub Docs, *Workflow commands for GitHub Actions*,
//! and `toolkit/packages/core/src/command.ts`.

use judge::compare::Verdict;
use verdict::{FailOn, QuantityVerdict, Verdicts};

use super::{
    cell_name, effect, headline, interval, label, tally, value, warnings, what_would_help,
};
use crate::format;

/// Verdicts as lines of workflow commands: errors for what fails the gate, warnings for what
/// nobody can tell and for what the reader must know, one notice that sums up. GitHub shows ten
/// of a kind for a step, so what fails comes first.
#[must_use]
pub fn annotations(verdicts: &Verdicts, fail_on: FailOn) -> String {
    let mut lines = Vec::new();
    for verdict in [Verdict::Worse, Verdict::CannotTell] {
        let kind = match (verdict, fail_on) {
            (Verdict::Worse, _) | (_, FailOn::CannotTell) => "error",
            (_, FailOn::Worse) => "warning",
        };
        let of_verdict = verdicts
            .all()
            .filter(|(_, found)| found.gated && found.comparison.verdict == verdict);
        lines.extend(of_verdict.map(|(cell, found)| {
            let title = format!("{}: {} {verdict}", cell_name(cell), label(found));
            command(kind, &title, &message(found))
        }));
    }
    let known = warnings(verdicts);
    lines.extend(
        known
            .iter()
            .map(|known| command("warning", "About this comparison", known)),
    );
    lines.push(command("notice", &headline(verdicts), &tally(verdicts)));
    lines.concat()
}

fn message(found: &QuantityVerdict) -> String {
    let help = what_would_help(found)
        .map(|help| format!("; {help}"))
        .unwrap_or_default();
    format!(
        "{} to {}, {} (95 % interval {}){help}",
        value(found, found.base),
        value(found, found.head),
        effect(found),
        interval(found)
    )
}

fn command(kind: &str, title: &str, message: &str) -> String {
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

//! The one place that writes to the terminal.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    sync::{Arc, OnceLock},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use record::printable;
use reports::text::Style;

use crate::error::{Error, Result};

/// Owns standard output (results), standard error (what goes on) and the progress bars.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    bars: MultiProgress,
    live: bool,
    /// Why a result could not be written.
    failed: Arc<OnceLock<io::Error>>,
}

impl Printer {
    pub(crate) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            live: io::stderr().is_terminal(),
            failed: Arc::default(),
        }
    }

    /// Whether somebody watches: bars that move make sense.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// A result, on standard output.
    pub(crate) fn line(&self, text: &str) {
        self.raw(&format!("{text}\n"));
    }

    /// Lines of results, on standard output.
    pub(crate) fn raw(&self, text: &str) {
        self.write(&shown(text));
    }

    /// What is to act on who reads it, on standard output: workflow commands, scripts for a shell.
    pub(crate) fn verbatim(&self, text: &str) {
        self.write(text);
    }

    pub(crate) fn finish(&self) -> Result<()> {
        match self.failed.get() {
            Some(error) => Err(Error::Trouble(format!(
                "the output cannot be written: {error}"
            ))),
            None => Ok(()),
        }
    }

    /// A result for programs, on standard output.
    pub(crate) fn json<T: serde::Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.json_text(&serde_json::to_string_pretty(value)?);
        Ok(())
    }

    /// The same, where it is text already.
    pub(crate) fn json_text(&self, text: &str) {
        self.write(&format!("{}\n", inert_json(text).trim_end()));
    }

    /// A reader that went away ends it in silence; whatever else goes wrong, such as a full disk,
    /// [`Self::finish`] says.
    fn write(&self, text: &str) {
        let written = self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        });
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = self.failed.set(error);
        }
    }

    /// Why the command ends as it does, on standard error.
    pub(crate) fn error(&self, error: &Error) {
        self.note(error.render(self.live).trim_end());
    }

    /// What goes on, on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(io::stderr().lock(), "{}", shown(text));
        });
    }

    /// A part begins, on standard error.
    pub(crate) fn heading(&self, text: &str) {
        self.note(&format!("\n── {text}"));
    }

    /// A bar of this template, which ticks where nothing else moves it; hidden where nobody watches.
    pub(crate) fn bar(
        &self,
        template: &str,
        label: &str,
        total: Option<u64>,
        tick: Option<Duration>,
    ) -> ProgressBar {
        let style = ProgressStyle::with_template(template);
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let mut bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if self.live {
            bar = self.bars.add(bar);
            if let Some(tick) = tick {
                bar.enable_steady_tick(tick);
            }
        } else {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        bar.set_message(printable(label).into_owned());
        bar
    }
}

/// How tables are written to standard output.
pub(crate) fn table_style() -> Style {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return Style::Plain;
    }
    let size = rustix::termios::tcgetwinsize(stdout);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    Style::Terminal(if columns == 0 { 80 } else { columns })
}

/// A text fit for a terminal and for the log of a CI job: whatever it quotes does nothing there.
/// Colours stay.
fn shown(text: &str) -> Cow<'_, str> {
    let mut parts = text.split("\u{1b}[");
    let first = printable(parts.next().unwrap_or_default()).into_owned();
    let rest = parts.map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end {
            Some(end) if part[end..].starts_with('m') => {
                format!("\u{1b}[{}{}", &part[..=end], printable(&part[end + 1..]))
            }
            _ => printable(&format!("\u{1b}[{part}")).into_owned(),
        }
    });
    Cow::Owned(first + &rest.collect::<String>())
}

/// JSON of the same value in which nothing acts on a terminal or on CI.
fn inert_json(text: &str) -> Cow<'_, str> {
    if printable(text) == text {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| match printable(c.encode_utf8(&mut [0; 4])) {
        Cow::Owned(_) => {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            units
                .iter()
                .fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}"))
        }
        Cow::Borrowed(same) => same.to_owned(),
    };
    let text: String = text.chars().map(escaped).collect();
    // What CI reads as a command anywhere in a line; in JSON it stands in a string.
    Cow::Owned(text.replace("##", "#\\u0023"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use bench_suite::session::SessionError;

    use super::*;

    #[test]
    fn what_is_quoted_does_nothing() {
        let check = |text: &str, expect: &str| assert_eq!(shown(text), expect);
        check(
            "\u{1b}[1;31merror\u{1b}[0m: x",
            "\u{1b}[1;31merror\u{1b}[0m: x",
        );
        check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
        check("\u{1b}[2Ja", "\\u{1b}[2Ja");
        check("a\n::error::b", "a\n\\::error::b");
        check("x \u{202e}y", "x \\u{202e}y");
        check("at::Tensor → é", "at::Tensor → é");
    }

    #[test]
    fn a_shell_reads_back_the_folder_of_a_command_that_is_shown() {
        for folder in ["/tmp/x/out##b", "it's ##[error] one\u{202e}", "a b/c"] {
            let path = std::path::PathBuf::from(folder);
            let error = SessionError::DiskFull {
                folder: path,
                message: "no room".to_owned(),
            };
            let said = error.to_string();
            let said = shown(&said);
            let (_, command) = said.split_once("with `").expect("a command");
            let (command, _) = command.split_once('`').expect("its end");
            let output = Command::new("bash")
                .args(["-c", &format!("printf '%s\\n' {command}")])
                .output();
            let words = String::from_utf8(output.expect("bash runs").stdout).expect("text");
            assert_eq!(words.lines().last(), Some(folder), "{said}");
        }
    }

    #[test]
    fn json_is_the_same_value_and_does_nothing() {
        let value = serde_json::json!({"a": "\u{1b}[2J \u{7f}\u{202e} ##[error] ::error", "b": 1});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let inert = inert_json(&text);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&inert).unwrap(),
            value
        );
        assert_eq!(printable(&inert), inert);
    }
}

//! The one place that writes to the terminal.

use std::io::{self, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::error::{Error, Result};

/// Owns standard output (results), standard error (what goes on) and the progress bars.
#[derive(Debug, Clone)]
pub(crate) struct Printer {
    bars: MultiProgress,
    live: bool,
}

impl Printer {
    pub(crate) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            live: io::stderr().is_terminal(),
        }
    }

    /// Whether somebody watches: bars that move make sense.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// A result, on standard output. A reader that went away ends it in silence.
    pub(crate) fn line(&self, text: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(io::stdout().lock(), "{text}");
        });
    }

    /// A result as it is, on standard output.
    pub(crate) fn raw(&self, text: &str) {
        self.bars.suspend(|| {
            let mut out = io::stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }

    /// A result for programs, on standard output.
    pub(crate) fn json<T: serde::Serialize>(&self, value: &T) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|source| Error::Json { source })?;
        self.line(&text);
        Ok(())
    }

    /// Why the command ends as it does, on standard error.
    pub(crate) fn error(&self, error: &Error) {
        self.note(error.render(self.live).trim_end());
    }

    /// What goes on, on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.bars.suspend(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        });
    }

    /// A part begins, on standard error.
    pub(crate) fn heading(&self, text: &str) {
        self.note(&format!("\n── {text}"));
    }

    /// A bar over bytes; hidden where nobody watches.
    pub(crate) fn bytes_bar(&self, label: &str, total: Option<u64>) -> ProgressBar {
        let bar = match total {
            Some(total) => ProgressBar::new(total).with_style(style(
                "{msg:<34} {wide_bar} {binary_bytes:>11} of {binary_total_bytes:<11} {eta:>4}",
            )),
            None => ProgressBar::new_spinner().with_style(style("{msg:<34} {binary_bytes:>11}")),
        };
        self.add(bar, label)
    }

    /// A spinner with the time it has turned; hidden where nobody watches.
    pub(crate) fn spinner(&self, label: &str) -> ProgressBar {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {elapsed}"));
        let bar = self.add(bar, label);
        if self.live {
            bar.enable_steady_tick(std::time::Duration::from_millis(120));
        }
        bar
    }

    /// A bar over counted things; hidden where nobody watches.
    pub(crate) fn count_bar(&self, label: &str, total: u64) -> ProgressBar {
        let bar = ProgressBar::new(total).with_style(style(
            "{pos:>4} of {len}  {bar:24}  {elapsed} gone, {eta} to go  {wide_msg}",
        ));
        self.add(bar, label)
    }

    fn add(&self, bar: ProgressBar, label: &str) -> ProgressBar {
        let bar = if self.live {
            self.bars.add(bar)
        } else {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
            bar
        };
        bar.set_message(label.to_owned());
        bar
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

//! Long work of the `images` room, as bars where somebody watches and as lines elsewhere.

use std::time::{Duration, Instant};

use images::{Action, Meter, Progress};
use indicatif::ProgressBar;

use crate::printer::Printer;

/// A line is worth printing for a step that takes this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two lines of one step.
const PACE: Duration = Duration::from_secs(20);

impl Progress for Printer {
    fn start(&self, action: Action, object: &str, total: Option<u64>) -> Box<dyn Meter> {
        let label = format!("{action} {object}");
        let bar = if action.counts_bytes() {
            self.bytes_bar(&label, total)
        } else {
            self.spinner(&label)
        };
        let lines = (!self.is_live()).then(|| Lines {
            printer: self.clone(),
            bytes: action.counts_bytes(),
            begun: Instant::now(),
            last: None,
            total,
        });
        Box::new(Step { bar, label, lines })
    }

    fn note(&self, text: &str) {
        Printer::note(self, text);
    }
}

/// One step: a bar, or lines.
struct Step {
    bar: ProgressBar,
    label: String,
    lines: Option<Lines>,
}

struct Lines {
    printer: Printer,
    bytes: bool,
    begun: Instant,
    last: Option<Instant>,
    total: Option<u64>,
}

impl Lines {
    fn tell(&mut self, label: &str, done: u64) {
        let now = Instant::now();
        let due = match self.last {
            None => now.duration_since(self.begun) >= PATIENCE,
            Some(last) => now.duration_since(last) >= PACE,
        };
        if !due {
            return;
        }
        self.last = Some(now);
        let text = match (self.bytes, self.total) {
            (true, Some(total)) => {
                format!("{label}: {} of {} MB", done / 1_000_000, total / 1_000_000)
            }
            (true, None) => format!("{label}: {} MB", done / 1_000_000),
            (false, Some(total)) => format!("{label}: {done} of {total}"),
            (false, None) => format!("{label}: {done}"),
        };
        self.printer.note(&text);
    }
}

impl Meter for Step {
    fn advance_to(&mut self, done: u64) {
        self.bar.set_position(done);
        if let Some(lines) = &mut self.lines {
            lines.tell(&self.label, done);
        }
    }

    fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
        if let Some(lines) = &mut self.lines {
            lines.total = Some(total);
        }
    }

    fn message(&mut self, text: &str) {
        self.bar.set_message(format!("{} {text}", self.label));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if let Some(Lines { printer, begun, .. }) = &self.lines
            && begun.elapsed() >= PATIENCE
        {
            printer.note(&format!(
                "{}: done in {:.0} s",
                self.label,
                begun.elapsed().as_secs_f64()
            ));
        }
    }
}

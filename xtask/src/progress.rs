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
        let bar = match (action.counts_bytes(), total) {
            (true, total) => self.bytes_bar(&label, total),
            (false, Some(total)) => self.crates_bar(&label, total),
            (false, None) => self.spinner(&label),
        };
        let lines = (!self.is_live()).then(|| Lines {
            printer: self.clone(),
            counts_bytes: action.counts_bytes(),
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
    counts_bytes: bool,
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
        if due {
            self.last = Some(now);
            let elapsed = now.duration_since(self.begun);
            let extent = extent(self.counts_bytes, done, self.total);
            let text = format!("{label}: {extent}, {:.0} s", elapsed.as_secs_f64());
            self.printer.note(&text);
        }
    }
}

/// `120 of 545 MB`, `13 of 74 crates`.
fn extent(counts_bytes: bool, done: u64, total: Option<u64>) -> String {
    let (size, unit) = if counts_bytes {
        (1_000_000, "MB")
    } else {
        (1, "crates")
    };
    let of = total.map_or_else(String::new, |total| format!(" of {}", total / size));
    format!("{}{of} {unit}", done / size)
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
        let text = format!("{} {text}", self.label);
        self.bar.set_message(record::printable(&text).into_owned());
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_has_its_unit_and_its_total() {
        let check = |bytes, done, total, expect: &str| {
            assert_eq!(super::extent(bytes, done, total), expect);
        };
        check(true, 120_400_000, Some(545_000_000), "120 of 545 MB");
        check(true, 120_400_000, None, "120 MB");
        check(false, 13, Some(74), "13 of 74 crates");
    }
}

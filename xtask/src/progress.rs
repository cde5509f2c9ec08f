//! Long work of the `images` room, as bars where somebody watches and as lines elsewhere.

use std::time::{Duration, Instant};

use images::{Action, Meter, Progress};
use indicatif::ProgressBar;

use crate::printer::Printer;

/// A line is worth printing for a step that takes this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two turns of what turns by itself.
const TICK: Duration = Duration::from_millis(120);
/// Between two lines of one step.
const PACE: Duration = Duration::from_secs(20);

const BYTES: &str = "{msg:<34} {binary_bytes:>11}";
const BYTES_OF: &str =
    "{msg:<34} {wide_bar} {binary_bytes:>11} of {binary_total_bytes:<11} {eta:>4}";
const CRATES: &str = "{spinner} {pos} of {len} crates, {elapsed}  {wide_msg}";
const SPINNER: &str = "{spinner} {msg}  {elapsed}";

impl Progress for Printer {
    fn start(&self, action: Action, object: &str, total: Option<u64>) -> Box<dyn Meter> {
        let label = format!("{action} {object}");
        let (template, tick) = match (action.counts_bytes(), total) {
            (true, Some(_)) => (BYTES_OF, None),
            (true, None) => (BYTES, None),
            (false, Some(_)) => (CRATES, Some(TICK)),
            (false, None) => (SPINNER, Some(TICK)),
        };
        Box::new(Step {
            bar: self.bar(template, &label, total, tick),
            label,
            lines: (!self.is_live()).then(|| self.clone()),
            counts_bytes: action.counts_bytes(),
            begun: Instant::now(),
            last: None,
            total,
        })
    }

    fn note(&self, text: &str) {
        Printer::note(self, text);
    }
}

/// One step: a bar, or lines.
struct Step {
    bar: ProgressBar,
    label: String,
    /// Where lines go, in place of a bar.
    lines: Option<Printer>,
    counts_bytes: bool,
    begun: Instant,
    last: Option<Instant>,
    total: Option<u64>,
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
        let now = Instant::now();
        let due = match self.last {
            None => now.duration_since(self.begun) >= PATIENCE,
            Some(last) => now.duration_since(last) >= PACE,
        };
        if let Some(printer) = self.lines.as_ref().filter(|_| due) {
            self.last = Some(now);
            let elapsed = now.duration_since(self.begun).as_secs_f64();
            let extent = extent(self.counts_bytes, done, self.total);
            printer.note(&format!("{}: {extent}, {elapsed:.0} s", self.label));
        }
    }

    fn set_total(&mut self, total: u64) {
        self.bar.set_length(total);
        self.total = Some(total);
    }

    fn message(&mut self, text: &str) {
        let text = format!("{} {text}", self.label);
        self.bar.set_message(record::printable(&text).into_owned());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        let elapsed = self.begun.elapsed();
        if let Some(printer) = self.lines.as_ref().filter(|_| elapsed >= PATIENCE) {
            let seconds = elapsed.as_secs_f64();
            printer.note(&format!("{}: done in {seconds:.0} s", self.label));
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

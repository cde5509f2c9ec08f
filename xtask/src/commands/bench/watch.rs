//! What the terminal shows while a session runs.

use std::time::Instant;

use bench_suite::session::{Progress, Subscriber, Totals};
use indicatif::ProgressBar;
use record::{CellPlan, Deciding, Look, LookEnd, Outcome, Record, Session};

use verdict::Verdicts;

use crate::printer::Printer;

/// At most so many undecided metrics are named after a look.
const MOST_NAMED: usize = 12;

/// A bar with what runs now where somebody watches, a line for each run elsewhere.
pub(super) struct Watch {
    printer: Printer,
    bar: Option<ProgressBar>,
    begun: Instant,
    several_images: bool,
    /// How many blocks there will be is not known beforehand.
    deciding: bool,
}

impl Watch {
    pub(super) fn new(printer: &Printer) -> Self {
        Self {
            printer: printer.clone(),
            bar: None,
            begun: Instant::now(),
            several_images: false,
            deciding: false,
        }
    }

    fn started(&mut self, session: &Session, totals: Totals) {
        self.several_images = session.images.len() > 1;
        self.deciding = session.deciding.is_some();
        let bar = self.printer.count_bar("", totals.planned as u64);
        bar.set_position((totals.planned - totals.remaining) as u64);
        bar.enable_steady_tick(std::time::Duration::from_millis(500));
        self.bar = Some(bar);
    }

    fn running(&self, cell: &CellPlan, attempt: u32, block: u32) {
        let again = if attempt > 1 {
            format!(", attempt {attempt}")
        } else {
            String::new()
        };
        let name = self.name(&cell.image, &cell.scenario, &cell.variant.to_string());
        if let Some(bar) = &self.bar {
            bar.set_message(format!("block {}: {name}{again}", block + 1));
        }
    }

    fn ended(&self, record: &Record, totals: Totals) {
        if let Some(bar) = &self.bar {
            bar.set_length(totals.planned as u64);
            bar.set_position((totals.planned - totals.remaining) as u64);
        }
        let name = self.name(&record.image, &record.scenario, &record.variant.to_string());
        let done = totals.planned - totals.remaining;
        let elapsed = self.begun.elapsed().as_secs_f64();
        let metrics = match (&record.outcome, &record.metrics) {
            (
                Outcome::Failed {
                    reason, message, ..
                },
                _,
            ) => {
                format!(
                    "{}: {}",
                    reason.word(),
                    message.lines().next().unwrap_or_default()
                )
            }
            (Outcome::Ok, Some(metrics)) => {
                let peak = metrics
                    .summary
                    .memory
                    .peak_allocated_bytes
                    .map_or_else(String::new, |bytes| {
                        format!(", peak {:.1} MiB", bytes as f64 / f64::from(1 << 20))
                    });
                match metrics.summary.throughput_samples_per_second {
                    Some(rate) => format!("{rate:.1} samples/s{peak}"),
                    None => format!("idle for {:.1} s{peak}", metrics.summary.measured_seconds),
                }
            }
            (Outcome::Ok, None) => "ok".to_owned(),
        };
        let text = format!(
            "{elapsed:>7.1} s  {done:>4}/{}  {name}: {metrics}",
            totals.planned
        );
        // Where a bar moves, single runs would push everything else off the screen; failures stay.
        if !self.printer.is_live() || !record.outcome.is_ok() {
            self.printer.note(&text);
        } else if let Some(bar) = &self.bar {
            bar.set_message(format!("last: {name}: {metrics}"));
        }
    }

    /// What a look came to, and what is still open.
    fn looked(&self, look: &Look, deciding: &Deciding, verdicts: &[Verdicts]) {
        let open = look.undecided.len();
        let gated = look.decided + open;
        let blocks = look.blocks;
        let ending = match (deciding.end, deciding.planned_blocks) {
            (Some(LookEnd::Decided), _) => "; no further block is needed".to_owned(),
            (Some(LookEnd::Time), _) => "; the time budget ends here".to_owned(),
            (Some(LookEnd::Blocks), _) => "; no more blocks were asked for".to_owned(),
            (None, Some(planned)) => format!("; the time is good for about {planned} blocks"),
            (None, None) => String::new(),
        };
        self.printer.note(&format!(
            "after {blocks} blocks {} of {gated} gated metrics are decided{ending}",
            look.decided
        ));
        let needed: Vec<_> = verdicts
            .iter()
            .flat_map(Verdicts::undecided)
            .map(|(_, metric)| metric.comparison.blocks_needed)
            .collect();
        for (name, needed) in look.undecided.iter().zip(needed).take(MOST_NAMED) {
            let needed = needed.map_or_else(String::new, |needed| {
                format!(" (about {needed} blocks would show its noise threshold)")
            });
            self.printer.note(&format!("  undecided: {name}{needed}"));
        }
        if open > MOST_NAMED {
            self.printer
                .note(&format!("  … and {} more", open - MOST_NAMED));
        }
    }

    fn name(&self, image: &str, scenario: &str, variant: &str) -> String {
        if self.several_images {
            format!("{image} {scenario} {variant}")
        } else {
            format!("{scenario} {variant}")
        }
    }
}

impl Subscriber for Watch {
    fn tell(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::SessionStarted { session, totals } => {
                self.started(session, totals);
            }
            Progress::RunStarted {
                run, cell, attempt, ..
            } => {
                self.running(cell, attempt, run.block);
            }
            Progress::RunEnded { record, totals } => self.ended(record, totals),
            Progress::BlockEnded { block, of } => {
                if !self.printer.is_live() {
                    let number = block + 1;
                    self.printer.note(&if self.deciding {
                        format!("block {number} is complete")
                    } else {
                        format!("block {number} of {of} is complete")
                    });
                }
            }
            Progress::Looked {
                look,
                deciding,
                verdicts,
            } => self.looked(look, deciding, verdicts),
            Progress::SessionEnded { .. } => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }
}

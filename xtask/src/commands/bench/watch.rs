//! What the terminal shows while a session runs.

use std::time::{Duration, Instant};

use bench_suite::session::{Progress, Subscriber, Totals};
use indicatif::ProgressBar;
use judge::compare::WORTHWHILE_BLOCKS;
use metrics::catalogue;
use protocol::Axes;
use record::{CellPlan, Deciding, Look, LookEnd, Outcome, Record, Session, printable};
use reports::format::{
    Quantity::{self, Seconds},
    plural,
};
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
    several_suites: bool,
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
            several_suites: false,
            deciding: false,
        }
    }

    fn started(&mut self, session: &Session, totals: Totals) {
        self.several_images = session.images.len() > 1;
        self.several_suites = session.suites.len() > 1;
        self.deciding = session.deciding.is_some();
        let template = "{pos:>4} of {len}  {bar:24}  {elapsed} elapsed, ETA {eta}  {wide_msg}";
        let (planned, tick) = (totals.planned as u64, Duration::from_millis(500));
        let bar = self.printer.bar(template, "", Some(planned), Some(tick));
        bar.set_position((totals.planned - totals.remaining) as u64);
        self.bar = Some(bar);
    }

    fn running(&self, cell: &CellPlan, attempt: u32, block: u32) {
        let again = (attempt > 1).then(|| format!(", attempt {attempt}"));
        let again = again.unwrap_or_default();
        let name = self.name(&cell.image, (&cell.suite, &cell.scenario), &cell.axes);
        if let Some(bar) = &self.bar {
            let text = format!("block {}: {name}{again}", block + 1);
            bar.set_message(printable(&text).into_owned());
        }
    }

    fn ended(&self, record: &Record, totals: Totals) {
        if let Some(bar) = &self.bar {
            bar.set_length(totals.planned as u64);
            bar.set_position((totals.planned - totals.remaining) as u64);
        }
        let scenario = (record.suite.as_str(), record.scenario.as_str());
        let name = self.name(&record.image, scenario, &record.axes);
        let done = totals.planned - totals.remaining;
        let elapsed = self.begun.elapsed().as_secs_f64();
        let metrics = match &record.outcome {
            Outcome::Expected(failure) | Outcome::Failed(failure) => {
                let message = failure.message.lines().next().unwrap_or_default();
                format!("{}: {message}", record.outcome.word())
            }
            Outcome::Ok => yielded(record),
        };
        let text = format!(
            "{elapsed:>7.1} s  {done:>4}/{}  {name}: {metrics}",
            totals.planned
        );
        // Where a bar moves, single runs would push everything else off the screen; failures stay.
        if !self.printer.is_live() || !record.outcome.passes() {
            self.printer.note(&text);
        } else if let Some(bar) = &self.bar {
            let text = format!("last: {name}: {metrics}");
            bar.set_message(printable(&text).into_owned());
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
            (None, Some(planned)) => format!(
                "; the time is good for about {}",
                plural(planned as usize, "block", "blocks")
            ),
            (None, None) => String::new(),
        };
        self.printer.note(&format!(
            "after {}, {} of {} decided{ending}",
            plural(blocks as usize, "block", "blocks"),
            look.decided,
            plural(gated, "gated metric is", "gated metrics are")
        ));
        let all = verdicts.iter();
        let metrics = all.flat_map(|verdicts| verdicts.undecided(deciding.metric.as_deref()));
        let needed = metrics.map(|(_, metric)| metric.comparison.blocks_needed);
        for (name, needed) in look.undecided.iter().zip(needed).take(MOST_NAMED) {
            let needed = needed.map_or_else(String::new, |needed| match needed {
                needed if needed > WORTHWHILE_BLOCKS => {
                    format!(" (more blocks than is worthwhile, over {WORTHWHILE_BLOCKS})")
                }
                needed => format!(" (about {needed} blocks would show its noise threshold)"),
            });
            self.printer.note(&format!("  undecided: {name}{needed}"));
        }
        if open > MOST_NAMED {
            self.printer
                .note(&format!("  … and {} more", open - MOST_NAMED));
        }
    }

    fn name(&self, image: &str, (suite, scenario): (&str, &str), axes: &Axes) -> String {
        let mut name = format!("{scenario} {axes}");
        if self.several_suites {
            name = format!("{suite}/{name}");
        }
        if self.several_images {
            name = format!("{image} {name}");
        }
        name
    }
}

impl Subscriber for Watch {
    fn tell(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::SessionStarted { session, totals } => self.started(session, totals),
            Progress::RunStarted {
                run, cell, attempt, ..
            } => self.running(cell, attempt, run.block),
            Progress::RunEnded { record, totals } => self.ended(record, totals),
            Progress::Unfit { message } => self.printer.note(&format!(
                "{message}; the session ends here: repeat it when nothing else uses the machine, or \
                 measure beside others with --share-cpu or --share-gpu"
            )),
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

/// The rate and the peak of a run, or how long it was measured.
fn yielded(record: &Record) -> String {
    let write = |name: &str, value| Quantity::of_metric(name).write(value);
    let rate = catalogue::THROUGHPUT.of(record);
    let rate = rate.map(|rate| write(catalogue::THROUGHPUT.name, rate));
    let peak = catalogue::PEAK_ALLOCATED.of(record);
    let peak = peak.map(|peak| format!("peak {}", write(catalogue::PEAK_ALLOCATED.name, peak)));
    let seconds = record.value("measured_seconds");
    let measured = || seconds.map(|seconds| format!("measured for {}", Seconds.write(seconds)));
    let known: Vec<String> = rate.or_else(measured).into_iter().chain(peak).collect();
    if known.is_empty() {
        "ok".to_owned()
    } else {
        known.join(", ")
    }
}

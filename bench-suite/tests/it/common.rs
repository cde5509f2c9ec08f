//! What tests of sessions share.

use std::{collections::BTreeMap, path::Path, time::Duration};

use bench_suite::{
    plan::{Plan, Request},
    session::{Progress, Subscriber},
    suite::Suite,
};
use protocol::Device;
use record::{EngineFacts, ImageFacts, Machine, Record, RunPolicy, Session, Tool};
use tokio_util::sync::CancellationToken;

/// The plan of a suite's text on images with these names, one GPU where the device is one.
pub(crate) fn spec(suite: &str, images: &[&str], device: Device) -> Plan {
    let suite = Suite::from_text("test.yaml", suite)
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    let images: Vec<String> = images.iter().map(|&name| name.to_owned()).collect();
    let mut plan = Plan::new(&Request {
        suites: &[suite],
        images: &images,
        device,
        blocks: None,
        order_seed: Some(11),
    })
    .unwrap();
    plan.session = Session {
        images: images
            .into_iter()
            .map(|name| ImageFacts {
                name,
                libtorch_version: "2.11.0".into(),
                flavour: "cpu".into(),
                ..ImageFacts::default()
            })
            .collect(),
        hosts: [(
            "lab".into(),
            Machine {
                name: "lab".into(),
                ..Machine::default()
            },
        )]
        .into(),
        engine: EngineFacts {
            kind: "process".into(),
            ..EngineFacts::default()
        },
        tool: Tool {
            version: "0.1.0".into(),
            ..Tool::default()
        },
        // Tests run side by side.
        policy: RunPolicy {
            shares_cpu: true,
            engine_retries: Some(1),
            ..RunPolicy::default()
        },
        ..plan.session
    };
    plan
}

/// Keeps what a session tells, in words.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    pub(crate) told: Vec<String>,
    pub(crate) records: Vec<Record>,
    /// What to interrupt, so long after a run began.
    pub(crate) interrupt: Option<(Duration, CancellationToken)>,
}

impl Subscriber for Listener {
    fn tell(&mut self, progress: Progress<'_>) {
        self.told.push(match progress {
            Progress::SessionStarted { totals, .. } => {
                format!(
                    "session of {} runs, {} to do",
                    totals.planned, totals.remaining
                )
            }
            Progress::RunStarted { run, attempt, .. } => {
                if let Some((after, cancel)) = self.interrupt.take() {
                    tokio::spawn(async move {
                        tokio::time::sleep(after).await;
                        cancel.cancel();
                    });
                }
                format!("start {} attempt {attempt}", run.name)
            }
            Progress::RunEnded { record, totals } => {
                self.records.push(record.clone());
                format!(
                    "end {}: {}, {} to do",
                    record.run,
                    ending(record),
                    totals.remaining
                )
            }
            Progress::Unfit { message } => format!("unfit: {message}"),
            Progress::BlockEnded { block, of } => format!("block {block} of {of}"),
            Progress::Looked { look, deciding, .. } => format!(
                "looked at {} of {:?} blocks, {:.2} spent: {} decided, undecided {:?}, end {:?}",
                look.blocks,
                deciding.planned_blocks,
                look.fraction,
                look.decided,
                look.undecided,
                deciding.end
            ),
            Progress::SessionEnded { totals } => format!(
                "ended: {} ok, {} failed, {} to do",
                totals.ok, totals.failed, totals.remaining
            ),
        });
    }
}

/// A record's outcome in a word.
pub(crate) fn ending(record: &Record) -> String {
    record.outcome.word()
}

/// A record's message, empty where it went well.
pub(crate) fn message(record: &Record) -> &str {
    record.outcome.message()
}

/// Scenario and variant to outcome.
pub(crate) fn endings(records: &[Record]) -> BTreeMap<String, String> {
    records
        .iter()
        .map(|record| (record.cell(), ending(record)))
        .collect()
}

/// Names of everything in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

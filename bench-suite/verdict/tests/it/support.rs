//! Sessions that were never run.

use std::collections::BTreeMap;

use protocol::Variant;
use record::{ImageFacts, Isolation, Machine, Outcome, Reason, Record, Session, Stage, Workload};

/// Run-to-run scatter of about half a percent, different on either side.
pub(crate) const SCATTER: [[f64; 6]; 2] = [
    [0.003, -0.004, 0.001, -0.002, 0.005, -0.003],
    [-0.002, 0.001, 0.004, -0.005, 0.002, 0.000],
];

pub(crate) struct Runs {
    pub(crate) throughput: f64,
    pub(crate) peak: u64,
    pub(crate) failed_blocks: Vec<u32>,
}

pub(crate) fn runs(throughput: f64, peak: u64) -> Runs {
    Runs {
        throughput,
        peak,
        failed_blocks: Vec::new(),
    }
}

pub(crate) fn session(name: &str, machine: &str) -> Session {
    Session {
        version: record::VERSION,
        session: name.into(),
        started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        complete: true,
        hosts: [(
            machine.into(),
            Machine {
                name: machine.into(),
                ..Machine::default()
            },
        )]
        .into(),
        images: vec![ImageFacts {
            name: "old".into(),
            id: Some("sha256:1".into()),
            ..Default::default()
        }],
        blocks: 6,
        order_seed: 1,
        ..Session::default()
    }
}

pub(crate) fn records(
    session: &str,
    image: &str,
    side: usize,
    scenario: &str,
    runs: &Runs,
) -> Vec<Record> {
    (0_u32..6)
        .zip(SCATTER[side])
        .map(|(block, scatter)| {
            let throughput = runs.throughput * (1.0 + scatter);
            let step = 8.0 / throughput;
            let values = [
                ("throughput_samples_per_second", throughput),
                ("measured_seconds", step),
                ("step_median_seconds", step),
                ("step_mean_seconds", step),
                ("step_p99_seconds", step),
                ("peak_allocated_bytes", runs.peak as f64),
            ];
            let failed = runs.failed_blocks.contains(&block);
            Record {
                version: record::VERSION,
                run: format!("{image}-{scenario}-{block}"),
                session: session.into(),
                image: image.into(),
                suite: "smoke".into(),
                scenario: scenario.into(),
                workload: Workload::builtin("resnet-tiny", "training"),
                axes: Variant::default().axes(),
                block,
                order: block,
                attempt: 1,
                started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
                wall_seconds: 1.0,
                isolation: Isolation::without("container", &[]),
                outcome: if failed {
                    Outcome::failed(Reason::Crash, Stage::Exit, "SIGSEGV")
                } else {
                    Outcome::Ok
                },
                values: values.map(|(name, value)| (name.to_owned(), value)).into(),
                series: BTreeMap::from([("step_seconds".to_owned(), vec![Some(step)])]),
                ..Record::default()
            }
        })
        .collect()
}

//! Sessions that were never run.

use std::collections::BTreeMap;

use protocol::{Device, Memory, Model, Step, Task, Variant};
use record::{
    EngineFacts, HarnessCost, ImageFacts, Isolation, Machine, Metrics, Monitor, Outcome, Reason,
    Record, Session, Stage, StepTimes, Tool,
};

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
        ended_at: None,
        complete: true,
        tool: Tool::default(),
        machine: Machine {
            name: machine.into(),
            ..Machine::default()
        },
        engine: EngineFacts::default(),
        device: Device::Cpu,
        suites: BTreeMap::new(),
        images: vec![ImageFacts {
            name: "old".into(),
            id: Some("sha256:1".into()),
            ..Default::default()
        }],
        cells: Vec::new(),
        blocks: 6,
        order_seed: 1,
        policy: record::RunPolicy::default(),
        asked: None,
        labels: record::Labels::default(),
        questions: std::collections::BTreeMap::new(),
        claims: Vec::new(),
        deciding: None,
        notes: Vec::new(),
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
            let steps = [Step {
                index: 0,
                seconds: 8.0 / throughput,
                ..Step::default()
            }];
            let failed = runs.failed_blocks.contains(&block);
            Record {
                version: record::VERSION,
                run: format!("{image}-{scenario}-{block}"),
                session: session.into(),
                image: image.into(),
                image_id: None,
                suite: "smoke".into(),
                scenario: scenario.into(),
                model: Model::ResnetTiny,
                task: Task::Training,
                variant: Variant::default(),
                device: Device::Cpu,
                block,
                order: block,
                attempt: 1,
                started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
                wall_seconds: 1.0,
                method: record::Method::default(),
                isolation: Isolation::without("container", &[]),
                outcome: if failed {
                    Outcome::Failed {
                        reason: Reason::Crash,
                        stage: Stage::Exit,
                        message: "SIGSEGV".into(),
                    }
                } else {
                    Outcome::Ok
                },
                workload: None,
                metrics: Some(Metrics {
                    summary: protocol::Summary {
                        throughput_samples_per_second: Some(throughput),
                        samples: 8,
                        measured_seconds: 8.0 / throughput,
                        micro_batch: 8,
                        effective_batch: 8,
                        parameters: 1,
                        first_loss: None,
                        last_loss: None,
                        scaler: None,
                        memory: Memory {
                            peak_allocated_bytes: Some(runs.peak),
                            ..Memory::default()
                        },
                        ..protocol::Summary::default()
                    },
                    step_seconds: StepTimes::of(&steps).unwrap(),
                    ..Metrics::default()
                }),
                steps: steps.to_vec(),
                phase_began_seconds: BTreeMap::new(),
                phase_seconds: BTreeMap::new(),
                harness: HarnessCost::default(),
                monitor: Monitor::default(),
                validity: record::Validity::default(),
                log: None,
                shortage: None,
                notes: Vec::new(),
            }
        })
        .collect()
}

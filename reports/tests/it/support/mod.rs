//! Sessions that never ran: metrics drawn from a seed, shaped like those of real runs.

mod cases;
mod run;

use std::collections::BTreeMap;

use protocol::{Device, Model, Steps, Task, Variant};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::{
    CellPlan, Cpu, EngineFacts, Gpu, ImageFacts, ImageLock, Machine, Outcome, Reason, Record,
    Records, Session, Stage, Tool, Validity, Workload,
};
use reports::Source;

pub(crate) use cases::{
    contaminated, empty, fit, five_hundred_cells, five_images, forty_cells, hostile, no_success,
    one_cell, swept, wide_ranges,
};

const MIB: f64 = 1_048_576.0;
const GIB: u64 = 1 << 30;

/// What a made-up session is made of.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) device: Device,
    pub(crate) images: Vec<String>,
    pub(crate) cells: Vec<FakeCell>,
    pub(crate) blocks: u32,
    pub(crate) steps: u32,
    /// Runs that fail, by their place in the session's order.
    pub(crate) failing: Vec<(u32, Reason, Stage, String)>,
    /// Every run fails.
    pub(crate) all_fail: bool,
}

/// One scenario and variant with what it costs.
#[derive(Debug, Clone)]
pub(crate) struct FakeCell {
    pub(crate) scenario: String,
    pub(crate) model: Model,
    pub(crate) task: Task,
    pub(crate) variant: Variant,
    pub(crate) throughput: f64,
    pub(crate) allocated_mib: f64,
    /// Relative standard deviation from run to run.
    pub(crate) noise: f64,
}

pub(crate) fn variant(json: &str) -> Variant {
    serde_json::from_str(json).unwrap()
}

pub(crate) fn cell(
    scenario: &str,
    model: Model,
    json: &str,
    throughput: f64,
    mib: f64,
) -> FakeCell {
    FakeCell {
        scenario: scenario.to_owned(),
        model,
        task: Task::Training,
        variant: variant(json),
        throughput,
        allocated_mib: mib,
        noise: 0.003,
    }
}

impl Fake {
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn images(mut self, images: &[&str]) -> Self {
        self.images = images.iter().map(|&image| image.into()).collect();
        self
    }

    /// The session and its records.
    pub(crate) fn source(&self) -> Source {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut records = Vec::new();
        let mut order = 0;
        for block in 0..self.blocks {
            for (place, image) in self.images.iter().enumerate() {
                for cell in &self.cells {
                    // Every later image is a little faster and takes a little less.
                    let factor = 1.0 + 0.012 * place as f64;
                    let record = self.record(&mut random, cell, image, factor, block, order);
                    // What was contaminated is run once more.
                    let repeated = (!record.validity.contamination.is_empty()).then(|| Record {
                        attempt: 2,
                        validity: Validity::default(),
                        outcome: Outcome::Ok,
                        ..record.clone()
                    });
                    records.push(record);
                    records.extend(repeated);
                    order += 1;
                }
            }
        }
        Source {
            session: self.session(),
            records: Records {
                records,
                torn_after: None,
                bad_lines: Vec::new(),
            },
        }
    }

    fn session(&self) -> Session {
        let cells = self.images.iter().flat_map(|image| {
            self.cells.iter().map(|cell| CellPlan {
                image: image.clone(),
                suite: "sample".into(),
                scenario: cell.scenario.clone(),
                workload: Workload::builtin(cell.model.name(), cell.task.name()),
                axes: cell.variant.axes(),
                steps: Steps::new(10, self.steps),
                ranks: 1,
                seed: 7,
                expected: None,
                thresholds: BTreeMap::new(),
            })
        });
        let cuda = self.device.is_cuda();
        Session {
            version: record::VERSION,
            session: self.name.clone(),
            started_at: "2026-11-12T10:20:30Z".parse().unwrap(),
            ended_at: Some("2026-11-12T11:07:42Z".parse().unwrap()),
            complete: true,
            tool: Tool {
                version: "0.1.0".into(),
                revision: Some("2c6e365".into()),
                command: [
                    "cargo", "xtask", "bench", "--suite", "sample", "--blocks", "5",
                ]
                .map(str::to_owned)
                .to_vec(),
            },
            hosts: BTreeMap::from([machine(cuda)].map(|one| (one.name.clone(), one))),
            engine: EngineFacts {
                kind: "docker".into(),
                version: Some("28.5.1".into()),
                storage_driver: Some("overlay2".into()),
                gpu_path: cuda.then(|| "passthrough".into()),
            },
            device: self.device,
            suites: BTreeMap::from([(
                "sample".into(),
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
            )]),
            images: self
                .images
                .iter()
                .map(|image| ImageFacts {
                    name: image.clone(),
                    reference: Some(format!("torchgauge/{image}:latest")),
                    id: Some(
                        "sha256:4ce7c5ed0bd3d5b8f3f1d3c2a1b0f9e8d7c6b5a4938271605f4e3d2c1b0a9988"
                            .into(),
                    ),
                    libtorch_version: "2.11.0".into(),
                    flavour: if cuda { "cu130" } else { "cpu" }.into(),
                    base: Some("debian bookworm, extracted".into()),
                    size_bytes: Some(3_662_000_000),
                    load_seconds: None,
                    pull_bytes: None,
                    loaded_bytes: None,
                    layers: vec![
                        ("base: Debian bookworm".into(), 18_700_000),
                        ("libtorch 2.11.0+cu130".into(), 3_636_000_000),
                        ("scenario binary".into(), 7_300_000),
                    ],
                    scenario_sha256: Some(
                        "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9".into(),
                    ),
                    lock: Some(ImageLock::OtherScenario {
                        cause: "the workload's sources changed since it was locked".into(),
                    }),
                    parts: None,
                })
                .collect(),
            cells: cells.collect(),
            blocks: self.blocks,
            order_seed: 42,
            questions: BTreeMap::from([(
                "sample".into(),
                record::SuiteQuestion {
                    question: "What do precision and the allocator change?".into(),
                    answered_by: Vec::new(),
                    yes_when: None,
                },
            )]),
            ..Session::default()
        }
    }
}

fn machine(cuda: bool) -> Machine {
    Machine {
        name: "gpu-ci-1".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        kernel: "6.1.0-28-amd64".into(),
        boot_id: None,
        virtualization: cuda.then(|| "kvm".into()),
        cpu: Cpu {
            model: "INTEL(R) XEON(R) PLATINUM 8558".into(),
            logical_cores: 16,
            governor: None,
        },
        memory_bytes: 128 * GIB,
        driver_version: cuda.then(|| "580.159".into()),
        driver_cuda_version: cuda.then(|| "13.0".into()),
        gpus: if cuda {
            vec![Gpu {
                index: 0,
                name: "NVIDIA H200".into(),
                uuid: "GPU-0a1b2c3d-0000-1111-2222-333344445555".into(),
                memory_bytes: 143_771 << 20,
                power_limit_watts: Some(700.0),
                max_sm_clock_mhz: Some(1980),
                ecc: Some(true),
                mig: Some(false),
                persistence: Some(true),
                compute_capability: Some("9.0".into()),
                ..Gpu::default()
            }]
        } else {
            Vec::new()
        },
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a made-up size"
)]
pub(crate) fn mib(value: f64) -> u64 {
    (value * MIB) as u64
}

//! The sessions that tests and the sample ask for by name.

use protocol::{Device, Model, Phase};
use record::{
    Outcome, Reason, Stage,
    fit::{Attempt, Fit, Found},
};
use reports::Source;

use super::{Fake, FakeCell, cell};

impl Fake {
    /// A session on a GPU: two models, precisions, checkpointing, allocators.
    pub(crate) fn gpu() -> Self {
        let resnet =
            |json: &str, throughput, mib| cell("resnet50", Model::Resnet50, json, throughput, mib);
        let vit =
            |json: &str, throughput, mib| cell("vit-l16", Model::VitL16, json, throughput, mib);
        Self {
            name: "2026-11-12T10-20-30-abcd".into(),
            seed: 1,
            device: Device::Cuda(0),
            images: vec!["torch-2.11-cu130".into()],
            cells: vec![
                resnet(r#"{"precision":"fp32","batch":64}"#, 942.7, 5736.0),
                resnet(r#"{"precision":"tf32","batch":64}"#, 2012.9, 5747.0),
                resnet(r#"{"precision":"amp-fp16","batch":64,"memory_format":"channels-last"}"#, 4960.8, 3178.0),
                resnet(r#"{"precision":"amp-bf16","batch":256,"memory_format":"channels-last"}"#, 4745.3, 11737.0),
                resnet(r#"{"precision":"amp-fp16","batch":256,"memory_format":"channels-last"}"#, 6114.0, 11739.0),
                resnet(r#"{"precision":"tf32","batch":64,"allocator":"expandable_segments"}"#, 2009.0, 5747.0),
                resnet(r#"{"precision":"tf32","batch":64,"allocator":"cudaMallocAsync"}"#, 1992.0, 5760.0),
                resnet(r#"{"precision":"tf32","batch":64,"allocator":"max_split_size_mb:64"}"#, 2001.0, 5747.0),
                vit(r#"{"precision":"amp-bf16","batch":64,"optimizer":"adamw"}"#, 870.2, 15173.0),
                vit(r#"{"precision":"amp-bf16","batch":64,"optimizer":"adamw","checkpointing":"blocks"}"#, 670.7, 5764.0),
                vit(r#"{"precision":"tf32","batch":64,"optimizer":"adamw"}"#, 356.3, 8440.0),
                vit(r#"{"precision":"amp-fp16","batch":64,"optimizer":"adamw","checkpointing":"every-4","accumulation":2}"#, 458.8, 4939.0),
            ],
            blocks: 5,
            steps: 60,
            failing: vec![
                (7, Reason::OutOfMemory, Stage::Workload(Phase::Warmup), "CUDA out of memory. Tried to allocate 1.53 GiB. GPU 0 has a total capacity of 139.72 GiB\nof which 1.02 GiB is free.".into()),
                (31, Reason::TimeLimit, Stage::Start, "longer than 600 s; raise `time_limit` in the suite, or look at the log".into()),
            ],
            all_fail: false,
        }
    }

    /// A small session on the CPU.
    pub(crate) fn cpu() -> Self {
        let tiny = |scenario: &str, model, json: &str, throughput, mib| FakeCell {
            noise: 0.02,
            ..cell(scenario, model, json, throughput, mib)
        };
        Self {
            name: "2026-11-12T09-00-00-smok".into(),
            seed: 2,
            device: Device::Cpu,
            images: vec!["local".into()],
            cells: vec![
                tiny(
                    "resnet-tiny",
                    Model::ResnetTiny,
                    r#"{"batch":8}"#,
                    812.0,
                    21.0,
                ),
                tiny(
                    "resnet-tiny",
                    Model::ResnetTiny,
                    r#"{"batch":8,"checkpointing":"blocks"}"#,
                    655.0,
                    14.0,
                ),
                tiny(
                    "bert-tiny",
                    Model::BertTiny,
                    r#"{"batch":4,"optimizer":"adamw"}"#,
                    1210.0,
                    9.5,
                ),
            ],
            blocks: 3,
            steps: 20,
            failing: Vec::new(),
            all_fail: false,
        }
    }
}

/// 40 cells of one scenario and a few of others, one of them with a long name.
pub(crate) fn forty_cells() -> Fake {
    let mut fake = Fake::gpu();
    fake.cells.clear();
    for precision in ["fp32", "tf32", "amp-fp16", "amp-bf16"] {
        for allocator in [
            "native",
            "expandable_segments",
            "max_split_size_mb:128",
            "cudaMallocAsync",
            "expandable_segments+garbage_collection_threshold:0.8+roundup_power2_divisions:8",
        ] {
            for checkpointing in ["none", "every-12"] {
                let json = format!(
                    r#"{{"precision":"{precision}","batch":64,"allocator":"{allocator}","checkpointing":"{checkpointing}","optimizer":"adamw","memory_format":"channels-last"}}"#
                );
                let speed = 900.0 * (1.0 + fake.cells.len() as f64 * 0.04);
                let mib = 15_000.0 - fake.cells.len() as f64 * 220.0;
                fake.cells.push(cell(
                    "resnet50-imagenet-with-a-rather-long-scenario-name-that-somebody-chose",
                    Model::Resnet50,
                    &json,
                    speed,
                    mib,
                ));
            }
        }
    }
    fake.failing.clear();
    fake.blocks = 2;
    fake
}

/// Throughput and memory over nine powers of ten, and one run far from the others.
pub(crate) fn wide_ranges() -> Fake {
    let mut fake = Fake::gpu();
    fake.cells = [
        (1, 0.004, 120_000.0),
        (8, 37.0, 900.0),
        (64, 1_200.0, 64.0),
        (512, 3_900_000.0, 0.4),
    ]
    .into_iter()
    .map(|(batch, speed, mib)| {
        let json = format!(r#"{{"batch":{batch}}}"#);
        FakeCell {
            noise: 0.3,
            ..cell("resnet50", Model::Resnet50, &json, speed, mib)
        }
    })
    .collect();
    fake.failing.clear();
    fake
}

/// Two tries that something else on the machine contaminated, each repeated with success.
pub(crate) fn contaminated() -> Fake {
    let mut fake = Fake::gpu();
    let contaminated = |order, why: &str| {
        let stage = Stage::Workload(Phase::Measure);
        (order, Reason::Contaminated, stage, why.to_owned())
    };
    fake.failing = vec![
        contaminated(3, "other processes used the GPU: 4242 (somebody)"),
        contaminated(
            14,
            "the GPU's clocks were held back by hw_thermal_slowdown in 40 % of the samples \
             (limit 5 %)",
        ),
    ];
    fake
}

pub(crate) fn one_cell() -> Fake {
    let mut fake = Fake::cpu();
    fake.cells.truncate(1);
    fake.blocks = 1;
    fake
}

pub(crate) fn no_success() -> Fake {
    let mut fake = Fake::gpu();
    fake.cells.truncate(3);
    fake.failing.clear();
    fake.all_fail = true;
    fake.blocks = 2;
    fake
}

pub(crate) fn five_images() -> Fake {
    let mut fake = Fake::gpu().images(&[
        "torch-2.11-cu130",
        "torch-2.10-cu128",
        "torch-2.9-cu128-with-a-long-name-from-a-team",
        "torch-2.8-cu128",
        "torch-2.11-cpu",
    ]);
    fake.failing.clear();
    fake.cells.truncate(9);
    fake.blocks = 3;
    fake
}

/// Names that would do harm where they are not escaped.
pub(crate) fn hostile() -> Fake {
    let evil = "<script>alert('x')</script> & \"q\" | `t` @user #1 \u{202e}\u{0}\u{1b}[31m";
    let mut fake = Fake::gpu()
        .images(&["<img src=x onerror=alert(1)>", "b\"'&<"])
        .named(evil);
    fake.cells.truncate(3);
    for cell in &mut fake.cells {
        cell.scenario = format!("{evil} {}", "schnörkel_長い名前_".repeat(6));
    }
    fake.failing = vec![(
        1,
        Reason::Crash,
        Stage::Exit,
        format!("{evil}\n</td></table>]]>"),
    )];
    fake.blocks = 2;
    fake
}

/// A session in which nothing was planned and nothing ran.
pub(crate) fn empty() -> Fake {
    let mut fake = Fake::cpu();
    fake.cells.clear();
    fake
}

/// 500 cells of 25 scenarios, each run five times.
pub(crate) fn five_hundred_cells() -> Fake {
    let mut fake = Fake::gpu();
    fake.failing.clear();
    fake.blocks = 5;
    fake.steps = 20;
    fake.cells = (0..500)
        .map(|index| {
            let (scenario, batch) = (index / 20, 1 + index % 20);
            let json = format!(r#"{{"batch":{batch},"precision":"amp-bf16"}}"#);
            let speed = 900.0 * (1.0 + f64::from(batch) * 0.04);
            let name = format!("scenario-{scenario}");
            cell(
                &name,
                Model::Resnet50,
                &json,
                speed,
                4000.0 + 100.0 * f64::from(batch),
            )
        })
        .collect();
    fake
}

/// A search whose second combination ended by something else than memory.
pub(crate) fn fit() -> Fit {
    let attempt = |batch: u32, outcome| Attempt {
        batch,
        peak_bytes: (outcome == Outcome::Ok).then_some(u64::from(batch) << 25),
        throughput_samples_per_second: (outcome == Outcome::Ok).then_some(100.0),
        seconds: 1.5,
        stalled: false,
        outcome,
    };
    let failed = |reason| Outcome::failed(reason, Stage::Exit, "ended");
    let found = |combination: &str, problem: Option<&str>, attempts: Vec<Attempt>| Found {
        image: "torch-2.11-cpu".to_owned(),
        suite: "smoke".to_owned(),
        scenario: "small".to_owned(),
        model: "vit-tiny".to_owned(),
        combination: combination.to_owned(),
        accumulation: 1,
        largest_batch: problem.is_none().then_some(4),
        too_large_batch: problem.is_none().then_some(5),
        reached_most: false,
        problem: problem.map(str::to_owned),
        attempts,
    };
    let (large, broken) = (failed(Reason::OutOfMemory), failed(Reason::ExitStatus));
    Fit {
        version: record::fit::VERSION,
        memory_bytes: 150 << 20,
        device: "cpu".to_owned(),
        machine: "here".to_owned(),
        found: vec![
            found(
                "fp32",
                None,
                vec![attempt(4, Outcome::Ok), attempt(5, large)],
            ),
            found("<b>|", Some("exit-status: ended"), vec![attempt(4, broken)]),
        ],
        advice: vec!["vit-tiny at batch 4 fits.".to_owned()],
    }
}

/// One quantity varied, on a log scale, and what modules took.
pub(crate) fn swept() -> Source {
    let mut fake = Fake::gpu();
    fake.failing.clear();
    let cell = |batch: u32| {
        let variant = format!(r#"{{"batch":{batch}}}"#);
        let mib = 200.0 + 40.0 * f64::from(batch);
        cell("sweep", Model::Resnet50, &variant, 900.0, mib)
    };
    fake.cells = [4, 16, 64, 256].map(cell).into();
    let mut source = fake.source();
    attributed(&mut source);
    source
}

/// With what modules took of a step.
fn attributed(source: &mut Source) {
    let module = |name: &str, share: f64| {
        let of = |name: &str, value: f64| (name.to_owned(), value * share);
        protocol::Module {
            name: name.to_owned(),
            values: [
                of("parameter_bytes", 64.0 * 1_048_576.0),
                of("kept_bytes", 192.0 * 1_048_576.0),
                of("forward_peak_bytes", 200.0 * 1_048_576.0),
                of("forward_seconds", 0.1),
                of("backward_seconds", 0.2),
            ]
            .into(),
        }
    };
    for run in &mut source.records.records {
        run.modules = vec![
            module("[loss]", 0.25),
            module("[step]", 1.0),
            module("encoder", 0.75),
            module("encoder.layer", 0.75),
            module("encoder.layer.0", 0.5),
            module("encoder.layer.1", 0.25),
            module("encoder.layer.1.norm", 0.0001),
        ];
    }
}

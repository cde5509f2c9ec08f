//! `compare` as the user calls it, on sessions written for the test.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use protocol::{Device, Memory, Model, Precision, Step, Task, Variant};
use record::{
    EngineFacts, HarnessCost, Isolation, Machine, Metrics, Monitor, Outcome, Record, Session,
    SessionFolder, StepTimes, Tool,
};

fn session(name: &str) -> Session {
    Session {
        version: record::VERSION,
        session: name.into(),
        started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        ended_at: None,
        complete: true,
        tool: Tool::default(),
        machine: Machine {
            name: "here".into(),
            ..Machine::default()
        },
        engine: EngineFacts::default(),
        device: Device::Cpu,
        suites: BTreeMap::new(),
        images: Vec::new(),
        cells: Vec::new(),
        blocks: 5,
        order_seed: 1,
        notes: Vec::new(),
    }
}

/// Five runs of one cell, with a scatter of about a tenth of a percent.
fn records(session: &str, image: &str, precision: Precision, throughput: f64) -> Vec<Record> {
    (0_u32..5)
        .zip([0.001, -0.001, 0.0, 0.0005, -0.0005])
        .map(|(block, scatter)| {
            let throughput = throughput * (1.0 + scatter);
            let steps = [Step {
                index: 0,
                seconds: 8.0 / throughput,
                loss: None,
                skipped: false,
            }];
            Record {
                version: record::VERSION,
                run: format!("{image}-{precision:?}-{block}"),
                session: session.into(),
                image: image.into(),
                image_id: None,
                suite: "smoke".into(),
                scenario: "tiny".into(),
                model: Model::ResnetTiny,
                task: Task::Training,
                variant: Variant {
                    precision,
                    ..Variant::default()
                },
                device: Device::Cpu,
                block,
                order: block,
                attempt: 1,
                started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
                wall_seconds: 1.0,
                isolation: Isolation::Container {
                    id: None,
                    gpu_path: None,
                },
                outcome: Outcome::Ok,
                workload: None,
                metrics: Some(Metrics {
                    throughput_samples_per_second: throughput,
                    samples: 8,
                    measured_seconds: 8.0 / throughput,
                    step_seconds: StepTimes::of(&steps).expect("one step"),
                    micro_batch: 8,
                    effective_batch: 8,
                    parameters: 1,
                    first_loss: None,
                    last_loss: None,
                    scaler: None,
                    memory: Memory::default(),
                    process_peak_bytes: None,
                    container_peak_bytes: None,
                }),
                steps: steps.to_vec(),
                phase_seconds: BTreeMap::new(),
                harness: HarnessCost::default(),
                monitor: Monitor::default(),
                log: None,
                notes: Vec::new(),
            }
        })
        .collect()
}

/// A folder with `sessions/old-name` and `sessions/new`, and a history of its own.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    /// Sessions `base` (in the folder `renamed`) and `head`, each with the image `img`; `head`
    /// holds `other` as well, and `img` in a second precision, 10 % slower.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let home = Self { folder };
        let base = records("base", "img", Precision::Fp32, 100.0);
        let mut head = records("head", "img", Precision::Fp32, 100.0);
        head.extend(records("head", "img", Precision::AmpBf16, 90.0));
        head.extend(records("head", "other", Precision::Fp32, 80.0));
        home.write("renamed", &session("base"), &base);
        home.write("head", &session("head"), &head);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, folder: &str, session: &Session, records: &[Record]) {
        let folder = SessionFolder::at(self.path("sessions").join(folder));
        folder.create().expect("the folder is made");
        folder.write_session(session).expect("the session is kept");
        for record in records {
            folder.append(record).expect("the record is kept");
        }
    }

    #[track_caller]
    fn check(&self, words: &[&str], code: i32, expected: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(words)
            .current_dir(self.folder.path())
            .env("TORCHGAUGE_HISTORY", self.path("history.sqlite"))
            .output()
            .expect("xtask runs");
        let all = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(code), "{words:?}:\n{all}");
        assert!(
            all.contains(expected),
            "{words:?}: no `{expected}` in\n{all}"
        );
        all
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file was written")
}

#[test]
fn a_gate_writes_every_form_and_exits_with_1() {
    let home = Home::new();
    let words = [
        "compare",
        "sessions/renamed",
        "sessions/head:other",
        "--junit",
        "verdicts.xml",
        "--summary",
        "verdicts.md",
        "--annotations",
    ];
    let all = home.check(&words, 1, "gated figures say no");
    assert!(all.contains("::error title="), "{all}");
    assert!(read(&home.path("verdicts.xml")).contains("type=\"worse\""));
    assert!(read(&home.path("verdicts.md")).contains("### Worse: 1"));
    home.check(
        &[
            "compare",
            "sessions/renamed",
            "sessions/head:img",
            "--junit",
            "no/such/x.xml",
        ],
        4,
        "cannot write no/such/x.xml",
    );
}

#[test]
fn cannot_tell_fails_on_request_alone() {
    let home = Home::new();
    let once = records("once", "img", Precision::Fp32, 90.0);
    home.write("once", &session("once"), &once[..1]);
    let words = ["compare", "sessions/renamed", "sessions/once"];
    home.check(&words, 0, "cannot tell");
    let strict = [
        "compare",
        "sessions/renamed",
        "sessions/once",
        "--fail-on",
        "cannot-tell",
    ];
    home.check(&strict, 1, "gated figures say no");
}

#[test]
fn two_values_of_an_axis_are_compared_in_one_session() {
    let home = Home::new();
    let by = "precision=fp32,amp-bf16";
    home.check(
        &["compare", "sessions/head:img", "--by", by],
        1,
        "img with precision=amp-bf16 against img with precision=fp32",
    );
    let swapped = "precision=amp-bf16,fp32";
    home.check(
        &["compare", "sessions/head:img", "--by", swapped],
        0,
        "1 better",
    );
    for (by, expected) in [
        ("speed=1,2", "there is no axis `speed`"),
        (
            "precision=fp32,fp8",
            "has precision=fp8; there are: amp-bf16, fp32",
        ),
        ("precision=fp32", "expected AXIS=BASE,HEAD"),
        ("precision=fp32,fp32", "give two values"),
    ] {
        home.check(&["compare", "sessions/head:img", "--by", by], 2, expected);
    }
    home.check(
        &["compare", "sessions/head", "--by", by],
        2,
        "has several images",
    );
    home.check(&["compare", "sessions/head"], 2, "HEAD");
}

#[test]
fn a_side_comes_out_of_the_history() {
    let home = Home::new();
    home.check(
        &["compare", "@release", "sessions/head:img"],
        4,
        "history.sqlite",
    );
    let add = ["history", "add", "sessions/renamed", "--branch", "main"];
    home.check(&add, 0, "5 runs added");
    home.check(
        &["history", "baseline", "set", "release", "base"],
        0,
        "release is base",
    );
    for base in ["@release", "@release:img", "branch=main", "image=img"] {
        home.check(&["compare", base, "sessions/head:img"], 0, "1 same");
        home.check(&["compare", base, "sessions/head:other"], 1, "1 worse");
    }
    home.check(&["compare", "@nightly", "sessions/head:img"], 4, "nightly");
    home.check(
        &["compare", "branch=fix/x", "sessions/head:img"],
        2,
        "no complete session that fits `branch=fix/x`",
    );
    home.check(
        &[
            "compare",
            "@release",
            "sessions/head:img",
            "--sessions",
            "elsewhere",
        ],
        2,
        "its folder is not below elsewhere",
    );
    home.check(
        &["compare", "@release:newer", "sessions/head:img"],
        2,
        "has no image `newer`",
    );
}

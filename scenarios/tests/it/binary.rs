//! The binary from end to end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use protocol::{Event, FailureReason, Model, Phase, Summary, Task};
use tempfile::TempDir;

use crate::support::{alone, events};

const BINARY: &str = env!("CARGO_BIN_EXE_scenario");

/// A folder with a run file in it.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new(run_file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.json"), run_file).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self) -> Output {
        Command::new(BINARY)
            .args([self.path("run.json"), self.path("results.ndjson")])
            .output()
            .unwrap()
    }

    fn events(&self) -> Vec<Event> {
        events(&fs::read_to_string(self.path("results.ndjson")).unwrap())
    }
}

fn run_file(model: Model, task: Task, variant: &str) -> String {
    format!(
        r#"{{"version":1,"run":"r-{model}-{task}","model":"{model}","task":"{task}",
            "variant":{variant},"device":"cpu","steps":{{"warmup":1,"measured":3}},
            "seed":7,"threads":1}}"#
    )
}

/// Runs it and checks what holds for every run that goes well.
fn check(model: Model, task: Task, variant: &str, effective_batch: u64) -> Summary {
    let folder = Folder::new(&run_file(model, task, variant));
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let events = folder.events();
    assert_order(&events, task);
    let Some(Event::Finished(summary)) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!(summary.effective_batch, effective_batch);
    assert_eq!(summary.samples, 3 * effective_batch);
    let product = summary.throughput_samples_per_second * summary.measured_seconds;
    assert!((product - summary.samples as f64).abs() < 1e-6 * product);

    let steps: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step(step) => Some(*step),
            _ => None,
        })
        .collect();
    assert_eq!(
        steps.iter().map(|step| step.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let sum: f64 = steps.iter().map(|step| step.seconds).sum();
    assert!(sum <= summary.measured_seconds, "{sum}");
    assert!(sum > 0.5 * summary.measured_seconds, "{sum}");
    assert!(
        steps
            .iter()
            .all(|step| step.loss.is_some() == (task == Task::Training))
    );
    assert_eq!(summary.last_loss, steps[2].loss);

    let memory = &summary.memory;
    let peak = memory.peak_allocated_bytes.unwrap();
    assert_eq!(memory.parameter_bytes, Some(4 * summary.parameters));
    assert!(memory.allocated_bytes.unwrap() >= memory.parameter_bytes.unwrap());
    assert!(memory.allocated_bytes.unwrap() <= peak);
    assert!(peak <= memory.run_peak_allocated_bytes.unwrap());
    assert!(memory.host_peak_resident_bytes.unwrap() > peak);
    assert_eq!(
        memory.peak_reserved_bytes, None,
        "a processor reserves nothing"
    );
    (**summary).clone()
}

fn assert_order(events: &[Event], task: Task) {
    let Some(Event::Started(started)) = events.first() else {
        panic!("{:?}", events.first());
    };
    assert!(started.run.ends_with(&task.to_string()));
    assert_eq!(started.version, protocol::VERSION);
    assert_eq!(started.threads, 1);
    assert_eq!(started.cuda, None);
    assert!(started.libtorch_version.starts_with("2."), "{started:?}");
    let mut phases = Vec::new();
    let mut open = None;
    for event in &events[1..] {
        match event {
            Event::PhaseBegan { phase } => assert_eq!(open.replace(*phase), None),
            Event::PhaseEnded { phase, seconds } => {
                assert_eq!(open.take(), Some(*phase));
                assert!((0.0..600.0).contains(seconds));
                phases.push(*phase);
            }
            Event::Heartbeat { phase, .. } => assert_eq!(open, Some(*phase)),
            Event::Step(_) => {
                assert_eq!(phases.last(), Some(&Phase::Measure), "after measuring");
                assert_eq!(open, None);
            }
            Event::Finished(_) => assert_eq!(open, None),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        phases,
        [
            Phase::ProcessStart,
            Phase::ModelBuild,
            Phase::Data,
            Phase::Warmup,
            Phase::Measure,
            Phase::Teardown
        ]
    );
}

#[test]
fn every_tiny_model_trains() {
    let _turn = alone();
    for (model, count) in [
        (Model::ResnetTiny, 4),
        (Model::BertTiny, 4),
        (Model::VitTiny, 4),
    ] {
        let summary = check(model, Task::Training, r#"{"batch":4}"#, count);
        assert!(summary.last_loss < summary.first_loss, "{summary:?}");
        assert_eq!(
            summary.memory.gradient_bytes,
            summary.memory.parameter_bytes
        );
        assert_eq!(
            summary.memory.optimizer_bytes,
            summary.memory.parameter_bytes
        );
        assert_eq!(summary.scaler, None);
    }
}

#[test]
fn every_tiny_model_infers() {
    let _turn = alone();
    for model in [Model::ResnetTiny, Model::BertTiny, Model::VitTiny] {
        let summary = check(model, Task::Inference, r#"{"batch":4}"#, 4);
        assert_eq!((summary.first_loss, summary.last_loss), (None, None));
        assert_eq!(summary.memory.gradient_bytes, None);
        assert_eq!(summary.memory.optimizer_bytes, None);
    }
}

#[test]
fn the_axes_of_a_processor_reach_the_work() {
    let _turn = alone();
    let plain = check(Model::BertTiny, Task::Training, r#"{"batch":8}"#, 8);
    let variant = r#"{"batch":8,"accumulation":3,"precision":"amp-bf16","optimizer":"adamw",
                      "checkpointing":"blocks","sequence_length":16}"#;
    let other = check(Model::BertTiny, Task::Training, variant, 24);
    assert_eq!(other.micro_batch, 8);
    assert!(other.memory.optimizer_bytes > plain.memory.optimizer_bytes.map(|bytes| 2 * bytes));
    assert!(other.memory.peak_allocated_bytes < plain.memory.peak_allocated_bytes);
}

/// Runs it and checks how it fails.
fn check_failure(folder: &Folder, output: &Output, reason: FailureReason, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(words), "{stderr}");
    match folder.events().last() {
        Some(Event::Failed {
            reason: got,
            message,
            ..
        }) => {
            assert_eq!(*got, reason, "{message}");
            assert!(message.contains(words), "{message}");
            assert!(!message.contains("Exception raised from"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_run_files_fail_with_a_type() {
    for (text, words) in [
        ("not json", "the run file cannot be read"),
        (r#"{"version":9}"#, "build the image again"),
        (
            &run_file(Model::BertTiny, Task::Training, r#"{"image_size":32}"#),
            "reads tokens",
        ),
    ] {
        let folder = Folder::new(text);
        check_failure(&folder, &folder.run(), FailureReason::BadRunFile, words);
    }
    let folder = Folder::new("");
    fs::remove_file(folder.path("run.json")).unwrap();
    check_failure(
        &folder,
        &folder.run(),
        FailureReason::BadRunFile,
        "cannot read the run file",
    );
}

#[test]
fn a_missing_card_fails_with_a_type() {
    let run = run_file(Model::BertTiny, Task::Training, "{}").replace("cpu", "cuda:99");
    let folder = Folder::new(&run);
    let output = folder.run();
    check_failure(
        &folder,
        &output,
        FailureReason::DeviceUnavailable,
        "cuda:99 is not available",
    );
    assert!(matches!(folder.events()[0], Event::Started(_)));
}

#[test]
fn memory_that_runs_out_fails_with_a_type() {
    // One activation of this batch takes 2 GiB.
    let variant = r#"{"batch":65536,"sequence_length":128}"#;
    let folder = Folder::new(&run_file(Model::BertTiny, Task::Inference, variant));
    let output = Command::new("sh")
        .args(["-c", r#"ulimit -v 3000000; exec "$0" "$@""#, BINARY])
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .output()
        .unwrap();
    check_failure(
        &folder,
        &output,
        FailureReason::OutOfMemory,
        "can't allocate memory",
    );
}

#[test]
fn wrong_usage_says_what_is_right() {
    let usage = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("usage: scenario RUN_FILE RESULTS_FILE"),
            "{stderr}"
        );
    };
    usage(&[]);
    usage(&["run.json"]);
    usage(&["run.json", "results.ndjson", "more"]);
}

#[test]
fn a_results_file_that_cannot_be_opened_fails() {
    let folder = Folder::new("{}");
    let output = Command::new(BINARY)
        .arg(folder.path("run.json"))
        .arg(Path::new("/nowhere/results.ndjson"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("opening the results file"), "{stderr}");
}

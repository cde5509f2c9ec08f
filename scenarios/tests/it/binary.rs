//! The binary from end to end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use protocol::{Event, FailureReason, MemoryPoint, Model, Moment, Phase, Step, Summary, Task};
use scenario::models;
use tempfile::TempDir;

use crate::support::{alone, events};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_scenario");

/// A folder with a run file in it.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new(run_file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.json"), run_file).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn run(&self) -> Output {
        Command::new(BINARY)
            .args([self.path("run.json"), self.path("results.ndjson")])
            .output()
            .unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        events(&fs::read_to_string(self.path("results.ndjson")).unwrap())
    }
}

pub(crate) fn run_file(model: Model, task: Task, variant: &str) -> String {
    format!(
        r#"{{"version":3,"run":"r-{model}-{task}","model":"{model}","task":"{task}",
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
    assert_memory_points(&events, task, summary);
    assert_eq!(summary.warmup_steps, Some(1));
    let throughput = summary.throughput_samples_per_second.unwrap();
    let rate = summary.model_flops_per_sample.unwrap() * throughput;
    let ceiling = summary.matmul_flops_per_second.unwrap();
    assert!(rate > 0.0 && rate < ceiling, "{rate} {ceiling}");
    assert_eq!(summary.effective_batch, effective_batch);
    assert_eq!(summary.samples, 3 * effective_batch);
    let product = throughput * summary.measured_seconds;
    assert!(summary.cpu_seconds <= summary.run_cpu_seconds);
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
    for step in &steps {
        assert_eq!(step.parts.is_some(), task == Task::Training);
        if let Some(parts) = step.parts {
            let passes = parts.forward_seconds + parts.backward_seconds;
            let sum = parts.data_seconds.unwrap_or(0.0) + passes + parts.optimizer_seconds;
            assert!((sum - step.seconds).abs() < 1e-9, "{step:?}");
        }
    }
    assert_eq!(summary.last_loss, steps[2].loss);

    let memory = &summary.memory;
    let peak = memory.peak_allocated_bytes.unwrap();
    assert_eq!(memory.parameter_bytes, Some(4 * summary.parameters));
    assert!(memory.allocated_bytes.unwrap() >= memory.parameter_bytes.unwrap());
    assert!(memory.allocated_bytes.unwrap() <= peak);
    assert!(peak <= memory.run_peak_allocated_bytes.unwrap());
    assert!(memory.host_peak_resident_bytes.unwrap() > peak);
    assert_eq!(memory.peak_reserved_bytes, None, "a CPU reserves nothing");
    (**summary).clone()
}

/// Every moment once, in order, and what must hold between them.
fn assert_memory_points(events: &[Event], task: Task, summary: &Summary) {
    let points: Vec<MemoryPoint> = events
        .iter()
        .filter_map(|event| match event {
            Event::Memory(point) => Some(*point),
            _ => None,
        })
        .collect();
    let moments: Vec<_> = points.iter().map(|point| point.moment).collect();
    let steps = [Moment::Forward, Moment::Backward, Moment::OptimizerStep];
    let expected = match task {
        Task::Inference => vec![Moment::Model, Moment::Data],
        Task::Idle => Vec::new(),
        Task::Training => [&[Moment::Model, Moment::Data], &steps[..]].concat(),
    };
    assert_eq!(moments, expected);
    let allocated: Vec<u64> = points
        .iter()
        .map(|point| point.allocated_bytes.unwrap())
        .collect();
    let memory = &summary.memory;
    assert!(allocated[0] >= memory.parameter_bytes.unwrap() && allocated[1] > allocated[0]);
    for point in &points {
        assert!(
            point.allocated_bytes <= point.peak_allocated_bytes,
            "{point:?}"
        );
        assert_eq!(
            (point.reserved_bytes, point.device_used_bytes),
            (None, None)
        );
    }
    if task == Task::Training {
        let gradients = memory.gradient_bytes.unwrap();
        assert!(allocated[2] > allocated[1], "forward keeps activations");
        // Activations have gone, gradients have come.
        assert_eq!(allocated[3], allocated[1] + gradients);
        let state = memory.optimizer_bytes.unwrap();
        assert_eq!(
            allocated[4],
            allocated[3] + state,
            "the first step makes it"
        );
    }
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
            Event::PhaseBegan { phase, .. } => assert_eq!(open.replace(*phase), None),
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
            Event::Memory(point) => match point.step {
                None => assert_eq!(open, None),
                Some(step) => assert_eq!((open, step), (Some(Phase::Warmup), 0)),
            },
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
            Phase::Teardown,
            Phase::Calibrate
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
fn the_axes_of_a_cpu_reach_the_work() {
    let _turn = alone();
    let plain = check(Model::BertTiny, Task::Training, r#"{"batch":8}"#, 8);
    let variant = r#"{"batch":8,"accumulation":3,"precision":"amp-bf16","optimizer":"adamw",
                      "checkpointing":"blocks","sequence_length":16}"#;
    let other = check(Model::BertTiny, Task::Training, variant, 24);
    assert_eq!(other.micro_batch, 8);
    assert!(other.memory.optimizer_bytes > plain.memory.optimizer_bytes.map(|bytes| 2 * bytes));
    assert!(other.memory.peak_allocated_bytes < plain.memory.peak_allocated_bytes);
}

/// The measured steps of a run of four with these many steps of warm-up.
fn steps_of(task: Task, variant: &str, warmup: u32) -> (Vec<Step>, Summary) {
    let steps = format!(r#""warmup":{warmup},"measured":4"#);
    let run =
        run_file(Model::BertTiny, task, variant).replace(r#""warmup":1,"measured":3"#, &steps);
    let folder = Folder::new(&run);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let mut steps = Vec::new();
    for event in folder.events() {
        match event {
            Event::Step(step) => steps.push(step),
            Event::Memory(point) => assert_eq!(point.step, None, "no step stands for the others"),
            Event::Finished(summary) => return (steps, *summary),
            _ => {}
        }
    }
    panic!("a run without an end");
}

#[test]
fn each_step_has_a_length_of_its_own() {
    let _turn = alone();
    let vary = r#"{"batch":4,"sequence_lengths":{"min":8,"max":128}}"#;
    let lengths = |steps: &[Step]| -> Vec<u32> {
        let lengths = steps.iter().map(|step| step.sequence_length);
        lengths.collect::<Option<_>>().unwrap()
    };
    let (steps, summary) = steps_of(Task::Inference, vary, 1);
    let drawn = lengths(&steps);
    assert!(drawn.iter().all(|length| (8..=128).contains(length)));
    assert!(drawn.iter().any(|&length| length != drawn[0]), "{drawn:?}");
    assert_eq!(summary.samples, 16);
    let operations: f64 = drawn
        .iter()
        .map(|&length| models::flops_per_sample(Model::BertTiny, Task::Inference, length))
        .sum();
    let told = summary.model_flops_per_sample.unwrap();
    assert!((told / (operations / 4.0) - 1.0).abs() < 1e-12, "{told}");

    // Another task, another warm-up: the same lengths, and losses of sequences that long.
    let (training, summary) = steps_of(Task::Training, vary, 2);
    assert_eq!(lengths(&training), drawn);
    assert!(training.iter().all(|step| step.parts.is_some()));
    assert!(
        summary
            .last_loss
            .is_some_and(|loss| (5.0..9.0).contains(&loss))
    );

    let (fixed, _) = steps_of(Task::Inference, r#"{"batch":4}"#, 1);
    assert!(fixed.iter().all(|step| step.sequence_length.is_none()));
}

#[test]
fn idling_takes_memory_and_time_and_nothing_else() {
    let _turn = alone();
    let run = run_file(Model::None, Task::Idle, "{}").replace(r#""measured":3"#, r#""measured":2"#);
    let folder = Folder::new(&run);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("idle for 2."), "{stderr}");
    let (mut phases, mut steps) = (Vec::new(), Vec::new());
    for event in folder.events() {
        match event {
            Event::PhaseEnded { phase, .. } => phases.push(phase),
            Event::Step(step) => steps.push(step),
            Event::Memory(point) => panic!("{point:?}"),
            _ => {}
        }
    }
    assert_eq!(phases, [Phase::ProcessStart, Phase::Warmup, Phase::Measure]);
    assert_eq!(steps.len(), 2);
    for step in steps {
        assert!((1.0..2.0).contains(&step.seconds), "{step:?}");
        assert_eq!((step.loss, step.parts), (None, None));
    }
    let Some(Event::Finished(summary)) = folder.events().pop() else {
        panic!("a run without an end");
    };
    assert_eq!(summary.throughput_samples_per_second, None);
    assert_eq!(
        (summary.samples, summary.effective_batch, summary.parameters),
        (0, 0, 0)
    );
    assert_eq!(
        (
            summary.model_flops_per_sample,
            summary.matmul_flops_per_second
        ),
        (None, None)
    );
    assert!(summary.measured_seconds >= 2.0);
    // Loading libtorch takes longer than idling does.
    let (idle, all) = (
        summary.cpu_seconds.unwrap(),
        summary.run_cpu_seconds.unwrap(),
    );
    assert!(idle < 0.2 && idle < all, "{idle} {all}");
    // libtorch's own pages are resident, and no tensor is.
    assert!(summary.memory.host_peak_resident_bytes.unwrap() > 50 << 20);
    assert_eq!(summary.memory.peak_allocated_bytes, Some(0));
}

#[test]
fn warm_up_lasts_as_long_as_asked_for() {
    let _turn = alone();
    let run = run_file(Model::VitTiny, Task::Training, r#"{"batch":2}"#).replace(
        r#""warmup":1"#,
        r#""warmup":2,"warmup_seconds":1,"parts":false,"calibrate":false"#,
    );
    let folder = Folder::new(&run);
    assert_eq!(folder.run().status.code(), Some(0));
    let events = folder.events();
    let Some(Event::Finished(summary)) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert!(summary.warmup_steps > Some(2), "{:?}", summary.warmup_steps);
    assert_eq!(summary.matmul_flops_per_second, None);
    let mut measured = 0;
    for event in &events {
        match event {
            Event::PhaseEnded {
                phase: Phase::Warmup,
                seconds,
            } => assert!(*seconds >= 1.0, "{seconds}"),
            Event::Step(step) => {
                measured += 1;
                assert_eq!(step.parts, None);
                assert!(step.loss.is_some_and(|loss| loss < 10.0), "{step:?}");
            }
            Event::Memory(point) => assert!(point.step.is_none_or(|step| step < 2)),
            _ => {}
        }
    }
    assert_eq!(measured, 3);
}

#[test]
fn deterministic_runs_have_the_same_losses_to_the_bit() {
    let _turn = alone();
    let losses = |model| -> Vec<Option<f64>> {
        let variant = r#"{"batch":4,"deterministic":true}"#;
        // As many threads as there are: without the axis, their sums may come in any order.
        let run = run_file(model, Task::Training, variant).replace(r#","threads":1"#, "");
        let folder = Folder::new(&run);
        let output = folder.run();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        folder
            .events()
            .iter()
            .filter_map(|event| match event {
                Event::Step(step) => Some(step.loss),
                _ => None,
            })
            .collect()
    };
    for model in [Model::ResnetTiny, Model::BertTiny, Model::VitTiny] {
        let first = losses(model);
        assert_eq!(first.len(), 3);
        assert_eq!(first, losses(model), "{model}");
    }
}

/// Runs it and checks how it fails.
pub(crate) fn check_failure(folder: &Folder, output: &Output, reason: FailureReason, words: &str) {
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
fn a_missing_gpu_fails_with_a_type() {
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

#[test]
fn a_run_that_nobody_ends_ends_itself() {
    use std::os::unix::process::ExitStatusExt as _;
    let text = run_file(Model::VitTiny, Task::Training, "{}")
        .replace("\"measured\":3", "\"measured\":1000000")
        .replace("\"seed\":7", "\"seed\":7,\"deadline_seconds\":2");
    let folder = Folder::new(&text);
    let began = std::time::Instant::now();
    let output = folder.run();
    assert_eq!(output.status.signal(), Some(6), "{:?}", output.status);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("past its deadline"), "{stderr}");
    assert!(began.elapsed().as_secs() < 60);
}

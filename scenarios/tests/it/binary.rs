//! The binary from end to end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use protocol::{
    Event, FailureReason, MemoryPoint, Model, Moment, Phase, RunFile, Step, Task, Trace, Values,
};
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
        r#"{{"version":4,"run":"r-{model}-{task}","model":"{model}","task":"{task}",
            "variant":{variant},"device":"cpu","steps":{{"warmup":1,"measured":3}},
            "seed":7,"threads":1}}"#
    )
}

/// Runs it and checks what holds for every run that goes well.
fn check(model: Model, task: Task, variant: &str, effective_batch: u32) -> Values {
    let folder = Folder::new(&run_file(model, task, variant));
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let events = folder.events();
    assert_order(&events, task);
    let Some(Event::Finished { values }) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_memory_points(&events, task, values);
    let of = |name: &str| values[name];
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    close(of("warmup_steps_count"), 1.0);
    let throughput = of("throughput_samples_per_second");
    let rate = of("model_flops_per_sample") * throughput;
    let ceiling = of("matmul_flops_per_second");
    assert!(rate > 0.0 && rate < ceiling, "{rate} {ceiling}");
    close(of("effective_batch_samples"), effective_batch.into());
    close(of("samples_count"), (3 * effective_batch).into());
    let product = throughput * of("measured_seconds");
    assert!(of("cpu_seconds") <= of("run_cpu_seconds"));
    assert!((product - of("samples_count")).abs() < 1e-6 * product);

    let steps: Vec<&Step> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    assert_eq!(
        steps.iter().map(|step| step.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let sum: f64 = steps.iter().map(|step| step.values["step_seconds"]).sum();
    assert!(sum <= of("measured_seconds"), "{sum}");
    assert!(sum > 0.5 * of("measured_seconds"), "{sum}");
    let trains = task == Task::Training;
    for step in &steps {
        let of = |name: &str| step.values.get(name).copied();
        assert_eq!(of("loss").is_some(), trains);
        assert_eq!(of("step_forward_seconds").is_some(), trains);
        if let Some(forward) = of("step_forward_seconds") {
            let rest = of("step_backward_seconds").unwrap() + of("step_optimizer_seconds").unwrap();
            let sum = of("step_data_seconds").unwrap_or(0.0) + forward + rest;
            close(sum, of("step_seconds").unwrap());
        }
    }
    assert_eq!(values.get("last_loss"), steps[2].values.get("loss"));
    for part in ["forward", "backward", "optimizer"] {
        let load = values.get(&format!("{part}_host_cpu_ratio"));
        assert_eq!(load.is_some(), trains, "{part}");
        // On one thread, and the one of backward.
        assert!(
            load.is_none_or(|load| (0.0..=2.5).contains(load)),
            "{load:?}"
        );
    }

    let peak = of("peak_allocated_bytes");
    close(of("parameter_bytes"), 4.0 * of("parameters_count"));
    assert!(of("allocated_bytes") >= of("parameter_bytes"));
    assert!(of("allocated_bytes") <= peak);
    assert!(peak <= of("run_peak_allocated_bytes"));
    assert!(of("run_host_peak_resident_bytes") > peak);
    assert_eq!(
        values.get("peak_reserved_bytes"),
        None,
        "a CPU reserves nothing"
    );
    values.clone()
}

/// Every moment once, in order, and what must hold between them.
fn assert_memory_points(events: &[Event], task: Task, values: &Values) {
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
        Task::Training => [&[Moment::Model, Moment::Data], &steps[..]].concat(),
        task if task.computes() => vec![Moment::Model, Moment::Data],
        _ => Vec::new(),
    };
    assert_eq!(moments, expected);
    let allocated: Vec<u64> = points
        .iter()
        .map(|point| point.allocated_bytes.unwrap())
        .collect();
    let whole = |name: &str| -> u64 { format!("{}", values[name]).parse().unwrap() };
    assert!(allocated[0] >= whole("parameter_bytes") && allocated[1] > allocated[0]);
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
        let gradients = whole("gradient_bytes");
        assert!(allocated[2] > allocated[1], "forward keeps activations");
        // Activations have gone, gradients have come.
        assert_eq!(allocated[3], allocated[1] + gradients);
        let state = whole("optimizer_bytes");
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
            Event::Finished { .. } => assert_eq!(open, None),
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
        (Model::LlamaTiny, 4),
        (Model::VitTiny, 4),
    ] {
        let values = check(model, Task::Training, r#"{"batch":4}"#, count);
        assert!(values["last_loss"] < values["first_loss"], "{values:?}");
        let parameters = values.get("parameter_bytes");
        assert_eq!(values.get("gradient_bytes"), parameters);
        assert_eq!(values.get("optimizer_bytes"), parameters);
        assert_eq!(values.get("loss_scale"), None);
    }
}

#[test]
fn models_of_text_have_a_rate_of_tokens() {
    let _turn = alone();
    let values = check(Model::LlamaTiny, Task::Training, r#"{"batch":4}"#, 4);
    let ratio = values["throughput_tokens_per_second"] / values["throughput_samples_per_second"];
    assert!((ratio - 32.0).abs() < 1e-6, "{ratio}");
    assert!((values["tokens_count"] - 3.0 * 4.0 * 32.0).abs() < 1e-6);
    // Of frozen weights nobody asks for the gradient, one product of three.
    let whole = values["model_flops_per_sample"];
    let folder = Folder::new(&run_file(
        Model::LlamaTiny,
        Task::Training,
        r#"{"batch":4,"lora_rank":2}"#,
    ));
    assert_eq!(folder.run().status.code(), Some(0));
    let Some(Event::Finished { values }) = folder.events().pop() else {
        panic!("a run without an end");
    };
    let share = values["model_flops_per_sample"] / whole;
    assert!((share - 2.0 / 3.0).abs() < 1e-9, "{share}");
    let values = check(Model::VitTiny, Task::Inference, r#"{"batch":4}"#, 4);
    assert_eq!(values.get("throughput_tokens_per_second"), None);
}

#[test]
fn a_decoder_generates() {
    let _turn = alone();
    let variant = r#"{"batch":2,"sequence_length":24,"new_tokens":9}"#;
    let folder = Folder::new(&run_file(Model::LlamaTiny, Task::Generation, variant));
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let events = folder.events();
    let Some(Event::Finished { values }) = events.last() else {
        panic!("{:?}", events.last());
    };
    let series = |name: &str| -> Vec<f64> {
        let steps = events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step.values[name]),
            _ => None,
        });
        steps.collect()
    };
    let (mut prefill, decode) = (series("prefill_seconds"), series("decode_seconds"));
    assert_eq!((prefill.len(), decode.len()), (3, 3));
    let (prefilled, decoded): (f64, f64) = (prefill.iter().sum(), decode.iter().sum());
    let close = |name: &str, expected: f64| {
        let got = values[name];
        assert!(
            (got - expected).abs() < 1e-9 * expected,
            "{name}: {got} {expected}"
        );
    };
    close("prefill_tokens_per_second", 3.0 * 2.0 * 24.0 / prefilled);
    close("decode_tokens_per_second", 3.0 * 8.0 / decoded);
    prefill.sort_by(f64::total_cmp);
    close("time_to_first_token_seconds", prefill[1]);
    // 2 layers, keys and values, 2 heads of 16, 4 bytes.
    close("kv_cache_token_bytes", 2.0 * 2.0 * 2.0 * 16.0 * 4.0);
    close("samples_count", 6.0);
    close("parameter_bytes", 4.0 * values["parameters_count"]);
    assert!(prefilled + decoded <= values["measured_seconds"]);
    assert_eq!(values.get("model_flops_per_sample"), None);
}

#[test]
fn generation_takes_every_precision_and_adapters() {
    let _turn = alone();
    // 2 layers, keys and values, 2 heads of 16: so many bytes in two and in four each.
    let (half, whole) = (256.0, 512.0);
    let (plain, adapters) = (139_584.0, 2.0 * 4.0 * 224.0);
    for (variant, cache, parameters) in [
        (r#"{"precision":"amp-bf16"}"#, half, 4.0 * plain),
        (r#"{"precision":"bf16"}"#, half, 2.0 * plain),
        (r#"{"lora_rank":4}"#, whole, 4.0 * (plain + adapters)),
        (r#"{"lora_rank":4,"lora_merged":true}"#, whole, 4.0 * plain),
        (
            r#"{"sequence_length":1,"new_tokens":1}"#,
            whole,
            4.0 * plain,
        ),
    ] {
        let folder = Folder::new(&run_file(Model::LlamaTiny, Task::Generation, variant));
        assert_eq!(folder.run().status.code(), Some(0), "{variant}");
        let Some(Event::Finished { values }) = folder.events().pop() else {
            panic!("a run without an end");
        };
        let of = |name: &str| values.get(name).copied();
        assert_eq!(of("kv_cache_token_bytes"), Some(cache), "{variant}");
        assert_eq!(of("parameter_bytes"), Some(parameters), "{variant}");
        let decodes = !variant.contains("new_tokens");
        assert_eq!(
            of("decode_tokens_per_second").is_some(),
            decodes,
            "{variant}"
        );
    }
}

/// Serves 80 requests. Gives back what the run yields, and what each request does.
fn served(model: Model, variant: &str) -> (Values, Vec<Values>) {
    let text = run_file(model, Task::Serving, variant);
    finished(&text.replace("\"measured\":3", "\"measured\":80"))
}

/// Runs it to a good end. Gives back what the run yields, and what each step does.
pub(crate) fn finished(run_file: &str) -> (Values, Vec<Values>) {
    let folder = Folder::new(run_file);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let mut events = folder.events();
    let Some(Event::Finished { values }) = events.pop() else {
        panic!("a run without an end");
    };
    let steps = events.into_iter().filter_map(|event| match event {
        Event::Step(step) => Some(step.values),
        _ => None,
    });
    (values, steps.collect())
}

#[test]
fn every_tiny_model_serves_requests() {
    let _turn = alone();
    let variant = r#"{"batch":4,"arrival_rate":400,"arrivals":"gamma:0.5","longest_wait_ms":2,
        "slo_ms":600000}"#;
    let lengths = variant.replace("{\"batch\"", "{\"sequence_lengths\":\"8-32\",\"batch\"");
    for (model, variant) in [
        (Model::ResnetTiny, variant),
        (Model::VitTiny, variant),
        (Model::BertTiny, &lengths),
    ] {
        let (values, requests) = served(model, variant);
        let of = |name: &str| values.get(name).copied();
        assert_eq!(requests.len(), 80);
        assert_eq!(of("answered_requests_count"), Some(80.0), "{values:?}");
        assert_eq!(of("rejected_ratio"), Some(0.0));
        // 80 are enough for 90 %, and too few for 99 %.
        let (p50, p90) = (of("latency_p50_seconds"), of("latency_p90_seconds"));
        assert!(p50.unwrap() > 0.0 && p50 <= p90, "{values:?}");
        assert_eq!(of("latency_p99_seconds"), None);
        // Whatever this machine does, nobody waits for ten minutes.
        let achieved = of("achieved_requests_per_second").unwrap();
        assert_eq!(of("goodput_requests_per_second"), Some(achieved));
        let product = achieved * of("measured_seconds").unwrap();
        assert!((product - 80.0).abs() < 1e-6, "{product}");
        let mean = of("batch_mean_count").unwrap();
        assert!((1.0..=4.0).contains(&mean), "{mean}");
        for request in &requests {
            let (latency, queued) = (request["latency_seconds"], request["queue_seconds"]);
            assert!(0.0 <= queued && queued < latency, "{request:?}");
            assert!((1.0..=4.0).contains(&request["batch_requests"]));
            assert!((0.0..80.0).contains(&request["waiting_requests"]));
            let done = request["done_seconds"];
            assert!(latency <= done && done <= of("measured_seconds").unwrap());
            let length = request.get("sequence_length_tokens");
            assert_eq!(length.is_some(), model == Model::BertTiny);
            assert!(length.is_none_or(|length| (8.0..=32.0).contains(length)));
        }
        assert_eq!(of("throughput_samples_per_second"), None);
        assert_eq!(of("model_flops_per_sample"), None);
    }
}

#[test]
fn a_decoder_serves_token_by_token() {
    let _turn = alone();
    let variant = r#"{"batch":4,"arrival_rate":400,"sequence_lengths":"8-32","answer_lengths":"1-12",
        "slo_ms":600000,"slo_token_ms":600000}"#;
    let (values, requests) = served(Model::LlamaTiny, variant);
    let of = |name: &str| values.get(name).copied();
    assert_eq!(of("answered_requests_count"), Some(80.0), "{values:?}");
    assert_eq!(
        of("goodput_requests_per_second"),
        of("achieved_requests_per_second")
    );
    // Keys and values of two layers, two heads of 16 each.
    assert_eq!(
        of("kv_cache_token_bytes"),
        Some(2.0 * 2.0 * 2.0 * 16.0 * 4.0)
    );
    let mut tokens = 0.0;
    for request in &requests {
        let (latency, queued) = (request["latency_seconds"], request["queue_seconds"]);
        assert!(0.0 <= queued && queued < latency, "{request:?}");
        assert!((1.0..=4.0).contains(&request["batch_requests"]));
        assert!((8.0..=32.0).contains(&request["sequence_length_tokens"]));
        let Some(&made) = request.get("answer_tokens") else {
            assert!(!request.contains_key("token_seconds"));
            tokens += 1.0;
            continue;
        };
        assert!((2.0..=12.0).contains(&made), "{request:?}");
        let (first, each) = (request["first_token_seconds"], request["token_seconds"]);
        assert!(queued < first && first < latency, "{request:?}");
        assert!(
            (first + each * (made - 1.0) - latency).abs() < 1e-6,
            "{request:?}"
        );
        tokens += made;
    }
    let rate = of("answer_tokens_per_second").unwrap();
    assert!((rate * of("measured_seconds").unwrap() - tokens).abs() < 1e-6);
    assert!(of("first_token_p50_seconds").unwrap() <= of("latency_p50_seconds").unwrap());
    assert!(of("token_p50_seconds").unwrap() > 0.0);
    assert_eq!(of("token_p99_seconds"), None);
}

#[test]
fn requests_arrive_as_a_trace_has_them() {
    let _turn = alone();
    let trace: Trace = "5 8 2\n5.001 20 1\n5.02 32 12\n".parse().unwrap();
    let variant =
        r#"{"batch":2,"arrivals":"trace","sequence_lengths":"8-32","answer_lengths":"1-12"}"#;
    let text = run_file(Model::LlamaTiny, Task::Serving, variant);
    let mut file = RunFile::parse(&text).unwrap_err().to_string();
    assert!(file.contains("needs a trace of requests"), "{file}");
    file = text.replace("\"measured\":3", "\"measured\":30");
    let trace = serde_json::to_string(&trace).unwrap();
    file = file.replace("\"steps\"", &format!("\"trace\":{trace},\"steps\""));
    let (values, requests) = finished(&file);
    for (place, request) in requests.iter().enumerate() {
        let (prompt, answer) = [(8.0, None), (20.0, None), (32.0, Some(12.0))][place % 3];
        let answer = if place % 3 == 0 { Some(2.0) } else { answer };
        let of = |name: &str| request.get(name).copied();
        assert_eq!(of("sequence_length_tokens"), Some(prompt));
        assert_eq!(of("answer_tokens"), answer);
    }
    // Ten rounds of three in 30 ms, of which the last request comes 20 ms after the first.
    assert!(
        values["measured_seconds"] >= 9.0 * 0.03 + 0.02,
        "{values:?}"
    );
}

#[test]
fn what_serving_takes_does_not_hang_on_the_batches_that_come_about() {
    let _turn = alone();
    let peak = |rate: u32| {
        let variant = format!(r#"{{"batch":4,"sequence_lengths":"8-32","arrival_rate":{rate}}}"#);
        let (values, _) = served(Model::BertTiny, &variant);
        (values["peak_allocated_bytes"], values["batch_mean_count"])
    };
    let ((alone, one), (crowded, several)) = (peak(100), peak(100_000));
    assert!(one < several, "{one} {several}");
    assert!((alone - crowded).abs() < 1.0, "{alone} {crowded}");
}

#[test]
fn serving_searches_the_highest_rate_that_keeps_the_objective() {
    let _turn = alone();
    // Rates that are too high end early, with requests in all places.
    let tokens = r#"{"batch":4,"slo_ms":50,"slo_token_ms":50,"answer_lengths":"1-12"}"#;
    for (model, variant) in [
        (Model::VitTiny, r#"{"batch":4,"slo_ms":50}"#),
        (Model::LlamaTiny, tokens),
    ] {
        let (values, requests) = served(model, variant);
        assert_eq!(requests.len(), 80);
        let of = |name: &str| values.get(name).copied();
        let rate = of("highest_rate_requests_per_second").unwrap();
        assert!(rate > 1.0, "{rate}");
        for name in [
            "latency_p90_seconds",
            "token_p50_seconds",
            "goodput_requests_per_second",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}

#[test]
fn an_objective_that_nothing_meets_is_an_outcome() {
    let _turn = alone();
    // Whoever waits 20 ms for others is never answered within 1 ms.
    let variant = r#"{"batch":4,"slo_ms":1,"longest_wait_ms":20}"#;
    let folder = Folder::new(&run_file(Model::VitTiny, Task::Serving, variant));
    assert_eq!(folder.run().status.code(), Some(1));
    let Some(Event::Failed {
        reason, message, ..
    }) = folder.events().pop()
    else {
        panic!("a run that went well");
    };
    assert_eq!(reason, FailureReason::SloNotMet);
    assert!(message.contains("objective of 1ms"), "{message}");
}

#[test]
fn a_server_that_falls_behind_rejects_and_its_latencies_show_it() {
    let _turn = alone();
    let variant = r#"{"batch":2,"arrival_rate":100000,"queue_length":4,"slo_ms":1}"#;
    let (values, requests) = served(Model::ResnetTiny, variant);
    let rejected = requests.iter().filter(|one| one.contains_key("rejected"));
    let rejected = rejected.count() as f64;
    assert!(rejected > 40.0, "{rejected}");
    assert!((values["rejected_ratio"] - rejected / 80.0).abs() < 1e-9);
    assert_eq!(
        values.get("latency_p50_seconds"),
        None,
        "most have no answer"
    );
    assert!((values["queue_peak_count"] - 4.0).abs() < 1e-9);
    assert!(values["goodput_requests_per_second"] <= values["achieved_requests_per_second"]);
}

#[test]
fn every_tiny_model_infers() {
    let _turn = alone();
    for model in [Model::ResnetTiny, Model::BertTiny, Model::VitTiny] {
        let values = check(model, Task::Inference, r#"{"batch":4}"#, 4);
        for name in [
            "first_loss",
            "last_loss",
            "gradient_bytes",
            "optimizer_bytes",
        ] {
            assert_eq!(values.get(name), None, "{name}");
        }
    }
}

#[test]
fn the_axes_of_a_cpu_reach_the_work() {
    let _turn = alone();
    let plain = check(Model::BertTiny, Task::Training, r#"{"batch":8}"#, 8);
    let variant = r#"{"batch":8,"accumulation":3,"precision":"amp-bf16","optimizer":"adamw",
                      "checkpointing":"blocks","sequence_length":16}"#;
    let other = check(Model::BertTiny, Task::Training, variant, 24);
    assert!((other["micro_batch_samples"] - 8.0).abs() < 1e-9);
    assert!(other["optimizer_bytes"] > 2.0 * plain["optimizer_bytes"]);
    assert!(other["peak_allocated_bytes"] < plain["peak_allocated_bytes"]);
}

/// The measured steps of a run of four with these many steps of warm-up.
fn steps_of(task: Task, variant: &str, warmup: u32) -> (Vec<Step>, Values) {
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
            Event::Finished { values } => return (steps, values),
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
        let lengths = steps
            .iter()
            .map(|step| step.values["sequence_length_tokens"]);
        lengths
            .map(|length| format!("{length}").parse().unwrap())
            .collect()
    };
    let (steps, values) = steps_of(Task::Inference, vary, 1);
    let drawn = lengths(&steps);
    assert!(drawn.iter().all(|length| (8..=128).contains(length)));
    assert!(drawn.iter().any(|&length| length != drawn[0]), "{drawn:?}");
    assert!((values["samples_count"] - 16.0).abs() < 1e-9);
    let operations: f64 = drawn
        .iter()
        .map(|&length| models::flops_per_sample(Model::BertTiny, Task::Inference, length))
        .sum();
    let told = values["model_flops_per_sample"];
    assert!((told / (operations / 4.0) - 1.0).abs() < 1e-12, "{told}");

    // Another task, another warm-up: the same lengths, and losses of sequences that long.
    let (training, values) = steps_of(Task::Training, vary, 2);
    assert_eq!(lengths(&training), drawn);
    assert!(
        training
            .iter()
            .all(|step| step.values.contains_key("step_forward_seconds"))
    );
    assert!((5.0..9.0).contains(&values["last_loss"]), "{values:?}");

    let (fixed, _) = steps_of(Task::Inference, r#"{"batch":4}"#, 1);
    let is_fixed = |step: &Step| !step.values.contains_key("sequence_length_tokens");
    assert!(fixed.iter().all(is_fixed));
}

/// By how many bytes each measured step of a run adds to what is allocated, all by the same; and
/// the most that was.
fn growth_and_peak(task: Task, variant: &str) -> (f64, f64) {
    let folder = Folder::new(&run_file(Model::BertTiny, task, variant));
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{task} {variant}: {stderr}");
    let (mut after, mut peak) = (Vec::new(), 0.0);
    for event in folder.events() {
        match event {
            Event::Step(step) => after.push(step.values["step_allocated_bytes"]),
            Event::Finished { values } => peak = values["peak_allocated_bytes"],
            _ => {}
        }
    }
    let (first, second) = (after[1] - after[0], after[2] - after[1]);
    assert!((first - second).abs() < 1e-9, "{task} {variant}: {after:?}");
    (first, peak)
}

#[test]
fn what_steps_retain_grows_by_the_step_and_nothing_else_does() {
    let _turn = alone();
    let grown = |task, more: &str| {
        let variant = format!(r#"{{"batch":4,"sequence_length":16{more}}}"#);
        growth_and_peak(task, &variant).0
    };
    let outputs = r#","retain":"outputs""#;
    let scores = grown(Task::Inference, outputs);
    // [4, 16, words] of four bytes.
    assert!(scores > 4.0 * 16.0 * 4.0 * 100.0, "{scores}");
    assert!((scores % (4.0 * 16.0 * 4.0)).abs() < 1e-9, "{scores}");
    let is = |grown: f64, expect: f64| assert!((grown - expect).abs() < 1e-9, "{grown} {expect}");
    is(grown(Task::Training, outputs), scores);
    is(grown(Task::Training, ""), 0.0);
    // Backward gives back what the graph keeps: the loss is left, a float.
    is(grown(Task::Training, r#","retain":"graph""#), 4.0);
    let accumulated = r#","retain":"graph","accumulation":3"#;
    is(grown(Task::Training, accumulated), 12.0);
    let tracked = r#","retain":"graph","gradients":"tracked""#;
    let graph = grown(Task::Inference, tracked);
    assert!(graph > 2.0 * scores, "{graph} {scores}");
}

#[test]
fn forgetting_no_grad_costs_what_forward_keeps() {
    let _turn = alone();
    let of = |gradients: &str| {
        let variant = format!(r#"{{"batch":4,"gradients":"{gradients}"}}"#);
        let (growth, peak) = growth_and_peak(Task::Inference, &variant);
        assert!(growth.abs() < 1e-9, "{gradients}: {growth}");
        peak
    };
    let (tracked, plain, inference) = (of("tracked"), of("no-grad"), of("inference-mode"));
    assert!(tracked > 1.2 * plain, "{tracked} {plain}");
    assert!(
        (inference / plain - 1.0).abs() < 0.01,
        "{inference} {plain}"
    );
}

#[test]
fn every_task_has_what_is_allocated_after_each_step() {
    let _turn = alone();
    let variant = r#"{"sequence_length":16,"new_tokens":4}"#;
    let folder = Folder::new(&run_file(Model::LlamaTiny, Task::Generation, variant));
    assert_eq!(folder.run().status.code(), Some(0));
    let (_, requests) = served(Model::BertTiny, r#"{"arrival_rate":200,"batch":4}"#);
    let generated = folder.events().into_iter().filter_map(|event| match event {
        Event::Step(step) => Some(step.values),
        _ => None,
    });
    let generated: Vec<Values> = generated.collect();
    assert_eq!((generated.len(), requests.len()), (3, 80));
    for values in generated.iter().chain(&requests) {
        let is_answered = !values.contains_key("rejected");
        assert_eq!(values.contains_key("step_allocated_bytes"), is_answered);
    }
}

#[test]
fn idling_takes_memory_and_time_and_nothing_else() {
    let _turn = alone();
    let run = run_file(Model::None, Task::Idle, "{}").replace(r#""measured":3"#, r#""measured":2"#);
    let folder = Folder::new(&run);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("measured for 2."), "{stderr}");
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
        assert!(
            (1.0..2.0).contains(&step.values["idle_seconds"]),
            "{step:?}"
        );
        assert_eq!(step.values.len(), 2, "{step:?}");
        assert!(step.values["step_allocated_bytes"].abs() < 1e-9);
    }
    let Some(Event::Finished { values }) = folder.events().pop() else {
        panic!("a run without an end");
    };
    for name in [
        "throughput_samples_per_second",
        "samples_count",
        "effective_batch_samples",
        "parameters_count",
        "model_flops_per_sample",
        "matmul_flops_per_second",
    ] {
        assert_eq!(values.get(name), None, "{name}");
    }
    assert!(values["measured_seconds"] >= 2.0);
    // Loading libtorch takes longer than idling does.
    let (idle, all) = (values["cpu_seconds"], values["run_cpu_seconds"]);
    assert!(idle < 0.2 && idle < all, "{idle} {all}");
    // libtorch's own pages are resident, and no tensor is.
    assert!(values["run_host_peak_resident_bytes"] > f64::from(50 << 20));
    assert!(values["peak_allocated_bytes"].abs() < 1e-9);
}

#[test]
fn a_profiler_comes_after_all_that_is_measured() {
    let _turn = alone();
    let run = |task, steps: &str| {
        let run = run_file(Model::VitTiny, task, r#"{"batch":4}"#);
        let folder = Folder::new(&run.replace(r#""measured":3"#, steps));
        let output = folder.run();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("no kernels"), "{stderr}");
        folder.events()
    };
    let told = |events: &[Event]| -> (Vec<f64>, f64) {
        let losses = events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step.values["loss"]),
            _ => None,
        });
        let Some(Event::Finished { values }) = events.last() else {
            panic!("{:?}", events.last());
        };
        (losses.collect(), values["peak_allocated_bytes"])
    };
    let plain = run(Task::Training, r#""measured":3"#);
    let is_kernel = |event: &Event| matches!(event, Event::Kernel(_));
    assert!(!plain.iter().any(is_kernel));
    let events = run(Task::Training, r#""measured":3,"profiled":2"#);
    assert_eq!(told(&events), told(&plain));
    let place = |is: &dyn Fn(&Event) -> bool| events.iter().position(is).unwrap();
    let ended = |wanted| {
        let is = move |event: &Event| matches!(event, Event::PhaseEnded { phase, .. } if *phase == wanted);
        place(&is)
    };
    let last_step = events
        .iter()
        .rposition(|event| matches!(event, Event::Step(_)));
    assert!(ended(Phase::Measure) < last_step.unwrap());
    assert!(last_step.unwrap() < place(&is_kernel));
    assert!(place(&is_kernel) < ended(Phase::Profile));
    assert!(ended(Phase::Profile) < ended(Phase::Teardown));

    // A step runs each linear layer once, forward.
    let kernel = |events: &[Event], wanted: &str| {
        let mut kernels = events.iter().filter_map(|event| match event {
            Event::Kernel(kernel) => Some(kernel.clone()),
            _ => None,
        });
        kernels.find(|kernel| kernel.name == wanted)
    };
    let linear = kernel(&events, "aten::addmm").unwrap();
    assert!(
        linear.count >= 4.0 && linear.count.fract() == 0.0,
        "{linear:?}"
    );
    assert!(linear.seconds > 0.0 && linear.seconds < 1.0, "{linear:?}");
    assert!(
        kernel(&events, "aten::_fused_adamw_").is_none(),
        "it is trained by SGD"
    );
    let inference = run(Task::Inference, r#""measured":3,"profiled":2"#);
    let forward = kernel(&inference, "aten::addmm").unwrap();
    let difference = forward.count - linear.count;
    assert!(difference.abs() < 1e-9, "{forward:?} {linear:?}");
    assert!(kernel(&inference, "aten::mm").is_none(), "no backward");
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
    let Some(Event::Finished { values }) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert!(values["warmup_steps_count"] > 2.0, "{values:?}");
    assert_eq!(values.get("matmul_flops_per_second"), None);
    let mut measured = 0;
    for event in &events {
        match event {
            Event::PhaseEnded {
                phase: Phase::Warmup,
                seconds,
            } => assert!(*seconds >= 1.0, "{seconds}"),
            Event::Step(step) => {
                measured += 1;
                assert_eq!(step.values.get("step_forward_seconds"), None);
                assert!(step.values["loss"] < 10.0, "{step:?}");
            }
            Event::Memory(point) => assert!(point.step.is_none_or(|step| step < 2)),
            _ => {}
        }
    }
    assert_eq!(measured, 3);
}

#[test]
fn deterministic_runs_have_the_same_losses_and_gradients_to_the_bit() {
    let _turn = alone();
    let bits = |model| -> (Vec<Option<f64>>, Vec<f64>) {
        let variant = r#"{"batch":4,"deterministic":true}"#;
        // As many threads as there are: without the axis, their sums may come in any order.
        let run = run_file(model, Task::Training, variant)
            .replace(r#","threads":1"#, "")
            .replace(r#""warmup":1"#, r#""warmup":2"#);
        let folder = Folder::new(&run);
        let output = folder.run();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let events = folder.events();
        let losses = events.iter().filter_map(|event| match event {
            Event::Step(step) => Some(step.values.get("loss").copied()),
            _ => None,
        });
        let Some(Event::Finished { values }) = events.last() else {
            panic!("{stderr}")
        };
        let digest = |step| values.get(&format!("warmup_step_{step}_gradient_digest"));
        (losses.collect(), (1..).map_while(digest).copied().collect())
    };
    for model in [Model::ResnetTiny, Model::BertTiny, Model::VitTiny] {
        let first = bits(model);
        let (losses, digests) = &first;
        assert!(losses.len() == 3 && digests.len() == 2, "{first:?}");
        assert_ne!(digests[0].to_bits(), digests[1].to_bits(), "{model}");
        assert_eq!(first, bits(model), "{model}");
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

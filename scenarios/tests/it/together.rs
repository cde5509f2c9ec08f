//! Several ranks, each a process of the binary with its place in its environment.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use protocol::{Event, FailureReason, Model, Step, Task, Values};
use tempfile::TempDir;

use crate::{
    binary::{BINARY, Folder, check_failure, run_file},
    support::events,
};

/// Ranks of one run file, with a results file each.
struct Ranks {
    folder: TempDir,
    processes: Vec<Child>,
}

impl Ranks {
    fn start(run_file: &str, world: usize, timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, run_file).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let start = |rank: usize| {
            Command::new(BINARY)
                .args([&path, &results(&folder, rank)])
                .env("RANK", rank.to_string())
                .env("LOCAL_RANK", rank.to_string())
                .env("WORLD_SIZE", world.to_string())
                .env("MASTER_ADDR", "127.0.0.1")
                .env("MASTER_PORT", port.to_string())
                .env(
                    "TORCHGAUGE_EXCHANGE_TIMEOUT_MS",
                    timeout.as_millis().to_string(),
                )
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let processes = (0..world).map(start).collect();
        Self { folder, processes }
    }

    /// The events of each rank, all of which end well.
    fn finish(self) -> Vec<Vec<Event>> {
        for process in self.processes {
            let output = process.wait_with_output().unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words}");
        }
        let ranks = 0..;
        let texts = ranks.map_while(|rank| fs::read_to_string(results(&self.folder, rank)).ok());
        texts.map(|text| events(&text)).collect()
    }
}

fn results(folder: &TempDir, rank: usize) -> PathBuf {
    folder.path().join(format!("results-{rank}.ndjson"))
}

fn run(run_file: &str, world: usize) -> Vec<Vec<Event>> {
    Ranks::start(run_file, world, Duration::from_mins(1)).finish()
}

fn losses(events: &[Event]) -> Vec<f64> {
    let steps = events.iter().filter_map(|event| match event {
        Event::Step(Step { values, .. }) => Some(values["loss"]),
        _ => None,
    });
    steps.collect()
}

fn values(events: &[Event]) -> &Values {
    match events.last() {
        Some(Event::Finished { values }) => values,
        other => panic!("{other:?}"),
    }
}

/// Digests of the first gradients, to the bit.
fn digests(events: &[Event]) -> Vec<(String, u64)> {
    let all = values(events).iter();
    let all = all.filter(|(name, _)| name.ends_with("_gradient_digest"));
    let all = all.map(|(name, value)| (name.clone(), value.to_bits()));
    let all: Vec<_> = all.collect();
    assert!(!all.is_empty());
    all
}

/// The mean loss of ranks that train together is that of one process with all of their samples,
/// and their gradients are equal to the bit.
fn check_training(model: Model, parallel: &str, world: usize, batch: usize, more: &str) {
    let of = |batch: usize, parallel: &str| {
        let variant =
            format!(r#"{{"batch":{batch},"deterministic":true{more},"parallel":"{parallel}"}}"#);
        run_file(model, Task::Training, &variant)
    };
    let alone = run(&of(batch * world, "none"), 1);
    let together = run(&of(batch, parallel), world);
    assert_eq!(together.len(), world);
    let all: Vec<Vec<f64>> = together.iter().map(|events| losses(events)).collect();
    for (step, expected) in losses(&alone[0]).iter().enumerate() {
        let mean = all.iter().map(|losses| losses[step]).sum::<f64>() / world as f64;
        // Sums in another order, over a few steps.
        let difference = (mean - expected).abs() / expected;
        assert!(difference < 2e-6, "{model} step {step}: {mean} {expected}");
    }
    assert!(
        all.iter().any(|losses| losses != &all[0]),
        "data of its own"
    );
    let first = digests(&together[0]);
    for rank in &together {
        // Each has the gradients of its shards.
        assert!(parallel == "sharded" || digests(rank) == first);
        let exposed = values(rank)["exposed_exchange_ratio"];
        assert!((0.0..1.0).contains(&exposed), "{exposed}");
        assert!(values(rank)["step_sent_bytes"] > 0.0);
    }
}

#[test]
fn averaged_gradients_train_as_one_process_does() {
    check_training(Model::VitTiny, "ddp", 2, 2, "");
    check_training(Model::LlamaTiny, "ddp", 4, 1, r#","optimizer":"adamw""#);
    check_training(
        Model::VitTiny,
        "ddp",
        2,
        1,
        r#","accumulation":3,"loader_workers":1"#,
    );
}

#[test]
fn shards_train_as_one_process_does() {
    check_training(Model::VitTiny, "sharded", 2, 2, "");
    check_training(
        Model::LlamaTiny,
        "sharded",
        4,
        1,
        r#","optimizer":"adamw","accumulation":2"#,
    );
    // Of BERT, whose head is its embedding, and with parameters gathered in 16 bits.
    let of = |parallel: &str| {
        let variant = format!(
            r#"{{"batch":4,"precision":"amp-bf16","parallel":"{parallel}","optimizer":"adamw"}}"#
        );
        run(&run_file(Model::BertTiny, Task::Training, &variant), 4)
    };
    let (averaged, sharded) = (of("ddp"), of("sharded"));
    for (one, other) in averaged.iter().zip(&sharded) {
        for (one, other) in losses(one).iter().zip(losses(other)) {
            // What goes from block to block is in 16 bits, too.
            assert!((one - other).abs() < 5e-3 * one, "{one} {other}");
        }
        // A quarter, but for what fills up to equal parts.
        for name in ["parameter_bytes", "gradient_bytes", "optimizer_bytes"] {
            let (whole, part) = (values(one)[name], values(other)[name]);
            assert!((part - whole / 4.0).abs() < 200.0, "{name} {whole} {part}");
        }
        let peaks = [one, other].map(|events| values(events)["peak_allocated_bytes"]);
        assert!(peaks[1] < peaks[0], "{peaks:?}");
    }
}

#[test]
fn statistics_of_batches_are_rank_0s() {
    let variant = r#"{"batch":4,"deterministic":true,"parallel":"ddp"}"#;
    let both = run(&run_file(Model::ResnetTiny, Task::Training, variant), 2);
    assert_eq!(digests(&both[0]), digests(&both[1]));
    assert_ne!(losses(&both[0]), losses(&both[1]));
    let parameters = values(&both[0])["gradient_bytes"];
    // An all-reduce of two sends each byte once.
    assert!((values(&both[0])["step_sent_bytes"] - parameters).abs() < 0.5);
}

/// A model in stages has the losses of one process that accumulates as many micro-batches, on all
/// ranks, and each rank its part of the memory.
fn check_stages(model: Model, world: usize, more: &str, tolerance: f64) {
    let of = |parallel: &str| {
        let variant = format!(r#"{{"parallel":"{parallel}","deterministic":true,{more}}}"#);
        run_file(model, Task::Training, &variant)
    };
    let alone = run(&of("none"), 1).remove(0);
    let ranks = run(&of("pipeline"), world);
    assert_eq!(ranks.len(), world);
    for rank in &ranks {
        for (got, expected) in losses(rank).iter().zip(losses(&alone)) {
            let difference = (got - expected).abs() / expected;
            assert!(difference <= tolerance, "{model}: {got} {expected}");
        }
        let of = |name: &str| (values(rank)[name], values(&alone)[name]);
        for name in ["parameter_bytes", "gradient_bytes", "peak_allocated_bytes"] {
            let (stage, whole) = of(name);
            assert!(stage < whole, "{model} {name}: {stage} {whole}");
        }
        let (parameters, whole) = of("parameters_count");
        assert_eq!(parameters.to_bits(), whole.to_bits());
        let (own, all) = of("samples_count");
        assert!((own * world as f64 - all).abs() < 1e-9);
        assert!((0.0..1.0).contains(&values(rank)["pipeline_idle_ratio"]));
        assert!(!values(rank).contains_key("exposed_exchange_ratio"));
        assert!(values(rank)["step_sent_bytes"] > 0.0);
    }
    assert!(losses(&ranks[0]).iter().all(|loss| *loss > 0.0));
}

#[test]
fn stages_train_as_one_process_does() {
    // The same operations in the same order: losses are equal to the bit.
    check_stages(Model::VitTiny, 2, r#""batch":2,"accumulation":4"#, 0.0);
    let more = r#""batch":2,"accumulation":3,"checkpointing":"blocks","optimizer":"adamw""#;
    check_stages(Model::VitTiny, 2, more, 0.0);
    let more = r#""batch":2,"accumulation":5,"memory_format":"channels-last""#;
    check_stages(Model::ResnetTiny, 4, more, 0.0);
    // Fewer micro-batches than stages, and one, which passes them in turn.
    check_stages(Model::ResnetTiny, 4, r#""batch":2,"accumulation":2"#, 0.0);
    check_stages(Model::ResnetTiny, 3, r#""batch":2"#, 0.0);
}

#[test]
fn stages_that_share_an_embedding_add_up_its_gradients() {
    let more = r#""batch":2,"accumulation":4,"optimizer":"adamw""#;
    check_stages(Model::LlamaTiny, 2, more, 2e-6);
    // BERT's dropout differs between ranks.
    let more = r#""batch":4,"accumulation":2,"precision":"amp-bf16","optimizer":"adamw""#;
    check_stages(Model::BertTiny, 2, more, 0.02);
}

#[test]
fn a_killed_rank_ends_the_others() {
    let file = run_file(
        Model::BertTiny,
        Task::Training,
        r#"{"batch":1,"parallel":"ddp"}"#,
    )
    .replace(r#""measured":3"#, r#""measured":1000000"#);
    let mut ranks = Ranks::start(&file, 2, Duration::from_secs(20));
    let path = results(&ranks.folder, 0);
    let began = Instant::now();
    let measures = || fs::read_to_string(&path).is_ok_and(|text| text.contains("heartbeat"));
    while !measures() {
        assert!(began.elapsed() < Duration::from_mins(2));
        thread::sleep(Duration::from_millis(50));
    }
    let mut killed = ranks.processes.pop().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let began = Instant::now();
    let other = ranks.processes.pop().unwrap().wait_with_output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(20));
    let events = events(&fs::read_to_string(&path).unwrap());
    let Some(Event::Failed {
        reason, message, ..
    }) = events.last()
    else {
        panic!("{:?}", events.last());
    };
    assert_eq!(*reason, FailureReason::Exchange, "{message}");
    assert!(message.contains("check each rank's own error"), "{message}");
}

#[test]
fn replicas_begin_together_or_not_at_all() {
    let file = run_file(Model::BertTiny, Task::Inference, r#"{"batch":1}"#);
    assert_eq!(run(&file, 2).len(), 2);
    let mut ranks = Ranks::start(&file, 2, Duration::from_secs(3));
    let mut gone = ranks.processes.pop().unwrap();
    gone.kill().unwrap();
    gone.wait().unwrap();
    let left = ranks.processes.pop().unwrap().wait_with_output().unwrap();
    assert_eq!(left.status.code(), Some(1));
    let events = events(&fs::read_to_string(results(&ranks.folder, 0)).unwrap());
    let Some(Event::Failed { reason, .. }) = events.last() else {
        panic!("{:?}", events.last());
    };
    assert_eq!(*reason, FailureReason::Exchange);
}

#[test]
fn collectives_carry_messages() {
    for (collective, precision, bus) in [
        ("all-reduce", "fp32", 1.0),
        ("all-gather", "bf16", 0.5),
        ("reduce-scatter", "fp32", 0.5),
        ("broadcast", "bf16", 1.0),
        ("send", "fp32", 1.0),
    ] {
        let variant = format!(
            r#"{{"batch":5,"precision":"{precision}","collective":"{collective}","message":65536}}"#
        );
        for rank in run(&run_file(Model::None, Task::Collectives, &variant), 2) {
            let of = |name: &str| values(&rank)[name];
            let algorithm = of("algorithm_bandwidth_bytes_per_second");
            let ratio = of("bus_bandwidth_bytes_per_second") / algorithm;
            assert!((ratio - bus).abs() < 1e-9, "{collective} {ratio}");
            // 15 iterations of 65536 bytes.
            let seconds = 15.0 * 65536.0 / algorithm;
            assert!(seconds <= of("measured_seconds"), "{collective}");
            assert!(of("iteration_p50_seconds") <= of("iteration_p99_seconds"));
            let steps = rank.iter().filter(|event| matches!(event, Event::Step(_)));
            assert_eq!(steps.count(), 3);
        }
    }
}

#[test]
fn what_means_nothing_with_one_rank_is_refused() {
    for (model, task, variant, word) in [
        (
            Model::VitTiny,
            Task::Training,
            r#"{"parallel":"sharded","checkpointing":"blocks"}"#,
            "parallel",
        ),
        (
            Model::VitTiny,
            Task::Training,
            r#"{"parallel":"pipeline","loader_workers":1}"#,
            "parallel",
        ),
        (Model::None, Task::Collectives, "{}", "collective"),
        (
            Model::None,
            Task::Collectives,
            r#"{"message":12}"#,
            "message",
        ),
    ] {
        let folder = Folder::new(&run_file(model, task, variant));
        check_failure(&folder, &folder.run(), FailureReason::BadRunFile, word);
    }
}

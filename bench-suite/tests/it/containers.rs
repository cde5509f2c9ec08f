//! The container executor against the real engine.

use std::{collections::BTreeMap, fs, time::Duration};

use bench_suite::{
    executors::container::{Container, ContainerImage, find_gpu},
    host,
    session::Session,
};
use engine::{Endpoint, Engine, GpuHost, GpuPath};
use protocol::Device;
use record::{Record, Sampled};
use tokio_util::sync::CancellationToken;

use crate::{
    common::{Listener, ending, message, spec},
    image,
};

/// The engine, with the image in it.
///
/// # Panics
/// Where no engine answers: these tests never skip. The message says how to start one.
pub(crate) async fn engine() -> Engine {
    let engine = Engine::connect(&Endpoint::Auto)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    image::load(&engine).await;
    engine
}

pub(crate) struct Done {
    pub(crate) record: Record,
    pub(crate) log: String,
    pub(crate) left: usize,
}

pub(crate) async fn run_until(mode: &str, limits: &str, interrupt: Option<Duration>) -> Done {
    run_image(image::with_mode(mode), limits, interrupt).await
}

async fn run_image(image: ContainerImage, limits: &str, interrupt: Option<Duration>) -> Done {
    let scenario = format!("{{name: a, model: vit-tiny, task: inference, limits: {limits}}}");
    run_scenario(image, &scenario, interrupt).await
}

/// Runs it once; interrupted so long after the run began, if at all.
pub(crate) async fn run_scenario(
    image: ContainerImage,
    scenario: &str,
    interrupt: Option<Duration>,
) -> Done {
    let engine = engine().await;
    let home = tempfile::tempdir().unwrap();
    let suite = format!(
        "version: 1\ndescription: d\ndefaults: {{blocks: 1, steps: {{warmup: 0, measured: 1}}}}\n\
         scenarios: [{scenario}]\n"
    );
    let mut spec = spec(&suite, &["tiny"], Device::Cpu);
    spec.session.policy.engine_retries = Some(0);
    let memory_bytes = host::local::open().facts().memory_bytes;
    spec.session.hosts.values_mut().next().unwrap().memory_bytes = memory_bytes;
    let name = bench_suite::session::fresh_name();
    let mut session = Session::create(&home.path().join("s"), &name, spec).unwrap();
    let executor = Container::new(
        host::local::open(),
        engine.clone(),
        BTreeMap::from([("tiny".to_owned(), image)]),
        None,
    );
    let cancel = CancellationToken::new();
    let mut listener = Listener {
        interrupt: interrupt.map(|after| (after, cancel.clone())),
        ..Listener::default()
    };
    session
        .run(&executor, &mut listener, &cancel)
        .await
        .unwrap();
    let record = listener.records.remove(0);
    let log = record
        .log
        .as_ref()
        .map(|log| home.path().join("s").join(log));
    let label = format!("{}={name}", engine::LABEL_SESSION);
    Done {
        log: log
            .and_then(|log| fs::read_to_string(log).ok())
            .unwrap_or_default(),
        left: engine.list_containers(&label).await.unwrap().len(),
        record,
    }
}

pub(crate) async fn check(mode: &str, limits: &str, word: &str, text: &str) -> Record {
    let done = run_until(mode, limits, None).await;
    assert_eq!(
        ending(&done.record),
        word,
        "{}\n{}",
        message(&done.record),
        done.log
    );
    assert!(
        message(&done.record).contains(text),
        "{}",
        message(&done.record)
    );
    assert_eq!(done.left, 0, "a container was left");
    done.record
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_container_has_memory_and_no_throughput() {
    let scenario = "{name: idle, model: none, task: idle}";
    let done = run_scenario(image::with_mode("idle"), scenario, None).await;
    let record = done.record;
    assert_eq!(ending(&record), "ok", "{}\n{}", message(&record), done.log);
    assert_eq!(record.value("throughput_samples_per_second"), None);
    assert_eq!(record.value("cpu_seconds"), Some(0.01));
    // The workload holds 64 MiB.
    assert!(
        record.value("run_container_peak_bytes") > Some(f64::from(60 << 20)),
        "{:?}",
        record.values
    );
    let told: Vec<&str> = metrics::catalogue::ALL
        .iter()
        .filter(|metric| metric.of(&record).is_some())
        .map(|metric| metric.name)
        .collect();
    assert!(told.contains(&"run_container_peak_bytes"), "{told:?}");
    let of_work = |name: &&str| name.starts_with("step_") || name.starts_with("throughput");
    assert!(!told.iter().any(of_work), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_a_container_gives_the_same_record_as_a_process() {
    let done = run_until(
        "good",
        "{time: 60s, memory: 256MiB, cpus: 1, pids: 64}",
        None,
    )
    .await;
    let record = done.record;
    assert_eq!(ending(&record), "ok", "{}\n{}", message(&record), done.log);
    assert_eq!(done.log, "mode good\n");
    assert!(
        record
            .image_id
            .as_ref()
            .is_some_and(|id| id.starts_with("sha256:"))
    );
    let isolation = &record.isolation;
    assert_eq!(isolation.engine, "container");
    assert_eq!(isolation.id.as_ref().map(String::len), Some(64));
    assert_eq!(isolation.gpu_path, None);
    let cost = record.harness;
    for (name, seconds) in [
        ("create", cost.create_seconds),
        ("start", cost.start_seconds),
        ("notice", cost.notice_seconds),
        ("remove", cost.remove_seconds),
    ] {
        assert!((0.0..20.0).contains(&seconds), "{name} took {seconds} s");
    }
    assert!(record.wall_seconds > 0.6);
    let memory = record
        .monitor
        .get(Sampled::MemoryBytes)
        .expect("memory was watched");
    assert!(
        memory.maximum > 64e6 && memory.maximum < 256e6,
        "{memory:?}"
    );
    assert_eq!(done.left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_told_apart() {
    check(
        "exit",
        "{}",
        "exit-status",
        "ended with status 3; its log ends with: mode exit",
    )
    .await;
    check("abort", "{}", "crash", "ended by SIGABRT").await;
    check(
        "garbage",
        "{}",
        "unreadable-results",
        "line 3 of the results file, `garbage`",
    )
    .await;
    let record = check(
        "hang",
        "{time: 2s}",
        "time-limit",
        "longer than its limit of 2 s",
    )
    .await;
    assert!(record.wall_seconds < 30.0);
    check("hang", "{silence: 1s}", "hang", "no event for 1 s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_s_end_is_told_apart_from_a_child_s() {
    let record = check(
        "eat",
        "{memory: 64MiB}",
        "host-out-of-memory",
        "memory limit of 67108864 bytes",
    )
    .await;
    assert!(!record.values.contains_key("samples_count"));
    let record = check("oom-child", "{memory: 64MiB}", "ok", "").await;
    let mut warnings = record.warnings.iter();
    let is_told =
        warnings.any(|one| one.starts_with("a child process was ended for lack of memory"));
    let engine = Engine::connect(&Endpoint::Auto).await.unwrap();
    // Podman 4.3 tells of no child's end; its containers' own is known by the signal.
    assert_eq!(
        is_told,
        engine.facts().reports_oom(),
        "{:?}",
        record.warnings
    );
}

/// A machine that looks as if it had a GPU: device files that lead to `/dev/null`, and a driver.
fn sham_gpu() -> (tempfile::TempDir, GpuHost) {
    let root = tempfile::tempdir().unwrap();
    let driver = root.path().join("usr/local/nvidia/lib64");
    fs::create_dir_all(&driver).unwrap();
    fs::write(driver.join("libcuda.so.1"), "").unwrap();
    fs::create_dir(root.path().join("dev")).unwrap();
    for node in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
        std::os::unix::fs::symlink("/dev/null", root.path().join("dev").join(node)).unwrap();
    }
    let host = GpuHost::under(root.path());
    (root, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_the_cpu_is_no_way_to_the_gpu() {
    let engine = engine().await;
    let (_root, gpus) = sham_gpu();
    // The workload goes through its step, and has seen no GPU.
    let cancel = CancellationToken::new();
    let tried = find_gpu(
        &host::local::open(),
        &engine,
        &gpus,
        Some(&image::with_mode("normal")),
        0,
        &cancel,
    )
    .await
    .unwrap_err();
    let obstacle = |path: GpuPath| {
        let (_, obstacle) = tried.iter().find(|(of, _)| *of == path).unwrap();
        obstacle.clone()
    };
    let passthrough = obstacle(GpuPath::Passthrough);
    assert!(passthrough.contains("reported no GPU"), "{passthrough}");
    // The other ways are not even tried on an engine that cannot serve them.
    for path in [GpuPath::Cdi, GpuPath::NvidiaRuntime] {
        let obstacle = obstacle(path);
        assert!(!obstacle.contains("reported no GPU"), "{path}: {obstacle}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_kept_from_everything_it_needs_not() {
    let done = run_until("environment", "{}", None).await;
    for line in [
        "CUDA_VISIBLE_DEVICES=",
        "HOME=/tmp",
        "root: Err(ReadOnlyFilesystem)",
        "home: true",
        "run file: false",
        "network: [\"lo\"]",
    ] {
        assert!(
            done.log.lines().any(|found| found == line),
            "{line}:\n{}",
            done.log
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_no_container() {
    let done = run_until("hang", "{}", Some(Duration::from_secs(2))).await;
    assert_eq!(ending(&done.record), "interrupted");
    assert!(done.record.wall_seconds < 30.0);
    assert_eq!(done.left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_images_are_named() {
    let gone = ContainerImage {
        image: "torchgauge-no-such-image:1".into(),
        ..ContainerImage::default()
    };
    let done = run_image(gone, "{}", None).await;
    assert_eq!(ending(&done.record), "image-broken");
    assert!(
        message(&done.record).contains("gone from the engine"),
        "{}",
        message(&done.record)
    );
    let broken = ContainerImage {
        image: image::NAME.into(),
        entrypoint: Some(vec!["/no/such/program".into()]),
        ..ContainerImage::default()
    };
    let done = run_image(broken, "{}", None).await;
    assert_eq!(
        ending(&done.record),
        "image-broken",
        "{}",
        message(&done.record)
    );
    assert_eq!(done.left, 0);
}

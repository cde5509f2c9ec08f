//! The real command against the real Docker Engine and the real libtorch.
//!
//! `cargo xtask test` runs these last; `cargo test -p torchgauge --test end_to_end` runs them alone.
//! They need a container engine: where none answers, they fail and say which command starts one.

mod attack;
mod dist;
mod own_images;
mod pod;
mod ready_made;
#[path = "../common/registry.rs"]
#[expect(dead_code, reason = "the tests of `images push` need more of it")]
mod registry;
mod tutorial;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use record::{ImageLock, Outcome, Reason, Record, Session, SessionFolder};

/// Held by every test for as long as it keeps cores busy: shared, but by those that judge speed.
static CORES: RwLock<()> = RwLock::new(());

fn beside_others() -> RwLockReadGuard<'static, ()> {
    CORES.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone() -> RwLockWriteGuard<'static, ()> {
    CORES.write().unwrap_or_else(PoisonError::into_inner)
}

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn suite(&self, text: &str) -> PathBuf {
        let path = self.path("suite.yaml");
        fs::write(&path, text).expect("the suite is written");
        path
    }
}

fn xtask(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("torchgauge runs")
}

/// A suite once on the CPU, in Docker's containers.
fn bench(suite: &str, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
    command
        .args(["bench", "--suite", suite, "--engine", "container"])
        .args(["--device", "cpu", "--blocks", "1", "--out", text(out)])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

#[track_caller]
fn expect_exit(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn read(folder: &Path) -> (Session, Vec<Record>) {
    let folder = SessionFolder::at(folder);
    (
        folder.read_session().expect("a session"),
        folder.read_records().expect("records").records,
    )
}

/// Containers that Torchgauge made and that are still there.
fn containers_left(session: &str) -> String {
    let output = Command::new("docker")
        .args(["ps", "--all", "--quiet", "--filter"])
        .arg(format!("label=org.torchgauge.session={session}"))
        .output()
        .expect("docker runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn smoke_runs_in_containers_and_draws_its_report() {
    let _cores = beside_others();
    let home = Home::new();
    let out = home.path("session");
    let output = bench("smoke", &out).output().expect("it runs");
    expect_exit(&output, 0);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("report.html"), "{stdout}");

    let (session, records) = read(&out);
    assert!(session.complete);
    assert_eq!(records.len(), session.cells.len());
    let image = &session.images[0];
    let default = catalog().defaults().expect("the default images").cpu;
    let version = version_of(&default);
    assert_eq!((&image.name, &*image.libtorch_version), (&default, version));
    let lock = image.lock.as_ref().expect("how it stands to its lock");
    assert_ne!(*lock, ImageLock::Unlocked, "its lock is committed");
    let report = fs::read_to_string(out.join("report.md")).expect("the report");
    assert!(report.contains("- Lock: "), "{report}");
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
        assert_eq!(record.isolation.engine, "container", "{}", record.run);
        assert_eq!(record.image_id, image.id, "{}", record.run);
        let started = record
            .started
            .as_ref()
            .expect("the workload told its versions");
        assert_eq!(started.libtorch_version, version);
        let value = |name| record.value(name);
        assert!(value("throughput_samples_per_second") > Some(0.0));
        assert!(value("peak_allocated_bytes") > value("parameter_bytes"));
        let peak = value("run_container_peak_bytes");
        assert!(peak.is_some(), "{}", record.run);
    }
    for file in ["report.html", "report.md", "report.json"] {
        assert!(
            fs::metadata(out.join(file)).expect(file).len() > 1000,
            "{file}"
        );
    }
    assert_eq!(containers_left(&session.session), "");

    // The same cells in the same memory, to the byte: what a comparison of images stands on. As cron
    // runs it: everything is cached, so neither cargo nor pip, apt or a compiler is needed.
    let again = home.path("again");
    let cached = bench("smoke", &again).env("PATH", "/nowhere").output();
    expect_exit(&cached.expect("it runs"), 0);
    let (second, repeated) = read(&again);
    assert_eq!(second.images[0].id, image.id);
    for record in &records {
        let twin = repeated
            .iter()
            .find(|other| other.cell() == record.cell())
            .expect("a twin");
        let peak = |record: &Record| record.value("peak_allocated_bytes");
        assert_eq!(peak(record), peak(twin), "{}", record.cell());
    }
    let compared = xtask(&["compare", text(&out), text(&again), "--format", "json"]);
    expect_exit(&compared, 0);
    let verdicts: verdict::Verdicts =
        serde_json::from_slice(&compared.stdout).expect("verdicts as JSON");
    assert_eq!(verdicts.cells.len(), records.len());
}

#[test]
fn ranks_run_in_one_container_and_are_swept() {
    let _cores = beside_others();
    let home = Home::new();
    let out = home.path("session");
    let records = bench_once("scaling", &out);
    let counts: BTreeSet<&str> = records.iter().map(|one| &*one.axes["ranks"]).collect();
    assert_eq!(counts, ["1", "2", "4"].into());
    for record in &records {
        let ranks: usize = record.axes["ranks"].parse().expect("a number");
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
        assert_eq!(record.ranks.len(), if ranks > 1 { ranks } else { 0 });
        if record.scenario != "tiny" {
            continue;
        }
        let rates = record.ranks.iter();
        let rates = rates.map(|rank| rank.values["throughput_samples_per_second"]);
        let sum: f64 = rates.sum();
        let told = record
            .value("throughput_samples_per_second")
            .expect("a rate");
        assert!(
            ranks == 1 || (sum / told - 1.0).abs() < 1e-9,
            "{sum} {told}"
        );
    }
    let report = fs::read_to_string(out.join("report.md")).expect("the report");
    assert!(report.contains("## Ranks"), "{report}");
    assert!(report.contains("Scaling efficiency"), "{report}");
}

#[test]
fn the_same_cells_run_as_plain_processes() {
    let _cores = beside_others();
    let home = Home::new();
    let out = home.path("session");
    let suite = home.suite(
        "version: 1\ndescription: for a test\nscenarios:\n  - name: tiny\n    model: resnet-tiny\n    axes: {batch: [2, 4]}\n\
         \x20   steps: {warmup: 1, measured: 3}\n",
    );
    let output = xtask(&[
        "bench",
        "--suite",
        text(&suite),
        "--engine",
        "process",
        "--device",
        "cpu",
        "--blocks",
        "2",
        "--out",
        text(&out),
    ]);
    expect_exit(&output, 0);
    let (session, records) = read(&out);
    assert_eq!((session.cells.len(), records.len()), (2, 4));
    for record in records {
        assert_eq!(record.outcome, Outcome::Ok);
        assert!(!record.isolation.missing.is_empty());
    }
}

#[test]
fn a_run_that_needs_too_much_memory_is_a_record_and_the_rest_goes_on() {
    let _cores = beside_others();
    let home = Home::new();
    let out = home.path("session");
    let suite = home.suite(
        "version: 1\ndescription: for a test\nscenarios:\n  - name: fits\n    model: bert-tiny\n    axes: {batch: [1]}\n\
         \x20   steps: {warmup: 1, measured: 2}\n\
         \x20 - name: too-big\n    model: bert-large\n    axes: {batch: [64], sequence_length: [512]}\n\
         \x20   steps: {warmup: 1, measured: 2}\n    limits: {memory: 1GiB}\n",
    );
    let output = bench(text(&suite), &out).output().expect("it runs");
    expect_exit(&output, 3);
    let (session, records) = read(&out);
    assert!(session.complete);
    for record in &records {
        match (record.scenario.as_str(), &record.outcome) {
            ("fits", Outcome::Ok) => {}
            ("too-big", Outcome::Failed(failure)) => {
                assert_eq!(failure.reason, Reason::HostOutOfMemory);
            }
            (scenario, outcome) => panic!("{scenario}: {outcome:?}"),
        }
    }
    assert!(
        fs::read_to_string(out.join("report.md"))
            .expect("a report")
            .contains("host-out-of-memory")
    );
}

/// The images of this checkout.
fn catalog() -> images::Catalog {
    images::Catalog::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../images")))
}

/// The version of PyTorch in a CPU image of this checkout.
fn version_of(image: &str) -> &str {
    image.trim_start_matches("torch-").trim_end_matches("-cpu")
}

/// The default CPU image and that of the newest PyTorch, with their versions: the newest workload is
/// compiled with another tch than the workspace's own, and in another C++.
fn default_and_newest() -> [(String, String); 2] {
    let names = catalog().matching("torch-*-cpu").expect("CPU images");
    let newest = names.into_iter().max_by_key(|name| -> Vec<u32> {
        let numbers = version_of(name).split('.').map(str::parse);
        numbers.collect::<Result<_, _>>().expect("numbers")
    });
    let default = catalog().defaults().expect("the default images").cpu;
    [default, newest.expect("a CPU image")].map(|name| {
        let version = version_of(&name).to_owned();
        (name, version)
    })
}

/// `xtask` with this engine.
fn xtask_on(address: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("DOCKER_HOST", address)
        .output()
        .expect("torchgauge runs")
}

#[test]
fn docker_and_podman_have_the_same_images_and_run_them() {
    let _cores = beside_others();
    let setting = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let docker = setting("DOCKER_HOST", "unix:///var/run/docker.sock");
    let podman = setting("TORCHGAUGE_TEST_PODMAN", "unix:///run/podman/podman.sock");
    let [(default, default_version), (newest, newest_version)] = default_and_newest();
    let build = ["images", "build", &default, &newest, "--format", "json"];
    let built = [&docker, &podman].map(|address| -> serde_json::Value {
        let output = xtask_on(address, &build);
        expect_exit(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON")
    });
    for (number, name) in [default.as_str(), &newest].into_iter().enumerate() {
        let [one, other] = [&built[0][number], &built[1][number]];
        assert_eq!(
            (&one["image"], &other["image"]),
            (&name.into(), &name.into())
        );
        assert_ne!(one["engine"], other["engine"]);
        assert_eq!(one["config_id"], other["config_id"], "{name}");
        assert_eq!(one["manifest_id"], other["manifest_id"], "{name}");
        for built in [one, other] {
            let id = &built["id"];
            assert!(
                *id == built["config_id"] || *id == built["manifest_id"],
                "{built}"
            );
            // Below the workload it is what the committed lock says, but where Debian has
            // withdrawn a locked package since.
            let lock = &built["lock"];
            let as_locked = lock["state"] == "matches" || lock["state"] == "other-scenario";
            let withdrawn = lock["cause"]
                .as_str()
                .is_some_and(|cause| cause.starts_with("the base is not the locked one"));
            assert!(as_locked || withdrawn, "{built}");
        }
    }

    let home = Home::new();
    let suite = home.suite(
        "version: 1\ndescription: for a test\nscenarios:\n  - name: tiny\n    model: resnet-tiny\n    axes: {batch: [2]}\n\
         \x20   steps: {warmup: 1, measured: 2}\n",
    );
    for (engine, address) in [("docker", &docker), ("podman", &podman)] {
        let out = home.path(engine);
        let output = xtask_on(
            address,
            &[
                "bench",
                "--suite",
                text(&suite),
                "--engine",
                "container",
                "--device",
                "cpu",
                "--blocks",
                "1",
                "--image",
                &default,
                "--image",
                &newest,
                "--out",
                text(&out),
            ],
        );
        expect_exit(&output, 0);
        let (session, records) = read(&out);
        assert_eq!(session.engine.kind, engine);
        let versions: BTreeSet<&str> = records
            .iter()
            .map(|record| {
                assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
                let started = record.started.as_ref().expect("versions");
                started.libtorch_version.as_str()
            })
            .collect();
        assert_eq!(versions, [&*default_version, &newest_version].into());
    }

    // A rebuild with nothing changed asks for nothing: well under a second where the machine is
    // free, and never a minute of compiling.
    let again = xtask_on(&docker, &build);
    expect_exit(&again, 0);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    for built in again.as_array().expect("a list") {
        assert_eq!(built["loaded"], "already-there");
        assert_eq!(built["sent_bytes"], 0);
    }
}

#[test]
fn an_image_comes_out_the_same_from_another_checkout() {
    let _cores = beside_others();
    let name = catalog().defaults().expect("the default images").cpu;
    let home = Home::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // What git has and what is not committed yet, so that it is the same workload.
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("git runs");
    let copy = home.path("checkout");
    for file in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (root.join(file), copy.join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
            fs::copy(from, to).expect("a copy");
        }
    }
    // A cache that holds downloads alone: the rest is unpacked and compiled once more.
    let (theirs, ours) = (
        images::Cache::user().expect("a cache"),
        home.path("cache/torchgauge"),
    );
    for folder in ["wheels", "debs", "bases"] {
        let from = theirs.root().join(folder);
        fs::create_dir_all(ours.join(folder)).expect("a folder");
        for entry in fs::read_dir(from).expect("the cache").flatten() {
            let is_download =
                folder != "bases" || entry.file_name().to_string_lossy().starts_with("image-");
            let to = ours.join(folder).join(entry.file_name());
            if is_download && fs::hard_link(entry.path(), &to).is_err() {
                fs::copy(entry.path(), to).expect("a copy");
            }
        }
    }
    let built = |folder: &Path, variables: &[(&str, PathBuf)]| {
        let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
            .args(["images", "build", &name, "--format", "json"])
            .current_dir(folder)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("it runs");
        expect_exit(&output, 0);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |key: &str| found[0][key].clone();
        ["id", "manifest_id", "layers", "lock"].map(of)
    };
    let apart = [
        ("XDG_CACHE_HOME", home.path("cache")),
        ("CARGO_TARGET_DIR", home.path("target")),
    ];
    // The lock may be of earlier sources of the workload, and says the same of both then.
    assert_eq!(built(&copy, &apart), built(root, &[]));
}

/// Runs a committed suite once on the CPU, in containers.
fn bench_once(suite: &str, out: &Path) -> Vec<Record> {
    let output = bench(suite, out).output().expect("it runs");
    expect_exit(&output, 0);
    let (session, records) = read(out);
    assert_eq!(records.len(), session.cells.len());
    assert_eq!(containers_left(&session.session), "");
    records
}

#[test]
fn a_data_loader_needs_room_in_dev_shm() {
    let _cores = beside_others();
    let home = Home::new();
    for record in bench_once("data-loader", &home.path("session")) {
        let data = || -> Option<f64> {
            let steps = record.series.get("step_data_seconds")?;
            steps.iter().copied().sum()
        };
        match (record.scenario.as_str(), &record.outcome) {
            ("shm-64mib", Outcome::Expected(failure)) => {
                let message = &failure.message;
                assert_eq!(failure.reason, Reason::DataLoader, "{message}");
                for words in [
                    "worker ",
                    " of 2 found no room",
                    "/dev/shm of 64 MiB",
                    "limits.shm",
                ] {
                    assert!(message.contains(words), "{message}");
                }
            }
            ("shm-1gib", Outcome::Ok) => {
                let measured = record.value("measured_seconds").expect("a time");
                let share = data().expect("every step tells") / measured;
                assert!(share > 0.0 && share < 1.0, "{share}");
            }
            ("without-loader", Outcome::Ok) => assert_eq!(data(), None),
            (scenario, outcome) => panic!("{scenario}: {outcome:?}"),
        }
    }
}

#[test]
fn training_reads_the_folder_that_it_wrote() {
    let _cores = beside_others();
    let home = Home::new();
    for record in bench_once("data", &home.path("session")) {
        let scenario = &record.scenario;
        assert_eq!(record.outcome, Outcome::Ok, "{scenario}");
        for name in [
            "loader_samples_per_second",
            "data_wait_ratio",
            "data_folder_bytes",
        ] {
            let is_there = record.value(name).is_some_and(|value| value > 0.0);
            assert_eq!(is_there, scenario != "tiny-in-memory", "{scenario}: {name}");
        }
    }
}

#[test]
fn a_limit_without_room_fails_as_its_suite_expects() {
    let _cores = beside_others();
    let home = Home::new();
    for record in bench_once("out-of-memory", &home.path("session")) {
        let batch = record.axes["batch"].as_str();
        let is_as_expected = match &record.outcome {
            Outcome::Ok => batch == "1",
            Outcome::Expected(failure) => failure.reason == Reason::HostOutOfMemory,
            Outcome::Failed(_) => false,
        };
        assert!(is_as_expected, "batch {batch}: {:?}", record.outcome);
    }
}

#[test]
fn an_idle_container_is_held_against_what_was_published() {
    let _cores = beside_others();
    let home = Home::new();
    let out = home.path("session");
    let records = bench_once("idle", &out);
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(record.outcome, Outcome::Ok);
    let value = |name| record.value(name);
    for name in ["throughput_samples_per_second", "samples_count"] {
        assert_eq!(value(name).filter(|value| *value != 0.0), None, "{name}");
    }
    let resident = value("run_host_peak_resident_bytes").expect("VmHWM");
    assert!(resident > 50.0 * 1_048_576.0, "{resident}");
    assert!(value("run_container_peak_bytes").is_some());
    assert_eq!(value("context_bytes"), None, "a CPU has none");
    let cpu = value("cpu_seconds").expect("its time");
    assert!(cpu < 2.0, "{cpu}");
    let told = xtask(&["claims", text(&out), "--format", "json"]);
    expect_exit(&told, 0);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(
        told.contains("An idle container takes 1.2 GB of RAM"),
        "{told}"
    );
    let page = fs::read_to_string(out.join("report.md")).expect("the report");
    assert!(
        page.contains("Host memory: ") && !page.contains("samples/s"),
        "{page}"
    );
}

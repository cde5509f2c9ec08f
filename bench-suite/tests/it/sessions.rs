//! Sessions with the mock executor: order, records, failures of every kind, resuming.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
};

use crate::common::{Listener, ending, endings, message, names, spec};
use bench_suite::{
    device::Choice,
    executors::{Executor as _, mock::Mock},
    plan::Plan,
    session::{Session, SessionError, Totals, fresh_name},
};
use protocol::Device;
use record::{Machine, Reason, Record, Sampled, SessionFolder, Stage};
use tokio_util::sync::CancellationToken;

const SUITE: &str = "version: 1\ndescription: d\ndefaults: {blocks: 2, steps: {warmup: 1, measured: 4}}\n\
    scenarios:\n- {name: small, model: vit-tiny, axes: {batch: [2, 4]}}\n\
    - {name: large, model: vit-tiny, axes: {checkpointing: blocks}}\n";

/// Runs a script in a fresh session and gives what was told.
async fn listen(script: &str) -> (tempfile::TempDir, Listener, Totals) {
    let home = tempfile::tempdir().unwrap();
    let mut listener = Listener::default();
    let spec = spec(SUITE, &["local"], Device::Cpu);
    let mut session = Session::create(home.path(), "s-1", spec).unwrap();
    let mock = Mock::new(script).unwrap();
    let totals = session
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    (home, listener, totals)
}

#[tokio::test]
async fn a_session_tells_what_it_does_and_keeps_everything() {
    let (home, listener, totals) = listen("checkpointing=blocks=oom").await;
    insta::assert_snapshot!("a-session", listener.told.join("\n"));
    assert_eq!(
        (totals.planned, totals.ok, totals.failed, totals.remaining),
        (6, 4, 2, 0)
    );
    let folder = SessionFolder::at(home.path());
    assert_eq!(folder.read_records().unwrap().records, listener.records);
    let session = folder.read_session().unwrap();
    assert!(session.complete && session.ended_at.is_some());
    assert_eq!(
        (
            session.session.as_str(),
            session.blocks,
            session.cells.len()
        ),
        ("s-1", 2, 3)
    );
    assert_eq!(session.suites["test"].len(), 64);
    assert_eq!(
        names(home.path()),
        [".lock", "logs", "records.ndjson", "session.json"]
    );
    assert_eq!(names(&home.path().join("logs")).len(), 6);
    for record in &listener.records {
        assert!(home.path().join(record.log.as_ref().unwrap()).exists());
        assert_eq!(record.image, "local");
        assert_eq!(record.session, "s-1");
    }
}

#[tokio::test]
async fn every_kind_of_failure_is_a_record_and_the_session_goes_on() {
    let measure = Stage::Workload(protocol::Phase::Measure);
    let warmup = Stage::Workload(protocol::Phase::Warmup);
    let mut messages = Vec::new();
    for (script, word, stage) in [
        ("oom", "out-of-memory", warmup),
        ("nan", "loss-not-finite", warmup),
        ("libtorch", "libtorch", warmup),
        ("exit:3", "exit-status", measure),
        ("signal:11", "crash", measure),
        ("host-oom", "host-out-of-memory", measure),
        ("time-limit", "time-limit", measure),
        ("hang", "hang", measure),
        ("garbage", "unreadable-results", Stage::Exit),
        ("torn", "unreadable-results", Stage::Exit),
        ("invalid", "invalid", Stage::Validate),
        ("image", "image-broken", Stage::Create),
    ] {
        let (_home, listener, totals) = listen(&format!("large={script}")).await;
        let failed: Vec<_> = listener
            .records
            .iter()
            .filter(|r| !r.outcome.is_ok())
            .collect();
        assert_eq!(failed.len(), 2, "{script}");
        for record in failed {
            assert_eq!(ending(record), word);
            // A product that is rounded another way with other values.
            let told = message(record).replace(" is 5.999999999999999", " is 6");
            messages.push(format!("{script}: {told}"));
            let found = record.outcome.failure().unwrap().stage;
            assert_eq!(found, stage, "{script}");
        }
        assert_eq!(
            (totals.ok, totals.failed, totals.remaining),
            (4, 2, 0),
            "{script}"
        );
    }
    messages.dedup();
    insta::assert_snapshot!(messages.join("\n"), @r"
    oom: the mock failed with OutOfMemory
    nan: the mock failed with LossNotFinite
    libtorch: the mock failed with Libtorch
    exit:3: ended with status 3; its log ends with: mock: nothing ran
    signal:11: ended by SIGSEGV; its log ends with: mock: nothing ran
    host-oom: the container's memory limit of 4 GiB
    time-limit: longer than its limit of 600 s; raise `limits.time`, or take fewer steps
    hang: no event for 0 s; it hangs, or `limits.silence` is too short
    garbage: line 8 of the results file, `Segmentation fault (core dumped)`: expected value at line 1 column 1; its log ends with: mock: nothing ran
    torn: line 8 of the results file is torn: no line end; its log ends with: mock: nothing ran
    invalid: samples_count is 4, but throughput_samples_per_second × measured_seconds is 6
    image: no such image
    ");
}

#[tokio::test]
async fn what_the_engine_failed_is_tried_again_and_stays_open() {
    let (home, listener, totals) = listen("0002=engine").await;
    let attempts: Vec<_> = listener
        .records
        .iter()
        .filter(|record| record.order == 2)
        .map(|record| (record.attempt, ending(record)))
        .collect();
    assert_eq!(attempts, [(1, "engine".into()), (2, "engine".into())]);
    assert_eq!((totals.ok, totals.failed, totals.remaining), (5, 0, 1));
    assert!(
        !SessionFolder::at(home.path())
            .read_session()
            .unwrap()
            .complete
    );
    let mut resumed = Session::resume(home.path(), spec(SUITE, &["local"], Device::Cpu)).unwrap();
    let mut listener = Listener::default();
    let mock = Mock::new("").unwrap();
    let totals = resumed
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    assert!(totals.is_complete());
    assert_eq!(listener.records.len(), 1);
    assert_eq!(
        (listener.records[0].order, listener.records[0].attempt),
        (2, 3)
    );
}

#[tokio::test]
async fn a_lost_gpu_ends_the_session_and_leaves_the_rest_open() {
    let (home, listener, totals) = listen("0002=gpu-lost").await;
    let last = listener.records.last().unwrap();
    assert_eq!((last.order, ending(last).as_str()), (2, "gpu-lost"));
    assert_eq!(message(last), "the GPU fell off the bus");
    assert_eq!((totals.ok, totals.failed, totals.remaining), (2, 0, 4));
    let session = SessionFolder::at(home.path()).read_session().unwrap();
    assert!(!session.complete);
}

#[tokio::test]
async fn an_interrupted_session_is_resumed_where_it_stopped() {
    let (home, listener, totals) = listen("0003=cancel").await;
    assert_eq!((totals.ok, totals.remaining), (3, 3));
    assert_eq!(ending(listener.records.last().unwrap()), "interrupted");
    let folder = SessionFolder::at(home.path());
    assert!(!folder.read_session().unwrap().complete);

    // As after a power loss: the last line is torn, a run's folder was left behind.
    let path = home.path().join(SessionFolder::RECORDS);
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"version\":1,\"run\":\"00").unwrap();
    fs::create_dir_all(home.path().join("work/0003-b1-local-large")).unwrap();

    let mut resumed = Session::resume(home.path(), spec(SUITE, &["local"], Device::Cpu)).unwrap();
    let mut after = Listener::default();
    let mock = Mock::new("").unwrap();
    let totals = resumed
        .run(&mock, &mut after, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!((totals.ok, totals.remaining), (6, 0));
    let orders: Vec<_> = after.records.iter().map(|record| record.order).collect();
    assert_eq!(orders, [3, 4, 5]);
    assert_eq!(after.records[0].attempt, 2);
    let session = folder.read_session().unwrap();
    assert!(session.complete);
    insta::assert_snapshot!(session.notes.join("\n"), @"resumed after the last record was cut off while it was written");
    let records = folder.read_records().unwrap();
    assert_eq!((records.records.len(), records.torn_after), (7, None));
    // Every run of the plan has its record, and each but the interrupted one exactly one.
    assert_eq!(
        endings(&records.records)
            .values()
            .filter(|word| *word == "ok")
            .count(),
        3
    );
}

#[tokio::test]
async fn a_session_of_other_things_is_not_resumed() {
    let (home, ..) = listen("0003=cancel").await;
    let before = fs::read(home.path().join("session.json")).unwrap();
    let mut other = spec(&SUITE.replace("[2, 4]", "[2, 8]"), &["local"], Device::Cpu);
    let machine = other.session.hosts.get_mut("lab").unwrap();
    machine.driver_version = Some("580.1".into());
    machine.kernel = "6.1".into();
    other.session.images[0].id = Some("sha256:ab".into());
    other.session.engine.kind = "docker".into();
    let error = Session::resume(home.path(), other).unwrap_err();
    let SessionError::Different { differences, .. } = &error else {
        panic!("{error}")
    };
    let what: Vec<_> = differences.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "driver",
            "engine",
            "kernel",
            "suite test",
            "image local",
            "plan"
        ]
    );
    let text = error.to_string();
    insta::assert_snapshot!(text.replace(home.path().to_str().unwrap(), "/home"), @r"
    the session in /home cannot be resumed, for its metrics could not be compared:
      driver: was none, is 580.1
      engine: was process, is docker
      kernel: was unknown, is 6.1
      suite test: was 1bc9054ad21d, is 5f6d47bfa779
      image local: was none with libtorch cpu and scenario none, is sha256:ab with libtorch cpu and scenario none
      plan: was local · small · fp32 bs4 (1 + 4 steps, seed 1), is local · small · fp32 bs8 (1 + 4 steps, seed 1)
    begin a new session instead
    ");
    let after = fs::read(home.path().join("session.json")).unwrap();
    assert_eq!(before, after);
}

#[tokio::test]
async fn folders_are_not_mixed_up() {
    let (home, ..) = listen("").await;
    let fresh = || spec(SUITE, &["local"], Device::Cpu);
    let told = |error: &SessionError| {
        let text = error.to_string();
        text.replace(home.path().to_str().unwrap(), "/home")
    };
    let error = Session::create(home.path(), "s-2", fresh()).unwrap_err();
    insta::assert_snapshot!(told(&error), @"/home already holds a session; continue it with `--resume /home`, or give another folder");
    let _held = Session::resume(home.path(), fresh()).unwrap();
    let error = Session::resume(home.path(), fresh()).unwrap_err();
    insta::assert_snapshot!(told(&error), @"another process works on the session in /home; wait for its end");
    let empty = tempfile::tempdir().unwrap();
    let error = Session::resume(empty.path(), fresh()).unwrap_err();
    let told = |error: &SessionError| {
        let text = error.to_string();
        text.replace(empty.path().to_str().unwrap(), "/empty")
    };
    insta::assert_snapshot!(told(&error), @"cannot read /empty/session.json: No such file or directory (os error 2); is this the folder of a session?");
    let error = Session::resume(&empty.path().join("none"), fresh()).unwrap_err();
    insta::assert_snapshot!(told(&error), @"/empty/none: No such file or directory (os error 2); check the folder's permissions and the disk's space");
}

#[tokio::test]
async fn a_full_disk_ends_the_session_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut session =
        Session::create(home.path(), "s", spec(SUITE, &["local"], Device::Cpu)).unwrap();
    // Records cannot be appended to a folder.
    fs::create_dir(home.path().join("records.ndjson")).unwrap();
    let mock = Mock::new("").unwrap();
    let error = session
        .run(&mock, &mut Listener::default(), &CancellationToken::new())
        .await
        .unwrap_err();
    let error = error.to_string();
    insta::assert_snapshot!(error.replace(home.path().to_str().unwrap(), "/home"), @"cannot write /home/records.ndjson: Is a directory (os error 21); check the folder's permissions and the disk's space");
    drop(session);
    fs::remove_dir(home.path().join("records.ndjson")).unwrap();
    let mut session = Session::resume(home.path(), spec(SUITE, &["local"], Device::Cpu)).unwrap();
    let totals = session
        .run(&mock, &mut Listener::default(), &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!((totals.ok, totals.remaining), (6, 0));
}

#[tokio::test]
async fn a_gpu_run_that_tells_of_no_gpu_is_invalid() {
    let home = tempfile::tempdir().unwrap();
    let suite = "version: 1\ndescription: d\nscenarios: [{name: a, model: vit-tiny}]";
    let mut session =
        Session::create(home.path(), "s", spec(suite, &["local"], Device::Cuda(0))).unwrap();
    let mut listener = Listener::default();
    let mock = Mock::new("").unwrap();
    session
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    let record = &listener.records[0];
    assert_eq!(ending(record), Reason::Invalid.word());
    insta::assert_snapshot!(message(record), @"it was to run on cuda:0, but reports no GPU: it worked on the CPU; does its PyTorch have CUDA?");
}

#[tokio::test]
async fn an_image_of_another_libtorch_than_it_says_yields_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut spec = spec(SUITE, &["right", "wrong"], Device::Cpu);
    spec.session.images[1].libtorch_version = "2.10.0".into();
    let mut session = Session::create(home.path(), "s", spec).unwrap();
    let mut listener = Listener::default();
    let mock = Mock::new("").unwrap();
    session
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    let mut messages = Vec::new();
    for record in &listener.records {
        if record.image == "right" {
            assert!(record.outcome.is_ok(), "{:?}", record.outcome);
            continue;
        }
        assert_eq!(ending(record), Reason::ImageBroken.word());
        messages.push(message(record));
    }
    messages.dedup();
    insta::assert_snapshot!(messages.join("\n"), @"the image wrong is declared to hold libtorch 2.10.0, and its workload is of libtorch 2.11.0; build the image anew, or take the one that was meant");
}

#[test]
fn names_of_sessions_are_fit_for_files() {
    let name = fresh_name();
    assert_eq!(name.len(), 24);
    assert!(
        name.bytes()
            .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-')
    );
    assert_ne!(name, fresh_name());
}

/// Eight GPUs on two hosts.
const CLUSTER: &str = "hosts=2,gpus=4";

/// The plan of a suite on these GPUs of every host of an executor.
fn spec_on(mock: &Mock, suite: &str, device: &str) -> Plan {
    let mut spec = spec(suite, &["local"], Device::Cuda(0));
    let hosts = mock.hosts().iter();
    let hosts: BTreeMap<String, Machine> = hosts
        .map(|host| (host.name().to_owned(), host.facts()))
        .collect();
    let choice: Choice = device.parse().unwrap();
    let by_name = hosts.iter().map(|(name, machine)| (name.as_str(), machine));
    let places = choice.places(by_name, None, 1).unwrap();
    spec = spec.spread(&places).unwrap();
    spec.session.hosts = hosts;
    spec
}

async fn run_on(script: &str, suite: &str, device: &str) -> (tempfile::TempDir, Vec<Record>) {
    let home = tempfile::tempdir().unwrap();
    let mock = Mock::new(script).unwrap();
    let spec = spec_on(&mock, suite, device);
    let mut session = Session::create(home.path(), "s-1", spec).unwrap();
    let cancel = CancellationToken::new();
    session
        .run(&mock, &mut Listener::default(), &cancel)
        .await
        .unwrap();
    let records = session.folder().read_records().unwrap().records;
    (home, records)
}

#[tokio::test]
async fn runs_spread_over_the_gpus_of_several_hosts() {
    let suite = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 1, measured: 4}}\n\
        scenarios:\n- {name: one, model: vit-tiny}\n- {name: two, model: vit-tiny}\n\
        - {name: three, model: vit-tiny}\n";
    let (home, records) = run_on(CLUSTER, suite, "cuda:1").await;
    let session = SessionFolder::at(home.path()).read_session().unwrap();
    assert_eq!(session.machine_names(), "mock-1, mock-2");
    let hosts: Vec<_> = records.iter().map(|record| record.host.as_str()).collect();
    assert_eq!(records.len(), 3);
    for (host, runs) in [("mock-1", 2), ("mock-2", 1)] {
        let here = hosts.iter().filter(|one| **one == host);
        assert_eq!(here.count(), runs, "{hosts:?}");
    }
    for record in &records {
        assert!(record.outcome.is_ok(), "{:?}", record.outcome);
        assert_eq!((record.device, record.ranks.len()), (Device::Cuda(1), 0));
        let uuid = format!("GPU-{}-1", record.host);
        assert_eq!(record.gpu_uuid(session.machine_of(record)), Some(uuid));
    }
}

#[tokio::test]
async fn a_run_of_several_ranks_has_a_gpu_for_each() {
    let suite = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 1, measured: 4}}\n\
        scenarios:\n- {name: wide, model: vit-tiny, ranks: 8}\n\
        - {name: pair, model: vit-tiny, ranks: 2}\n";
    let (_home, records) = run_on(CLUSTER, suite, "cuda:0,1,2,3").await;
    let of = |scenario: &str| records.iter().find(|one| one.scenario == scenario).unwrap();
    let wide = of("wide");
    assert!(wide.outcome.is_ok(), "{:?}", wide.outcome);
    assert_eq!(wide.ranks.len(), 8);
    for (rank, number) in wide.ranks.iter().zip(0..) {
        let host = if number < 4 { "mock-1" } else { "mock-2" };
        assert_eq!((rank.rank, rank.place.host.as_str()), (number, host));
        assert_eq!(rank.place.device, Device::Cuda(number % 4));
        let uuid = format!("GPU-{host}-{}", number % 4);
        let cuda = rank.started.as_ref().and_then(|told| told.cuda.as_ref());
        assert_eq!(cuda.map(|cuda| &cuda.uuid), Some(&uuid));
        // The mock's GPUs draw their number in watts.
        let drawn = rank.values["run_gpu_mean_power_watts"];
        assert!((drawn - f64::from(number % 4)).abs() < 1e-9, "{drawn}");
    }
    let together = wide.values["run_gpu_mean_power_watts"];
    assert!((together - 12.0).abs() < 1e-9, "{together}");
    assert_eq!(wide.host, "mock-1");
    assert_eq!(wide.method.get("ranks"), Some("8"));
    let drawn = wide.monitor.gpus.iter();
    let drawn: Vec<f64> = drawn
        .map(|gpu| gpu.series[&Sampled::GpuPowerWatts].mean)
        .collect();
    assert_eq!(drawn, [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
    let pair = of("pair");
    let hosts = pair.ranks.iter().map(|rank| rank.place.host.as_str());
    let hosts: BTreeSet<&str> = hosts.collect();
    assert_eq!((pair.ranks.len(), hosts.len()), (2, 1), "{hosts:?}");
}

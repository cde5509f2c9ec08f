//! Faults that are really caused: an engine that is stopped or killed under a run, a disk and a
//! `/dev/shm` that are full.

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

use bench_suite::{
    executors::{Executor as _, container::Container, mock::Mock, process::Process},
    host,
    session::{Session, SessionError, fresh_name},
};
use protocol::Device;
use record::Record;
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use crate::{
    common::{Listener, ending, message, spec},
    containers,
    daemon::Daemon,
    image,
    processes::{END, GOOD, program},
};

const ONE_RUN: &str = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 0, measured: 1}}\n\
    scenarios: [{name: a, model: vit-tiny, task: inference}]\n";

/// Ends the engine under a run and starts it again; gives the records of all attempts.
async fn engine_ends(signal: Signal) {
    let mut daemon = Daemon::new();
    let engine = daemon.connect().await;
    image::load(&engine).await;
    let home = tempfile::tempdir().unwrap();
    let mut spec = spec(ONE_RUN, &["tiny"], Device::Cpu);
    spec.session.policy.engine_retries = Some(2);
    let name = fresh_name();
    let mut session = Session::create(&home.path().join("s"), &name, spec).unwrap();
    let executor = Container::new(
        host::local::open(),
        engine.clone(),
        BTreeMap::from([("tiny".to_owned(), image::with_mode("slow"))]),
        [],
    );
    let mut listener = Listener::default();
    let cancel = CancellationToken::new();
    let label = format!("{}={name}", engine::LABEL_SESSION);
    let (totals, ()) = tokio::join!(session.run(&executor, &mut listener, &cancel), async {
        // The run is under way when its container runs.
        loop {
            let there = engine.list_containers(&label).await.unwrap();
            if there.iter().any(|container| container.is_running) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        daemon.end(signal);
        daemon.start();
    });
    let totals = totals.unwrap();
    let told: Vec<_> = listener
        .records
        .iter()
        .map(|record| format!("{} {} {}", record.attempt, ending(record), message(record)))
        .collect();
    let [first, .., last] = told.as_slice() else {
        let log = daemon.log();
        panic!("one attempt alone: {told:?}\n{log}")
    };
    assert!(first.starts_with("1 engine "), "{told:?}");
    assert!(last.ends_with(" ok "), "{told:?}");
    assert!(totals.is_complete() && totals.ok == 1, "{totals:?}");

    let engine = daemon.connect().await;
    executor.clean_up().await;
    let left = engine.list_containers(&label).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    drop(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_stopped_under_a_run_is_waited_for() {
    engine_ends(Signal::TERM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_killed_under_a_run_is_waited_for() {
    engine_ends(Signal::KILL).await;
}

/// A memory file system, unmounted when the test ends.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// # Panics
    /// Where this user may not mount: the tests of faults run as root, as CI does.
    fn new(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tmpfs = Self(folder);
        tmpfs.mount(&format!("size={size}"));
        tmpfs
    }

    fn mount(&self, options: &str) {
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(self.0.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "mounting a tmpfs needs root: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_ends_the_session_and_loses_no_record() {
    let disk = Tmpfs::new("64k");
    let suite = ONE_RUN.replace("blocks: 1", "blocks: 60");
    let fresh = || spec(&suite, &["local"], Device::Cpu);
    let folder = disk.0.path().join("s");
    let mut session = Session::create(&folder, "s", fresh()).unwrap();
    let mock = Mock::new("").unwrap();
    let mut listener = Listener::default();
    let error = session
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap_err();
    // Whichever write met it first: the run's own files, or the session's.
    assert!(
        matches!(
            &error,
            SessionError::DiskFull { .. } | SessionError::Folder(_) | SessionError::Io { .. }
        ),
        "{error}"
    );
    assert!(
        error.to_string().to_lowercase().contains("no space left"),
        "{error}"
    );
    drop(session);
    let kept = listener.records.len();
    let good = listener.records.iter().filter(|run| run.outcome.is_ok());
    let good = good.count();
    assert!(good > 0 && good < 60, "{good}");

    disk.mount("remount,size=8m");
    let mut session = Session::resume(&folder, fresh()).unwrap();
    assert_eq!(session.totals().ok, good);
    let totals = session
        .run(&mock, &mut Listener::default(), &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!((totals.ok, totals.remaining), (60, 0));
    let records = session.folder().read_records().unwrap().records;
    let good = records.iter().filter(|run| run.outcome.is_ok());
    assert_eq!(good.count(), 60, "nothing ran twice");
    let names = |records: &[Record]| -> Vec<_> {
        let name = |record: &Record| (record.run.clone(), record.attempt, record.started_at);
        records.iter().map(name).collect()
    };
    assert_eq!(names(&records[..kept]), names(&listener.records));
}

#[tokio::test]
async fn a_run_that_finds_the_disk_full_is_run_again() {
    let disk = Tmpfs::new("256k");
    let home = tempfile::tempdir().unwrap();
    // The results of a long run, and its own write that fails.
    let script = format!(
        "{GOOD}i=0; while [ $i -lt 4000 ]; do i=$((i+1)); \
         say '{{\"event\":\"heartbeat\",\"phase\":\"measure\",\"step\":1,\"padding\":\"{}\"}}' || exit 9; done\n{END}",
        "x".repeat(100)
    );
    let runtimes = BTreeMap::from([("local".to_owned(), program(home.path(), &script))]);
    let executor = Process::new(host::local::open(), runtimes);
    let fresh = || spec(ONE_RUN, &["local"], Device::Cpu);
    let folder = disk.0.path().join("s");
    let mut session = Session::create(&folder, "s", fresh()).unwrap();
    let mut listener = Listener::default();
    let cancel = CancellationToken::new();
    let error = session
        .run(&executor, &mut listener, &cancel)
        .await
        .unwrap_err();
    assert!(matches!(&error, SessionError::DiskFull { .. }), "{error}");
    let error = error.to_string();
    // Whichever write met it first.
    let (start, rest) = error.split_once('(').unwrap();
    let (_, end) = rest.split_once(')').unwrap();
    let error = format!("{start}(…){end}");
    insta::assert_snapshot!(error.replace(disk.0.path().to_str().unwrap(), "/disk"), @"the disk is full: no space left in the session's folder (…); make room, then continue the session with `--resume /disk/s`");
    assert_eq!(
        ending(&listener.records[0]),
        "disk-full",
        "{}",
        message(&listener.records[0])
    );
    drop(session);

    disk.mount("remount,size=16m");
    let mut session = Session::resume(&folder, fresh()).unwrap();
    let cancel = CancellationToken::new();
    let totals = session
        .run(&executor, &mut listener, &cancel)
        .await
        .unwrap();
    assert_eq!(
        (totals.ok, totals.remaining),
        (1, 0),
        "{}",
        message(&listener.records[1])
    );
    assert_eq!(listener.records[1].attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_dev_shm_is_named() {
    // The engine's 64 MiB, and 128 MiB to put there.
    containers::check("shm", "{}", "exit-status", "No space left on device").await;
    containers::check(
        "mapped-shm",
        "{}",
        "crash",
        "SIGBUS; a mapped file had no room, most likely in /dev/shm",
    )
    .await;
    let record = containers::check("mapped-shm", "{shm: 256MiB}", "ok", "").await;
    let told = [record.warnings, record.notes].concat();
    assert!(told.is_empty(), "{told:?}");
    // The host's own is larger, or the test's machine could not run much.
    containers::check("shm", "{ipc: host}", "ok", "").await;
    let _ = fs::remove_file("/dev/shm/batch");
}

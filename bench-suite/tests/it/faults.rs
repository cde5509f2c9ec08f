//! Faults that are really caused: an engine that is stopped or killed under a run, a disk and a
//! `/dev/shm` that are full.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use bench_suite::{
    execute::{Container, Mock},
    session::{Session, SessionError, Silent, fresh_name},
};
use engine::{Endpoint, Engine};
use protocol::Device;
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::{
    common::{Listener, ending, message, spec},
    containers,
};

const ONE_RUN: &str = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 0, measured: 1}}\n\
    scenarios: [{name: a, model: vit-tiny, task: inference}]\n";

/// An engine of this test's own, with its own folder and socket.
struct Daemon {
    home: tempfile::TempDir,
    child: Option<Child>,
}

impl Daemon {
    fn new() -> Self {
        let mut daemon = Self {
            home: tempfile::tempdir().unwrap(),
            child: None,
        };
        daemon.start();
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("docker.sock")
    }

    /// # Panics
    /// Where Docker's daemon is not installed: `apt-get install docker.io` brings it.
    fn start(&mut self) {
        let program = [
            "/usr/sbin/dockerd",
            "/usr/bin/dockerd",
            "/usr/local/bin/dockerd",
        ]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("dockerd is installed (apt-get install docker.io)");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        // Not the machine's own configuration.
        fs::write(self.path("daemon.json"), "{}").unwrap();
        let mut command = Command::new(program);
        command
            .arg("--config-file")
            .arg(self.path("daemon.json"))
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--pidfile")
            .arg(self.path("pid"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .args(["--storage-driver", "vfs", "--bridge", "none"])
            .args([
                "--iptables=false",
                "--ip6tables=false",
                "--shutdown-timeout",
                "2",
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        self.child = Some(command.spawn().unwrap());
    }

    async fn connect(&self) -> Engine {
        let began = Instant::now();
        loop {
            match Engine::connect(&Endpoint::Socket(self.socket())).await {
                Ok(engine) => return engine,
                Err(error) => assert!(
                    began.elapsed() < Duration::from_mins(1),
                    "{error}\n{}",
                    fs::read_to_string(self.path("log")).unwrap_or_default()
                ),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.unwrap(), signal);
        let _ = child.wait();
        let _ = fs::remove_file(self.path("pid"));
        // What the daemon started dies with it, and may stay a zombie that the next one takes for
        // alive.
        let _ = fs::remove_file(self.path("exec/containerd/containerd.pid"));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(Signal::TERM);
        // A daemon that was killed leaves its containerd behind, which names its folder.
        let home = self.home.path().display().to_string();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok());
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if let Some(pid) = pid.and_then(Pid::from_raw)
                && String::from_utf8_lossy(&line).contains(&home)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for _ in 0..50 {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            let mut left: Vec<&str> = mounts
                .lines()
                .filter_map(|line| line.split(' ').nth(1))
                .filter(|path| path.starts_with(&home))
                .collect();
            left.reverse();
            if left.is_empty() {
                break;
            }
            for path in left {
                let _ = Command::new("umount").args(["--lazy", path]).output();
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Ends the engine under a run and starts it again; gives the records of all tries.
async fn engine_ends(signal: Signal) {
    let mut daemon = Daemon::new();
    let engine = daemon.connect().await;
    containers::load(&engine).await;
    let home = tempfile::tempdir().unwrap();
    let mut spec = spec(ONE_RUN, &["tiny"], Device::Cpu);
    spec.engine_retries = 2;
    let name = fresh_name();
    let mut session = Session::create(&home.path().join("s"), &name, spec).unwrap();
    let executor = Container::new(
        engine.clone(),
        BTreeMap::from([("tiny".to_owned(), containers::image("slow"))]),
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
        let log = fs::read_to_string(daemon.path("log")).unwrap_or_default();
        panic!("one try alone: {told:?}\n{log}")
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
    assert!(
        matches!(&error, SessionError::Folder(_) | SessionError::Io { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(error.to_string().contains("the disk's space"), "{error}");
    drop(session);
    let kept = listener.records.len();
    let good = listener.records.iter().filter(|run| run.outcome.is_ok());
    let good = good.count();
    assert!(good > 0 && good < 60, "{good}");

    disk.mount("remount,size=8m");
    let mut session = Session::resume(&folder, fresh()).unwrap();
    assert_eq!(session.totals().ok, good);
    let totals = session
        .run(&mock, &mut Silent, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!((totals.ok, totals.remaining), (60, 0));
    let records = session.folder().read_records().unwrap().records;
    let good = records.iter().filter(|run| run.outcome.is_ok());
    assert_eq!(good.count(), 60, "nothing ran twice");
    assert_eq!(records[..kept], listener.records);
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
    assert!(record.notes.is_empty(), "{:?}", record.notes);
    // The host's own is larger, or the test's machine could not run much.
    containers::check("shm", "{ipc: host}", "ok", "").await;
    let _ = fs::remove_file("/dev/shm/batch");
}

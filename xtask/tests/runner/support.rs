//! A home for a session, the command at work in it, and GPUs that do as they are told.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use record::{Record, Session, SessionFolder};
use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes longer on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        fs::create_dir(home.path("locks")).expect("a folder for locks");
        home.gpus("gpus 2\n");
        home.suite("wait: 1s, repeats: 2", &["one"]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the GPUs are to tell from now on. Their UUIDs are this home's own.
    pub(crate) fn gpus(&self, state: &str) {
        let uuid = self.folder.path().display().to_string().replace('/', "");
        let fresh = self.path("GPUs.new");
        fs::write(&fresh, format!("uuid {uuid}\n{state}")).expect("the GPUs' state is written");
        // Readers see the one or the other, never half of it.
        fs::rename(fresh, self.path("gpus")).expect("the GPUs' state is written");
    }

    /// One cell in each scenario, run twice.
    pub(crate) fn suite(&self, validity: &str, scenarios: &[&str]) {
        let scenarios: Vec<String> = scenarios
            .iter()
            .map(|name| format!("- {{name: {name}, model: vit-tiny, axes: {{batch: 2}}}}"))
            .collect();
        let scenarios = scenarios.join("\n");
        let text = format!(
            "version: 1\ndescription: d\ndefaults: {{blocks: 2, steps: {{warmup: 1, measured: 4}}, \
             validity: {{{validity}}}}}\nscenarios:\n{scenarios}\n"
        );
        fs::write(self.path("suite.yaml"), text).expect("the suite is written");
    }

    /// A session in the folder `name`, by the mock engine as `script` says.
    pub(crate) fn bench(&self, name: &str, script: &str, words: &[&str]) -> Running {
        // Under nohup the tests would pass on that a lost connection is ignored.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_torchgauge")])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .arg("bench")
            .arg("--suite")
            .arg(self.path("suite.yaml"))
            .arg(format!("--engine=mock:{script}"));
        if words.contains(&"--resume") {
            command.arg("--resume").arg(self.path(name));
        } else {
            command.arg("--out").arg(self.path(name));
        }
        command.args(words.iter().filter(|word| **word != "--resume"));
        self.start(name, command)
    }

    /// A line as a user types it, in another folder than the session was begun in. `cargo` is there
    /// the command under test.
    pub(crate) fn shell(&self, name: &str, line: &str) -> Running {
        let bin = self.path("bin");
        fs::create_dir_all(&bin).expect("a folder for programs");
        let cargo = bin.join("cargo");
        let script = format!(
            "#!/bin/sh\nshift\nexec {} \"$@\"\n",
            env!("CARGO_BIN_EXE_torchgauge")
        );
        fs::write(&cargo, script).expect("a program");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a program");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .current_dir(&bin)
            .env("PATH", format!("{}:{path}", bin.display()))
            .args(["-c", line]);
        self.start(name, command)
    }

    fn start(&self, name: &str, mut command: Command) -> Running {
        let count = fs::read_dir(self.folder.path()).map_or(0, Iterator::count);
        let path = self.path(&format!("said-{count}"));
        let said = fs::File::create(&path).expect("a file");
        command
            .env("TORCHGAUGE_LOCKS", self.path("locks"))
            .env("TORCHGAUGE_SHARE_CPU", "1")
            .env("TORCHGAUGE_NVML", fake_nvml())
            .env("FAKE_NVML_STATE", self.path("gpus"))
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a file"))
            .stderr(said.try_clone().expect("a file"));
        Running {
            child: Some(command.spawn().expect("torchgauge starts")),
            folder: self.path(name),
            said: path,
        }
    }

    pub(crate) fn read(&self, name: &str) -> (Session, Vec<Record>) {
        read(&self.path(name))
    }

    /// What a run of this session printed.
    pub(crate) fn said(&self, name: &str, record: &Record) -> String {
        let log = record.log.as_ref().expect("a log");
        fs::read_to_string(self.path(name).join(log)).expect("a log")
    }

    /// Gated metrics of a session's one comparison, and what is judged of each.
    pub(crate) fn verdicts(&self, name: &str) -> BTreeMap<String, String> {
        let report = fs::read(self.path(name).join("report.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_slice(&report).expect("a report");
        let metrics = &report["sessions"][0]["comparisons"][0]["cells"][0]["metrics"];
        let gated = metrics.as_array().expect("metrics").iter();
        let gated = gated.filter(|row| row["gated"] == true);
        let word = |value: &serde_json::Value| value.as_str().expect("a word").to_owned();
        let found = gated.map(|row| (word(&row["metric"]), word(&row["comparison"]["verdict"])));
        found.collect()
    }

    /// Checks that a session of two images has the verdicts that it has in Docker's containers. A
    /// step takes twice as long in the second image, and the first step of either as long as a
    /// hundred others: what a busy machine adds to a start decides neither metric.
    pub(crate) fn has_verdicts_of_containers(&self, name: &str, words: &str, command: &str) {
        let line = format!(
            "exec cargo xtask bench --device cpu --engine docker --out {} {words} -- {command}",
            self.path("containers").display()
        );
        self.shell("containers", &line).ends_with(0);
        let verdicts = self.verdicts(name);
        assert_eq!(verdicts, self.verdicts("containers"));
        for metric in [
            "throughput_samples_per_second",
            "time_to_first_step_seconds",
        ] {
            assert_eq!(verdicts[metric], "regressed", "{verdicts:?}");
        }
    }

    /// Files in the folder of locks.
    pub(crate) fn locks(&self) -> usize {
        fs::read_dir(self.path("locks"))
            .expect("the folder of locks")
            .count()
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(90), "waited in vain");
        thread::sleep(Duration::from_millis(50));
    }
}

fn read(folder: &Path) -> (Session, Vec<Record>) {
    let folder = SessionFolder::at(folder);
    (
        folder.read_session().expect("a session"),
        folder.read_records().expect("records").records,
    )
}

/// The command at work. Killed where a test ends without waiting for it.
pub(crate) struct Running {
    child: Option<Child>,
    folder: PathBuf,
    said: PathBuf,
}

impl Running {
    /// Waits until a run is under way: its folder is there.
    pub(crate) fn until_it_runs(&self) {
        Self::until("a run began", || {
            fs::read_dir(self.folder.join("work")).is_ok_and(|mut entries| entries.next().is_some())
        });
    }

    /// Waits until so many records are written.
    pub(crate) fn until_records(&self, count: usize) {
        Self::until("there are records", || {
            fs::read_to_string(self.folder.join(SessionFolder::RECORDS))
                .is_ok_and(|text| text.lines().count() >= count)
        });
    }

    #[track_caller]
    fn until(what: &str, mut is: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is() {
            assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().map_or(0, Child::id);
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("the signal is sent");
    }

    /// Waits until it says this; gives everything that it said so far.
    #[track_caller]
    pub(crate) fn until_it_says(&self, words: &str) -> String {
        Self::until(words, || self.said().contains(words));
        self.said()
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Waits for the end; gives everything that was said.
    #[track_caller]
    pub(crate) fn ends_with(mut self, code: i32) -> String {
        let mut child = self.child.take().expect("ended once");
        let status = child.wait().expect("torchgauge ends");
        let text = self.said();
        assert_eq!(status.code().unwrap_or(-1), code, "{text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Run, try and outcome of each record, in the order in which they were written.
pub(crate) fn outcomes(records: &[Record]) -> Vec<(u32, u32, String)> {
    records
        .iter()
        .map(|record| (record.order, record.attempt, record.outcome.word()))
        .collect()
}

pub(crate) fn message(record: &Record) -> &str {
    record.outcome.message()
}

/// The library that stands in for NVML, compiled once a test process.
fn fake_nvml() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench-suite/tests/nvml/fake.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("libnvidia-ml-{}.so", std::process::id()));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .expect("the C compiler runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        library
    })
}

/// The command to its end: exit code, and everything that was said.
pub(crate) fn xtask(words: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .output()
        .expect("torchgauge runs");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    (output.status.code().unwrap_or(-1), text)
}

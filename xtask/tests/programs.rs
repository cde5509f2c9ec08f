//! `bench -- COMMAND`: programs of users in images of users, through the engine that answers. The
//! images hold this machine's Python and a torch that is none.

#[path = "common/python.rs"]
mod python_image;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    sync::OnceLock,
};

use python_image::{make_image, python, run};
use record::{Outcome, Record, Session, SessionFolder};

const OLD: &str = "torchgauge-test/train:old";
const NEW: &str = "torchgauge-test/train:new";

/// Two images: in the new one a step takes twice as long.
fn images() {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        make_image(OLD, "2.98.0+fake", &["ENV STEP=0.02"]);
        make_image(NEW, "2.99.0+fake", &["ENV STEP=0.04"]);
    });
}

struct Bench {
    home: tempfile::TempDir,
    output: Output,
}

impl Bench {
    fn told(&self) -> String {
        let bytes = [&self.output.stdout[..], &self.output.stderr[..]].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[track_caller]
    fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.output.status.code(), Some(code), "{}", self.told());
        self
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("session")
    }

    fn read(&self) -> (Session, Vec<Record>) {
        let folder = SessionFolder::at(self.folder());
        let records = folder.read_records().expect("records").records;
        (folder.read_session().expect("a session"), records)
    }
}

/// Runs `bench` on the CPU with a script in a file of this name.
fn bench(script: &str, words: &[&str], command: &[&str]) -> Bench {
    images();
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("train.py"), script).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["bench", "--device", "cpu", "--engine", "container"])
        .args(["--out", "session", "--mount", "train.py:/work/train.py"])
        .args(words)
        .arg("--")
        .args(command.iter().map(|&word| match word {
            "python" => python().0,
            word => word.to_owned(),
        }))
        .current_dir(home.path())
        .env("TORCHGAUGE_SHARE_CPU", "1")
        .output()
        .expect("the program runs");
    Bench { home, output }
}

/// Where the script is mounted.
const TRAIN: &[&str] = &["python", "/work/train.py"];

/// Written as users write it: it knows nothing of Torchgauge.
const LOOP: &str = "
import os, sys, time
import torch
optimizer = torch.optim.SGD([torch.Parameter()])
for _ in range(100000):
    time.sleep(float(os.environ['STEP']))
    optimizer.step()
";

#[test]
fn a_script_is_compared_in_two_images() {
    let words = ["--image", OLD, "--image", NEW, "--samples-per-step", "8"];
    let more = ["--steps", "10", "--blocks", "4"];
    let done = bench(LOOP, &[&words[..], &more].concat(), TRAIN).ends_with(0);
    let told = done.told();
    assert!(told.contains("regressed"), "{told}");
    let (session, records) = done.read();
    assert_eq!(records.len(), 8);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
        assert_eq!(record.value("steps_count"), Some(10.0));
        assert_eq!(record.value("samples_count"), Some(80.0));
        let notes = record.notes.join("\n");
        assert!(notes.contains("ended by SIGTERM"), "{notes}");
        assert!(record.workload.to_string().ends_with("/work/train.py"));
        assert_eq!(record.method.get("program.hook"), Some("true"));
    }
    let rate = |image: &str| -> f64 {
        let of = records.iter().filter(|record| record.image == image);
        let rates: Vec<f64> = of
            .map(|record| record.value("throughput_samples_per_second").unwrap())
            .collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let ratio = rate(NEW) / rate(OLD);
    assert!((0.4..0.65).contains(&ratio), "{ratio}");
    let versions = |name: &str| {
        let image = session.images.iter().find(|image| image.name == name);
        let image = image.expect("the image");
        assert!(
            image
                .id
                .as_ref()
                .is_some_and(|id| id.starts_with("sha256:"))
        );
        image.parts.as_ref().unwrap().versions["torch"].clone()
    };
    assert_eq!(
        (versions(OLD).as_str(), versions(NEW).as_str()),
        ("2.98.0+fake", "2.99.0+fake")
    );
    let notes = session.notes.join("\n");
    for expect in ["USER 1000:1000, WORKDIR /opt", "VOLUME /data", "entry.py"] {
        assert!(notes.contains(expect), "{notes}");
    }
    let own = format!("label=org.torchgauge.session={}", session.session);
    let left = run("docker", &["ps", "-aq", "--filter", &own]);
    assert!(left.stdout.is_empty(), "a container was left");
}

/// Each work is two operators, of which the new image runs two a step.
#[test]
fn a_comparison_names_the_kernels_that_changed() {
    const WORKS: &str = "
import time
import torch
optimizer = torch.optim.SGD([torch.Parameter()])
works = 2 if torch.__version__.startswith('2.99') else 1
for _ in range(100000):
    for _ in range(works):
        torch.work()
    time.sleep(0.01)
    optimizer.step()
";
    let words = [
        "--image", OLD, "--image", NEW, "--steps", "5", "--blocks", "2",
    ];
    let more = ["--profiled-steps", "3"];
    let done = bench(WORKS, &[&words[..], &more].concat(), TRAIN).ends_with(0);
    let (_, records) = done.read();
    assert_eq!(records.len(), 4, "{}", done.told());
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
        assert_eq!(record.value("steps_count"), Some(5.0));
        let expected = if record.image == NEW { 2.0 } else { 1.0 };
        let found = record.kernels.iter();
        let found: Vec<_> = found.map(|one| (one.name.as_str(), one.count)).collect();
        assert_eq!(found, [("aten::mm", expected), ("aten::linear", expected)]);
    }
    let report = fs::read_to_string(done.folder().join("report.md")).unwrap();
    let row = report.lines().find(|line| line.contains("aten::mm"));
    let row = row.unwrap_or_else(|| panic!("{report}"));
    for word in ["slower", "+88.89 %", "8.00 ms", "16.0 ms"] {
        assert!(row.contains(word), "{word}: {row}");
    }
}

#[test]
fn without_samples_steps_are_compared_and_what_a_program_reports_with_a_direction() {
    let script = LOOP.replace(
        "optimizer =",
        "import torchgauge
torchgauge.metric('quality', 1 / float(os.environ['STEP']), unit='plain', better='more')
torchgauge.metric('depth', 3, unit='count')
optimizer =",
    );
    let words = ["--image", OLD, "--image", NEW, "--steps", "10"];
    let done = bench(&script, &[&words[..], &["--blocks", "4"]].concat(), TRAIN).ends_with(0);
    let (session, records) = done.read();
    let declared: Vec<&str> = session.metrics.iter().map(|one| &*one.name).collect();
    assert_eq!(declared, ["quality"]);
    for record in &records {
        let (rate, seconds) = (
            record.value("throughput_steps_per_second").unwrap(),
            record.value("measured_seconds").unwrap(),
        );
        assert!((rate * seconds - 10.0).abs() < 1e-6, "{rate} × {seconds}");
        assert_eq!(record.value("depth"), Some(3.0));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["compare", "--format", "json"])
        .args([OLD, NEW].map(|image| format!("session:{image}")))
        .current_dir(done.home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "the gate is about the steps");
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let metrics = all["cells"][0]["metrics"].as_array().unwrap();
    let verdict = |name: &str| {
        let found = metrics.iter().find(|metric| metric["metric"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name}: {metrics:?}"));
        (
            found["comparison"]["verdict"].clone(),
            found["gated"].clone(),
        )
    };
    assert_eq!(
        verdict("throughput_steps_per_second"),
        ("regressed".into(), true.into())
    );
    assert_eq!(verdict("quality"), ("regressed".into(), false.into()));
}

#[test]
fn the_image_that_slowed_a_program_down_is_found() {
    images();
    let between = "torchgauge-test/train:between";
    run("docker", &["tag", OLD, between]);
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("train.py"), LOOP).unwrap();
    let search = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
            .arg("bisect")
            .args(words)
            .current_dir(home.path())
            .env("TORCHGAUGE_SHARE_CPU", "1")
            .output()
            .unwrap();
        let told = [&output.stdout[..], &output.stderr[..]].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        (output.status.code(), told)
    };
    let python = python().0;
    let ends = ["--good", OLD, "--bad", NEW, "--image", between];
    let more = [
        "--device",
        "cpu",
        "--engine",
        "container",
        "--out",
        "search",
    ];
    let metric = ["--metric", "throughput_steps_per_second"];
    let program = ["--steps", "10", "--mount", "train.py:/work/train.py", "--"];
    let command = [python.as_str(), "/work/train.py"];
    let words = [&ends[..], &more, &metric, &program, &command].concat();
    let (code, told) = search(&words);
    assert_eq!(code, Some(0), "{told}");
    let answer = format!("{NEW} is the first beyond half of it; {between} is not.");
    assert!(told.contains(&answer), "{told}");
    // It is taken up by its folder alone.
    let (code, told) = search(&["--resume", "search"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains(&answer), "{told}");
}

#[test]
fn a_program_has_what_was_asked_for_and_no_more() {
    const LOOK: &str = "
import json, os, socket, sys, urllib.request
print(json.dumps({
    'words': sys.argv[1:],
    'folder': os.getcwd(),
    'user': os.getuid(),
    'secret': os.environ['SECRET'],
    'plain': os.environ['PLAIN'],
    'network': os.listdir('/sys/class/net'),
    'data': os.listdir('/data'),
    'address': socket.gethostbyname(socket.gethostname()),
    'can_write': [path for path in ('/opt', '/work', '/tmp', '/scratch') if os.access(path, os.W_OK)],
}))
open('/scratch/train.py', 'w').write('changed')
";
    let home = tempfile::tempdir().unwrap();
    let secrets = home.path().join("secrets");
    fs::write(&secrets, "# of the team\nSECRET=hunter2=x\n").unwrap();
    let secrets = secrets.to_str().unwrap();
    let words = [
        "--image",
        OLD,
        "--blocks",
        "1",
        "--env-file",
        secrets,
        "--env",
        "PLAIN={size}",
    ];
    let more = [
        "--mount",
        ".:/scratch:rw",
        "--parameter",
        "size=1,2",
        "--workdir",
        "/work",
    ];
    let command = ["python", "train.py", "--size", "{size}"];
    let done = bench(LOOK, &[&words[..], &more].concat(), &command).ends_with(0);
    let (session, records) = done.read();
    let names: Vec<String> = session
        .cells
        .iter()
        .map(|cell| cell.axes.to_string())
        .collect();
    assert_eq!(names, ["size=1", "size=2"]);
    for record in &records {
        let log = fs::read_to_string(done.folder().join(record.log.as_ref().unwrap())).unwrap();
        let size = &record.axes["size"];
        assert!(log.starts_with("entered\n"), "{log}");
        for expect in [
            format!(r#""words": ["--size", "{size}"], "folder": "/work", "user": 1000"#),
            format!(
                r#""secret": "hunter2=x", "plain": "{size}", "network": ["lo"], "data": [], "address": "127.0.0.1""#
            ),
            r#""can_write": ["/tmp", "/scratch"]"#.to_owned(),
        ] {
            assert!(log.contains(&expect), "no {expect} in {log}");
        }
        // Nothing that it imported reported steps: what is left is the time from start to end.
        assert!(record.value("program_seconds").unwrap() > 0.0);
    }
    let script = fs::read_to_string(done.home.path().join("train.py")).unwrap();
    assert_eq!(script, LOOK, "the copy alone was written to");
    for file in ["session.json", "records.ndjson"] {
        let text = fs::read_to_string(done.folder().join(file)).unwrap();
        assert!(!text.contains("hunter2"), "a secret in {file}");
    }
}

/// Starts two processes, as torchrun does, where it is no rank; the second is slower. `DIES` and
/// `KILLED` end one of them.
const RANKS: &str = "
import os, subprocess, sys
if 'RANK' not in os.environ:
    start = lambda rank: subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=rank))
    sys.exit(max(rank.wait() for rank in [start('0'), start('1')]))
import signal, time
import torch
rank = int(os.environ['RANK'])
print('threads', os.environ.get('OMP_NUM_THREADS'), flush=True)
optimizer = torch.optim.SGD([torch.Parameter()])
for step in range(100000):
    time.sleep(0.01 * (1 + rank))
    if step == 5 and os.environ.get('DIES') == str(rank):
        raise KeyError('shard')
    if step == 5 and os.environ.get('KILLED') == str(rank):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
";

#[test]
fn the_ranks_of_a_program_are_told_apart_and_taken_together() {
    for launcher in ["torchgauge", "command"] {
        check_ranks(launcher);
    }
    let dies = ["--ranks", "2", "--env", "DIES=1"];
    let words = "rank 1: KeyError: 'shard'";
    check(RANKS, &dies, TRAIN, "exit-status", words);
    let own = ["--launcher", "command"];
    let by_command = [&dies[..], &own].concat();
    check(RANKS, &by_command, TRAIN, "exit-status", words);
    // What it could not say itself.
    let killed = ["--ranks", "2", "--env", "KILLED=1"];
    check(RANKS, &killed, TRAIN, "crash", "rank 1: ended by signal 9");
    let without = [&killed[..], &["--no-hook"]].concat();
    check(RANKS, &without, TRAIN, "crash", "rank 1: ended by signal 9");
    // One that was asked for and never reported.
    let third = [
        "--ranks",
        "3",
        "--steps",
        "5",
        "--until-exit",
        "--time-limit",
        "10s",
    ];
    let third = [&third[..], &own].concat();
    check(RANKS, &third, TRAIN, "time-limit", "time");
}

#[track_caller]
fn check_ranks(launcher: &str) {
    let words = ["--image", OLD, "--blocks", "1", "--ranks", "2"];
    let more = ["--samples-per-step", "8", "--steps", "10", "--launcher"];
    let done = bench(RANKS, &[&words[..], &more, &[launcher]].concat(), TRAIN).ends_with(0);
    let (session, records) = done.read();
    assert_eq!(session.cells[0].ranks, 2);
    let record = &records[0];
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.method.get("ranks"), Some("2"));
    let is_ours = launcher == "torchgauge";
    let said = record.method.get("program.launcher");
    assert_eq!(said, is_ours.then_some(launcher));
    let median = |rank: usize| record.ranks[rank].values["step_median_seconds"];
    assert!(median(1) > 1.5 * median(0), "{} {}", median(0), median(1));
    // Of the slowest, and of both.
    assert_eq!(record.value("step_median_seconds"), Some(median(1)));
    assert_eq!(record.value("samples_count"), Some(160.0));
    let rate = |rank: usize| record.ranks[rank].values["throughput_samples_per_second"];
    let both = record.value("throughput_samples_per_second").unwrap();
    assert!((both / (rate(0) + rate(1)) - 1.0).abs() < 1e-9);
    let log = fs::read_to_string(done.folder().join(record.log.as_ref().unwrap())).unwrap();
    // Each its share of the cores, where Torchgauge starts them.
    assert_eq!(log.contains("threads None"), !is_ours, "{log}");
    let lag = record.value("rank_lag_ratio").unwrap();
    let mean = f64::midpoint(median(0), median(1));
    assert!((lag - (median(1) / mean - 1.0)).abs() < 1e-9, "{lag}");
}

#[track_caller]
fn check(script: &str, words: &[&str], command: &[&str], reason: &str, message: &str) {
    let words = [&["--image", OLD, "--blocks", "1"], words].concat();
    let done = bench(script, &words, command).ends_with(3);
    let (_, records) = done.read();
    let found = records[0].outcome.failure().expect("a failure");
    let said = &found.message;
    assert_eq!(found.reason.word(), reason, "{said}");
    assert!(said.contains(message), "{said}");
}

#[test]
fn what_goes_wrong_has_its_name() {
    check("", &[], &["no-such-program"], "exit-status", "No such file");
    check(
        "raise KeyError('lr')",
        &[],
        TRAIN,
        "exit-status",
        "KeyError: 'lr'",
    );
    check(
        "import torch\nraise KeyError('lr')",
        &[],
        TRAIN,
        "exit-status",
        "KeyError: 'lr'",
    );
    let memory = "import torch\nraise torch.OutOfMemoryError('Tried to allocate 2.00 GiB')";
    check(
        memory,
        &[],
        TRAIN,
        "out-of-memory",
        "Tried to allocate 2.00 GiB",
    );
    check(
        "import sys\nsys.exit(7)",
        &[],
        TRAIN,
        "exit-status",
        "status 7",
    );
    check(
        "while True: print('x' * 10000)",
        &[],
        TRAIN,
        "flooded",
        "limits.log",
    );
    let forever = "import time\ntime.sleep(100)";
    check(
        forever,
        &["--time-limit", "2s"],
        TRAIN,
        "time-limit",
        "limits.time",
    );
    let forged = "import os\nopen(os.environ['TORCHGAUGE_EVENTS'], 'a').write('{}\\n')";
    check(
        forged,
        &["--no-hook"],
        TRAIN,
        "unreadable-results",
        "missing field `event`",
    );
}

/// From its start to its end; the last one without the hook, which is said.
#[test]
fn what_takes_no_step_is_measured_from_its_start_to_its_end() {
    const FORKS: &str =
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n";
    // The hook has reported by then.
    const SLOW_END: &str = "import time\nclass Slow:\n    def __del__(self, sleep=time.sleep):\n        sleep(3)\n\
                            kept = Slow()\n";
    const ISOLATED: &[&str] = &["python", "-I", "-S", "/work/train.py"];
    for (script, command) in [
        ("", TRAIN),
        (FORKS, TRAIN),
        (SLOW_END, TRAIN),
        ("print(1)", ISOLATED),
    ] {
        let words = ["--image", OLD, "--blocks", "1"];
        let done = bench(script, &words, command).ends_with(0);
        let (session, records) = done.read();
        let record = &records[0];
        assert!(record.value("program_seconds").unwrap() < 300.0);
        assert_eq!(record.value("steps_count"), None, "{script}");
        let notes = record.notes.join("\n");
        let is_told = notes.contains("a Python without -I, -E and -S");
        assert_eq!(is_told, command == ISOLATED, "{script}: {notes}");
        let own = format!("label=org.torchgauge.session={}", session.session);
        let left = run("docker", &["ps", "-aq", "--filter", &own]);
        assert!(left.stdout.is_empty(), "a container was left");
    }
}

#[test]
fn one_that_ignores_sigterm_is_a_success_all_the_same() {
    let script = format!("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LOOP}");
    let words = ["--image", OLD, "--blocks", "1", "--steps", "3"];
    let (_, records) = bench(&script, &words, TRAIN).ends_with(0).read();
    let notes = records[0].notes.join("\n");
    assert!(notes.contains("ignored SIGTERM"), "{notes}");
}

#[test]
fn a_session_goes_on_with_its_program() {
    let words = ["--image", OLD, "--blocks", "2", "--steps", "3"];
    let done = bench(LOOP, &words, TRAIN).ends_with(0);
    let records = done.folder().join("records.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["bench", "--resume", "session"])
        .current_dir(done.home.path())
        .env("TORCHGAUGE_SHARE_CPU", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(done.read().1.len(), 2);
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let check = |words: &[&str], command: &[&str], expect: &str| {
        let done = bench("", words, command).ends_with(2);
        assert!(done.told().contains(expect), "{}", done.told());
        assert!(!done.folder().exists());
    };
    let old = ["--image", OLD];
    check(&[], TRAIN, "no image to run the program in");
    check(
        &["--image", "torchgauge-test/none:1"],
        TRAIN,
        "image torchgauge-test/none:1 is not in ",
    );
    check(
        &[&old[..], &["--mount", "no-such:/x"]].concat(),
        TRAIN,
        "there is no",
    );
    check(
        &[&old[..], &["--mount", "x"]].concat(),
        TRAIN,
        "SOURCE:/TARGET",
    );
    check(&[&old[..], &["--env", "x"]].concat(), TRAIN, "NAME=VALUE");
    check(
        &[&old[..], &["--parameter", "a=1,1"]].concat(),
        &["x", "{a}"],
        "is in this list",
    );
    check(
        &[&old[..], &["--parameter", "a=1,2"]].concat(),
        TRAIN,
        "does not use the axis `a`",
    );
    check(
        &[&old[..], &["--env-file", "none"]].concat(),
        TRAIN,
        "environment file",
    );
    check(
        &[&old[..], &["--suite", "smoke"]].concat(),
        TRAIN,
        "cannot be used with",
    );
    check(
        &["--image", OLD, "--engine", "process"],
        TRAIN,
        "cannot be used multiple times",
    );
}

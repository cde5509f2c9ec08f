//! `--engine apptainer`, the real one of `.ci/apptainer`, and `--engine chroot`: programs in images with
//! this machine's Python.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use record::{Outcome, Record};
use rustix::process::Signal;

use crate::{
    python_image::{make_image, python, run},
    slurm,
    support::{Home, Running, until},
};

pub(crate) const OLD: &str = "torchgauge-test/apptainer:old";
pub(crate) const NEW: &str = "torchgauge-test/apptainer:new";

/// The folder with the archives `old.tar`, `new.tar` (a step takes twice as long) and `broken.tar`
/// (its entry point is not there), and with the cache that the tests share.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("apptainer");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        run("apptainer", &["--version"]);
        let images = [
            ("old", "2.98.0+fake", "ENV STEP=0.02"),
            ("new", "2.99.0+fake", "ENV STEP=0.04"),
            ("broken", "2.99.0+fake", "ENTRYPOINT [\"/no/entry\"]"),
        ];
        for (tag, torch, setting) in images {
            let name = format!("torchgauge-test/apptainer:{tag}");
            make_image(&name, torch, &[setting]);
            let file = folder.join(format!("{tag}.tar"));
            run(
                "docker",
                &["save", &name, "--output", file.to_str().unwrap()],
            );
        }
        folder
    })
}

impl Home {
    pub(crate) fn script(&self, text: &str) {
        fs::write(self.path("train.py"), text).expect("a script");
    }

    /// A session of this script in the folder `s`, with these words before the command.
    pub(crate) fn in_unpacked(&self, engine: &str, words: &str) -> Running {
        let command = format!("{} /work/train.py", python().0);
        self.command_in("s", engine, words, &command)
    }

    fn command_in(&self, name: &str, engine: &str, words: &str, command: &str) -> Running {
        let line = format!(
            "exec env XDG_CACHE_HOME={folder}/cache cargo xtask bench --device cpu \
             --engine {engine} --out {out} --mount {script}:/work/train.py {words} -- {command}",
            folder = folder().display(),
            out = self.path(name).display(),
            script = self.path("train.py").display(),
        );
        self.shell(
            name,
            &line
                .replace("OLD", &image("old"))
                .replace("NEW", &image("new")),
        )
    }

    fn go_on(&self) -> Running {
        let cache = folder().join("cache");
        let line = format!(
            "exec env XDG_CACHE_HOME={} cargo xtask bench --resume {}",
            cache.display(),
            self.path("s").display()
        );
        self.shell("s", &line)
    }

    fn log(&self, record: &Record) -> String {
        let log = record.log.as_ref().expect("a log");
        fs::read_to_string(self.path("s").join(log)).expect("a log")
    }

    /// Processes whose run's folder lies in the session.
    fn processes(&self) -> usize {
        let own = format!("\0TORCHGAUGE_RUN_FOLDER={}/", self.path("s").display());
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let environments = processes.map(|entry| fs::read(entry.path().join("environ")));
        let is_own = |all: &Vec<u8>| format!("\0{}", String::from_utf8_lossy(all)).contains(&own);
        environments.flatten().filter(is_own).count()
    }

    fn nothing_is_left(&self) {
        until(|| self.processes() == 0);
        assert!(!self.path("s/work").exists(), "a run's folder was left");
    }
}

/// What runs images that are unpacked, and what it lacks.
const ENGINES: [(&str, &str, &[&str]); 2] = [
    ("apptainer", "in containers: Apptainer", &[]),
    ("chroot", "in an image's unpacked root", &["network"]),
];

pub(crate) fn image(name: &str) -> String {
    folder().join(format!("{name}.tar")).display().to_string()
}

/// Written as users write it: it knows nothing of Torchgauge.
pub(crate) const LOOP: &str = "
import os, time
import torch
optimizer = torch.optim.SGD([torch.Parameter()])
for step in range(100000):
    time.sleep(float(os.environ['STEP']) * (100 if step == 0 else 1))
    optimizer.step()
";

/// The second run hangs with a child, for as long as there is a file `hang`.
pub(crate) const HANGS: &str = "
import json, os, time
import torch
optimizer = torch.optim.SGD([torch.Parameter()])
run = json.load(open(os.environ['TORCHGAUGE_RUN']))['run']
if run.startswith('0001') and os.path.exists('/gate/hang'):
    if os.fork() == 0:
        os.setsid()
    time.sleep(600)
for _ in range(3):
    optimizer.step()
";

#[test]
fn two_images_are_compared_and_are_those_that_an_engine_has() {
    ENGINES.into_iter().for_each(compare_two_images);
}

fn compare_two_images((engine, place, lacks): (&str, &str, &[&str])) {
    let home = Home::new();
    home.script(LOOP);
    let words = "--image OLD --image NEW --samples-per-step 8 --steps 10 --blocks 3";
    let told = home.in_unpacked(engine, words).ends_with(0);
    assert!(told.contains(place), "{told}");
    assert!(
        told.contains("partly isolated: 6 runs were without"),
        "{told}"
    );
    let (session, records) = home.read("s");
    let inspected = run("docker", &["inspect", "--format", "{{.Id}}", OLD]).stdout;
    let id = String::from_utf8_lossy(&inspected).trim().to_owned();
    let facts = &session.images[0];
    assert_eq!(facts.id.as_ref(), Some(&id));
    assert_eq!(facts.flavour, "2.98.0+fake");
    assert_eq!((session.engine.kind.as_str(), records.len()), (engine, 6));
    let rate = |name: &str| -> f64 {
        let of = records.iter().filter(|record| record.image.ends_with(name));
        of.map(|record| {
            record
                .value("throughput_samples_per_second")
                .expect("a rate")
        })
        .sum()
    };
    let ratio = rate("new.tar") / rate("old.tar");
    assert!((0.4..0.65).contains(&ratio), "{ratio}");
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok);
        let missing = [
            "memory limit",
            "CPU limits",
            "limit of processes",
            "user of its own",
        ];
        assert_eq!(record.isolation.missing, [&missing, lacks].concat());
        assert!(
            home.log(record).starts_with("entered\n"),
            "{}",
            home.log(record)
        );
        assert!(
            record
                .value("run_container_peak_bytes")
                .is_some_and(|bytes| bytes > 1e6)
        );
        if record.image.ends_with("old.tar") {
            assert_eq!(record.image_id.as_ref(), Some(&id));
        }
        let notes = record.notes.join("\n");
        assert!(notes.contains("ended by SIGTERM"), "{notes}");
    }
    home.nothing_is_left();
    let words = format!(
        "--image {OLD} --image {NEW} --samples-per-step 8 --steps 10 --blocks 3 --mount {}:/work/train.py",
        home.path("train.py").display()
    );
    let command = format!("{} /work/train.py", python().0);
    home.has_verdicts_of_containers("s", &words, &command);
}

#[test]
fn a_program_has_what_was_asked_for_and_no_more() {
    for (engine, ..) in ENGINES {
        has_what_was_asked_for(engine);
    }
}

fn has_what_was_asked_for(engine: &str) {
    let home = Home::new();
    home.script(
        "
import json, os, socket
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())
print(json.dumps({
    'folder': os.getcwd(), 'home': os.environ['HOME'], 'secret': os.environ['SECRET'],
    'site': os.environ.get('SITE'), 'network': os.listdir('/sys/class/net'),
    'data': os.listdir('/data'), 'address': socket.gethostbyname(socket.gethostname()),
    'capabilities': status['CapEff'], 'processes': [p for p in os.listdir('/proc') if p.isdigit()][:1],
    'writes': [p for p in ('/opt', '/work', '/tmp', '/data', '/scratch') if os.access(p, os.W_OK)],
    'shm': os.statvfs('/dev/shm').f_files - os.statvfs('/dev/shm').f_ffree,
    'root': os.path.exists('/root/.cargo'),
    'kernel': [p for p in ('/proc/sys/vm/swappiness', '/sys/kernel', '/sys/fs/cgroup') if os.access(p, os.W_OK)],
}))
open('/scratch/of-run', 'w').write('x')
",
    );
    fs::create_dir(home.path("scratch")).expect("a folder");
    fs::write(home.path("secrets"), "SECRET=a,b\"$(id)\n").expect("a file");
    let words = format!(
        "--image OLD --blocks 1 --env-file {} --mount {}:/scratch:rw",
        home.path("secrets").display(),
        home.path("scratch").display()
    );
    home.in_unpacked(engine, &words).ends_with(0);
    let (_, records) = home.read("s");
    let log = home.log(&records[0]);
    if engine == "apptainer" {
        let network = r#""network": ["lo"]"#;
        assert!(log.contains(network), "no {network} in {log}");
    } else {
        // Not even where root calls it.
        assert!(log.contains(r#""kernel": []"#), "{log}");
    }
    for expect in [
        r#""folder": "/opt", "home": "/tmp", "secret": "a,b\"$(id)", "site": null"#,
        r#""data": [], "address": "127.0.0.1""#,
        r#""capabilities": "0000000000000000", "processes": ["1"]"#,
        r#""writes": ["/tmp", "/data", "/scratch"]"#,
        r#""root": false"#,
    ] {
        assert!(log.contains(expect), "no {expect} in {log}");
    }
    assert!(
        !home.path("scratch/of-run").exists(),
        "the copy alone is written to"
    );
}

/// As on a cluster: who owns what an overlay leaves may not look into it.
#[test]
fn who_is_not_root_has_a_writable_root_that_goes_with_the_run() {
    let home = Home::new();
    let (tool, archive) = (home.path("torchgauge"), home.path("old.tar"));
    fs::copy(env!("CARGO_BIN_EXE_torchgauge"), &tool).expect("a program");
    fs::copy(image("old"), archive).expect("an image");
    home.script(
        "
import os, sys
import torch
open('/opt/written', 'w')
os.mkdir('/opt/closed', 0)
optimizer = torch.optim.SGD([torch.Parameter()])
optimizer.step()
",
    );
    run("chown", &["-R", "nobody", home.path("").to_str().unwrap()]);
    let line = format!(
        "cd {} && exec runuser -u nobody -- env HOME=$PWD XDG_CACHE_HOME=$PWD/cache ./torchgauge bench --device cpu \
         --engine chroot --image old.tar --blocks 1 --writable --until-exit --out s \
         --mount train.py:/work/train.py -- {} /work/train.py",
        home.path("").display(),
        python().0
    );
    home.shell("s", &line).ends_with(0);
    let warnings = &home.read("s").1[0].warnings;
    assert!(
        warnings.contains(&"the run kept the network".to_owned()),
        "{warnings:?}"
    );
    let unpacked = fs::read_dir(home.path("cache/torchgauge/sandboxes")).expect("a cache");
    for root in unpacked.flatten() {
        assert!(root.path().join("opt/entry.py").exists());
        assert!(!root.path().join("opt/written").exists());
    }
    home.nothing_is_left();
}

#[test]
fn ranks_are_told_apart() {
    for (engine, ..) in ENGINES {
        tells_ranks_apart(engine);
    }
}

fn tells_ranks_apart(engine: &str) {
    let home = Home::new();
    home.script(
        "
import os, signal, time
import torch
rank = int(os.environ['RANK'])
optimizer = torch.optim.SGD([torch.Parameter()])
for step in range(100000):
    time.sleep(0.01 * (1 + rank))
    if step == 5 and os.environ.get('KILLED') == str(rank):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
",
    );
    let words = "--image OLD --blocks 1 --ranks 2 --steps 10";
    home.in_unpacked(engine, words).ends_with(0);
    let (_, records) = home.read("s");
    let median = |rank: usize| records[0].ranks[rank].values["step_median_seconds"];
    assert!(median(1) > 1.5 * median(0), "{} {}", median(0), median(1));
    fs::remove_dir_all(home.path("s")).expect("a session");
    home.in_unpacked(engine, &format!("{words} --env KILLED=1"))
        .ends_with(3);
    let failure = home.read("s").1[0].outcome.message().to_owned();
    assert!(failure.contains("rank 1: ended by signal 9"), "{failure}");
    home.nothing_is_left();
}

#[test]
fn what_goes_wrong_has_its_name() {
    for (engine, ..) in ENGINES {
        names_what_goes_wrong(engine);
    }
}

fn names_what_goes_wrong(engine: &str) {
    let home = Home::new();
    home.script(LOOP);
    let python = python().0;
    let own = |body: &str| format!("{python} -c '{body}'");
    let broken = image("broken");
    for (name, words, command, reason, message) in [
        (
            "a",
            "--image OLD",
            own("import sys; sys.exit(300)"),
            "exit-status",
            "status 44",
        ),
        (
            "b",
            "--image OLD",
            own("import os; os.kill(os.getpid(), 11)"),
            "crash",
            "SIGSEGV",
        ),
        (
            "c",
            "--image OLD --time-limit 2s",
            own("import time; time.sleep(600)"),
            "time-limit",
            "limits.time",
        ),
        // What a program exits with itself is no word of what started it.
        (
            "d",
            "--image OLD",
            own("import sys; sys.exit(255)"),
            "exit-status",
            "status 255",
        ),
        (
            "e",
            &*format!("--image {broken}"),
            python.clone(),
            "image-broken",
            "/no/entry: ",
        ),
        (
            "f",
            "--image OLD --workdir /no",
            own("1"),
            "image-broken",
            "/no",
        ),
    ] {
        let words = format!("{words} --blocks 1");
        home.command_in(name, engine, &words, &command).ends_with(3);
        let (_, records) = home.read(name);
        let failure = records[0].outcome.failure().expect("a failure");
        assert_eq!(failure.reason.word(), reason, "{name}: {failure:?}");
        assert!(failure.message.contains(message), "{name}: {failure:?}");
    }
}

#[test]
fn ctrl_c_and_kill_9_leave_nothing_and_the_session_goes_on() {
    let both = ENGINES.map(|(engine, ..)| [(engine, Signal::INT), (engine, Signal::KILL)]);
    for (engine, signal) in both.concat() {
        let home = Home::new();
        home.script(HANGS);
        fs::create_dir(home.path("gate")).expect("a folder");
        fs::write(home.path("gate/hang"), "").expect("a file");
        let gate = home.path("gate");
        // An archive beside the caller is found again, wherever the session goes on.
        fs::create_dir_all(home.path("bin")).expect("a folder");
        fs::copy(image("old"), home.path("bin/old.tar")).expect("an archive");
        let words = "--image ./old.tar --blocks 2 --steps 1 --until-exit --mount";
        let running = home.in_unpacked(engine, &format!("{words} {}:/gate", gate.display()));
        running.until_records(1);
        running.until_it_runs();
        until(|| home.processes() == 2);
        running.signal(signal);
        if signal == Signal::INT {
            running.ends_with(3);
            home.nothing_is_left();
        } else {
            running.ends_with(-1);
        }
        fs::remove_file(home.path("gate/hang")).expect("a file");
        home.go_on().ends_with(0);
        home.nothing_is_left();
        let (session, records) = home.read("s");
        assert!(session.complete);
        let of_first = records.iter().filter(|record| record.order == 0);
        assert_eq!(of_first.count(), 1, "what finished ran again: {records:?}");
    }
}

#[test]
fn a_block_of_slurm_runs_in_an_unpacked_image() {
    for (engine, ..) in ENGINES {
        run_a_block_of_slurm(engine);
    }
}

fn run_a_block_of_slurm(engine: &str) {
    let home = Home::new();
    home.script(LOOP);
    let profile = format!("version: 1\nengine: {engine}\n");
    fs::write(home.path("profile.yaml"), profile).expect("a profile");
    let line = format!(
        "exec env SLURM_CONF={} XDG_CACHE_HOME={}/cache cargo xtask bench --device cpu \
         --engine slurm:{} --out {} --mount {}:/work/train.py --image {} --blocks 1 --steps 5 \
         -- {} /work/train.py",
        slurm::CONF,
        folder().display(),
        home.path("profile.yaml").display(),
        home.path("s").display(),
        home.path("train.py").display(),
        image("old"),
        python().0
    );
    home.shell("s", &line).ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records[0].outcome, Outcome::Ok);
    assert_eq!(records[0].isolation.engine, engine);
    assert!(records[0].host.starts_with("node"), "{}", records[0].host);
}

//! What the runs of a soak do, and how each must end.

use std::{collections::BTreeMap, fs, ops::Range, os::unix::fs::PermissionsExt as _, path::Path};

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// Cells of the suite.
pub(crate) const CELLS: u32 = 2;

/// Where runs execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Processes,
    Containers,
}

/// A run that its container's killer waits for.
pub(crate) const KILLED_FROM_OUTSIDE: &str = "hang-until-killed";

/// What a run does, and the outcome that its record must then have.
const OF_PROCESSES: [(&str, &str); 12] = [
    ("good", "ok"),
    ("good", "ok"),
    ("good", "ok"),
    ("leaves-a-child", "ok"),
    ("segfault", "crash"),
    ("killed", "crash"),
    ("status", "exit-status"),
    ("garbage", "unreadable-results"),
    ("torn", "unreadable-results"),
    ("silent", "hang"),
    ("memory", "out-of-memory"),
    ("contradiction", "invalid"),
];

/// The same for containers, in the modes of their workload.
const OF_CONTAINERS: [(&str, &str); 12] = [
    ("brief", "ok"),
    ("brief", "ok"),
    ("brief", "ok"),
    ("oom-child", "ok"),
    ("abort", "crash"),
    (KILLED_FROM_OUTSIDE, "crash"),
    ("exit", "exit-status"),
    ("garbage", "unreadable-results"),
    ("hang", "hang"),
    ("memory", "out-of-memory"),
    ("eat", "host-out-of-memory"),
    ("contradiction", "invalid"),
];

/// What one run does, and how it must end.
pub(crate) type Expected = BTreeMap<u32, (&'static str, &'static str)>;

/// The workload of processes. `@` stands for the folder with a file for each run, which names its
/// fault.
const SCRIPT: &str = r#"#!/bin/sh
run=$(sed -n 's/.*"run": "\(.*\)".*/\1/p' "$1")
results=$2
fault=$(cat "@/${run%%-*}")
say() { printf '%s\n' "$1" >> "$results"; }
say '{"event":"started","version":VERSION,"run":"'$run'","scenario_version":"0","libtorch_version":"2.11.0","threads":1,"cuda":null,"allocator":null}'
say '{"event":"phase-began","phase":"measure"}'
rate=20.0
case $fault in
segfault) kill -SEGV $$ ;;
killed) kill -KILL $$ ;;
status) exit 7 ;;
garbage) say garbage; exit 0 ;;
torn) printf '{"event":"fin' >> "$results"; exit 0 ;;
silent) sleep 300 ;;
memory) say '{"event":"failed","reason":"out-of-memory","phase":"measure","message":"2 GiB"}'; exit 1 ;;
leaves-a-child) sleep 300 > /dev/null 2>&1 & ;;
contradiction) rate=90.0 ;;
esac
sleep 0.05
say '{"event":"step","index":0,"values":{"step_seconds":0.04}}'
say '{"event":"finished","values":{"micro_batch_samples":1,"effective_batch_samples":1,"samples_count":1,"measured_seconds":0.05,"throughput_samples_per_second":'$rate'}}'
"#;

impl Kind {
    /// Its word on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Containers => "containers",
        }
    }

    /// How long the session may live before something befalls it, in milliseconds.
    pub(crate) fn life(self) -> Range<u64> {
        match self {
            Self::Processes => 150..1500,
            Self::Containers => 500..8000,
        }
    }

    fn faults(self) -> [(&'static str, &'static str); 12] {
        match self {
            Self::Processes => OF_PROCESSES,
            Self::Containers => OF_CONTAINERS,
        }
    }

    /// Limits of every run. A container starts within a second; what is killed from outside must
    /// not count as hanging before.
    fn limits(self) -> &'static str {
        match self {
            Self::Processes => "{time: 20s, silence: 600ms}",
            Self::Containers => "{time: 60s, silence: 4s, memory: 96MiB, pids: 64}",
        }
    }
}

/// Draws what each run is to do, and writes the suite and the workload.
pub(crate) fn prepare(home: &Path, kind: Kind, runs: u32, random: &mut ChaCha8Rng) -> Expected {
    // Every dozen of runs has all of them, so that the shortest soak has, too.
    let mut faults = Vec::new();
    while faults.len() < runs as usize {
        let mut dozen = kind.faults();
        dozen.shuffle(random);
        faults.extend(dozen);
    }
    let expected: Expected = (0..runs).zip(faults).collect();
    fs::create_dir(home.join("locks")).expect("a folder");
    match kind {
        Kind::Processes => write_workload(home, &expected),
        Kind::Containers => {
            let modes: Vec<&str> = expected.values().map(|(fault, _)| *fault).collect();
            fs::write(home.join(MODES), modes.join(",")).expect("the modes");
        }
    }
    let cells: Vec<String> = (1..=CELLS)
        .map(|number| {
            format!("- {{name: cell-{number}, model: vit-tiny, task: inference, seed: {number}}}")
        })
        .collect();
    let suite = format!(
        "version: 1\ndescription: d\ndefaults: {{blocks: {}, steps: {{warmup: 0, measured: 1}}, \
         limits: {}}}\nscenarios:\n{}\n",
        runs / CELLS,
        kind.limits(),
        cells.join("\n")
    );
    fs::write(home.join("soak.yaml"), suite).expect("the suite");
    expected
}

/// The file with the modes of all runs, for the image's environment.
pub(crate) const MODES: &str = "modes";

fn write_workload(home: &Path, expected: &Expected) {
    let faults = home.join("faults");
    fs::create_dir(&faults).expect("a folder");
    for (order, (fault, _)) in expected {
        fs::write(faults.join(format!("{order:04}")), fault).expect("a fault");
    }
    let program = home.join("workload");
    let script = SCRIPT
        .replace('@', faults.to_str().expect("a path that is text"))
        .replace("VERSION", &protocol::VERSION.to_string());
    fs::write(&program, script).expect("the workload");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the workload");
}

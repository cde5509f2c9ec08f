//! Many short runs with faults thrown in at random, the session itself killed again and again; at
//! the end every run is accounted for, once, and nothing is left.
//!
//! `cargo test` takes two dozen runs; `cargo test -p bench-suite --test soak -- 200` takes 200, and
//! a second number is the seed. Runs are real processes that end as real workloads do, well and
//! badly; the session is a process of its own, which the soak kills with -9, or stops as Ctrl-C
//! does, and resumes.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use bench_suite::{
    card_lock::{CardLock, FOLDER_VARIABLE},
    execute::{LocalRuntime, Process},
    plan::{Plan, Request},
    session::{Session, Silent, Spec},
    suite::Suite,
};
use protocol::Device;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::{
    Card, Conduct, EngineFacts, ImageFacts, Machine, Outcome, Record, SessionFolder, Tool,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Set for the process that runs the session.
const WORKER: &str = "TORCHGAUGE_SOAK_WORKER";
const QUICK: u32 = 24;
const CELLS: u32 = 2;

/// What a run does, and the outcome that its record must then have.
const FAULTS: [(&str, &str); 12] = [
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

/// The workload. `@` stands for the folder with a file for each run, which names its fault.
const SCRIPT: &str = r#"#!/bin/sh
run=$(sed -n 's/.*"run": "\(.*\)".*/\1/p' "$1")
results=$2
fault=$(cat "@/${run%%-*}")
say() { printf '%s\n' "$1" >> "$results"; }
say '{"event":"started","version":VERSION,"run":"'$run'","scenario_version":"0","libtorch_version":"2.11.0","threads":1,"cuda":null,"allocator":null}'
say '{"event":"phase-began","phase":"measure"}'
rate=2.0
case $fault in
segfault) kill -SEGV $$ ;;
killed) kill -KILL $$ ;;
status) exit 7 ;;
garbage) say garbage; exit 0 ;;
torn) printf '{"event":"fin' >> "$results"; exit 0 ;;
silent) sleep 300 ;;
memory) say '{"event":"failed","reason":"out-of-memory","phase":"measure","message":"2 GiB","memory":null}'; exit 1 ;;
leaves-a-child) sleep 300 > /dev/null 2>&1 & ;;
contradiction) rate=9.0 ;;
esac
sleep 0.05
say '{"event":"step","index":0,"seconds":0.4,"loss":null,"skipped":false}'
say '{"event":"finished","parameters":1,"micro_batch":1,"effective_batch":1,"warmup_steps":0,"samples":1,"measured_seconds":0.5,"throughput_samples_per_second":'$rate',"first_loss":null,"last_loss":null,"memory":{},"scaler":null}'
"#;

fn main() -> ExitCode {
    if let Some(home) = env::var_os(WORKER) {
        return work(Path::new(&home));
    }
    let numbers: Vec<u64> = env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // What a test runner says to every test binary, such as `--list` or a name, asks for nothing.
    if env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let runs = numbers
        .first()
        .map_or(QUICK, |&runs| u32::try_from(runs).unwrap_or(QUICK));
    let seed = numbers
        .get(1)
        .copied()
        .unwrap_or_else(|| rand::rng().random());
    let home = tempfile::tempdir().expect("a folder for the soak");
    match soak(home.path(), runs.next_multiple_of(CELLS), seed) {
        Ok(summary) => {
            say(&format!("soak with seed {seed}: {summary}"));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            say(&format!("soak with seed {seed} FAILED: {problem}"));
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Throws faults at a session until it is complete, and checks what came of it.
fn soak(home: &Path, runs: u32, seed: u64) -> Result<String, String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let expected = prepare(home, runs, &mut random);
    let began = Instant::now();
    let (mut kills, mut stops, mut tears) = (0, 0, 0);
    // One life finishes at least a run in the end, or something hangs.
    for _ in 0..10 * runs + 100 {
        let mut worker = Worker::start(home);
        let life = Duration::from_millis(random.random_range(150..1500));
        if worker.ends_within(life)? {
            let summary = check(home, &expected)?;
            return Ok(format!(
                "{summary} in {:.0} s; the session was killed {kills} times, stopped {stops} \
                 times, and its last line torn {tears} times",
                began.elapsed().as_secs_f64()
            ));
        }
        if random.random_bool(0.3) {
            worker.signal(Signal::INT);
            worker.wait();
            stops += 1;
        } else {
            worker.signal(Signal::KILL);
            worker.wait();
            kills += 1;
            if random.random_bool(0.4) && tear(home) {
                tears += 1;
            }
        }
    }
    Err("the session does not come to its end".to_owned())
}

/// Writes the workload, and what each run is to do; gives the outcome that each must have.
fn prepare(home: &Path, runs: u32, random: &mut ChaCha8Rng) -> BTreeMap<u32, &'static str> {
    let faults = home.join("faults");
    fs::create_dir(&faults).expect("a folder");
    fs::create_dir(home.join("locks")).expect("a folder");
    let mut expected = BTreeMap::new();
    for order in 0..runs {
        let (fault, outcome) = FAULTS[random.random_range(0..FAULTS.len())];
        fs::write(faults.join(format!("{order:04}")), fault).expect("a fault");
        expected.insert(order, outcome);
    }
    let program = home.join("workload");
    let script = SCRIPT
        .replace('@', faults.to_str().expect("a path that is text"))
        .replace("VERSION", &protocol::VERSION.to_string());
    fs::write(&program, script).expect("the workload");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the workload");
    let cells: Vec<String> = (1..=CELLS)
        .map(|number| {
            format!("- {{name: cell-{number}, model: vit-tiny, task: inference, seed: {number}}}")
        })
        .collect();
    let cells = cells.join("\n");
    let suite = format!(
        "version: 1\ndescription: d\ndefaults: {{blocks: {}, steps: {{warmup: 0, measured: 1}}, \
         limits: {{time: 20s, silence: 600ms}}}}\nscenarios:\n{cells}\n",
        runs / CELLS
    );
    fs::write(home.join("soak.yaml"), suite).expect("the suite");
    expected
}

/// Half a line at the end of the records, as a power cut leaves it.
fn tear(home: &Path) -> bool {
    let path = home.join("session").join(SessionFolder::RECORDS);
    let Ok(mut file) = fs::OpenOptions::new().append(true).open(path) else {
        return false;
    };
    file.write_all(b"{\"version\":1,\"run\":\"0").is_ok()
}

/// The process that runs the session.
struct Worker(Child);

impl Worker {
    fn start(home: &Path) -> Self {
        let child = Command::new(env::current_exe().expect("this program"))
            .env(WORKER, home)
            .env(FOLDER_VARIABLE, home.join("locks"))
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("the worker starts"))
    }

    /// Whether it ended by itself within this time, its work done.
    fn ends_within(&mut self, life: Duration) -> Result<bool, String> {
        let began = Instant::now();
        while began.elapsed() < life {
            match self.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(true),
                Ok(Some(status)) => return Err(format!("the session ended with {status}")),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        Ok(false)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself just now; the next life sees that nothing is left to do.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }

    fn wait(&mut self) {
        let _ = self.0.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every run once, as it had to end; nothing left.
fn check(home: &Path, expected: &BTreeMap<u32, &str>) -> Result<String, String> {
    let folder = SessionFolder::at(home.join("session"));
    let session = folder.read_session().map_err(|error| error.to_string())?;
    let records = folder.read_records().map_err(|error| error.to_string())?;
    if !session.complete {
        return Err("the session is not complete".to_owned());
    }
    if records.torn_after.is_some() {
        return Err("the last line is torn".to_owned());
    }
    let word = |record: &Record| match &record.outcome {
        Outcome::Ok => "ok".to_owned(),
        Outcome::Failed { reason, .. } => reason.word(),
    };
    let mut finished: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut interrupted = 0;
    for record in &records.records {
        match word(record).as_str() {
            "interrupted" => interrupted += 1,
            other => finished
                .entry(record.order)
                .or_default()
                .push(other.to_owned()),
        }
    }
    for (order, outcome) in expected {
        let found = finished.get(order).map(Vec::as_slice).unwrap_or_default();
        if found != [*outcome] {
            return Err(format!(
                "run {order} had to end once with {outcome}, found {found:?}"
            ));
        }
    }
    if finished.len() != expected.len() {
        return Err(format!("{} runs of {}", finished.len(), expected.len()));
    }
    for (what, left) in [
        ("files of runs", names(&home.join("session/work"))),
        ("locks", names(&home.join("locks"))),
        ("processes", processes(home)),
    ] {
        if !left.is_empty() {
            return Err(format!("{what} were left: {left:?}"));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in expected.values() {
        *counts.entry(outcome).or_default() += 1;
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    Ok(format!(
        "{} runs, each accounted for once ({}), {interrupted} interrupted tries beside them",
        expected.len(),
        words.join(", ")
    ))
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.flatten().map(name).collect()
}

/// Processes of this soak's runs: their working folder is below it. Killed ones stay for a moment.
fn processes(home: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for _ in 0..100 {
        left = names(Path::new("/proc"));
        left.retain(|pid| {
            let folder = PathBuf::from("/proc").join(pid).join("cwd");
            fs::read_link(folder).is_ok_and(|folder| folder.starts_with(home))
        });
        if left.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    left
}

/// The session: begun or resumed, until it is complete or stopped.
fn work(home: &Path) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(session(home)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            say(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn session(home: &Path) -> Result<bool, String> {
    let cancel = CancellationToken::new();
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let stop = cancel.clone();
    let stopped = tokio::spawn(async move {
        interrupted.recv().await;
        stop.cancel();
    });
    let card = Card {
        uuid: "GPU-soak".to_owned(),
        ..Card::default()
    };
    let _lock = CardLock::take(&card, "soak", false).map_err(|error| error.to_string())?;
    let folder = home.join("session");
    let spec = spec(home);
    let mut session = if folder.join(SessionFolder::SESSION).exists() {
        Session::resume(&folder, spec)
    } else {
        Session::create(&folder, "soak", spec)
    }
    .map_err(|error| error.to_string())?;
    let runtime = LocalRuntime {
        program: home.join("workload"),
        library_path: Vec::new(),
    };
    let executor = Process::new(
        BTreeMap::from([("local".to_owned(), runtime)]),
        &[Device::Cpu],
    );
    let totals = session
        .run(&executor, &mut Silent, &cancel)
        .await
        .map_err(|error| error.to_string())?;
    stopped.abort();
    if cancel.is_cancelled() {
        std::process::exit(130);
    }
    Ok(totals.is_complete())
}

fn spec(home: &Path) -> Spec {
    let path = home.join("soak.yaml");
    let suite = Suite::read(&path).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let plan = Plan::new(&Request {
        suites: &[suite],
        images: &["local".to_owned()],
        device: Device::Cpu,
        blocks: None,
        order_seed: Some(11),
    });
    Spec {
        plan: plan.expect("a plan"),
        images: vec![ImageFacts {
            name: "local".to_owned(),
            ..ImageFacts::default()
        }],
        machine: Machine {
            name: "soak".to_owned(),
            ..Machine::default()
        },
        engine: EngineFacts {
            kind: "process".to_owned(),
            ..EngineFacts::default()
        },
        tool: Tool::default(),
        conduct: Conduct::default(),
        engine_retries: 2,
        deciding: None,
        notes: Vec::new(),
    }
}

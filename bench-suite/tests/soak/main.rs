//! Many short runs with faults thrown in at random, the session itself killed again and again; at
//! the end every run is accounted for, once, and nothing is left.
//!
//! `cargo test` takes two dozen runs as processes, then a dozen in containers of an engine of the
//! soak's own. `cargo test -p bench-suite --test soak -- 200` takes 200 of processes, with
//! `containers` behind it 200 in containers; a second number is the seed. Runs are real processes
//! or containers that end as real workloads do, well and badly; the session is a process of its
//! own, which the soak kills with -9, or stops as Ctrl-C does, and resumes. In containers the
//! engine is stopped and killed as well, and containers are killed behind the session's back.

mod aftermath;
#[path = "../support/daemon.rs"]
mod daemon;
mod engine_room;
mod faults;
#[path = "../support/image.rs"]
mod image;
mod worker;

use std::{
    env, fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::SessionFolder;
use rustix::process::Signal;

use engine_room::EngineRoom;
use faults::{CELLS, Kind};
use worker::{Life, Worker};

const QUICK_PROCESSES: u32 = 24;
const QUICK_CONTAINERS: u32 = 12;

fn main() -> ExitCode {
    if let Some(home) = env::var_os(worker::VARIABLE) {
        return worker::work(Path::new(&home));
    }
    let words: Vec<String> = env::args().skip(1).collect();
    // What a test runner says to every test binary, such as `--list`, asks for nothing.
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let seed = numbers.get(1).copied();
    let seed = seed.unwrap_or_else(|| rand::rng().random());
    let in_containers = words.iter().any(|word| word == Kind::Containers.word());
    let soaks = match numbers.first().map(|&runs| u32::try_from(runs)) {
        Some(Ok(runs)) if in_containers => vec![(Kind::Containers, runs)],
        Some(Ok(runs)) => vec![(Kind::Processes, runs)],
        _ => vec![
            (Kind::Processes, QUICK_PROCESSES),
            (Kind::Containers, QUICK_CONTAINERS),
        ],
    };
    for (kind, runs) in soaks {
        let home = tempfile::tempdir().expect("a folder for the soak");
        let name = format!("soak of {} with seed {seed}", kind.word());
        match soak(home.path(), kind, runs.next_multiple_of(CELLS), seed) {
            Ok(summary) => say(&format!("{name}: {summary}")),
            Err(problem) => {
                say(&format!("{name} FAILED: {problem}"));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// How often what was done.
#[derive(Default)]
struct Done {
    kills: u32,
    stops: u32,
    tears: u32,
}

/// Throws faults at a session until it is complete, and checks what came of it.
fn soak(home: &Path, kind: Kind, runs: u32, seed: u64) -> Result<String, String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let expected = faults::prepare(home, kind, runs, &mut random);
    let began = Instant::now();
    let mut room = match kind {
        Kind::Processes => None,
        Kind::Containers => Some(EngineRoom::new(home, &expected)),
    };
    let mut done = Done::default();
    // One life finishes at least a run in the end, or something hangs.
    for _ in 0..10 * runs + 100 {
        let mut worker = Worker::start(home);
        let life = Duration::from_millis(random.random_range(kind.life()));
        match live(&mut worker, life, room.as_mut(), &mut random)? {
            Life::Complete => {
                let summary = aftermath::check(home, &expected)?;
                let engine = match room {
                    Some(room) => room.check()?,
                    None => String::new(),
                };
                return Ok(format!(
                    "{summary} in {:.0} s; the session was killed {} times, stopped {} times, and \
                     its last line torn {} times{engine}",
                    began.elapsed().as_secs_f64(),
                    done.kills,
                    done.stops,
                    done.tears,
                ));
            }
            // It gave up on runs that the engine failed too often, or on the engine.
            Life::Open => continue,
            Life::GoesOn => {}
        }
        if random.random_bool(0.3) {
            worker.signal(Signal::INT);
            worker.wait();
            done.stops += 1;
        } else {
            worker.signal(Signal::KILL);
            worker.wait();
            done.kills += 1;
            if random.random_bool(0.4) && tear(home) {
                done.tears += 1;
            }
        }
    }
    Err("the session does not come to its end".to_owned())
}

/// A stretch of the session's life, with what happens to engine and containers meanwhile.
fn live(
    worker: &mut Worker,
    mut life: Duration,
    room: Option<&mut EngineRoom>,
    random: &mut ChaCha8Rng,
) -> Result<Life, String> {
    let Some(room) = room else {
        return worker.lives_for(life);
    };
    // At least once, however short the soak.
    let ends = random.random_bool(engine_room::SHARE_OF_LIVES) || !room.has_ended();
    let mut engine_ends_after = ends.then(|| life.mul_f64(random.random()));
    let began = Instant::now();
    while began.elapsed() < life {
        match worker.lives_for(Duration::from_millis(100))? {
            Life::GoesOn => {}
            ended => return Ok(ended),
        }
        room.kill_containers();
        if engine_ends_after.is_some_and(|after| began.elapsed() >= after) {
            engine_ends_after = None;
            room.end_engine(if random.random_bool(0.5) {
                Signal::TERM
            } else {
                Signal::KILL
            });
            // Half of the time the session lives to see the engine come back.
            if random.random_bool(0.5) {
                life = began.elapsed() + engine_room::BACK_WITHIN;
            }
        }
    }
    Ok(Life::GoesOn)
}

/// Half a line at the end of the records, as a power cut leaves it.
fn tear(home: &Path) -> bool {
    let path = home.join("session").join(SessionFolder::RECORDS);
    let Ok(mut file) = fs::OpenOptions::new().append(true).open(path) else {
        return false;
    };
    file.write_all(b"{\"version\":1,\"run\":\"0").is_ok()
}

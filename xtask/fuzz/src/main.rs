//! `fuzz [TARGET…] [-FLAG=VALUE…] [FILE…]`: runs libFuzzer once for each target, in a process of its
//! own. `docs/fuzzing.md` has the commands.

#![no_main]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a driver for people and CI; it prints what it does"
)]

use std::{
    env,
    ffi::OsString,
    fs, io,
    num::NonZero,
    path::Path,
    process::{Command, exit},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use fuzz::{Dice, MAX_INPUT_BYTES, Pool, Target, all, named};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

/// Names the target to a process that runs libFuzzer.
const TARGET: &str = "TORCHGAUGE_FUZZ_TARGET";

/// Memory of one process. Without a sanitizer libFuzzer's own limits are checked once a second, when
/// another input is being read; beyond this one an allocation fails, and with it the input.
const MAX_BYTES: u64 = 512 << 20;

/// What libFuzzer is given unless the command line has other values.
const FLAGS: [&str; 3] = [
    "-seed=1",
    "-timeout=5",
    concat!("-dict=", env!("CARGO_MANIFEST_DIR"), "/dictionary"),
];

struct Room {
    target: &'static Target,
    pool: Pool,
    scratch: TempDir,
}

static ROOM: OnceLock<Room> = OnceLock::new();

fn room() -> &'static Room {
    ROOM.get().expect("it is made before the first input")
}

fuzz_target!(
    init: match env::var(TARGET) {
        Ok(name) => enter(&name),
        Err(_) => exit(start()),
    },
    |input: &[u8]| {
        if let Err(finding) = room().target.check(input, room().scratch.path()) {
            panic!("{finding}");
        }
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let Room { target, pool, .. } = room();
    let mut dice = Dice::new(seed.into(), mutated);
    // libFuzzer begins with a line break where it has no corpus.
    let start = if size < 2 {
        pool.seed(&mut dice)
    } else {
        &data[..size]
    };
    let edited = target.edit(start, pool, &mut dice);
    let length = edited.len().min(most);
    data[..length].copy_from_slice(&edited[..length]);
    length
});

/// The bytes after one of libFuzzer's own mutations.
fn mutated(bytes: &[u8]) -> Vec<u8> {
    const ROOM_TO_GROW: usize = 64;
    let mut data = bytes.to_vec();
    data.resize(bytes.len() + ROOM_TO_GROW, 0);
    let most = data.len();
    let length = fuzzer_mutate(&mut data, bytes.len(), most);
    data.truncate(length);
    data
}

/// Prepares this process for one target.
fn enter(name: &str) {
    let target = named(name).unwrap_or_else(|| panic!("{TARGET} names no target: `{name}`"));
    let limit = Some(MAX_BYTES);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Data, limit).expect("a lower limit is always allowed");
    let (pool, scratch) = (target.pool(), scratch().expect("a scratch folder"));
    let _ = ROOM.set(Room {
        target,
        pool,
        scratch,
    });
}

/// In memory where the system has such a place: inputs come by the million.
fn scratch() -> io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Runs each target that the command line names, or all; the exit code.
fn start() -> i32 {
    let (mut targets, mut arguments) = (Vec::new(), Vec::new());
    for word in env::args_os().skip(1) {
        let text = word.to_string_lossy();
        if let Some(target) = named(&text) {
            targets.push(target);
        } else if text.starts_with('-') && !text.starts_with("--") || Path::new(&word).exists() {
            arguments.push(word);
        } else {
            let names: Vec<&str> = all().iter().map(|target| target.name).collect();
            eprintln!(
                "`{text}` is neither a target, nor a -FLAG=VALUE of libFuzzer, nor a file; targets: {}",
                names.join(", ")
            );
            return 2;
        }
    }
    if targets.is_empty() {
        targets.extend(all());
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let passes = run(target, &arguments, targets.len() == 1).unwrap_or_else(|error| {
                eprintln!("{}: libFuzzer was not started: {error}", target.name);
                false
            });
            failed.fetch_or(!passes, Ordering::Relaxed);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(targets.len()) {
            scope.spawn(work);
        }
    });
    i32::from(failed.into_inner())
}

/// Runs libFuzzer on one target; whether nothing was found. Of several that run side by side, the
/// output of those that pass is a line each.
fn run(target: &Target, arguments: &[OsString], is_shown: bool) -> io::Result<bool> {
    let findings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/findings");
    let findings = findings.join(target.name);
    fs::create_dir_all(&findings)?;
    let mut command = Command::new(env::current_exe()?);
    command
        .env(TARGET, target.name)
        .args(FLAGS)
        .arg(format!("-max_len={MAX_INPUT_BYTES}"))
        .arg(format!("-artifact_prefix={}/", findings.display()));
    let ends = |word: &OsString| {
        let word = word.to_string_lossy();
        word.starts_with("-runs=") || word.starts_with("-max_total_time=")
    };
    if !arguments.iter().any(ends) {
        command.arg("-max_total_time=10");
    }
    command.args(arguments);
    if is_shown {
        return Ok(command.status()?.success());
    }
    let ended = command.output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let passes = ended.status.success();
    if passes {
        let done = said.lines().find(|line| line.contains("\tDONE "));
        println!("{:<10} {}", target.name, done.unwrap_or_default());
    } else {
        println!("{}: {}\n{said}", target.name, ended.status);
    }
    Ok(passes)
}

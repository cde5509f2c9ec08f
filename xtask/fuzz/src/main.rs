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
    path::Path,
    process::{Command, exit},
    sync::OnceLock,
};

use fuzz::{MAX_INPUT_BYTES, Target, all, named};
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
    documents: Vec<Vec<u8>>,
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
    let mut length = size;
    // libFuzzer begins with a line break where it has no corpus, and without instrumentation it
    // never has one.
    if size < 2 {
        let documents = &room().documents;
        let document = &documents[seed as usize % documents.len()];
        length = document.len().min(most);
        data[..length].copy_from_slice(&document[..length]);
    }
    fuzzer_mutate(data, length, most)
});

/// Prepares this process for one target.
fn enter(name: &str) {
    let target = named(name).unwrap_or_else(|| panic!("{TARGET} names no target: `{name}`"));
    let limit = Some(MAX_BYTES);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::Data, limit).expect("a lower limit is always allowed");
    let (documents, scratch) = (target.documents(), scratch().expect("a scratch folder"));
    let _ = ROOM.set(Room {
        target,
        documents,
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
    let mut code = 0;
    for target in &targets {
        println!("{}", target.name);
        match run(target, &arguments, targets.len() == 1) {
            Ok(true) => {}
            Ok(false) => code = 1,
            Err(error) => {
                eprintln!("{}: libFuzzer was not started: {error}", target.name);
                code = 1;
            }
        }
    }
    code
}

/// Runs libFuzzer on one target; whether nothing was found. Of several, findings alone are shown.
fn run(target: &Target, arguments: &[OsString], is_alone: bool) -> io::Result<bool> {
    let findings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/findings");
    let findings = findings.join(target.name);
    fs::create_dir_all(&findings)?;
    let mut command = Command::new(env::current_exe()?);
    command
        .env(TARGET, target.name)
        .args(FLAGS)
        .arg(format!("-max_len={MAX_INPUT_BYTES}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args((!is_alone).then_some("-verbosity=0"));
    let ends = |word: &OsString| {
        let word = word.to_string_lossy();
        word.starts_with("-runs=") || word.starts_with("-max_total_time=")
    };
    if !arguments.iter().any(ends) {
        command.arg("-max_total_time=10");
    }
    Ok(command.args(arguments).status()?.success())
}

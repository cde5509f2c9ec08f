//! What runs inside the containers of these tests: a static program that behaves as workloads
//! do, well and badly, as the variable `MODE` says. Compiled by the tests with `rustc`, so that
//! they need no image from anywhere.

use std::{
    env, fs,
    io::Write as _,
    process::{Command, abort, exit},
    thread::sleep,
    time::Duration,
};

const FINISHED: &str = r#"{"event":"finished","values":{"parameters_count":1,"micro_batch_samples":1,"effective_batch_samples":1,"samples_count":1,"measured_seconds":0.05,"throughput_samples_per_second":20.0}}"#;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let mut mode = env::var("MODE").unwrap_or_default();
    if mode == "child" || arguments.len() < 3 {
        eat();
    }
    let asked = fs::read_to_string(&arguments[1]).expect("the run file");
    let run = asked
        .split("\"run\": \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("the run's name");
    // A mode for each run, by its place in the session's order, which begins its name.
    if let Some(modes) = mode.strip_prefix("by-run:") {
        let place: usize = run.split('-').next().and_then(|place| place.parse().ok()).expect("a place");
        mode = modes.split(',').nth(place).expect("a mode for every run").to_owned();
    }
    let mut results = fs::OpenOptions::new()
        .append(true)
        .open(&arguments[2])
        .expect("the results file");
    let mut say = |text: &str| writeln!(results, "{text}").expect("the results file takes it");
    say(&format!(
        r#"{{"event":"started","version":4,"run":"{run}","scenario_version":"0","libtorch_version":"2.11.0","threads":1,"cuda":null,"allocator":null}}"#
    ));
    say(r#"{"event":"phase-began","phase":"measure"}"#);
    eprintln!("mode {mode}");
    match mode.as_str() {
        "brief" => sleep(Duration::from_millis(50)),
        "contradiction" => {
            say(r#"{"event":"step","index":0,"values":{"step_seconds":0.04}}"#);
            say(&FINISHED.replace("20.0", "90.0"));
            exit(0);
        }
        "memory" => {
            say(r#"{"event":"failed","reason":"out-of-memory","phase":"measure","message":"2 GiB"}"#);
            exit(1);
        }
        "by-batch" => {
            let batch = asked.split("\"batch\": ").nth(1).expect("the batch");
            let digits = batch.split(|c: char| !c.is_ascii_digit()).next().expect("a number");
            let batch: usize = digits.parse().expect("a number");
            let memory = vec![1_u8; batch * (8 << 20)];
            sleep(Duration::from_millis(400));
            assert_eq!(memory[memory.len() / 2], 1);
        }
        "slow" => sleep(Duration::from_secs(4)),
        "shm" => fill("/dev/shm/batch"),
        "mapped-shm" => fill_mapped("/dev/shm/batch"),
        "hang" | "hang-until-killed" => sleep(Duration::from_secs(600)),
        "abort" => abort(),
        "exit" => exit(3),
        "garbage" => say("garbage"),
        "eat" => eat(),
        "oom-child" => {
            let child = Command::new(&arguments[0]).env("MODE", "child").status();
            eprintln!("child: {child:?}");
        }
        "environment" => {
            for (key, value) in env::vars() {
                eprintln!("{key}={value}");
            }
            eprintln!("root: {:?}", fs::write("/here", "x").map_err(|error| error.kind()));
            eprintln!("home: {:?}", fs::write("/tmp/here", "x").is_ok());
            eprintln!("run file: {:?}", fs::write(&arguments[1], "x").is_ok());
            let interfaces = fs::read_dir("/sys/class/net").expect("/sys");
            let names: Vec<_> = interfaces.map(|i| i.unwrap().file_name()).collect();
            eprintln!("network: {names:?}");
        }
        "kernel-cache" => {
            let folder = env::var("CUDA_CACHE_PATH").expect("the folder of compiled kernels");
            // The driver makes a folder that is not there.
            fs::create_dir_all(&folder).expect("a place for it");
            let compiled = fs::read_dir(&folder).expect("the folder").count();
            eprintln!("found {compiled} in {folder}");
            fs::write(format!("{folder}/{run}"), "kernel").expect("room for one more");
        }
        "flood-results" => loop {
            say(r#"{"event":"heartbeat","phase":"measure","step":1}"#);
        },
        "flood-log" => {
            eprintln!("first");
            let line = "0123456789".repeat(100);
            loop {
                eprintln!("{line}");
            }
        }
        "escapes" => {
            eprintln!("\u{1b}[2J\n::error::in the log");
            say(
                r#"{"event":"failed","reason":"libtorch","phase":"measure","message":"\u001b]0;owned\u0007\n::error::in the message\u202e"}"#,
            );
            exit(1);
        }
        "log-escapes" => {
            eprintln!("\u{1b}[2J\n::error::in the log");
            exit(3);
        }
        "fork-bomb" => fork_bomb(),
        // Half a million samples a second, all numbers in agreement.
        // Agrees with its life, and with itself.
        "forged-well" => sleep(Duration::from_millis(200)),
        "forged" => {
            say(r#"{"event":"step","index":0,"values":{"step_seconds":0.000002}}"#);
            return say(&FINISHED.replace("0.05", "0.000002").replace("20.0", "500000.0"));
        }
        // Longer than anybody has seen it live.
        "overstated" => {
            say(r#"{"event":"step","index":0,"values":{"step_seconds":400.0}}"#);
            return say(&FINISHED.replace("0.05", "500.0").replace("20.0", "0.002"));
        }
        "fill-tmp" => {
            let mut file = fs::File::create("/tmp/large").expect("a file");
            let mut mebibytes = 0;
            let error = loop {
                match file.write_all(&vec![1; 1 << 20]) {
                    Ok(()) => mebibytes += 1,
                    Err(error) => break error.kind(),
                }
            };
            eprintln!("{mebibytes} MiB in /tmp: {error:?}");
        }
        // Its file is setuid and root's, and so is that of the program which it runs.
        "setuid" => {
            let status = |pid: &str| fs::read_to_string(format!("/proc/{pid}/status"));
            let mut child = Command::new(&arguments[0]);
            let mut child = child.args(&arguments[1..]).env("MODE", "hang").spawn().expect("itself");
            for status in [status("self"), status(&child.id().to_string())] {
                let status = status.expect("what the kernel says of it");
                let kept = status.lines().filter(|line| {
                    ["Uid:", "Gid:", "CapEff:", "CapBnd:", "NoNewPrivs:"].iter().any(|of| line.starts_with(of))
                });
                eprintln!("{}", kept.collect::<Vec<_>>().join(" "));
            }
            let _ = child.kill();
            let file = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&arguments[0]).expect("it"));
            eprintln!("file {file:o}");
            exit(3);
        }
        "memory-limit" => {
            let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
            let limit = files.iter().find_map(|file| fs::read_to_string(file).ok());
            eprintln!("limit {}", limit.expect("a cgroup's files").trim());
        }
        "idle" => {
            let memory = vec![1_u8; 64 << 20];
            sleep(Duration::from_millis(1000));
            assert_eq!(memory[memory.len() / 2], 1);
            say(r#"{"event":"step","index":0,"values":{"idle_seconds":1.0}}"#);
            return say(
                r#"{"event":"finished","values":{"cpu_seconds":0.01}}"#,
            );
        }
        _ => {
            let memory = vec![1_u8; 64 << 20];
            sleep(Duration::from_millis(600));
            assert_eq!(memory[memory.len() / 2], 1);
        }
    }
    say(r#"{"event":"step","index":0,"values":{"step_seconds":0.04}}"#);
    say(FINISHED);
}

/// Writes 128 MiB into a file.
fn fill(path: &str) {
    let mut file = fs::File::create(path).expect("a file");
    for _ in 0..128 {
        file.write_all(&vec![1; 1 << 20]).expect("room for a batch");
    }
}

/// Puts 128 MiB into a file through a mapping, as data loaders hand batches from process to process.
fn fill_mapped(path: &str) {
    use std::os::fd::AsRawFd as _;
    const BYTES: usize = 128 << 20;
    unsafe extern "C" {
        fn mmap(at: *mut u8, bytes: usize, access: i32, kind: i32, fd: i32, from: i64) -> *mut u8;
    }
    let file = fs::File::options().read(true).write(true).create(true).open(path).expect("a file");
    file.set_len(BYTES as u64).expect("a length, which costs nothing yet");
    // SAFETY: a fresh shared mapping of a file that is as long.
    let memory = unsafe { mmap(std::ptr::null_mut(), BYTES, 3, 1, file.as_raw_fd(), 0) };
    assert_ne!(memory as isize, -1, "the file is mapped");
    for page in (0..BYTES).step_by(4096) {
        // SAFETY: within the mapping.
        unsafe { memory.add(page).write_volatile(1) };
    }
}

/// Becomes as many processes as it may, which then stay.
fn fork_bomb() -> ! {
    unsafe extern "C" {
        fn fork() -> i32;
    }
    // SAFETY: one thread, and nothing but this loop and a sleep in the children.
    while unsafe { fork() } >= 0 {}
    loop {
        sleep(Duration::from_secs(600));
    }
}

/// Takes memory until somebody stops it.
fn eat() -> ! {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(vec![eaten.len() as u8 | 1; 1 << 20]);
    }
}

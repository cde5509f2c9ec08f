//! What runs inside the test containers: one static binary, one word of what to do.
//! Compiled by the tests with `rustc`, so that they need no image from anywhere.

use std::{
    env, fs,
    io::{self, Write as _},
    process::{Command, exit},
    thread,
    time::Duration,
};

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    let number = |index: usize| word(index).parse::<u64>().expect("a number");
    match word(0) {
        "exit" => exit(number(1) as i32),
        "abort" => std::process::abort(),
        "sleep" => thread::sleep(Duration::from_secs(number(1))),
        "eat" => eat(number(1)),
        "parent-of-eater" => {
            let me = env::current_exe().expect("/proc");
            let status = Command::new(me).args(["eat", word(1)]).status().expect("a child");
            println!("child: {status}");
            exit(3);
        }
        "lines" => {
            let mut out = io::stderr().lock();
            let padding = "x".repeat(number(2) as usize);
            for line in 0..number(1) {
                writeln!(out, "{line} {padding}").expect("stderr");
            }
        }
        "burn" => {
            // Seconds of a CPU, whoever else uses it: user time, 100 ticks a second (proc(5)).
            let used = || {
                let stat = fs::read_to_string("/proc/self/stat").expect("/proc");
                let rest = stat.rsplit(')').next().expect("fields after the name");
                rest.split_whitespace().nth(11).expect("utime").parse::<u64>().expect("a number")
            };
            while used() < number(1) * 100 {
                (0..10_000_000_u64).for_each(|i| _ = std::hint::black_box(i));
            }
        }
        "write" => fs::write(word(1), word(2)).expect("the file"),
        "environment" => println!("{}", env::var(word(1)).unwrap_or("not set".to_owned())),
        "isolation" => isolation(),
        other => panic!("no such word: {other}"),
    }
}

/// Takes memory and touches every page, so that it is really used.
fn eat(bytes: u64) {
    let mut held = Vec::new();
    for _ in 0..bytes >> 20 {
        let mut block = vec![0u8; 1 << 20];
        for page in block.iter_mut().step_by(4096) {
            *page = 1;
        }
        held.push(block);
    }
    thread::sleep(Duration::from_millis(1500));
    println!("held {} MiB", held.len());
}

fn isolation() {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    for line in status.lines() {
        for key in ["Uid:", "Gid:", "Groups:", "CapEff:", "CapBnd:", "NoNewPrivs:"] {
            if line.starts_with(key) {
                println!("{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    let interfaces: Vec<String> = fs::read_to_string("/proc/net/dev")
        .expect("/proc")
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .filter(|name| is_up(name))
        .collect();
    println!("interfaces: {}", interfaces.join(" "));
    for path in ["/file", "/etc/file", "/dev/shm/file", "/tmp/file"] {
        match fs::write(path, "x") {
            Ok(()) => println!("{path}: written"),
            Err(error) => println!("{path}: {:?}", error.kind()),
        }
    }
    let init = fs::read_to_string("/proc/1/comm").expect("/proc");
    println!("process 1: {}", init.trim());
    let limits = fs::read_to_string("/proc/self/limits").expect("/proc");
    for line in limits.lines().filter(|line| line.starts_with("Max open files")) {
        println!("{}", line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc");
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if ["/", "/tmp", "/dev/shm"].contains(&fields[1]) {
            println!("mount {} {} {}", fields[1], fields[2], fields[3]);
        }
    }
}

/// Some kernels give every network namespace tunnel devices that nobody set up.
fn is_up(name: &str) -> bool {
    fs::read_to_string(format!("/sys/class/net/{name}/flags"))
        .ok()
        .and_then(|flags| u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok())
        .is_none_or(|flags| flags & 1 == 1)
}

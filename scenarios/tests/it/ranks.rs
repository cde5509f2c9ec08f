//! Several ranks of the binary, on the CPU.

use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use protocol::{Model, Task};
use serde_json::Value;

use crate::binary::{BINARY, Folder, run_file};

fn folder(ranks: u32, steps: u32) -> Folder {
    let file = run_file(Model::VitTiny, Task::Training, r#"{"batch":2}"#);
    let file = file.replace(r#""measured":3"#, &format!(r#""measured":{steps}"#));
    let ranks = format!(r#""seed":7,"ranks":{ranks}"#);
    let file = file.replace(r#""seed":7"#, &ranks);
    Folder::new(&file.replace(r#","threads":1"#, ""))
}

/// The lines that the ranks wrote, whole.
fn lines(folder: &Folder) -> Vec<Value> {
    let text = fs::read_to_string(folder.path("results.ndjson")).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn of<'a>(lines: &'a [Value], event: &str, rank: u32) -> Vec<&'a Value> {
    let is_wanted = |line: &&Value| line["event"] == event && line["rank"] == rank;
    lines.iter().filter(is_wanted).collect()
}

fn check(ranks: u32) {
    let folder = folder(ranks, 3);
    let output = folder.run();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let lines = lines(&folder);
    let cpus = thread::available_parallelism().unwrap().get();
    let cpus = u32::try_from(cpus).unwrap();
    let losses = |rank| -> Vec<&Value> {
        let steps = of(&lines, "step", rank).into_iter();
        steps.map(|step| &step["values"]["loss"]).collect()
    };
    for rank in 0..ranks {
        let [started] = of(&lines, "started", rank)[..] else {
            panic!("rank {rank} of {lines:?}")
        };
        assert_eq!(started["threads"], (cpus / ranks).max(1));
        assert_eq!(of(&lines, "finished", rank).len(), 1);
        assert_eq!(losses(rank).len(), 3);
        // Replicas of one seed.
        assert_eq!(losses(rank), losses(0));
    }
    let unnamed = lines.iter().filter(|line| line["rank"].is_null());
    assert_eq!(unnamed.count(), 0);
}

#[test]
fn two_ranks_and_four_are_replicas() {
    check(2);
    check(4);
}

/// The process that is this rank of the run in a folder.
fn process_of(folder: &Path, rank: u32) -> Option<u32> {
    let wanted = format!("RANK={rank}");
    let folder = folder.to_string_lossy().into_owned();
    let mut processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let (environment, words) = (read("environ"), read("cmdline"));
            let is_rank = environment
                .split(|&byte| byte == 0)
                .any(|one| one == wanted.as_bytes());
            let is_here = String::from_utf8_lossy(&words).contains(&folder);
            let pid = entry.file_name().to_str()?.parse().ok()?;
            (is_rank && is_here).then_some(pid)
        });
    processes.next()
}

#[test]
fn a_killed_rank_ends_the_others_and_is_named() {
    let folder = folder(2, 1_000_000);
    let home = folder.path("");
    let mut supervisor = Command::new(BINARY)
        .args([folder.path("run.json"), folder.path("results.ndjson")])
        .spawn()
        .unwrap();
    let measures = |rank| {
        let lines = lines(&folder);
        let began = of(&lines, "phase-began", rank);
        began.iter().any(|line| line["phase"] == "measure")
    };
    let since = Instant::now();
    while !(measures(0) && measures(1)) {
        assert!(since.elapsed() < Duration::from_mins(2), "no steps");
        thread::sleep(Duration::from_millis(20));
    }
    let other = process_of(&home, 0).unwrap();
    let pid = process_of(&home, 1).unwrap().to_string();
    let killed = Command::new("kill").args(["-KILL", &pid]).status();
    assert!(killed.unwrap().success());
    assert_eq!(supervisor.wait().unwrap().code(), Some(1));
    assert!(!Path::new("/proc").join(other.to_string()).exists());
    let lines = lines(&folder);
    let failed = of(&lines, "failed", 1);
    assert_eq!(failed.len(), 1, "{lines:?}");
    assert_eq!(failed[0]["reason"], "rank-crash");
    assert_eq!(failed[0]["phase"], "measure");
    assert_eq!(of(&lines, "failed", 0).len(), 0);
}

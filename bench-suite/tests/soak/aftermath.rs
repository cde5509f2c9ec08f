//! Every run once, as it had to end; nothing left.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use record::{Record, SessionFolder};

use crate::faults::Expected;

/// Holds what is left of a soak against what had to come of it.
pub(crate) fn check(home: &Path, expected: &Expected) -> Result<String, String> {
    let folder = SessionFolder::at(home.join("session"));
    let session = folder.read_session().map_err(|error| error.to_string())?;
    let records = folder.read_records().map_err(|error| error.to_string())?;
    if !session.complete {
        return Err("the session is not complete".to_owned());
    }
    if records.torn_after.is_some() {
        return Err("the last line is torn".to_owned());
    }
    let word = |record: &Record| record.outcome.word();
    let mut finished: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut unfinished: BTreeMap<String, u32> = BTreeMap::new();
    for record in &records.records {
        match word(record) {
            word if word == "interrupted" || word == "engine" => {
                *unfinished.entry(word).or_default() += 1;
            }
            word => finished.entry(record.order).or_default().push(word),
        }
    }
    for (order, (fault, outcome)) in expected {
        let found = finished.get(order).map(Vec::as_slice).unwrap_or_default();
        if found != [*outcome] {
            let told: Vec<String> = records
                .records
                .iter()
                .filter(|record| record.order == *order)
                .map(|record| format!("attempt {}: {:?}", record.attempt, record.outcome))
                .collect();
            return Err(format!(
                "run {order} ({fault}) had to end once with {outcome}, found {found:?}: {}",
                told.join("; ")
            ));
        }
    }
    if finished.len() != expected.len() {
        return Err(format!("{} runs of {}", finished.len(), expected.len()));
    }
    nothing("files of runs", || names(&home.join("session/work")))?;
    nothing("processes", || processes_in(home))?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, outcome) in expected.values() {
        *counts.entry(outcome).or_default() += 1;
    }
    let words = |counts: &mut dyn Iterator<Item = String>| counts.collect::<Vec<_>>().join(", ");
    let ended = words(&mut counts.iter().map(|(word, count)| format!("{count} {word}")));
    let beside = unfinished
        .iter()
        .map(|(word, count)| format!("{count} {word}"));
    let none = unfinished.is_empty().then(|| "none".to_owned());
    Ok(format!(
        "{} runs, each accounted for once ({ended}), and attempts beside them: {}",
        expected.len(),
        words(&mut beside.chain(none))
    ))
}

/// Fails unless nothing is left within five seconds; what was killed stays for a moment.
pub(crate) fn nothing(what: &str, left: impl Fn() -> Vec<String>) -> Result<(), String> {
    let mut found = left();
    for _ in 0..100 {
        if found.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
        found = left();
    }
    Err(format!("{what} were left: {found:?}"))
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.flatten().map(name).collect()
}

/// Processes of this soak's runs: their working folder is below it.
fn processes_in(home: &Path) -> Vec<String> {
    let mut found = names(Path::new("/proc"));
    found.retain(|pid| {
        let folder = PathBuf::from("/proc").join(pid).join("cwd");
        fs::read_link(folder).is_ok_and(|folder| folder.starts_with(home))
    });
    found
}

/// Processes whose command line holds both of these.
pub(crate) fn processes_that_name(one: &str, other: &str) -> Vec<String> {
    let mut found = names(Path::new("/proc"));
    found.retain(|pid| {
        let line = command_line(pid);
        line.contains(one) && line.contains(other)
    });
    found
}

/// Processes that one of these has started: their numbers and command lines.
pub(crate) fn children_of(parents: &[String]) -> Vec<(String, String)> {
    let parent = |pid: &String| {
        let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        Some(line.trim().to_owned())
    };
    let mut found = names(Path::new("/proc"));
    found.retain(|pid| parent(pid).is_some_and(|parent| parents.contains(&parent)));
    let told = |pid: String| {
        let line = command_line(&pid);
        (pid, line)
    };
    found.into_iter().map(told).collect()
}

fn command_line(pid: &str) -> String {
    let line = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

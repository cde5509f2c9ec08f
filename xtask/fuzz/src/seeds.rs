//! The documents that mutations start from: those in `seeds`, and this repository's own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use record::SessionFolder;
use serde_json::Value;

/// Items that are kept of a list of samples: one more is read as the others are.
const KEPT: usize = 3;

/// The files in a folder of the repository whose names end so, sorted.
fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    files
}

fn contents(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let files = files(folder, end).into_iter();
    files.filter_map(|file| fs::read(file).ok()).collect()
}

/// Those in the target's folder.
pub(crate) fn committed(target: &str) -> Vec<Vec<u8>> {
    contents(&format!("xtask/fuzz/seeds/{target}"), "")
}

pub(crate) fn suites() -> Vec<Vec<u8>> {
    contents("scenarios", ".yaml")
}

pub(crate) fn specs() -> Vec<Vec<u8>> {
    contents("images", ".yaml")
}

pub(crate) fn locks() -> Vec<Vec<u8>> {
    let mut locks = contents("images", ".lock.json");
    // Large ones differ from small ones in the number of their libraries alone.
    for lock in &mut locks {
        if let Ok(mut value) = serde_json::from_slice(lock) {
            shorten(&mut value);
            *lock = images::fuzzing::sealed(&value).unwrap_or_else(|| lock.clone());
        }
    }
    locks
}

/// Cuts lists: what was sampled ten times a second is long, and all of it alike.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(KEPT);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// The gallery's sessions: `session.json`, and some of the lines of their records.
fn gallery() -> Vec<(Vec<u8>, Vec<u8>)> {
    let session = |folder: PathBuf| {
        let session = fs::read(folder.join(SessionFolder::SESSION)).ok()?;
        let records = SessionFolder::at(folder).read_lines().ok()?;
        let records = String::from_utf8(records).ok()?;
        let lines: Vec<&str> = records.lines().collect();
        // Of all kinds that a session has: spread over it.
        let lines = lines.iter().step_by(lines.len().div_ceil(2 * KEPT).max(1));
        let records = lines.filter_map(|line| {
            let mut record = serde_json::from_str(line).ok()?;
            shorten(&mut record);
            Some(format!("{record}\n"))
        });
        Some((session, records.collect::<String>().into_bytes()))
    };
    files("reports/gallery", "")
        .into_iter()
        .filter_map(session)
        .collect()
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    let sessions = gallery().into_iter();
    let lines = sessions.flat_map(|(_, records)| {
        let lines = records.split_inclusive(|byte| *byte == b'\n');
        lines.take(2).map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    lines.collect()
}

/// `session.json`, a NUL, and `records.ndjson`.
pub(crate) fn folders() -> Vec<Vec<u8>> {
    let sessions = gallery().into_iter();
    sessions
        .map(|(session, records)| [session, records].join(&0))
        .collect()
}

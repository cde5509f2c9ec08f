//! What travels between a session's folder and a Pod: a part on the way in, and what a run recorded
//! on the way back, which is lines of its container's log, with their digest.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    path::{Component, Path},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use record::SessionFolder;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What each line begins with; whatever else a container says is none of it.
const MARK: &str = "torchgauge-parcel ";
/// Bytes of a line; container runtimes cut lines of 16 KiB.
const LINE: usize = 8 << 10;
/// Kubelets keep 10 MiB of a container's log: what is larger travels without snapshot, then without log.
const MOST: usize = 7 << 20;
/// The most that a parcel may be once it is unpacked.
const MOST_UNPACKED: u64 = 1 << 30;
/// Folders of what belongs to one run; the last to be left out first.
const OF_RUNS: [&str; 2] = [SessionFolder::LOGS, "snapshots"];
const OF_ALL: [&str; 2] = [SessionFolder::RECORDS, SessionFolder::SESSION];

/// What a run's container handed over.
#[derive(Debug, PartialEq, Eq)]
pub struct Parcel {
    archive: Vec<u8>,
    /// Why the run was not carried out.
    pub error: Option<String>,
}

/// A part as a Pod needs it: what is planned, which runs are done, and the suites that are files.
pub fn of_part(part: &Path) -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(part)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if entry.file_type()?.is_file() && !name.starts_with('.') {
            let content = if name == SessionFolder::RECORDS {
                outlined(part)?
            } else {
                fs::read(entry.path())?
            };
            files.push((name, content));
        }
    }
    files.sort();
    pack(&files)
}

/// The part's records without what was measured: how each run ended, and where.
fn outlined(part: &Path) -> io::Result<Vec<u8>> {
    let records = SessionFolder::at(part).read_records();
    let mut lines = Vec::new();
    for mut record in records.map_err(io::Error::other)?.records {
        (record.values, record.series) = Default::default();
        (record.kernels, record.modules, record.memory_points) = Default::default();
        record.monitor = record::Monitor::default();
        for rank in &mut record.ranks {
            rank.values.clear();
        }
        serde_json::to_writer(&mut lines, &record)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// What this run left in its part, as lines for its container's log.
pub fn of_run(part: &Path, run: &str, error: Option<&str>) -> io::Result<String> {
    let mut names = OF_ALL.map(str::to_owned).to_vec();
    for folder in OF_RUNS {
        let entries = fs::read_dir(part.join(folder)).into_iter().flatten();
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let own = files.filter(|name| name.starts_with(&format!("{run}.")));
        names.extend(own.map(|name| format!("{folder}/{name}")));
    }
    let mut files = Vec::new();
    for name in names {
        let path = part.join(&name);
        if path.exists() {
            files.push((name, fs::read(path)?));
        }
    }
    let mut archive = pack(&files)?;
    for folder in OF_RUNS.iter().rev() {
        if archive.len() > MOST {
            files.retain(|(name, _)| !name.starts_with(folder));
            archive = pack(&files)?;
        }
    }
    let mut lines = String::new();
    let text = BASE64_STANDARD.encode(&archive);
    for line in text.as_bytes().chunks(LINE) {
        let _ = writeln!(lines, "{MARK}+ {}", String::from_utf8_lossy(line));
    }
    if let Some(error) = error {
        let _ = writeln!(lines, "{MARK}error {}", error.replace('\n', " "));
    }
    let _ = writeln!(lines, "{MARK}sha256 {:x}", Sha256::digest(&archive));
    Ok(lines)
}

/// The parcel in a container's log; `None` where none was begun.
///
/// # Errors
/// Where it is cut off or is not what was sent.
pub fn read(log: &str) -> Result<Option<Parcel>, String> {
    let lines: Vec<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix(MARK))
        .collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let of = |word: &str| {
        lines
            .iter()
            .find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
    };
    let sent = of("sha256").ok_or("its results are cut off")?;
    let text: String = lines
        .iter()
        .filter_map(|line| line.strip_prefix("+ "))
        .collect();
    let archive = BASE64_STANDARD
        .decode(text)
        .map_err(|error| format!("its results are no base64: {error}"))?;
    let found = format!("{:x}", Sha256::digest(&archive));
    if found != sent {
        return Err(format!(
            "its results have the digest {found}, but were sent with {sent}"
        ));
    }
    let error = of("error").map(str::to_owned);
    Ok(Some(Parcel { archive, error }))
}

impl Parcel {
    /// Puts what came of the run with this place in the session's order into the part's folder, each
    /// file whole, the session's file last. What it says of other runs, and again, changes nothing.
    ///
    /// # Errors
    /// Where it holds other files than those of a run, or cannot be written.
    pub fn unpack(&self, part: &Path, order: u32) -> Result<(), String> {
        let mut files = unpack(&self.archive)?;
        let place = |name: &str| {
            OF_ALL
                .iter()
                .position(|own| *own == name)
                .map_or(0, |at| at + 1)
        };
        files.sort_by_key(|(name, _)| place(name));
        for (name, content) in files {
            let mut own = OF_RUNS.iter();
            let of_run = own.any(|folder| name.starts_with(&format!("{folder}/{order:04}-")));
            if !of_run && !OF_ALL.contains(&name.as_str()) {
                return Err(format!("`{name}` is no file of a run"));
            }
            if name == SessionFolder::RECORDS {
                let there = fs::read_to_string(part.join(&name)).unwrap_or_default();
                let whole = continued(there, &String::from_utf8_lossy(&content), order);
                write(part, &name, whole.as_bytes())?;
            } else {
                write(part, &name, &content)?;
            }
        }
        Ok(())
    }
}

/// The records that are there, with the attempts at one run that are not.
fn continued(mut there: String, came: &str, order: u32) -> String {
    #[derive(PartialEq, Deserialize)]
    struct Attempt {
        order: u32,
        attempt: u32,
    }
    let of = |line: &str| serde_json::from_str::<Attempt>(line).ok();
    let known: Vec<Attempt> = there.lines().filter_map(of).collect();
    for line in came.lines() {
        if of(line).is_some_and(|own| own.order == order && !known.contains(&own)) {
            there.push_str(line);
            there.push('\n');
        }
    }
    there
}

/// Unpacks a part in a Pod.
///
/// # Errors
/// Where it is no archive, or cannot be written.
pub fn unpack_part(archive: &[u8], to: &Path) -> Result<(), String> {
    for (name, content) in unpack(archive)? {
        write(to, &name, &content)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, content: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    let written = fs::create_dir_all(path.parent().unwrap_or(folder))
        .and_then(|()| regular_file::replace(&path, |file| io::Write::write_all(file, content)));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn pack(files: &[(String, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Files of an archive that somebody else may have made: below one folder, and no links.
fn unpack(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let damaged = |error: io::Error| format!("its results cannot be unpacked: {error}");
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(MOST_UNPACKED));
    let mut files = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let name = path
            .to_str()
            .filter(|_| is_plain && entry.header().entry_type().is_file());
        let Some(name) = name.map(str::to_owned) else {
            return Err(format!("`{}` is no file of a part", path.display()));
        };
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(damaged)?;
        files.push((name, content));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(records: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        for (name, text) in [
            ("session.json", "{}"),
            ("records.ndjson", records),
            ("logs/0001-a.log", "x"),
            ("logs/0001-ab.log", "y"),
            (".lock", ""),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn what_a_run_left_comes_back_whole_or_is_refused() {
        let line =
            |order: u32, attempt: u32| format!("{{\"order\":{order},\"attempt\":{attempt}}}\n");
        let from = part(&format!("{}{}", line(0, 1), line(1, 1)));
        let lines = of_run(from.path(), "0001-a", None).unwrap();
        let parcel = read(&format!("said\n{lines}more\n")).unwrap().unwrap();
        let to = tempfile::tempdir().unwrap();
        parcel.unpack(to.path(), 1).unwrap();
        assert!(to.path().join("logs/0001-a.log").exists());
        assert!(!to.path().join("logs/0001-ab.log").exists());
        let records = || fs::read_to_string(to.path().join("records.ndjson")).unwrap();
        assert_eq!(records(), line(1, 1), "of its own run alone");
        // Again, and after what came later.
        let later = format!("{}{}", line(1, 1), line(1, 2));
        fs::write(to.path().join("records.ndjson"), &later).unwrap();
        parcel.unpack(to.path(), 1).unwrap();
        assert_eq!(records(), later);

        assert_eq!(read("said\n").unwrap(), None);
        let cut: String = lines.lines().take(1).collect();
        insta::assert_snapshot!(read(&cut).unwrap_err(), @"its results are cut off");
        let changed = lines.replacen("+ H", "+ I", 1);
        let error = read(&changed).unwrap_err();
        let words = error.split(|letter: char| !letter.is_ascii_alphanumeric());
        let digests = words.filter(|word| word.len() == 64);
        let told = digests.fold(error.clone(), |told, one| told.replace(one, "DIGEST"));
        insta::assert_snapshot!(told, @"its results have the digest DIGEST, but were sent with DIGEST");
        let failed = of_run(from.path(), "0001-a", Some("no\nfile")).unwrap();
        assert_eq!(
            read(&failed).unwrap().unwrap().error.as_deref(),
            Some("no file")
        );
    }

    #[test]
    fn what_leaves_the_part_is_refused() {
        let refusals = [
            "../x",
            "session.json/../../x",
            "report.html",
            "logs/0001-of-another.log",
        ]
        .map(|name| {
            let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(1);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            archive.append(&header, &b"x"[..]).unwrap();
            let archive = archive.into_inner().unwrap().finish().unwrap();
            let to = tempfile::tempdir().unwrap();
            let parcel = Parcel {
                archive,
                error: None,
            };
            parcel.unpack(to.path(), 0).unwrap_err()
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        `../x` is no file of a part
        `session.json/../../x` is no file of a part
        `report.html` is no file of a run
        `logs/0001-of-another.log` is no file of a run
        ");
    }

    #[test]
    fn a_part_is_what_a_pod_needs_of_it() {
        let (from, to) = (part(""), tempfile::tempdir().unwrap());
        unpack_part(&of_part(from.path()).unwrap(), to.path()).unwrap();
        let mut names: Vec<_> = fs::read_dir(to.path())
            .unwrap()
            .map(|one| one.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["records.ndjson", "session.json"]);
    }
}

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

/// A part as a Pod needs it: what is planned and recorded, and the suites that are files.
pub fn of_part(part: &Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(part)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if entry.file_type()?.is_file() && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    pack(part, &names)
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
    names.retain(|name| part.join(name).exists());
    let mut archive = pack(part, &names)?;
    for folder in OF_RUNS.iter().rev() {
        if archive.len() > MOST {
            names.retain(|name| !name.starts_with(folder));
            archive = pack(part, &names)?;
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
            "its results have the digest {found}, and were sent as {sent}"
        ));
    }
    let error = of("error").map(str::to_owned);
    Ok(Some(Parcel { archive, error }))
}

impl Parcel {
    /// Puts what came into the part's folder, each file whole, the session's file last. What is older
    /// than what is there changes nothing.
    ///
    /// # Errors
    /// Where it does not continue what is there, or cannot be written.
    pub fn unpack(&self, part: &Path) -> Result<(), String> {
        let mut files = unpack(&self.archive)?;
        let place = |name: &str| {
            OF_ALL
                .iter()
                .position(|own| *own == name)
                .map_or(0, |at| at + 1)
        };
        files.sort_by_key(|(name, _)| place(name));
        for (name, content) in &files {
            let of_run = OF_RUNS
                .iter()
                .any(|folder| name.starts_with(&format!("{folder}/")));
            if !of_run && !OF_ALL.contains(&name.as_str()) {
                return Err(format!("`{name}` is no file of a run"));
            }
            if name == SessionFolder::RECORDS {
                let there = fs::read(part.join(name)).unwrap_or_default();
                if !content.starts_with(&there) {
                    return if there.starts_with(content) {
                        Ok(())
                    } else {
                        Err("its records do not continue those that are there".to_owned())
                    };
                }
            }
            write(part, name, content)?;
        }
        Ok(())
    }
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

fn pack(folder: &Path, names: &[String]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for name in names {
        archive.append_path_with_name(folder.join(name), name)?;
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
            ("logs/r1.log", "x"),
            ("logs/r10.log", "y"),
            (".lock", ""),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn what_a_run_left_comes_back_whole_or_is_refused() {
        let from = part("a\nb\n");
        let lines = of_run(from.path(), "r1", None).unwrap();
        let parcel = read(&format!("said\n{lines}more\n")).unwrap().unwrap();
        let to = tempfile::tempdir().unwrap();
        parcel.unpack(to.path()).unwrap();
        assert!(to.path().join("logs/r1.log").exists() && !to.path().join("logs/r10.log").exists());
        fs::write(to.path().join("records.ndjson"), "a\nb\nc\n").unwrap();
        parcel.unpack(to.path()).unwrap();
        assert_eq!(
            fs::read_to_string(to.path().join("records.ndjson")).unwrap(),
            "a\nb\nc\n"
        );
        fs::write(to.path().join("records.ndjson"), "other\n").unwrap();
        assert!(
            parcel
                .unpack(to.path())
                .unwrap_err()
                .contains("do not continue")
        );

        assert_eq!(read("said\n").unwrap(), None);
        let cut: String = lines.lines().take(1).collect();
        assert!(read(&cut).unwrap_err().contains("cut off"));
        let changed = lines.replacen("+ H", "+ I", 1);
        assert!(read(&changed).unwrap_err().contains("were sent as"));
        let failed = of_run(from.path(), "r1", Some("no\nfile")).unwrap();
        assert_eq!(
            read(&failed).unwrap().unwrap().error.as_deref(),
            Some("no file")
        );
    }

    #[test]
    fn what_leaves_the_part_is_refused() {
        for name in ["../x", "session.json/../../x", "report.html"] {
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
            assert!(
                parcel
                    .unpack(to.path())
                    .unwrap_err()
                    .contains("is no file of a"),
                "{name}"
            );
        }
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

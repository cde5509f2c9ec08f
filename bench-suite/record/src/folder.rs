//! Reading and writing a session's folder.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufReader, Read as _, Write},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{Record, Session, VERSION, printable};

/// Why a session folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// What is there cannot be read, is of another form or version, or is not to be written to.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check the folder's permissions and the disk's space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a text is neither a session nor a record.
enum Misread {
    Version(u64),
    Form(serde_json::Error),
}

fn unreadable(path: &Path, source: &io::Error) -> FolderError {
    let path = path.display();
    FolderError::Refused(format!(
        "cannot read {path}: {source}; is this the folder of a session?"
    ))
}

/// Largest `session.json`; ten thousand cells take 7 MB.
const MOST_SESSION_BYTES: u64 = 64 << 20;
/// Largest `records.ndjson`, unpacked; a run of an hour takes some 200 kB.
const MOST_RECORDS_BYTES: u64 = 512 << 20;
/// Longest line of it.
const MOST_LINE_BYTES: usize = 16 << 20;

/// The folder of one session.
#[derive(Debug, Clone)]
pub struct SessionFolder {
    path: PathBuf,
}

/// The records of a session, and what was found while reading them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// In the order in which runs ended.
    pub records: Vec<Record>,
    /// The last line was torn: the writer was cut off. Bytes up to here are whole.
    pub torn_after: Option<u64>,
    /// Lines that hold no record and are left out: which and why, with the run where that can still be
    /// read, as in `line 3 of the records: not JSON; left out (run 0002-b0-img-one)`.
    pub bad_lines: Vec<String>,
}

impl Records {
    /// Those in the content of a file.
    pub fn of(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        let mut offset = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.last() != Some(&b'\n') {
                found.torn_after = Some(offset);
                break;
            }
            match read_record(line) {
                Ok(record) => found.records.push(record),
                Err(why) => {
                    let run = run_of(line).map(|run| format!(" (run {run})"));
                    let (number, run) = (number + 1, run.unwrap_or_default());
                    let told = format!("line {number} of the records: {why}; left out{run}");
                    found.bad_lines.push(told);
                }
            }
            offset += line.len() as u64;
        }
        found
    }

    /// What was left out, a sentence each; none where every line is a record.
    pub fn left_out(&self) -> Vec<String> {
        let bad = self.bad_lines.iter().cloned();
        let torn = self
            .torn_after
            .map(|_| "last line of the records cut off while it was written; left out".to_owned());
        bad.chain(torn).collect()
    }
}

impl SessionFolder {
    /// The plan and the facts.
    pub const SESSION: &str = "session.json";
    /// One record a line.
    pub const RECORDS: &str = "records.ndjson";
    /// The same packed with gzip, where that is not there.
    pub const PACKED: &str = "records.ndjson.gz";
    /// The runs' logs.
    pub const LOGS: &str = "logs";

    /// The folder at this path, there or not.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder, with `logs/` in it.
    pub fn create(&self) -> Result<(), FolderError> {
        let logs = self.path.join(Self::LOGS);
        fs::create_dir_all(&logs).map_err(|source| FolderError::Write { path: logs, source })
    }

    /// Reads `session.json`.
    pub fn read_session(&self) -> Result<Session, FolderError> {
        let path = self.path.join(Self::SESSION);
        let read = regular_file::read_own(&path, MOST_SESSION_BYTES);
        let text = read.and_then(|bytes| {
            String::from_utf8(bytes)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
        });
        let text = text.map_err(|source| unreadable(&path, &source))?;
        let at = path.display();
        let why = match parse::<Session>(&text) {
            Ok(session) => match session.problem() {
                None => return Ok(session),
                Some(problem) => format!("{at}: {}", printable(&problem)),
            },
            Err(Misread::Version(got)) => {
                format!("{at} is of version {got}, and this Torchgauge reads version {VERSION}")
            }
            // It quotes the file, which may be anybody's.
            Err(Misread::Form(error)) => format!(
                "{at}, line {}: {}",
                error.line().max(1),
                printable(&error.to_string())
            ),
        };
        Err(FolderError::Refused(why))
    }

    /// Writes `session.json`, whole or not at all.
    pub fn write_session(&self, session: &Session) -> Result<(), FolderError> {
        let path = self.path.join(Self::SESSION);
        regular_file::replace(&path, |file| {
            serde_json::to_writer_pretty(&mut *file, session)?;
            file.write_all(b"\n")
        })
        .map_err(|source| FolderError::Write { path, source })
    }

    /// Reads every record. What does not read, a torn last line among it, is told and left out.
    pub fn read_records(&self) -> Result<Records, FolderError> {
        Ok(Records::of(&self.read_lines()?))
    }

    /// The lines of the records as they were written, packed or not; none before a run has ended.
    pub fn read_lines(&self) -> Result<Vec<u8>, FolderError> {
        let path = self.path.join(Self::RECORDS);
        if self.is_packed() {
            return unpacked(&self.path.join(Self::PACKED));
        }
        match regular_file::read_own(&path, MOST_RECORDS_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|source| unreadable(&path, &source)),
        }
    }

    fn is_packed(&self) -> bool {
        let is_there = |name| self.path.join(name).exists();
        is_there(Self::PACKED) && !is_there(Self::RECORDS)
    }

    /// Where records are appended; refused where they are packed, for what were appended beside them
    /// would hide them.
    pub fn open_records(&self) -> Result<PathBuf, FolderError> {
        if self.is_packed() {
            let path = self.path.join(Self::PACKED);
            return Err(FolderError::Refused(format!(
                "cannot add records to {}; unpack it with `gunzip` first",
                path.display()
            )));
        }
        Ok(self.path.join(Self::RECORDS))
    }

    /// Appends one record and waits until it is on the disk.
    pub fn append(&self, record: &Record) -> Result<(), FolderError> {
        let path = self.open_records()?;
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write().map_err(|source| FolderError::Write { path, source })
    }

    /// Cuts a torn last line off, so that the next record starts a line.
    pub fn cut_torn_line(&self, records: &Records) -> Result<(), FolderError> {
        let Some(length) = records.torn_after else {
            return Ok(());
        };
        let path = self.open_records()?;
        let cut = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(length)?;
            file.sync_all()
        };
        cut().map_err(|source| FolderError::Write { path, source })
    }
}

/// What a packed file holds; a small one may unpack to any size.
fn unpacked(path: &Path) -> Result<Vec<u8>, FolderError> {
    let file = regular_file::open_own(path).map_err(|source| unreadable(path, &source))?;
    let mut bytes = Vec::new();
    let mut content = MultiGzDecoder::new(BufReader::new(file)).take(MOST_RECORDS_BYTES + 1);
    let message = match content.read_to_end(&mut bytes) {
        Err(error) => format!("damaged, or not packed by gzip ({error}); copy the file again"),
        Ok(_) if bytes.len() as u64 > MOST_RECORDS_BYTES => {
            format!("larger than {} MiB unpacked", MOST_RECORDS_BYTES >> 20)
        }
        Ok(_) => return Ok(bytes),
    };
    let path = path.display();
    Err(FolderError::Refused(format!("{path}: {message}")))
}

/// The record of a line, or why it holds none.
fn read_record(line: &[u8]) -> Result<Record, String> {
    if line.len() > MOST_LINE_BYTES {
        return Err(format!("longer than {} MiB", MOST_LINE_BYTES >> 20));
    }
    let text = std::str::from_utf8(line).map_err(|_| "not text (UTF-8)".to_owned())?;
    match parse::<Record>(text) {
        Ok(record) => match record.problem() {
            None => Ok(record),
            Some(problem) => Err(format!("not a record: {}", printable(&problem))),
        },
        Err(Misread::Version(got)) => Err(format!("a record of version {got}")),
        Err(Misread::Form(_)) if !text.trim_start().starts_with('{') => {
            Err("not a JSON object".to_owned())
        }
        Err(Misread::Form(error)) => {
            let error = error.to_string();
            let what = error.split(" at line ").next().unwrap_or_default();
            Err(format!("not a record: {}", printable(what)))
        }
    }
}

/// The name of the run that a damaged record is about.
fn run_of(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&line[..line.len().min(MOST_LINE_BYTES)]);
    let (run, _) = text.split_once("\"run\":\"")?.1.split_once('"')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    run.chars().all(is_name).then(|| run.to_owned())
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version: got } = serde_json::from_str(text).map_err(Misread::Form)?;
    if got != u64::from(VERSION) {
        return Err(Misread::Version(got));
    }
    serde_json::from_str(text).map_err(Misread::Form)
}

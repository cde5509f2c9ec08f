//! Reading and writing a session's folder.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Record, Session, VERSION, printable, upgrade};

/// Why a session folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; is this the folder of a session?")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check the folder's permissions and the disk's space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else than was expected.
    #[error("{path}, line {line}: {message}")]
    Form {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A file of another version of the format.
    #[error("{path} is of version {got}, this Torchgauge reads version {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: u64,
    },
}

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
    /// Lines that hold no record; they are left out.
    pub bad_lines: Vec<BadLine>,
}

/// A line of the records that holds no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    /// Why, in plain words.
    pub why: String,
    /// The run that it was about, where that can still be read.
    pub run: Option<String>,
}

impl Records {
    /// Those in the content of a file.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        let mut offset = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.last() != Some(&b'\n') {
                found.torn_after = Some(offset);
                break;
            }
            match read_record(line) {
                Ok(record) => found.records.push(record),
                Err(why) => found.bad_lines.push(BadLine {
                    line: number + 1,
                    why,
                    run: run_of(line),
                }),
            }
            offset += line.len() as u64;
        }
        found
    }

    /// What was left out, a sentence each; none where every line is a record.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let bad = self.bad_lines.iter().map(ToString::to_string);
        let torn = self
            .torn_after
            .map(|_| "last line of the records cut off while it was written; left out".to_owned());
        bad.chain(torn).collect()
    }
}

/// `line 3 of the records: not JSON; left out (run 0002-b0-img-one)`.
impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, why, run } = self;
        write!(f, "line {line} of the records: {why}; left out")?;
        run.iter().try_for_each(|run| write!(f, " (run {run})"))
    }
}

impl SessionFolder {
    /// The plan and the facts.
    pub const SESSION: &str = "session.json";
    /// One record a line.
    pub const RECORDS: &str = "records.ndjson";
    /// The runs' logs.
    pub const LOGS: &str = "logs";

    /// The folder at this path, there or not.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    #[must_use]
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
        let text = regular_file::read_text(&path).map_err(|source| FolderError::Read {
            path: path.clone(),
            source,
        })?;
        parse(&path, 1, &text)
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
        let path = self.path.join(Self::RECORDS);
        let bytes = match regular_file::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Records::default()),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        Ok(Records::of(&bytes))
    }

    /// Writes the records anew without the lines that were left out, whole or not at all. Gives
    /// the copy of the file as it was.
    pub fn repair(&self, records: &Records) -> Result<PathBuf, FolderError> {
        let path = self.path.join(Self::RECORDS);
        let copy = |number: u32| {
            let name = format!("{}.damaged-{number}", Self::RECORDS);
            self.path.join(name)
        };
        let mut number = 1;
        while copy(number).exists() {
            number += 1;
        }
        let copy = copy(number);
        let write = || -> io::Result<()> {
            let bytes = regular_file::read(&path)?;
            fs::copy(&path, &copy)?;
            regular_file::replace(&path, |file| {
                for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
                    let is_bad = records.bad_lines.iter().any(|bad| bad.line == number + 1);
                    if line.last() == Some(&b'\n') && !is_bad {
                        file.write_all(line)?;
                    }
                }
                Ok(())
            })
        };
        write().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(copy)
    }

    /// Appends one record and waits until it is on the disk.
    pub fn append(&self, record: &Record) -> Result<(), FolderError> {
        let path = self.path.join(Self::RECORDS);
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_vec(record)?;
            line.push(b'\n');
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })
    }

    /// Cuts a torn last line off, so that the next record starts a line.
    pub fn cut_torn_line(&self, records: &Records) -> Result<(), FolderError> {
        let Some(length) = records.torn_after else {
            return Ok(());
        };
        let path = self.path.join(Self::RECORDS);
        let cut = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(length)?;
            file.sync_all()
        };
        cut().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })
    }
}

/// The record of a line, or why it holds none.
fn read_record(line: &[u8]) -> Result<Record, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not text (UTF-8)".to_owned())?;
    parse(Path::new(SessionFolder::RECORDS), 1, text).map_err(|error| match error {
        FolderError::Form { message, .. } => match message.split_once(" at line ") {
            _ if !text.trim_start().starts_with('{') => "not a JSON object".to_owned(),
            Some((what, _)) => format!("not a record: {what}"),
            None => format!("not a record: {message}"),
        },
        FolderError::Version { got, .. } => format!("a record of version {got}"),
        other => other.to_string(),
    })
}

/// The name of the run that a damaged record is about.
fn run_of(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let (run, _) = text.split_once("\"run\":\"")?.1.split_once('"')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    run.chars().all(is_name).then(|| run.to_owned())
}

fn parse<T: upgrade::Document>(path: &Path, line: usize, text: &str) -> Result<T, FolderError> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let form = |error: serde_json::Error| FolderError::Form {
        path: path.to_owned(),
        line: line + error.line().saturating_sub(1),
        // It quotes the file, which may be anybody's.
        message: printable(&error.to_string()).into_owned(),
    };
    let Version { version: got } = serde_json::from_str(text).map_err(form)?;
    match got {
        1 => upgrade::from_1(text).map_err(form),
        // What version 3 has more has a default.
        2 | 3 => serde_json::from_str(text).map_err(form),
        _ => Err(FolderError::Version {
            path: path.to_owned(),
            got,
        }),
    }
}

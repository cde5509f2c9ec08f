//! Reading and writing a session's folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Record, Session, VERSION, upgrade};

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
        let text = fs::read_to_string(&path).map_err(|source| FolderError::Read {
            path: path.clone(),
            source,
        })?;
        parse(&path, 1, &text)
    }

    /// Writes `session.json`, whole or not at all.
    pub fn write_session(&self, session: &Session) -> Result<(), FolderError> {
        let path = self.path.join(Self::SESSION);
        let fresh = self.path.join("session.json.new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&fresh)?;
            serde_json::to_writer_pretty(&mut file, session)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })
    }

    /// Reads every record. A torn last line is told, not an error; anything else that does not
    /// read is.
    pub fn read_records(&self) -> Result<Records, FolderError> {
        let path = self.path.join(Self::RECORDS);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Records::default()),
            Err(source) => return Err(FolderError::Read { path, source }),
        };
        let mut found = Records::default();
        let mut offset = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.last() != Some(&b'\n') {
                found.torn_after = Some(offset);
                break;
            }
            let text = std::str::from_utf8(line).map_err(|error| FolderError::Form {
                path: path.clone(),
                line: number + 1,
                message: error.to_string(),
            })?;
            found.records.push(parse(&path, number + 1, text)?);
            offset += line.len() as u64;
        }
        Ok(found)
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

fn parse<T: upgrade::Document>(path: &Path, line: usize, text: &str) -> Result<T, FolderError> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let form = |error: serde_json::Error| FolderError::Form {
        path: path.to_owned(),
        line: line + error.line().saturating_sub(1),
        message: error.to_string(),
    };
    let Version { version: got } = serde_json::from_str(text).map_err(form)?;
    match got {
        1 => upgrade::from_1(text).map_err(form),
        _ if got == u64::from(VERSION) => serde_json::from_str(text).map_err(form),
        _ => Err(FolderError::Version {
            path: path.to_owned(),
            got,
        }),
    }
}

//! A ledger in its file: read, held against other writers, written.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Ledger, format};
use crate::{HistoryError, error::refused};

/// A ledger's file. Nobody else changes it as long as this lives.
#[derive(Debug)]
pub struct LedgerFile {
    path: PathBuf,
    read: Ledger,
    exists: bool,
    _lock: Option<File>,
    pub ledger: Ledger,
}

impl LedgerFile {
    /// Opens it to be changed; a file that is not there yet is an empty ledger.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        let path = path.into();
        // The folder and not the file, which is replaced; a folder that cannot be locked, such as
        // one on some network disks, is used all the same.
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let lock = folder.is_dir().then(|| File::open(folder).ok()).flatten();
        let lock = lock.filter(|folder| folder.lock().is_ok());
        Self::read(path, lock)
    }

    /// Opens it to be read; a file that is not there is an empty ledger.
    pub fn look_at(path: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        Self::read(path.into(), None)
    }

    pub fn existing(self) -> Result<Self, HistoryError> {
        if self.exists {
            return Ok(self);
        }
        let path = self.path.display();
        refused(format!(
            "there is no ledger at {path}; `trend --gate` begins one, and --ledger FILE names another"
        ))
    }

    fn read(path: PathBuf, lock: Option<File>) -> Result<Self, HistoryError> {
        let (text, exists) = match regular_file::open_own(&path).and_then(io::read_to_string) {
            Ok(text) => (text, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), false),
            Err(error) => {
                let path = path.display();
                return refused(format!(
                    "cannot read the ledger {path}: {error}; name another file with --ledger"
                ));
            }
        };
        let read = format::parse(&path, &text)?;
        Ok(Self {
            ledger: read.clone(),
            read,
            path,
            exists,
            _lock: lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it whole where it changed.
    pub fn save(&mut self) -> Result<(), HistoryError> {
        if self.ledger == self.read {
            return Ok(());
        }
        let written = format::write(&self.ledger).map_err(io::Error::other);
        let written = written.and_then(|text| {
            regular_file::replace(&self.path, |file| file.write_all(text.as_bytes()))
        });
        written.map_err(|source| HistoryError::Write {
            path: self.path.clone(),
            source,
        })?;
        self.read = self.ledger.clone();
        self.exists = true;
        Ok(())
    }
}

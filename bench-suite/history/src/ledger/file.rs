//! A ledger in its file: read, held against other writers, written.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Ledger, LedgerError, format};
use crate::{History, location};

/// A ledger's file. Nobody else changes it as long as this lives.
#[derive(Debug)]
pub struct LedgerFile {
    path: PathBuf,
    /// As it was read; empty where there is no file yet.
    text: String,
    exists: bool,
    _lock: Option<File>,
    /// What it says.
    pub ledger: Ledger,
}

impl LedgerFile {
    /// Opens it to be changed; a file that is not there yet is an empty ledger.
    ///
    /// # Errors
    /// [`LedgerError`] where the file cannot be read, or is no ledger.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let path = path.into();
        // The folder and not the file, which is replaced; a folder that cannot be locked, such as
        // one on some network disks, is used all the same.
        let folder = location::parent(&path);
        let lock = folder.is_dir().then(|| File::open(folder).ok()).flatten();
        let lock = lock.filter(|folder| folder.lock().is_ok());
        Self::read(path, lock)
    }

    /// Opens it to be looked at; a file that is not there is an empty ledger.
    ///
    /// # Errors
    /// [`LedgerError`] where the file cannot be read, or is no ledger.
    pub fn look_at(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        Self::read(path.into(), None)
    }

    /// # Errors
    /// [`LedgerError::Missing`] where there is no file.
    pub fn existing(self) -> Result<Self, LedgerError> {
        if self.exists {
            Ok(self)
        } else {
            Err(LedgerError::Missing(self.path))
        }
    }

    fn read(path: PathBuf, lock: Option<File>) -> Result<Self, LedgerError> {
        let (text, exists) = match regular_file::open_own(&path).and_then(io::read_to_string) {
            Ok(text) => (text, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), false),
            Err(source) => return Err(LedgerError::Read { path, source }),
        };
        Ok(Self {
            ledger: format::parse(&path, &text)?,
            path,
            text,
            exists,
            _lock: lock,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what changed, all of it or nothing; comments stay. A ledger as it was is not written.
    ///
    /// # Errors
    /// [`LedgerError::Write`] where the file cannot be written.
    pub fn save(&mut self) -> Result<(), LedgerError> {
        let failed = |source| LedgerError::Write {
            path: self.path.clone(),
            source,
        };
        let before = format::parse(&self.path, &self.text)?;
        if before == self.ledger {
            return Ok(());
        }
        let text = format::write(&self.text, &before, &self.ledger).map_err(failed)?;
        let folder = location::parent(&self.path);
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            if let Ok(metadata) = fs::metadata(&self.path) {
                file.as_file().set_permissions(metadata.permissions())?;
            } else {
                share(file.as_file())?;
            }
            file.persist(&self.path).map_err(|error| error.error)
        });
        written.map_err(failed)?;
        self.text = text;
        self.exists = true;
        Ok(())
    }
}

/// A temporary file is its owner's alone; a ledger is for everybody who may read the repository.
fn share(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

impl History {
    /// Where the history keeps its ledger: beside what it is made of, so that making the history
    /// again leaves it alone.
    #[must_use]
    pub fn ledger_path(&self) -> PathBuf {
        location::sources_of(self.path()).join("regressions.toml")
    }
}

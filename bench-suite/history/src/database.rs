//! Opening the file, and transactions on it.

use std::{
    cell::Cell,
    fs::{self, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::{
    HistoryError,
    error::{Fault, is_busy, not_a_history},
    location::{escaped, parent, sources_of, with_suffix},
    schema, sources,
};

/// An open history.
///
/// Several may be open on one file, in one process or many: readers never wait, a writer waits
/// for the writer before it.
#[derive(Debug)]
pub struct History {
    connection: Connection,
    path: PathBuf,
    wait: Duration,
    read_only: bool,
    /// This handle has checked the file.
    checked: Cell<bool>,
}

impl History {
    /// How long a writer waits for another, unless told otherwise.
    pub const WAIT: Duration = Duration::from_mins(1);

    /// Opens the history, makes it where there is none, and brings an older schema up to date.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        Self::open_waiting(path, Self::WAIT)
    }

    /// As [`History::open`], with another wait for other writers.
    pub fn open_waiting(path: impl Into<PathBuf>, wait: Duration) -> Result<Self, HistoryError> {
        let path = path.into();
        prepare(&path)?;
        inspect(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let history = Self::connect(&path, path.clone(), flags, wait)?;
        history
            .set_up()
            .map_err(|fault| fault.tell(&path, "open the history"))?;
        Ok(history)
    }

    /// Opens a history that must be there. Where it or its folder is read-only, it can be read
    /// all the same.
    pub fn open_existing(path: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        let path = path.into();
        if !path.exists() && !sources_of(&path).exists() {
            return Err(HistoryError::Missing(path));
        }
        match Self::open(path) {
            Err(HistoryError::ReadOnly(path)) => Self::open_read_only(path),
            other => other,
        }
    }

    fn open_read_only(path: PathBuf) -> Result<Self, HistoryError> {
        // Without a journal beside it the file is whole, and nobody who may write is assumed:
        // then SQLite needs no files of its own in the folder.
        let journal = with_suffix(&path, "-wal");
        let whole = fs::metadata(&journal).map_or(true, |facts| facts.len() == 0);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut history = if whole {
            let bytes = path.as_os_str().as_encoded_bytes();
            let uri = format!("file:{}?immutable=1", escaped(bytes, b"/._-"));
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Self::connect(Path::new(&uri), path.clone(), flags, Self::WAIT)?
        } else {
            Self::connect(&path, path.clone(), flags, Self::WAIT)?
        };
        history.read_only = true;
        match history.identify() {
            Ok(schema::VERSION) => Ok(history),
            Ok(got) => Err(HistoryError::Older { path, got }),
            Err(fault) => Err(fault.tell(&path, "open the history")),
        }
    }

    fn connect(
        file: &Path,
        path: PathBuf,
        flags: OpenFlags,
        wait: Duration,
    ) -> Result<Self, HistoryError> {
        let connection = Connection::open_with_flags(file, flags)
            .map_err(|error| Fault::from(error).tell(&path, "open the history"))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self {
            connection,
            path,
            wait,
            read_only: false,
            checked: Cell::new(false),
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn set_up(&self) -> Result<(), Fault> {
        let connection = &self.connection;
        connection.busy_timeout(Duration::from_millis(100))?;
        // Settings of the connection alone, but SQLite reads the file for them.
        self.patient(|| {
            connection.pragma_update(None, "cache_size", -65_536)?;
            connection.pragma_update(None, "foreign_keys", true)?;
            // What was said to be written survives a power cut.
            connection.pragma_update(None, "synchronous", "FULL")
        })?;
        let version = self.identify()?;
        if version == 0 && sources_of(&self.path).exists() {
            let detail = "it is empty".to_owned();
            let path = self.path.clone();
            return Err(HistoryError::Damaged { path, detail }.into());
        }
        self.patient(|| {
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        })?;
        if version < schema::VERSION {
            if version > 0 {
                self.check_once()?;
            }
            let transaction = self.begin()?;
            // Another process may have been faster.
            schema::bring_up_to_date(&transaction)?;
            if version > 0 {
                sources::keep(&transaction, &self.path)?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    /// The schema's version, if this is a history that this program can read; 0 where nothing was
    /// written yet.
    fn identify(&self) -> Result<i64, Fault> {
        // In one look, or a process that is just making the file shows it half made.
        let (id, version, blank) = self.patient(|| {
            let look = Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)?;
            Ok((
                schema::application_id(&look)?,
                schema::version(&look)?,
                schema::is_blank(&look)?,
            ))
        })?;
        let path = || self.path.clone();
        if blank {
            Ok(0)
        } else if id != schema::APPLICATION_ID {
            Err(not_a_history(&self.path).into())
        } else if (schema::OLDEST..=schema::VERSION).contains(&version) {
            Ok(version)
        } else {
            let (path, got) = (path(), version);
            Err(HistoryError::Version { path, got }.into())
        }
    }

    /// Tries until nobody is in the way, or the wait is over.
    fn patient<T>(&self, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> Result<T, Fault> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            match attempt() {
                Err(error) if is_busy(&error) => {}
                other => return Ok(other?),
            }
            let waited = begun.elapsed();
            if waited >= self.wait {
                return Err(Fault::Busy(waited));
            }
            if !told {
                told = true;
                tracing::info!(
                    path = %self.path.display(),
                    "another process is writing to the history; waiting up to {} s for it",
                    self.wait.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn begin(&self) -> Result<Transaction<'_>, Fault> {
        self.patient(|| {
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
        })
    }

    /// Changes in one transaction: all of them, on the disk, or none.
    pub(crate) fn write<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, HistoryError> {
        let attempt = || {
            if self.read_only {
                let path = self.path.clone();
                return Err(HistoryError::ReadOnly(path).into());
            }
            self.check_once()?;
            let transaction = self.begin()?;
            let out = change(&transaction)?;
            sources::keep(&transaction, &self.path)?;
            transaction.commit()?;
            Ok(out)
        };
        attempt().map_err(|fault: Fault| fault.tell(&self.path, doing))
    }

    /// Reads in one transaction, so that all of it is of one moment.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        look: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, HistoryError> {
        let attempt = || {
            let transaction = self.patient(|| {
                let begun =
                    Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)?;
                // It takes its lock at the first look, and here it can be tried again.
                schema::version(&begun)?;
                Ok(begun)
            })?;
            look(&transaction)
        };
        attempt().map_err(|fault: Fault| fault.tell(&self.path, doing))
    }

    /// Whether SQLite finds the file sound.
    pub fn check(&self) -> Result<(), HistoryError> {
        self.read("check the history", |connection| {
            self.quick_check(connection)
        })
    }

    /// A handle's first write checks the file: on a damaged one it would do more damage.
    fn check_once(&self) -> Result<(), Fault> {
        if !self.checked.get() {
            self.quick_check(&self.connection)?;
            self.checked.set(true);
        }
        Ok(())
    }

    fn quick_check(&self, connection: &Connection) -> Result<(), Fault> {
        let detail: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if detail == "ok" {
            return Ok(());
        }
        let path = self.path.clone();
        Err(HistoryError::Damaged { path, detail }.into())
    }
}

/// SQLite would take a file of a few bytes for an empty database.
fn inspect(path: &Path) -> Result<(), HistoryError> {
    let mut header = Vec::new();
    if let Ok(file) = regular_file::open(path) {
        // What cannot be read, SQLite tells.
        let _ = file.take(16).read_to_end(&mut header);
    }
    if header.is_empty() || header == b"SQLite format 3\0" {
        return Ok(());
    }
    Err(not_a_history(path))
}

/// Makes the folder where it is missing, and sees whether it and the file may be written.
fn prepare(path: &Path) -> Result<(), HistoryError> {
    let folder = parent(path);
    let attempt = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let open = |()| OpenOptions::new().append(true).open(path);
        match regular_file::check(path).and_then(open) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // SQLite keeps its journal beside the file.
        tempfile::tempfile_in(folder)?;
        Ok(())
    };
    attempt().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            HistoryError::ReadOnly(path.to_owned())
        }
        _ => HistoryError::Open {
            path: path.to_owned(),
            message: error.to_string(),
        },
    })
}

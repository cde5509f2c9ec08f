//! Opening the file, and transactions on it.

use std::{
    cell::Cell,
    fmt::Write,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::{
    HistoryError,
    export::open_to_others,
    fault::{Fault, damaged, is_busy},
    recover, schema,
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
    /// The structure was checked by this handle.
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
        if !prepare(&path)? {
            Self::make(&path, wait)?;
        }
        inspect_header(&path)?;
        Self::open_as(path, wait, false)
    }

    fn open_as(path: PathBuf, wait: Duration, new: bool) -> Result<Self, HistoryError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let history = Self::connect(path, wait, flags, false)?;
        history
            .set_up(new)
            .map_err(|fault| fault.tell(&history.path, "open the history"))?;
        Ok(history)
    }

    /// Makes a history in a folder beside its place and moves it there whole: a file without a
    /// history in it is never one that is just being made.
    fn make(path: &Path, wait: Duration) -> Result<(), HistoryError> {
        let failed = |error: io::Error| cannot_open(path, &error);
        let workshop = tempfile::tempdir_in(folder_of(path)).map_err(failed)?;
        let fresh = tempfile::NamedTempFile::new_in(workshop.path()).map_err(failed)?;
        open_to_others(fresh.as_file()).map_err(failed)?;
        // Closed again, it has no journal beside it.
        drop(Self::open_as(fresh.path().to_owned(), wait, true)?);
        match fresh.persist_noclobber(path) {
            Ok(_) => Ok(()),
            // Another process was faster.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(error.error)),
        }
    }

    /// Opens a history that must be there. Where it or its folder is read-only, it can be read
    /// all the same.
    pub fn open_existing(path: impl Into<PathBuf>) -> Result<Self, HistoryError> {
        let path = path.into();
        if !path.exists() {
            return Err(HistoryError::Missing { path });
        }
        match Self::open(path) {
            Err(HistoryError::ReadOnly { path }) => Self::open_read_only(path),
            other => other,
        }
    }

    fn open_read_only(path: PathBuf) -> Result<Self, HistoryError> {
        inspect_header(&path)?;
        // Without a journal beside it the file is whole, and nobody who may write is assumed:
        // then SQLite needs no files of its own in the folder.
        let journal = with_suffix(&path, "-wal");
        let whole = fs::metadata(&journal).map_or(true, |facts| facts.len() == 0);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let history = if whole {
            let uri = immutable_uri(&path);
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(uri, flags)
                .map_err(|error| Fault::from(error).tell(&path, "open the history"))?;
            Self::around(connection, path, Self::WAIT, true)
        } else {
            Self::connect(path, Self::WAIT, flags, true)?
        };
        let check = || -> Result<(), Fault> {
            let got = history.identify(false)?;
            if got < schema::VERSION {
                let path = history.path.clone();
                return Err(HistoryError::Older {
                    path,
                    got,
                    known: schema::VERSION,
                }
                .into());
            }
            history.check_schema()
        };
        check().map_err(|fault| fault.tell(&history.path, "open the history"))?;
        Ok(history)
    }

    fn connect(
        path: PathBuf,
        wait: Duration,
        flags: OpenFlags,
        read_only: bool,
    ) -> Result<Self, HistoryError> {
        let connection = Connection::open_with_flags(&path, flags)
            .map_err(|error| Fault::from(error).tell(&path, "open the history"))?;
        Ok(Self::around(connection, path, wait, read_only))
    }

    fn around(connection: Connection, path: PathBuf, wait: Duration, read_only: bool) -> Self {
        connection.set_prepared_statement_cache_capacity(64);
        Self {
            connection,
            path,
            wait,
            read_only,
            checked: Cell::new(false),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it can only be read.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// `new` where nothing may stand in the file.
    fn set_up(&self, new: bool) -> Result<(), Fault> {
        let connection = &self.connection;
        connection.busy_timeout(Duration::from_millis(100))?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // What was said to be written survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // So that a search through a damaged file never finds rows that were removed.
        connection.pragma_update(None, "secure_delete", true)?;
        let version = self.identify(new)?;
        self.patient(|| {
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        })?;
        if version < schema::VERSION {
            let transaction = self.begin()?;
            // Another process may have been faster.
            schema::migrate(&transaction, schema::version(&transaction)?)?;
            transaction.commit()?;
        }
        self.check_schema()
    }

    /// The schema's version, if this is a history that this program can read.
    fn identify(&self, new: bool) -> Result<i64, Fault> {
        let connection = &self.connection;
        // In one look, or a process that is just making the file shows it half made.
        let (id, version, blank) = self.patient(|| {
            let look = Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
            Ok((
                schema::application_id(&look)?,
                schema::version(&look)?,
                schema::is_blank(&look)?,
            ))
        })?;
        let path = || self.path.clone();
        if id != schema::APPLICATION_ID && !(blank && new) {
            return Err(if recover::is_history(&self.path) {
                damaged(&self.path, "its header is wrong".into()).into()
            } else {
                HistoryError::Foreign { path: path() }.into()
            });
        }
        if version > schema::VERSION {
            let known = schema::VERSION;
            return Err(HistoryError::Newer {
                path: path(),
                got: version,
                known,
            }
            .into());
        }
        Ok(version)
    }

    fn check_schema(&self) -> Result<(), Fault> {
        match schema::deviation(&self.connection)? {
            Some(name) => Err(Fault::Damage(format!(
                "its table or index {name} is not as it was made"
            ))),
            None => Ok(()),
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
                return Err(HistoryError::ReadOnly {
                    path: self.path.clone(),
                }
                .into());
            }
            self.check_structure()?;
            let transaction = self.begin()?;
            let out = change(&transaction)?;
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
                Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred)
            })?;
            look(&transaction)
        };
        attempt().map_err(|fault: Fault| fault.tell(&self.path, doing))
    }

    /// A handle's first write checks the structure: on a damaged file it would do more damage.
    fn check_structure(&self) -> Result<(), Fault> {
        if !self.checked.get() {
            if let Some(problem) = structure_problems(&self.connection, 1)?.pop() {
                return Err(Fault::Damage(problem));
            }
            self.checked.set(true);
        }
        Ok(())
    }
}

/// What SQLite's own check finds, at most so many.
pub(crate) fn structure_problems(
    connection: &Connection,
    most: u32,
) -> rusqlite::Result<Vec<String>> {
    let mut problems: Vec<String> = connection
        .prepare(&format!("PRAGMA integrity_check({most})"))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    problems.retain(|problem| problem != "ok");
    Ok(problems)
}

/// The folder that the file lies in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the folder where it is missing, and sees whether it and the file may be written. Whether
/// the file is there.
fn prepare(path: &Path) -> Result<bool, HistoryError> {
    let folder = folder_of(path);
    let attempt = || -> io::Result<bool> {
        fs::create_dir_all(folder)?;
        let there = match OpenOptions::new().append(true).open(path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        // SQLite keeps its journal beside the file.
        tempfile::tempfile_in(folder)?;
        Ok(there)
    };
    attempt().map_err(|error| cannot_open(path, &error))
}

fn cannot_open(path: &Path, error: &io::Error) -> HistoryError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            HistoryError::ReadOnly {
                path: path.to_owned(),
            }
        }
        _ => HistoryError::Open {
            path: path.to_owned(),
            message: error.to_string(),
        },
    }
}

/// Tells a file that never was a database from one that is damaged.
fn inspect_header(path: &Path) -> Result<(), HistoryError> {
    let mut header = Vec::new();
    File::open(path)
        .and_then(|file| file.take(16).read_to_end(&mut header))
        .map_err(|source| HistoryError::Read {
            path: path.to_owned(),
            source,
        })?;
    if header == b"SQLite format 3\0" {
        return Ok(());
    }
    Err(if recover::is_history(path) {
        damaged(path, "its header is wrong".into())
    } else if header.is_empty() {
        HistoryError::Empty {
            path: path.to_owned(),
        }
    } else {
        HistoryError::NotADatabase {
            path: path.to_owned(),
        }
    })
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// `file:` URI of the path, with everything escaped that could mean something in one.
fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    uri
}

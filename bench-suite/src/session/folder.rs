//! What a session keeps in its folder besides results: a lock, and a folder for the run of the
//! moment.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use record::SessionFolder;

use super::SessionError;
use crate::executors::{KERNEL_CACHE, Order};

/// A folder for one run, which goes with it, and which other users of the machine cannot enter.
#[derive(Debug)]
pub(super) struct WorkFolder(PathBuf);

impl WorkFolder {
    pub(super) fn create(path: PathBuf) -> Result<Self, SessionError> {
        // One of an earlier attempt that was cut off may be there.
        let create = || DirBuilder::new().recursive(true).mode(0o700).create(&path);
        match remove_folder(&path).and_then(|()| create()) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(SessionError::Io { path, source }),
        }
    }
}

impl WorkFolder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Keeps the allocator's history of a run in the session's folder, where one was written, and gives
/// its place there.
pub(super) fn keep_snapshot(order: &Order, session: &Path, name: &str) -> Option<String> {
    const SNAPSHOTS: &str = "snapshots";
    let written = order.snapshot_file()?;
    let file = fs::symlink_metadata(&written).ok()?;
    let place = format!("{SNAPSHOTS}/{name}.pickle");
    let keep = || {
        fs::create_dir_all(session.join(SNAPSHOTS))?;
        fs::rename(&written, session.join(&place))
    };
    let kept = (file.is_file() && file.len() > 0).then(keep)?;
    kept.map_err(|error| tracing::warn!("cannot keep {place}: {error}"))
        .ok()?;
    Some(place)
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
        // Only the last run's folder leaves the one above it empty.
        if let Some(above) = self.0.parent() {
            let _ = fs::remove_dir(above);
        }
    }
}

/// Removes the folders of runs that a killed session left.
pub(super) fn sweep_work(folder: &Path) -> Result<(), SessionError> {
    let path = folder.join("work");
    remove_folder(&path).map_err(|source| SessionError::Io { path, source })
}

/// Removes the compiled kernels that the runs shared. They belong to the containers' user, whose
/// files only root can remove: what stays does no harm.
pub(super) fn drop_kernel_cache(folder: &Path) {
    let path = folder.join(KERNEL_CACHE);
    if let Err(error) = remove_folder(&path) {
        tracing::warn!("cannot remove the kernel cache {}: {error}", path.display());
    }
}

/// Removes a folder with all that it holds; fine where there is none.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Finds out whether this path, there or not, can be the folder of a session. Files below it are
/// mounted into containers, which takes a path that every engine can pass on.
pub fn check_folder(path: &Path) -> Result<(), SessionError> {
    let above = path.ancestors().find(|above| above.exists());
    if let Some(file) = above.filter(|above| !above.is_dir()) {
        return Err(SessionError::File(file.to_owned()));
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let metadata = fs::symlink_metadata(path);
    if metadata.is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename) {
        let what = "a name that is too long";
        return Err(SessionError::Path { path: whole, what });
    }
    let what = match whole.to_str() {
        None => "letters that are no UTF-8",
        Some(text) if text.contains(',') => "a comma",
        Some(text) if text.contains(char::is_control) => "a control character",
        Some(_) => return Ok(()),
    };
    Err(SessionError::Path { path: whole, what })
}

/// The same for a new session.
pub fn check_new_folder(path: &Path) -> Result<(), SessionError> {
    check_folder(path)?;
    if path.join(SessionFolder::SESSION).exists() {
        return Err(SessionError::Exists(path.to_owned()));
    }
    let not_new = |what| SessionError::NotNew {
        path: path.to_owned(),
        what,
    };
    if path.is_symlink() {
        return Err(not_new("is a link".to_owned()));
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            let path = path.to_owned();
            return Err(SessionError::Io { path, source });
        }
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    // What is there would be replaced by files of the same names.
    match names.into_iter().find(|name| name != LOCK) {
        Some(name) => Err(not_new(format!("has `{}` in it", name.display()))),
        None => Ok(()),
    }
}

/// Held by the process whose session the folder is of.
const LOCK: &str = ".lock";

/// How long a lock that is held is tried for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Takes the folder for this process, until the file is closed.
pub(super) fn lock(folder: &Path) -> Result<File, SessionError> {
    let path = folder.join(LOCK);
    let io = |source| SessionError::Io {
        path: path.clone(),
        source,
    };
    match regular_file::check(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let file = File::create(&path).map_err(io)?;
    // A child that this process has forked and that has not begun its own program yet holds the
    // lock for a moment longer than whoever closed the file.
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PATIENCE / 20),
            Err(TryLockError::WouldBlock) => return Err(SessionError::Busy(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
    }
}

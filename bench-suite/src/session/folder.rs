//! What a session keeps in its folder besides results: a lock, and a folder for the run of the
//! moment.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use record::SessionFolder;
use tempfile::TempDir;

use super::{SessionError, error::resume};
use crate::executors::{KERNEL_CACHE, Order};

/// Has a folder for each run under way.
pub(super) const WORK: &str = "work";

/// A folder for one run, which goes with it, and which other users of the machine cannot enter.
pub(super) fn work_folder(session: &Path, run: &str) -> Result<TempDir, SessionError> {
    let path = session.join(WORK);
    let create = || {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let own = fs::Permissions::from_mode(0o700);
        let mut folder = tempfile::Builder::new();
        folder.prefix(run).permissions(own).tempdir_in(&path)
    };
    create().map_err(|source| SessionError::Io { path, source })
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

/// Removes the folders of runs that a killed session left.
pub(super) fn sweep_work(folder: &Path) -> Result<(), SessionError> {
    let path = folder.join(WORK);
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

/// Removes a folder with all that it holds; fine where there is none. Runs and overlays leave folders
/// that nobody may look into, not even who owns them.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    let removed = fs::remove_dir_all(path).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => open_up(path).and_then(|()| fs::remove_dir_all(path)),
        _ => Err(error),
    });
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

fn refused(why: String) -> Result<(), SessionError> {
    Err(SessionError::Refused(why))
}

/// Finds out whether this path, there or not, can be the folder of a session. Files below it are
/// mounted into containers, which takes a path that every engine can pass on.
pub fn check_folder(path: &Path) -> Result<(), SessionError> {
    let above = path.ancestors().find(|above| above.exists());
    if let Some(file) = above.filter(|above| !above.is_dir()) {
        return refused(format!(
            "{} is a file; the folder of a session is a new or empty folder",
            file.display()
        ));
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let metadata = fs::symlink_metadata(path);
    let is_long = metadata.is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename);
    let what = match whole.to_str() {
        _ if is_long => "a name that is too long",
        None => "letters that are no UTF-8",
        Some(text) if text.contains(',') => "a comma",
        Some(text) if text.contains(char::is_control) => "a control character",
        Some(_) => return Ok(()),
    };
    #[expect(clippy::unnecessary_debug_formatting, reason = "it escapes what acts")]
    refused(format!(
        "{whole:?} cannot be the folder of a session: containers cannot mount a path with {what}; \
         give another with --out"
    ))
}

/// The same for a new session.
pub fn check_new_folder(path: &Path) -> Result<(), SessionError> {
    check_folder(path)?;
    if path.join(SessionFolder::SESSION).exists() {
        return refused(format!(
            "{} already holds a session; continue it with `{}`, or give another folder",
            path.display(),
            resume(path)
        ));
    }
    let not_new = |what: &str| {
        let path = path.display();
        refused(format!("{path} {what}; give a new or an empty folder"))
    };
    if path.is_symlink() {
        return not_new("is a link");
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
        Some(name) => not_new(&format!("has `{}` in it", name.display())),
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

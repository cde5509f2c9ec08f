//! The folder that keeps what took long to get: wheels, packages, unpacked libraries, hashes.

mod notes;
pub(crate) mod trim;

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use etcetera::BaseStrategy as _;
use tempfile::TempDir;

use crate::{
    Digest, Error, Result,
    error::at,
    progress::{Action, Meter, Progress, Silent},
};

pub(crate) use notes::{Stamp, read_note};

/// A cache folder. Everything in it can be made again.
///
/// Files are written aside, checked, and renamed into a place that names their content, so that
/// what is in its place is whole, and several builds share a cache.
#[derive(Clone)]
pub struct Cache {
    root: PathBuf,
    progress: Arc<dyn Progress>,
    /// Held as long as the cache is used, so that nobody clears it meanwhile.
    in_use: Arc<File>,
    /// What was used since then is in use.
    opened: SystemTime,
    /// Whether it may take more than it may: something may have come in since it was weighed.
    unweighed: Arc<AtomicBool>,
}

/// Unpacked libraries, by their digest.
const LIBRARIES: &str = "libraries";
/// Where locks and half-made things lie: no part of what is kept.
const WORK_FOLDERS: [&str; 2] = ["locks", "tmp"];
/// What saves hashing alone: many small files.
const NOTES: [&str; 2] = ["hashes", "layers"];
const FOLDERS: [&str; 8] = [
    "wheels", "debs", LIBRARIES, "libtorch", "bases", PROGRAMS, PUSHED, SANDBOXES,
];
/// Compressed layers, as registries have them.
pub(crate) const PUSHED: &str = "pushed";
/// Images that are unpacked, by their IDs.
pub(crate) const SANDBOXES: &str = "sandboxes";
/// Scenario binaries, by what they were made from.
const PROGRAMS: &str = "programs";

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.root).finish()
    }
}

impl Cache {
    /// The user's cache, in its folder.
    pub fn user() -> Result<Self> {
        Self::at(&Self::user_folder()?)
    }

    /// The user's cache folder: `$XDG_CACHE_HOME/torchgauge`, else `~/.cache/torchgauge`.
    pub fn user_folder() -> Result<PathBuf> {
        let base = etcetera::base_strategy::Xdg::new().map_err(|_| {
            let why = "there is no home folder to keep a cache in; set HOME or XDG_CACHE_HOME";
            Error::Input(why.to_owned())
        })?;
        Ok(base.cache_dir().join("torchgauge"))
    }

    /// A cache in the given folder, which is created where it is missing.
    pub fn at(root: &Path) -> Result<Self> {
        let open = || {
            for folder in FOLDERS.iter().chain(&NOTES).chain(&WORK_FOLDERS) {
                fs::create_dir_all(root.join(folder))?;
            }
            let root = fs::canonicalize(root)?;
            let in_use = lock_file(&root.join("locks/in-use"))?;
            in_use.lock_shared()?;
            // Folders that exist already may still be another user's.
            tempfile::tempfile_in(root.join("tmp"))?;
            Ok(Self {
                root,
                progress: Arc::new(Silent),
                in_use: Arc::new(in_use),
                opened: SystemTime::now(),
                unweighed: Arc::new(AtomicBool::new(true)),
            })
        };
        let cache = open().map_err(|source: io::Error| {
            Error::Trouble(format!(
                "the cache folder {} cannot be used: {source}; make it writable, or set \
                 XDG_CACHE_HOME to a folder that is",
                root.display()
            ))
        })?;
        cache.sweep_scratch();
        Ok(cache)
    }

    /// The same cache, of whose use somebody hears.
    #[must_use]
    pub fn with_progress(self, progress: impl Progress + 'static) -> Self {
        Self {
            progress: Arc::new(progress),
            ..self
        }
    }

    /// A step of long work begins. It ends when the meter is dropped.
    pub(crate) fn start(&self, action: Action, object: &str, total: Option<u64>) -> Box<dyn Meter> {
        if matches!(
            action,
            Action::Compile | Action::Download | Action::Save | Action::Unpack
        ) {
            self.unweighed.store(true, Ordering::Relaxed);
        }
        self.progress.start(action, object, total)
    }

    /// Says what is worth a line.
    pub(crate) fn note(&self, text: &str) {
        self.progress.note(text);
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where a wheel or a Debian package lies, by its content and its name.
    pub(crate) fn package(&self, folder: &str, sha256: Digest, file: &str) -> PathBuf {
        self.folder(folder)
            .join(format!("{}-{file}", sha256.short()))
    }

    /// Where the library with this content lies.
    pub(crate) fn library(&self, sha256: Digest) -> PathBuf {
        self.folder(LIBRARIES).join(sha256.hex())
    }

    /// A folder for half-made things, on the same file system as the cache, gone when dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        let folder = self.folder("tmp");
        tempfile::Builder::new()
            .prefix(&format!("{}-", std::process::id()))
            .tempdir_in(&folder)
            .map_err(at(&folder))
    }

    /// Removes the half-made things of processes that are gone (killed, or a lost machine).
    fn sweep_scratch(&self) {
        for entry in fs::read_dir(self.folder("tmp"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.split('-').next().unwrap_or_default();
            if owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Waits until nobody else holds the lock of this name, then holds it until it is dropped or the
    /// process ends.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.folder("locks").join(format!("{name}.lock"));
        let file = lock_file(&path).map_err(at(&path))?;
        if file.try_lock().is_err() {
            let _waiting = self.progress.start(Action::Wait, name, None);
            file.lock().map_err(at(&path))?;
        }
        Ok(file)
    }

    /// Gives a file a second place, in this cache. Where the file system has no links, or the file
    /// is on another one, it is copied.
    pub(crate) fn link(&self, from: &Path, place: &Path) -> Result<()> {
        if fs::hard_link(from, place).is_ok() {
            return Ok(());
        }
        let scratch = self.scratch()?;
        let copy = scratch.path().join("copy");
        fs::copy(from, &copy).map_err(at(from))?;
        fs::rename(&copy, place).map_err(at(place))
    }
}

/// Takes in a file that was fetched, if it is the right one; `next` says what to do where it is
/// not.
pub(crate) fn take(
    fetched: &Path,
    expected: Digest,
    place: &Path,
    next: &'static str,
) -> Result<()> {
    let found = Digest::of_file(fetched).map_err(at(fetched))?;
    if found != expected {
        let name = fetched.file_name().unwrap_or_default().to_string_lossy();
        return Err(Error::wrong_hash(&name, expected, found, next));
    }
    fs::rename(fetched, place).map_err(at(place))
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// Removes a file; fine where there is none.
pub(crate) fn forget(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(file)(error)),
        _ => Ok(()),
    }
}

/// Moves a finished folder to its place. One that is there already is taken away first.
pub(crate) fn publish(finished: TempDir, place: &Path) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place).map_err(at(place))?;
    }
    let finished = finished.keep();
    fs::rename(&finished, place).map_err(|source| {
        let _ = fs::remove_dir_all(&finished);
        at(place)(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        (folder, cache)
    }

    #[test]
    fn a_changed_file_is_hashed_again() {
        let (folder, cache) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        assert_eq!(cache.digest_of(&file).unwrap(), Digest::of(b"one"));
        fs::write(&file, "three").unwrap();
        assert_eq!(cache.digest_of(&file).unwrap(), Digest::of(b"three"));
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let (folder, cache) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        cache.digest_of(&file).unwrap();
        let open = File::options().write(true).open(&file).unwrap();
        let modified = open.metadata().unwrap().modified().unwrap();
        fs::write(&file, "two").unwrap();
        open.set_modified(modified).unwrap();
        assert_eq!(cache.digest_of(&file).unwrap(), Digest::of(b"one"));
    }

    #[test]
    fn only_the_right_file_is_taken_in() {
        let (folder, cache) = cache();
        let fetched = folder.path().join("x.whl");
        let place = cache.package("wheels", Digest::of(b"good"), "x.whl");
        for (content, is_right) in [("evil", false), ("good", true)] {
            fs::write(&fetched, content).unwrap();
            let taken = take(&fetched, Digest::of(b"good"), &place, "");
            assert_eq!(taken.is_ok(), is_right, "{taken:?}");
            assert_eq!(place.exists(), is_right);
        }
    }

    #[test]
    fn a_damaged_note_is_no_error() {
        let (folder, cache) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        cache.digest_of(&file).unwrap();
        for note in fs::read_dir(folder.path().join("hashes")).unwrap() {
            fs::write(note.unwrap().path(), "{half").unwrap();
        }
        assert_eq!(cache.digest_of(&file).unwrap(), Digest::of(b"one"));
    }

    #[test]
    fn a_file_of_another_file_system_is_copied_where_it_cannot_be_linked() {
        let (folder, cache) = cache();
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        for (name, from) in [("linked", folder.path()), ("copied", memory.path())] {
            let (file, place) = (from.join("file"), cache.folder("libraries").join(name));
            fs::write(&file, "whole").unwrap();
            cache.link(&file, &place).unwrap();
            assert_eq!(fs::read(&place).unwrap(), b"whole");
        }
        assert_eq!(fs::read_dir(cache.folder("tmp")).unwrap().count(), 0);
        let absent = folder.path().join("absent");
        let error = cache.link(&absent, &folder.path().join("x")).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"/folder/absent: No such file or directory (os error 2)");
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let (folder, _) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Cache::at(&file.join("cache")).unwrap_err();
        assert!(matches!(error, Error::Trouble(_)), "{error:?}");
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"the cache folder /folder/file/cache cannot be used: Not a directory (os error 20); make it writable, or set XDG_CACHE_HOME to a folder that is");
    }

    #[test]
    fn half_made_things_of_dead_processes_are_swept() {
        let (folder, cache) = cache();
        // Above the kernel's highest process id.
        let dead = folder.path().join("tmp/4999999-x");
        fs::create_dir(&dead).unwrap();
        let ours = cache.scratch().unwrap();
        Cache::at(folder.path()).unwrap();
        assert!(!dead.exists());
        assert!(ours.path().exists());
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let (_folder, cache) = cache();
        let held = cache.lock("x").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = cache.clone();
        let waiter = std::thread::spawn(move || {
            let _lock = other.lock("x").unwrap();
            sender.send(()).unwrap();
        });
        assert!(
            receiver
                .recv_timeout(std::time::Duration::from_millis(100))
                .is_err()
        );
        drop(held);
        receiver
            .recv_timeout(std::time::Duration::from_secs(10))
            .unwrap();
        waiter.join().unwrap();
    }
}

//! The folder that keeps what took long to get: wheels, packages, unpacked libraries, hashes.

pub(crate) mod library_store;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tempfile::TempDir;

use crate::{
    Digest, Error, Result,
    error::at,
    progress::{Action, Progress},
    store::library_store as unpacked,
};

/// A cache folder. Everything in it can be made again; nothing in it is needed to be right.
///
/// Files appear in it whole (written aside, then renamed), and whoever makes one holds a lock, or
/// makes the very file that others would, so that several builds share a cache.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// Held as long as the cache is used, so that nobody clears it meanwhile.
    _use: Arc<File>,
}

/// Held while one of several builds makes something; let go when dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct CacheLock {
    _file: File,
}

/// How long a cache that is to be had alone is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a file looked like when it was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) modified_ns: u128,
    pub(crate) inode: u64,
}

#[derive(Serialize, Deserialize)]
struct KnownHash {
    stamp: Stamp,
    digest: Digest,
}

impl Stamp {
    /// Looks at a file, following links.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        Ok(Self {
            path: fs::canonicalize(path)?,
            size_bytes: metadata.len(),
            modified_ns: modified.map_or(0, |since| since.as_nanos()),
            inode: metadata.ino(),
        })
    }
}

impl Cache {
    /// The user's cache, in its folder.
    pub fn user() -> Result<Self> {
        Self::at(&Self::user_folder()?)
    }

    /// The user's cache folder: `$XDG_CACHE_HOME/torchgauge`, else `~/.cache/torchgauge`.
    pub fn user_folder() -> Result<PathBuf> {
        let base = etcetera::base_strategy::Xdg::new().map_err(|_| Error::NoHome)?;
        Ok(base.cache_dir().join("torchgauge"))
    }

    /// A cache in the given folder, which is created where it is missing.
    pub fn at(root: &Path) -> Result<Self> {
        Self::open(root, |file, unusable| file.lock_shared().map_err(unusable))
    }

    /// The same where nobody else uses it, and until it is dropped nobody else does.
    pub(crate) fn alone(root: &Path) -> Result<Self> {
        Self::open(root, |file, unusable| {
            let begun = Instant::now();
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(fs::TryLockError::Error(error)) => return Err(unusable(error)),
                    // A process that is just being started holds for a moment what the one that
                    // starts it has held.
                    Err(fs::TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                        thread::sleep(PATIENCE / 20);
                    }
                    Err(fs::TryLockError::WouldBlock) => {
                        return Err(Error::CacheInUse {
                            folder: root.to_owned(),
                        });
                    }
                }
            }
        })
    }

    fn open(
        root: &Path,
        hold: impl FnOnce(&File, &dyn Fn(io::Error) -> Error) -> Result<()>,
    ) -> Result<Self> {
        let unusable = |source| Error::CacheUnusable {
            folder: root.to_owned(),
            source,
        };
        for folder in [
            "wheels",
            "debs",
            "resolved",
            unpacked::FOLDER,
            "libtorch",
            "bases",
            "hashes",
            "layers",
            "locks",
            "tmp",
        ] {
            fs::create_dir_all(root.join(folder)).map_err(unusable)?;
        }
        let root = fs::canonicalize(root).map_err(unusable)?;
        let in_use = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(root.join("locks/in-use"))
            .map_err(unusable)?;
        hold(&in_use, &unusable)?;
        // Folders that exist already may still be another user's.
        tempfile::tempfile_in(root.join("tmp")).map_err(unusable)?;
        let cache = Self {
            root,
            _use: Arc::new(in_use),
        };
        cache.sweep_scratch();
        Ok(cache)
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder of the cache.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
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
        let Ok(entries) = fs::read_dir(self.folder("tmp")) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.split('-').next());
            let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else {
                continue;
            };
            if !Path::new("/proc").join(owner.to_string()).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Waits until nobody else holds the lock of this name, then holds it.
    pub(crate) fn lock(&self, name: &str, progress: &dyn Progress) -> Result<CacheLock> {
        let path = self.folder("locks").join(format!("{name}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(at(&path))?;
        if file.try_lock().is_err() {
            let _waiting = progress.start(Action::Wait, name, None);
            file.lock().map_err(at(&path))?;
        }
        Ok(CacheLock { _file: file })
    }

    /// The digest of a file; read only where path, size, time and inode say that it has changed
    /// since it was last hashed.
    pub(crate) fn digest_of(&self, path: &Path, progress: &dyn Progress) -> Result<Digest> {
        let stamp = Stamp::of(path).map_err(at(path))?;
        let note = self.note_path("hashes", stamp.path.as_os_str().as_encoded_bytes());
        if let Some(known) = read_note::<KnownHash>(&note)
            && known.stamp == stamp
        {
            return Ok(known.digest);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut meter = progress.start(Action::Verify, &name, Some(stamp.size_bytes));
        let mut done = 0;
        let file = File::open(path).map_err(at(path))?;
        let digest = Digest::of_reader(file, |n| {
            done += n;
            meter.advance_to(done);
        })
        .map_err(at(path))?;
        self.remember_digest(path, digest)?;
        Ok(digest)
    }

    /// Keeps a digest that was computed while the file was written.
    pub(crate) fn remember_digest(&self, path: &Path, digest: Digest) -> Result<()> {
        let stamp = Stamp::of(path).map_err(at(path))?;
        let note = self.note_path("hashes", stamp.path.as_os_str().as_encoded_bytes());
        self.write_note(&note, &KnownHash { stamp, digest })
    }

    /// Keeps for the files in one of its folders what another cache knows of those with the same
    /// names.
    pub(crate) fn take_digests(
        &self,
        other: &Self,
        folder: &str,
        progress: &dyn Progress,
    ) -> Result<()> {
        let own = self.folder(folder);
        for entry in fs::read_dir(&own).map_err(at(&own))? {
            let entry = entry.map_err(at(&own))?;
            let theirs = other.folder(folder).join(entry.file_name());
            self.remember_digest(&entry.path(), other.digest_of(&theirs, progress)?)?;
        }
        Ok(())
    }

    /// Drops what is known of a file's digest, so that it is read again.
    pub(crate) fn forget_digest(&self, path: &Path) -> Result<()> {
        let stamp = Stamp::of(path).map_err(at(path))?;
        forget(&self.note_path("hashes", stamp.path.as_os_str().as_encoded_bytes()))
    }

    /// Drops what is known of files that are no longer there.
    pub(crate) fn forget_digests_of_what_is_gone(&self) -> Result<()> {
        let folder = self.folder("hashes");
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let note = entry.map_err(at(&folder))?.path();
            if read_note::<KnownHash>(&note).is_some_and(|known| !known.stamp.path.exists()) {
                forget(&note)?;
            }
        }
        Ok(())
    }

    /// Puts a finished file in its place, and notes what is in it: [`Cache::sound`] tells later
    /// whether that is still so.
    pub(crate) fn seal(&self, finished: &Path, digest: Digest, place: &Path) -> Result<()> {
        fs::rename(finished, place).map_err(at(place))?;
        self.remember_digest(place, digest)?;
        self.write_whole(&seal_of(place), digest.to_string().as_bytes())
    }

    /// Whether a file that was sealed is there, and still what it was.
    pub(crate) fn sound(&self, place: &Path, progress: &dyn Progress) -> Result<bool> {
        if !place.is_file() {
            return Ok(false);
        }
        let Ok(sealed) = fs::read_to_string(seal_of(place)) else {
            return Ok(false);
        };
        let found = self.digest_of(place, progress)?;
        if sealed == found.to_string() {
            return Ok(true);
        }
        progress.note(&format!(
            "the cached {} is damaged; it is made again",
            place.file_name().unwrap_or_default().to_string_lossy()
        ));
        Ok(false)
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
        unpacked::sync(&copy)?;
        fs::rename(&copy, place).map_err(at(place))
    }

    /// Where the note on `key` lies, in a folder of the cache.
    pub(crate) fn note_path(&self, folder: &str, key: &[u8]) -> PathBuf {
        let name = format!("{}.json", Digest::of(key).hex());
        self.folder(folder).join(name)
    }

    /// Writes a note whole or not at all.
    pub(crate) fn write_note(&self, path: &Path, note: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(note).map_err(|error| at(path)(error.into()))?;
        self.write_whole(path, &json)
    }

    /// Writes a file whole or not at all.
    pub(crate) fn write_whole(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(self.folder("tmp")).map_err(at(path))?;
        io::Write::write_all(&mut file, bytes).map_err(at(path))?;
        file.persist(path).map_err(|error| at(path)(error.error))?;
        Ok(())
    }
}

/// What follows the name of a sealed file in that of its digest.
pub(crate) const SEAL: &str = ".sha256";

/// Where the digest of a sealed file stands.
pub(crate) fn seal_of(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(SEAL);
    name.into()
}

/// Removes a note or a seal; fine where there is none.
pub(crate) fn forget(note: &Path) -> Result<()> {
    match fs::remove_file(note) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(note)(error)),
        _ => Ok(()),
    }
}

/// A note, or `None` where there is none that can be read: notes only save work.
pub(crate) fn read_note<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
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
    use crate::progress::Silent;

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
        assert_eq!(cache.digest_of(&file, &Silent).unwrap(), Digest::of(b"one"));
        fs::write(&file, "three").unwrap();
        assert_eq!(
            cache.digest_of(&file, &Silent).unwrap(),
            Digest::of(b"three")
        );
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        let (folder, cache) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        cache
            .remember_digest(&file, Digest::of(b"remembered"))
            .unwrap();
        assert_eq!(
            cache.digest_of(&file, &Silent).unwrap(),
            Digest::of(b"remembered")
        );
    }

    #[test]
    fn a_sealed_file_that_was_damaged_is_not_sound() {
        let (folder, cache) = cache();
        let place = folder.path().join("bases/x.tar");
        assert!(!cache.sound(&place, &Silent).unwrap());
        let finished = folder.path().join("tmp/x");
        for content in ["whole", "whole again"] {
            fs::write(&finished, content).unwrap();
            let digest = Digest::of(content.as_bytes());
            cache.seal(&finished, digest, &place).unwrap();
            assert!(cache.sound(&place, &Silent).unwrap());
            fs::write(&place, "cut").unwrap();
            assert!(!cache.sound(&place, &Silent).unwrap());
        }
    }

    #[test]
    fn a_damaged_note_is_no_error() {
        let (folder, cache) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "one").unwrap();
        cache.digest_of(&file, &Silent).unwrap();
        for note in fs::read_dir(folder.path().join("hashes")).unwrap() {
            fs::write(note.unwrap().path(), "{half").unwrap();
        }
        assert_eq!(cache.digest_of(&file, &Silent).unwrap(), Digest::of(b"one"));
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
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let (folder, _) = cache();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Cache::at(&file.join("cache")).unwrap_err().to_string();
        assert!(error.contains("file/cache"), "{error}");
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
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
        let held = cache.lock("x", &Silent).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = cache.clone();
        let waiter = std::thread::spawn(move || {
            let _lock = other.lock("x", &Silent).unwrap();
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

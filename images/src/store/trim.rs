//! Keeping the cache to a size: what was used longest ago goes first.

use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::SystemTime,
};

use super::{Cache, FOLDERS, LIBRARIES};
use crate::{Result, error::at};

/// Something that is kept or goes as a whole.
struct Thing {
    place: PathBuf,
    bytes: u64,
    used: SystemTime,
    /// Libraries of the cache that it has names for, by inode.
    libraries: BTreeMap<u64, u64>,
}

impl Cache {
    /// Says that something of the cache is used now. What is not the cache's own is left alone.
    pub fn used(&self, place: &Path) {
        if !place.starts_with(&self.root) {
            return;
        }
        // A file's time of change tells whether it was hashed as it is; reading a folder changes
        // when that was read.
        let now = SystemTime::now();
        let times = if place.is_dir() {
            FileTimes::new().set_modified(now)
        } else {
            FileTimes::new().set_accessed(now)
        };
        // One that cannot be marked, on a file system without times, goes sooner.
        if let Ok(file) = File::open(place) {
            let _ = file.set_times(times);
        }
    }

    /// Removes what was used longest ago until `limit` bytes are left, unless that was done and nothing
    /// came in since.
    /// Nothing goes that this process has used, and nothing at all while another one uses the cache.
    pub fn trim(&self, limit: u64) -> Result<()> {
        if !self.unweighed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let (oldest, total, left) = self.oldest(limit)?;
        if total <= limit {
            return Ok(());
        }
        // The lock that is held for use becomes one that nobody shares, and is shared again.
        if self.in_use.try_lock().is_err() {
            self.in_use.lock_shared().map_err(at(&self.root))?;
            self.note(&format!(
                "the cache takes {} of at most {} (--cache-size), and another process uses it: \
                 nothing was removed",
                gigabytes(total),
                gigabytes(limit)
            ));
            return Ok(());
        }
        let removed = self.remove_all(&oldest);
        self.in_use.lock_shared().map_err(at(&self.root))?;
        removed?;
        let what = match oldest.len() {
            0 => "all of it is in use".to_owned(),
            1 => "removed the one used longest ago".to_owned(),
            count => format!("removed the {count} used longest ago"),
        };
        self.note(&format!(
            "the cache took {} of at most {} (--cache-size): {what}; {} remain",
            gigabytes(total),
            gigabytes(limit),
            gigabytes(left)
        ));
        Ok(())
    }

    /// What was used longest ago, as far as it must go for `limit`, with what removing it frees; the
    /// bytes of all, and what is left then.
    fn oldest(&self, limit: u64) -> Result<(Vec<Thing>, u64, u64)> {
        let mut things = self.things()?;
        let mut owners: BTreeMap<u64, usize> = BTreeMap::new();
        let mut total: u64 = things.iter().map(|thing| thing.bytes).sum();
        for (inode, bytes) in things.iter().flat_map(|thing| &thing.libraries) {
            let owners = owners.entry(*inode).or_default();
            total += if *owners == 0 { *bytes } else { 0 };
            *owners += 1;
        }
        things.retain(|thing| thing.used < self.opened);
        things.sort_by_key(|thing| thing.used);
        let (mut left, mut oldest) = (total, Vec::new());
        for mut thing in things {
            if left <= limit {
                break;
            }
            // A library goes with the last libtorch that has a name for it.
            for (inode, bytes) in &thing.libraries {
                let owners = owners.entry(*inode).or_default();
                *owners = owners.saturating_sub(1);
                thing.bytes += if *owners == 0 { *bytes } else { 0 };
            }
            left = left.saturating_sub(thing.bytes);
            oldest.push(thing);
        }
        Ok((oldest, total, left))
    }

    /// Removes these things, and those of their libraries that no libtorch has a name for any more.
    fn remove_all(&self, things: &[Thing]) -> Result<()> {
        for thing in things {
            self.remove(&thing.place)?;
        }
        if things.iter().all(|thing| thing.libraries.is_empty()) {
            return Ok(());
        }
        for place in entries(&self.folder(LIBRARIES))? {
            let facts = fs::symlink_metadata(&place).map_err(at(&place))?;
            let is_gone = |thing: &Thing| thing.libraries.contains_key(&facts.ino());
            if facts.nlink() == 1 && things.iter().any(is_gone) {
                self.remove(&place)?;
            }
        }
        Ok(())
    }

    /// Bytes of all files below a folder, each counted once.
    pub(crate) fn weigh(folder: &Path) -> Result<u64> {
        let mut linked = BTreeMap::new();
        let own = weigh(folder, &mut linked)?;
        Ok(own + linked.values().sum::<u64>())
    }

    fn things(&self) -> Result<Vec<Thing>> {
        let mut found = Vec::new();
        for folder in FOLDERS {
            for place in entries(&self.folder(folder))? {
                let facts = fs::symlink_metadata(&place).map_err(at(&place))?;
                // It goes with the last libtorch that has it.
                if folder == LIBRARIES && facts.nlink() > 1 {
                    continue;
                }
                let used = if facts.is_dir() {
                    facts.modified()
                } else {
                    facts.accessed()
                };
                let mut libraries = BTreeMap::new();
                let bytes = weigh(&place, &mut libraries)?;
                found.push(Thing {
                    used: used.map_err(at(&place))?,
                    place,
                    bytes,
                    libraries,
                });
            }
        }
        Ok(found)
    }

    /// Removes a file, or a folder: that is taken from its place at once, so that no half of it is
    /// ever found there.
    pub(crate) fn remove(&self, place: &Path) -> Result<()> {
        if !place.is_dir() {
            return fs::remove_file(place).map_err(at(place));
        }
        let scratch = self.scratch()?;
        fs::rename(place, scratch.path().join("gone")).map_err(at(place))?;
        let folder = scratch.path().to_owned();
        scratch.close().map_err(at(&folder))
    }
}

/// The size of a file, or of all files below a folder; those with names elsewhere are counted apart.
fn weigh(path: &Path, libraries: &mut BTreeMap<u64, u64>) -> Result<u64> {
    let facts = fs::symlink_metadata(path).map_err(at(path))?;
    if facts.is_dir() {
        let mut sum = 0;
        for path in entries(path)? {
            sum += weigh(&path, libraries)?;
        }
        return Ok(sum);
    }
    if facts.nlink() > 1 {
        libraries.insert(facts.ino(), facts.len());
        return Ok(0);
    }
    Ok(facts.len())
}

/// What lies in a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        found.push(entry.map_err(at(folder))?.path());
    }
    found.sort();
    Ok(found)
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex, PoisonError},
        time::Duration,
    };

    use super::*;
    use crate::{Action, Meter, Progress, Silent};

    /// Keeps what is said.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Progress for Notes {
        fn start(&self, _: Action, _: &str, _: Option<u64>) -> Box<dyn Meter> {
            Box::new(Silent)
        }

        fn note(&self, text: &str) {
            let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            notes.push(text.to_owned());
        }
    }

    /// A cache with a file of each age in days, 1000 bytes each, and two libtorches that share a
    /// library.
    fn world() -> (tempfile::TempDir, Notes) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let day = Duration::from_hours(24);
        let old = |place: &Path, days: u32| {
            let then = SystemTime::now() - day * days;
            let times = FileTimes::new().set_accessed(then).set_modified(then);
            File::open(place).unwrap().set_times(times).unwrap();
        };
        for days in [1, 2, 3] {
            let place = cache.folder("wheels").join(format!("{days}.whl"));
            fs::write(&place, [0; 1000]).unwrap();
            old(&place, days);
        }
        let library = cache.folder(LIBRARIES).join("shared");
        fs::write(&library, [0; 5000]).unwrap();
        for (name, days) in [("old", 10), ("new", 1)] {
            let view = cache.folder("libtorch").join(name);
            fs::create_dir(&view).unwrap();
            cache.link(&library, &view.join("libx.so")).unwrap();
            old(&view, days);
        }
        (folder, Notes::default())
    }

    fn trim(folder: &Path, limit: u64, notes: &Notes, use_first: &[&str]) {
        // A process that another test starts has the lock of a cache that is closed here for as long
        // as it takes to begin.
        for left in (0..100).rev() {
            let cache = Cache::at(folder).unwrap().with_progress(notes.clone());
            for place in use_first {
                cache.used(&cache.folder(place));
            }
            cache.trim(limit).unwrap();
            let mut told = notes.0.lock().unwrap();
            let is_held = |note: &String| note.contains("another process uses it");
            if left == 0 || !told.last().is_some_and(is_held) {
                return;
            }
            told.pop();
            drop(told);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn without_folder(notes: &Notes, folder: &Path) -> String {
        let told = notes.0.lock().unwrap().join("\n");
        told.replace(folder.to_str().unwrap(), "/cache")
    }

    fn left(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for name in FOLDERS {
            for place in entries(&folder.join(name)).unwrap() {
                let place = place.strip_prefix(folder).unwrap();
                found.push(place.display().to_string());
            }
        }
        found.sort();
        found
    }

    #[test]
    fn what_was_used_longest_ago_goes_until_the_rest_fits() {
        let (folder, notes) = world();
        let all = left(folder.path());
        trim(folder.path(), 8000, &notes, &[]);
        assert_eq!(left(folder.path()), all);
        trim(folder.path(), 7500, &notes, &[]);
        // The old libtorch frees nothing, for the new one shares its library.
        let expected = [
            "libraries/shared",
            "libtorch/new",
            "wheels/1.whl",
            "wheels/2.whl",
        ];
        assert_eq!(left(folder.path()), expected);
        trim(
            folder.path(),
            2000,
            &notes,
            &["wheels/1.whl", "wheels/2.whl"],
        );
        assert_eq!(left(folder.path()), ["wheels/1.whl", "wheels/2.whl"]);
        insta::assert_snapshot!(without_folder(&notes, folder.path()), @r"
        the cache took 0.0 GB of at most 0.0 GB (--cache-size): removed the 2 used longest ago; 0.0 GB remain
        the cache took 0.0 GB of at most 0.0 GB (--cache-size): removed the one used longest ago; 0.0 GB remain
        ");
    }

    #[test]
    fn what_is_in_use_stays() {
        let (folder, notes) = world();
        let names = [
            "wheels/1.whl",
            "wheels/2.whl",
            "wheels/3.whl",
            "libtorch/old",
            "libtorch/new",
        ];
        let all = left(folder.path());
        trim(folder.path(), 0, &notes, &names);
        assert_eq!(left(folder.path()), all);
        let other = Cache::at(folder.path()).unwrap();
        trim(folder.path(), 0, &notes, &[]);
        assert_eq!(left(folder.path()), all);
        drop(other);
        insta::assert_snapshot!(without_folder(&notes, folder.path()), @r"
        the cache took 0.0 GB of at most 0.0 GB (--cache-size): all of it is in use; 0.0 GB remain
        the cache takes 0.0 GB of at most 0.0 GB (--cache-size), and another process uses it: nothing was removed
        ");
        trim(folder.path(), 0, &notes, &[]);
        assert_eq!(left(folder.path()), [] as [&str; 0]);
    }
}

//! Clearing the cache: what of it goes, and what images of a checkout are still made of.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Base, Cache, Image, LibtorchSpec, Result,
    base::{debian::debian_place, image::saved_place},
    error::at,
    libtorch::{Parts, kept, pip, wheels},
    lock::{BaseLock, LibtorchLock, WheelsLock},
    store::{SEAL, forget, library_store as unpacked, library_store::FOLDER as LIBRARIES, seal_of},
};

/// What of the cache goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clearing {
    /// What none of these images is made of, as far as locks and kept answers of pip say.
    Unused,
    /// What pip answered for images without a lock: the next build of one asks it anew.
    Resolved,
    /// Everything.
    All,
}

/// One thing that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Its place below the cache folder.
    pub name: String,
    /// Its size, with all that is in it.
    pub size_bytes: u64,
}

/// What clearing did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// The cache folder.
    pub folder: PathBuf,
    /// What went.
    pub removed: Vec<Removed>,
    /// The size of what stayed.
    pub kept_bytes: u64,
}

/// What is downloaded or made of downloads, entry by entry.
const THINGS: [&str; 6] = ["wheels", "debs", "bases", LIBTORCHES, LIBRARIES, "resolved"];
/// Libtorches are put together of libraries, which have names in both places.
const LIBTORCHES: &str = "libtorch";
/// What saves work alone: many small files.
const NOTES: [&str; 2] = ["hashes", "layers"];

/// Clears the cache at `root`, which nobody else may be using; with `dry_run` it only says what
/// would go.
pub fn clear_cache(
    root: &Path,
    which: Clearing,
    images: &[Image],
    dry_run: bool,
) -> Result<Cleared> {
    let cache = Cache::alone(root)?;
    let needed = match which {
        Clearing::Unused => Some(needed_by(images, &cache)?),
        Clearing::Resolved | Clearing::All => None,
    };
    let goes = |folder: &'static str, name: &str| match which {
        Clearing::All => true,
        Clearing::Resolved => folder == "resolved",
        Clearing::Unused => !needed
            .as_ref()
            .is_some_and(|needed| needed.holds(folder, name)),
    };
    let mut cleared = Cleared {
        folder: cache.root().to_owned(),
        removed: Vec::new(),
        kept_bytes: 0,
    };
    let libraries = inodes_in(&cache.folder(LIBRARIES))?;
    for folder in THINGS {
        let elsewhere = match folder {
            LIBTORCHES => &libraries,
            _ => &Inodes::new(),
        };
        for (name, size_bytes) in entries(&cache.folder(folder), elsewhere)? {
            if !goes(folder, &name) {
                cleared.kept_bytes += size_bytes;
                continue;
            }
            if !dry_run {
                remove(&cache, &cache.folder(folder).join(&name))?;
            }
            cleared.removed.push(Removed {
                name: format!("{folder}/{name}"),
                size_bytes,
            });
        }
    }
    for folder in NOTES {
        let place = cache.folder(folder);
        let size_bytes = size_of(&place, &Inodes::new())?;
        if which == Clearing::All && size_bytes > 0 {
            if !dry_run {
                for (name, _) in entries(&place, &Inodes::new())? {
                    remove(&cache, &place.join(name))?;
                }
            }
            cleared.removed.push(Removed {
                name: folder.to_owned(),
                size_bytes,
            });
        } else {
            cleared.kept_bytes += size_bytes;
        }
    }
    if !dry_run {
        cache.forget_digests_of_what_is_gone()?;
    }
    Ok(cleared)
}

/// What images are made of, by folder and name.
#[derive(Debug, Default)]
struct Needed {
    names: BTreeSet<(&'static str, String)>,
    /// Whether an image stands on another, of which layers and a libtorch may be unpacked.
    has_local_base: bool,
}

impl Needed {
    fn add(&mut self, folder: &'static str, name: impl Into<String>) {
        self.names.insert((folder, name.into()));
    }

    fn add_file(&mut self, folder: &'static str, place: &Path) {
        let name = place.file_name().unwrap_or_default();
        self.add(folder, name.to_string_lossy());
    }

    fn add_wheels(&mut self, lock: &WheelsLock, cache: &Cache) {
        for wheel in lock.wheels.iter().chain(&lock.headers) {
            self.add("wheels", &wheel.file);
        }
        for library in &lock.libraries {
            self.add_file(LIBRARIES, &unpacked::place_of(library.sha256, cache));
        }
        for parts in [Parts::All, Parts::Build] {
            self.add(LIBTORCHES, wheels::place_of(lock, parts, cache).0);
        }
    }

    fn holds(&self, folder: &'static str, name: &str) -> bool {
        // Links to a libtorch that lies elsewhere take no room, and their names do not tell whose.
        let is_view = folder == LIBTORCHES && name.starts_with("view-");
        let is_of_base = (folder == "bases" && name.starts_with("layer-"))
            || (folder == LIBTORCHES && name.starts_with("inside-"));
        is_view
            || (is_of_base && self.has_local_base)
            || self.names.contains(&(folder, name.to_owned()))
    }
}

fn needed_by(images: &[Image], cache: &Cache) -> Result<Needed> {
    let mut needed = Needed::default();
    needed.add("wheels", pip::PIP_FILE);
    for image in images {
        if let Base::Image(reference) = &image.spec.base {
            needed.add_file("bases", &saved_place(reference, cache));
        }
        needed.has_local_base |= image.spec.base != Base::Debian;
        if let Ok(lock) = image.usable_lock() {
            if let BaseLock::Debian(packages) = &lock.base {
                needed.add_file("bases", &debian_place(packages, cache));
                for package in packages {
                    needed.add("debs", &package.file);
                }
            }
            if let LibtorchLock::Wheels(wheels) = &lock.libtorch {
                needed.add_wheels(wheels, cache);
            }
        } else if let LibtorchSpec::Wheels { version, flavour } = &image.spec.libtorch
            && let Some((place, wheels)) = kept::kept(version, *flavour, cache)?
        {
            needed.add_file("resolved", &place);
            needed.add_wheels(&wheels, cache);
        }
    }
    Ok(needed)
}

/// Files, whatever they are called.
type Inodes = BTreeSet<u64>;

/// The files that lie in a folder of the cache.
fn inodes_in(folder: &Path) -> Result<Inodes> {
    let files = fs::read_dir(folder).map_err(at(folder))?;
    let inode = |file: io::Result<fs::DirEntry>| file?.metadata().map(|facts| facts.ino());
    files
        .map(inode)
        .collect::<io::Result<_>>()
        .map_err(at(folder))
}

/// What lies in a folder of the cache: names and sizes, sorted by name. The seal of a file counts
/// with it, and files that lie `elsewhere` too count there.
fn entries(folder: &Path, elsewhere: &Inodes) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let sealed = name.strip_suffix(SEAL).map(|of| folder.join(of));
        if sealed.is_some_and(|of| of.exists()) {
            continue;
        }
        let seal = fs::metadata(seal_of(&entry.path()));
        let size_bytes = size_of(&entry.path(), elsewhere)? + seal.map_or(0, |seal| seal.len());
        found.push((name, size_bytes));
    }
    found.sort();
    Ok(found)
}

/// The size of a file, or of all files below a folder, without those that lie `elsewhere` too;
/// symbolic links count as themselves.
fn size_of(path: &Path, elsewhere: &Inodes) -> Result<u64> {
    let facts = fs::symlink_metadata(path).map_err(at(path))?;
    if !facts.is_dir() {
        let counts = !elsewhere.contains(&facts.ino());
        return Ok(if counts { facts.len() } else { 0 });
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(at(path))? {
        sum += size_of(&entry.map_err(at(path))?.path(), elsewhere)?;
    }
    Ok(sum)
}

/// Removes a file with its seal, or a folder: that is taken from its place at once, so that no half
/// of it is ever found there.
fn remove(cache: &Cache, place: &Path) -> Result<()> {
    if !place.is_dir() {
        fs::remove_file(place).map_err(at(place))?;
        return forget(&seal_of(place));
    }
    let scratch = cache.scratch()?;
    fs::rename(place, scratch.path().join("gone")).map_err(at(place))?;
    let folder = scratch.path().to_owned();
    scratch.close().map_err(at(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Catalog, Digest, Error, Flavour,
        lock::{Wheel, WheelLibrary},
    };

    const SPEC: &str = "version: 1\ndescription: x\nbase: debian\n\
                        libtorch: {version: 2.11.0, flavour: cpu, from: wheels}\n";

    fn wheels_lock() -> WheelsLock {
        WheelsLock {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cpu,
            name: "2.11.0+cpu".to_owned(),
            wheels: vec![Wheel {
                name: "torch".to_owned(),
                version: "2.11.0".to_owned(),
                file: "torch-needed.whl".to_owned(),
                size_bytes: 4,
                sha256: Digest::of(b"four"),
            }],
            headers: Vec::new(),
            wheels_unpacked_bytes: 0,
            libraries: vec![WheelLibrary {
                name: "libc10.so".to_owned(),
                wheel: "torch".to_owned(),
                path: "torch/lib/libc10.so".to_owned(),
                size_bytes: 4,
                sha256: Digest::of(b"four"),
            }],
        }
    }

    /// A cache with something needed and something not in every folder, and the image that needs
    /// it, by what pip answered.
    fn world(root: &Path) -> Vec<Image> {
        let cache = Cache::at(&root.join("cache")).unwrap();
        fs::create_dir(root.join("images")).unwrap();
        fs::write(root.join("images/x.yaml"), SPEC).unwrap();
        kept::keep(&wheels_lock(), "2.11.0", Flavour::Cpu, &cache).unwrap();
        let file = |place: &str| fs::write(cache.folder(place), "four").unwrap();
        for place in [
            "wheels/torch-needed.whl",
            "wheels/torch-other.whl",
            "debs/other.deb",
            "bases/debian-other.tar",
            "bases/debian-other.tar.sha256",
            "resolved/other.json",
        ] {
            file(place);
        }
        let (needed, _) = wheels::place_of(&wheels_lock(), Parts::All, &cache);
        let library = Digest::of(b"four").hex();
        for (name, library) in [(needed.as_str(), &*library), ("2.9.1+cpu-other", "other")] {
            let lib = cache.folder("libtorch").join(name).join("lib");
            fs::create_dir_all(&lib).unwrap();
            file(&format!("libraries/{library}"));
            let kept = cache.folder("libraries").join(library);
            cache.link(&kept, &lib.join("libc10.so")).unwrap();
        }
        let gone = cache.folder("wheels/torch-other.whl");
        cache.digest_of(&gone, &crate::Silent).unwrap();
        vec![Catalog::new(&root.join("images")).image("x").unwrap()]
    }

    fn names(cleared: &Cleared) -> Vec<&str> {
        let removed = cleared.removed.iter();
        removed.map(|removed| removed.name.as_str()).collect()
    }

    #[test]
    fn what_no_image_is_made_of_goes_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let images = world(folder.path());
        let root = folder.path().join("cache");
        let expected = [
            "wheels/torch-other.whl",
            "debs/other.deb",
            "bases/debian-other.tar",
            "libtorch/2.9.1+cpu-other",
            "libraries/other",
            "resolved/other.json",
        ];
        let dry = clear_cache(&root, Clearing::Unused, &images, true).unwrap();
        assert_eq!(names(&dry), expected);
        // The base counts with its seal, a library once.
        let sizes: Vec<u64> = dry.removed.iter().map(|one| one.size_bytes).collect();
        assert_eq!(sizes, [4, 4, 8, 0, 4, 4]);
        assert!(root.join("wheels/torch-other.whl").exists());

        let done = clear_cache(&root, Clearing::Unused, &images, false).unwrap();
        assert_eq!(done, dry);
        for name in expected {
            assert!(!root.join(name).exists(), "{name}");
        }
        assert!(!root.join("bases/debian-other.tar.sha256").exists());
        assert!(root.join("wheels/torch-needed.whl").exists());
        assert_eq!(fs::read_dir(root.join("libtorch")).unwrap().count(), 1);
        let hashed = fs::read_dir(root.join("hashes")).unwrap();
        let told = |note: io::Result<fs::DirEntry>| fs::read_to_string(note.unwrap().path());
        for note in hashed {
            assert!(!told(note).unwrap().contains("torch-other.whl"));
        }
        let again = clear_cache(&root, Clearing::Unused, &images, false).unwrap();
        assert_eq!(names(&again), [] as [&str; 0]);
    }

    #[test]
    fn everything_or_the_answers_alone_can_go() {
        let folder = tempfile::tempdir().unwrap();
        world(folder.path());
        let root = folder.path().join("cache");
        let answers = clear_cache(&root, Clearing::Resolved, &[], false).unwrap();
        assert_eq!(answers.removed.len(), 2);
        assert!(names(&answers).iter().all(|n| n.starts_with("resolved/")));
        assert!(answers.kept_bytes > 0);
        let all = clear_cache(&root, Clearing::All, &[], false).unwrap();
        assert!(names(&all).contains(&"wheels/torch-needed.whl"));
        assert!(names(&all).contains(&"hashes"));
        assert_eq!(all.kept_bytes, 0);
        let empty = clear_cache(&root, Clearing::All, &[], false).unwrap();
        assert_eq!(empty.removed, []);
    }

    #[test]
    fn a_cache_in_use_is_left_alone_and_a_build_waits_for_the_clearing() {
        let folder = tempfile::tempdir().unwrap();
        world(folder.path());
        let root = folder.path().join("cache");
        let build = Cache::at(&root).unwrap();
        let clone = build.clone();
        drop(build);
        let error = clear_cache(&root, Clearing::All, &[], false).unwrap_err();
        assert!(matches!(error, Error::CacheInUse { .. }), "{error:?}");
        assert!(error.to_string().contains("nothing was removed"), "{error}");
        assert!(root.join("wheels/torch-needed.whl").exists());
        drop(clone);
        clear_cache(&root, Clearing::All, &[], false).unwrap();
    }
}

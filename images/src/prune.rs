//! Clearing the cache: what of it goes, and what images of a checkout are still made of.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Base, Cache, Image, Result,
    base::{apt, debian::debian_place, image::saved_place},
    error::at,
    libtorch::{pip, wheels},
    lock::{BaseLock, LibtorchLock},
    store::{NOTES, WORK_FOLDERS},
};

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

/// Clears the cache at `root`, which nobody else may be using: all of it, or what none of the images
/// in `keep` is made of. With `dry_run` it only says what would go.
pub fn clear_cache(root: &Path, keep: Option<&[Image]>, dry_run: bool) -> Result<Cleared> {
    let cache = Cache::alone(root)?;
    let needed = keep.map(|images| Needed::by(images, &cache));
    let mut cleared = Cleared {
        folder: cache.root().to_owned(),
        removed: Vec::new(),
        kept_bytes: 0,
    };
    for folder in entries(cache.root())? {
        let name = file_name(&folder);
        if WORK_FOLDERS.contains(&&*name) {
            continue;
        }
        // Notes are many small files.
        let things = if NOTES.contains(&&*name) {
            vec![folder]
        } else {
            entries(&folder)?
        };
        for thing in things {
            let size_bytes = size_of(&thing)?;
            if size_bytes == 0 && thing.ends_with(&name) {
                continue;
            }
            if needed.as_ref().is_some_and(|needed| needed.holds(&thing)) {
                cleared.kept_bytes += size_bytes;
                continue;
            }
            let name = thing.strip_prefix(cache.root()).unwrap_or(&thing);
            cleared.removed.push(Removed {
                name: name.display().to_string(),
                size_bytes,
            });
        }
    }
    // All is weighed first: what goes has names elsewhere.
    if !dry_run {
        for removed in &cleared.removed {
            remove(&cache, &cache.root().join(&removed.name))?;
        }
    }
    Ok(cleared)
}

/// What images are made of.
#[derive(Debug, Default)]
struct Needed {
    places: BTreeSet<PathBuf>,
    /// Whether an image stands on another, of which layers and a libtorch may be unpacked.
    has_local_base: bool,
}

impl Needed {
    fn by(images: &[Image], cache: &Cache) -> Self {
        let mut needed = Self::default();
        let places = &mut needed.places;
        places.insert(pip::own_place(cache));
        places.extend(NOTES.map(|notes| cache.folder(notes)));
        for image in images {
            if let Base::Image(reference) = &image.spec.base {
                places.insert(saved_place(reference, cache));
            }
            needed.has_local_base |= image.spec.base != Base::Debian;
            let Ok(lock) = image.usable_lock() else {
                continue;
            };
            if let BaseLock::Debian(packages) = &lock.base {
                places.insert(debian_place(packages, cache));
                places.extend(packages.iter().map(|one| apt::place_of(one, cache)));
            }
            if let LibtorchLock::Wheels(lock) = &lock.libtorch {
                places.extend(lock.all_wheels().map(|wheel| pip::place_of(wheel, cache)));
                places.extend(lock.libraries.iter().map(|one| cache.library(one.sha256)));
                places.insert(wheels::place_of(lock, cache).1);
            }
        }
        needed
    }

    fn holds(&self, place: &Path) -> bool {
        let name = file_name(place);
        // Links to a libtorch that lies elsewhere take no room, and their names do not tell whose.
        name.starts_with("view-")
            || (self.has_local_base && (name.starts_with("layer-") || name.starts_with("inside-")))
            || self.places.contains(place)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
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

/// The size of a file, or of all files below a folder. Libtorches are put together of libraries,
/// which have names in both places and count once; symbolic links count as themselves.
fn size_of(path: &Path) -> Result<u64> {
    let facts = fs::symlink_metadata(path).map_err(at(path))?;
    if !facts.is_dir() {
        return Ok(facts.len());
    }
    let mut sum = 0;
    for path in entries(path)? {
        let facts = fs::symlink_metadata(&path).map_err(at(&path))?;
        if facts.is_dir() || facts.nlink() == 1 {
            sum += size_of(&path)?;
        }
    }
    Ok(sum)
}

/// Removes a file, or a folder: that is taken from its place at once, so that no half of it is ever
/// found there.
fn remove(cache: &Cache, place: &Path) -> Result<()> {
    if !place.is_dir() {
        return fs::remove_file(place).map_err(at(place));
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
        lock::{Expected, LOCK_VERSION, Lock, Toolchain, Wheel, WheelLibrary, WheelsLock},
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
                file: "torch.whl".to_owned(),
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
    /// it.
    fn world(root: &Path) -> Vec<Image> {
        let cache = Cache::at(&root.join("cache")).unwrap();
        fs::create_dir(root.join("images")).unwrap();
        fs::write(root.join("images/x.yaml"), SPEC).unwrap();
        let mut image = Catalog::new(&root.join("images")).image("x").unwrap();
        let word = || "x".to_owned();
        image.lock = Some(Lock {
            version: LOCK_VERSION,
            image: word(),
            spec: image.spec.digest(),
            platform: crate::lock::PLATFORM.to_owned(),
            toolchain: Toolchain {
                rust: word(),
                cxx: word(),
                linker: word(),
                libc: word(),
                tch: word(),
            },
            base: BaseLock::Debian(Vec::new()),
            libtorch: LibtorchLock::Wheels(wheels_lock()),
            expected: Expected {
                layers: Vec::new(),
                image: None,
            },
            seal: Digest::of(b""),
        });
        for place in ["wheels/other", "debs/other", "bases/other", "hashes/note"] {
            fs::write(cache.folder(place), "four").unwrap();
        }
        fs::write(pip::place_of(&wheels_lock().wheels[0], &cache), "four").unwrap();
        let (_, needed) = wheels::place_of(&wheels_lock(), &cache);
        let library = cache.library(Digest::of(b"four"));
        let other = cache.folder("libraries/other");
        for (view, library) in [(needed, library), (cache.folder("libtorch/other"), other)] {
            fs::create_dir_all(view.join("lib")).unwrap();
            fs::write(&library, "four").unwrap();
            cache.link(&library, &view.join("lib/libc10.so")).unwrap();
        }
        vec![image]
    }

    fn sizes(cleared: &Cleared) -> Vec<(&str, u64)> {
        let removed = cleared.removed.iter();
        removed
            .map(|one| (one.name.as_str(), one.size_bytes))
            .collect()
    }

    #[test]
    fn what_no_image_is_made_of_goes_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let images = world(folder.path());
        let root = folder.path().join("cache");
        // A library counts once.
        let expected = [
            ("bases/other", 4),
            ("debs/other", 4),
            ("libraries/other", 4),
            ("libtorch/other", 0),
            ("wheels/other", 4),
        ];
        let dry = clear_cache(&root, Some(&images), true).unwrap();
        assert_eq!(sizes(&dry), expected);
        assert_eq!(dry.kept_bytes, 12);
        assert!(root.join("wheels/other").exists());
        let done = clear_cache(&root, Some(&images), false).unwrap();
        assert_eq!(done, dry);
        let again = clear_cache(&root, Some(&images), false).unwrap();
        assert_eq!((sizes(&again), again.kept_bytes), (vec![], 12));

        let all = clear_cache(&root, None, false).unwrap();
        assert!(sizes(&all).contains(&("hashes", 4)), "{all:?}");
        assert_eq!(all.kept_bytes, 0);
        assert_eq!(clear_cache(&root, None, false).unwrap().removed, []);
    }

    #[test]
    fn a_cache_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        world(folder.path());
        let root = folder.path().join("cache");
        let build = Cache::at(&root).unwrap();
        let error = clear_cache(&root, None, false).unwrap_err();
        assert!(matches!(error, Error::CacheInUse { .. }), "{error:?}");
        assert!(root.join("wheels/other").exists());
        drop(build);
        clear_cache(&root, None, false).unwrap();
    }
}

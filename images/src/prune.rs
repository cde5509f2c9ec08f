//! Clearing the cache: what of it goes, and what images of a checkout are still made of.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Base, Cache, Image, LibtorchSpec, Result,
    base::{apt, archive::noted, debian::debian_place, image::saved_place},
    libtorch::{in_base, pip, wheels},
    lock::{BaseLock, LibtorchLock},
    store::{
        NOTES, PROGRAMS, WORK_FOLDERS,
        trim::{entries, weigh},
    },
    workload::kept,
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

/// What of the cache goes.
#[derive(Debug, Clone, Copy)]
pub enum Clear<'a> {
    /// Everything.
    All,
    /// What none of these images is made of.
    Unused(&'a [Image]),
    /// What these images are made of, and no other.
    Only {
        /// The images that go.
        images: &'a [Image],
        /// The images that stay.
        others: &'a [Image],
    },
}

/// Clears the cache at `root`, which nobody else may be using. With `dry_run` it only says what
/// would go.
pub fn clear_cache(root: &Path, what: Clear, dry_run: bool) -> Result<Cleared> {
    let cache = Cache::alone(root)?;
    let (gone, kept) = match what {
        Clear::All => (None, None),
        Clear::Unused(images) => (None, Some(Needed::by(images, &cache))),
        Clear::Only { images, others } => (
            Some(Needed::by(images, &cache)),
            Some(Needed::by(others, &cache)),
        ),
    };
    let goes = |thing: &Path| {
        gone.as_ref().is_none_or(|gone| gone.names(thing))
            && !kept.as_ref().is_some_and(|kept| kept.holds(thing))
    };
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
            let mut linked = BTreeMap::new();
            let mut size_bytes = weigh(&thing, &mut linked)?;
            // A library counts where it lies, and not in the libtorches that have a name for it.
            if !thing.is_dir() {
                size_bytes += linked.values().sum::<u64>();
            }
            if size_bytes == 0 && thing.ends_with(&name) {
                continue;
            }
            if !goes(&thing) {
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
            cache.remove(&cache.root().join(&removed.name))?;
        }
    }
    Ok(cleared)
}

/// What images are made of.
#[derive(Debug, Default)]
struct Needed {
    places: BTreeSet<PathBuf>,
    /// The full names of their libtorchs, which scenario binaries are compiled for.
    libtorchs: BTreeSet<String>,
    /// Whether an image stands on an archive that was not looked into: what was unpacked of it is
    /// not known.
    has_unknown_base: bool,
}

impl Needed {
    fn by(images: &[Image], cache: &Cache) -> Self {
        let mut needed = Self::default();
        for image in images {
            needed.add_base(image, cache);
            let places = &mut needed.places;
            let Ok(lock) = image.usable_lock() else {
                continue;
            };
            needed.libtorchs.insert(lock.libtorch.name().to_owned());
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

    /// The archive of a base that was given, its unpacked layers, and the libtorch out of it.
    fn add_base(&mut self, image: &Image, cache: &Cache) {
        let archive = match &image.spec.base {
            Base::Debian => return,
            Base::Archive(file) => file.clone(),
            Base::Image(reference) => saved_place(reference, cache),
        };
        match noted(&archive, cache) {
            None => self.has_unknown_base |= archive.exists(),
            Some(base) => {
                self.places.extend(base.unpacked);
                if let LibtorchSpec::Inside { folder, flavour } = &image.spec.libtorch {
                    let (layers, path) = (&base.layers, &base.library_path);
                    let folder = folder.as_deref();
                    let (_, place) = in_base::place_of(layers, path, folder, *flavour, cache);
                    self.places.insert(place);
                }
            }
        }
        self.places.insert(archive);
    }

    /// Whether an image is known to be made of it.
    fn names(&self, place: &Path) -> bool {
        self.places.contains(place)
            || made_for(place).is_some_and(|name| self.libtorchs.contains(&name))
    }

    fn holds(&self, place: &Path) -> bool {
        let name = file_name(place);
        // Links to a libtorch that lies elsewhere take no room, and their names do not tell whose.
        name.starts_with("view-")
            || NOTES.contains(&&*name)
            || (self.has_unknown_base
                && (name.starts_with("layer-") || name.starts_with("inside-")))
            || name.ends_with(pip::FILE)
            || self.names(place)
    }
}

/// The libtorch that a scenario binary of the cache was compiled for.
fn made_for(place: &Path) -> Option<String> {
    let folder = place.parent()?;
    folder.ends_with(PROGRAMS).then(|| kept::made_for(place))?
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

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
            contents: None,
            libtorch: LibtorchLock::Wheels(wheels_lock()),
            expected: Expected {
                layers: Vec::new(),
                image: None,
            },
            seal: Digest::of(b""),
        });
        for (key, libtorch) in [("ours", "2.11.0+cpu"), ("theirs", "2.6.0+cpu")] {
            let place = cache.folder("programs").join(key);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(kept::MADE_FOR), libtorch).unwrap();
        }
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
            ("programs/theirs", 9),
            ("wheels/other", 4),
        ];
        let dry = clear_cache(&root, Clear::Unused(&images), true).unwrap();
        assert_eq!(sizes(&dry), expected);
        assert_eq!(dry.kept_bytes, 22);
        assert!(root.join("wheels/other").exists());
        let done = clear_cache(&root, Clear::Unused(&images), false).unwrap();
        assert_eq!(done, dry);
        let again = clear_cache(&root, Clear::Unused(&images), false).unwrap();
        assert_eq!((sizes(&again), again.kept_bytes), (vec![], 22));

        let all = clear_cache(&root, Clear::All, false).unwrap();
        assert!(sizes(&all).contains(&("hashes", 4)), "{all:?}");
        assert_eq!(all.kept_bytes, 0);
        assert_eq!(clear_cache(&root, Clear::All, false).unwrap().removed, []);
    }

    #[test]
    fn what_only_one_image_needs_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let images = world(folder.path());
        let root = folder.path().join("cache");
        let reference = format!("x@{}", Digest::of(b"x"));
        let (ours, theirs) = {
            let cache = Cache::at(&root).unwrap();
            let other = format!("{reference}0");
            (saved_place(&reference, &cache), saved_place(&other, &cache))
        };
        for place in [&ours, &theirs] {
            fs::write(place, "four").unwrap();
        }
        let mut mine = images[0].clone();
        mine.spec.base = Base::Image(reference);
        let clear = |images: &[Image], others: &[Image]| {
            let what = Clear::Only { images, others };
            clear_cache(&root, what, false).unwrap()
        };
        // Another image of the same wheels keeps them.
        let cleared = clear(std::slice::from_ref(&mine), &images);
        let place = ours.strip_prefix(&root).unwrap().display().to_string();
        assert_eq!(sizes(&cleared), [(place.as_str(), 4)]);
        assert!(theirs.exists() && !ours.exists());
        let cleared = clear(&images, &[]);
        let names: Vec<&str> = sizes(&cleared).iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.contains(&"programs/ours"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("wheels/")));
        assert!(root.join("wheels/other").exists());
    }

    #[test]
    fn a_cache_in_use_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        world(folder.path());
        let root = folder.path().join("cache");
        let build = Cache::at(&root).unwrap();
        let error = clear_cache(&root, Clear::All, false).unwrap_err();
        assert!(matches!(error, Error::CacheInUse { .. }), "{error:?}");
        assert!(root.join("wheels/other").exists());
        drop(build);
        clear_cache(&root, Clear::All, false).unwrap();
    }
}

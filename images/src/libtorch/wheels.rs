//! A locked libtorch out of wheels: fetched, checked, unpacked.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use crate::{
    Digest, Error, Flavour, Result,
    error::at,
    libtorch::{
        Library, Libtorch, Origin, Parts,
        folder::{abi_is_cxx11, write_stand_in},
        pip::{self, Pip},
        wheel::OpenWheel,
    },
    lock::{Wheel, WheelLibrary, WheelsLock},
    progress::{Action, Progress, SharedMeter},
    store::{Cache, library_store as unpacked, publish},
    workers::{Stopped, work_while},
};

/// Makes sure that a locked libtorch lies in the cache: fetches what is missing through pip,
/// checks it against the lock, and unpacks it. Its headers are left where they are until something
/// is compiled against it ([`Libtorch::with_headers`]).
pub(crate) fn fetch(
    lock: &WheelsLock,
    parts: Parts,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Libtorch> {
    fetch_telling(lock, parts, cache, progress).map(|(libtorch, _)| libtorch)
}

/// As [`fetch`]; says also whether it was put together just now, of libraries that had the digests
/// that the lock names when they were last read.
pub(crate) fn fetch_telling(
    lock: &WheelsLock,
    parts: Parts,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<(Libtorch, bool)> {
    let (name, place) = place_of(lock, parts, cache);
    let _lock = cache.lock(&name, progress)?;
    let is_there = is_whole(&place, lock, parts, cache, progress)?;
    if is_there {
        for library in libraries_of(lock, parts) {
            // As where it was unpacked by a version that kept none.
            if !unpacked::place_of(library.sha256, cache).is_file() {
                let file = place.join("lib").join(&library.name);
                unpacked::keep(&file, library.sha256, cache)?;
            }
        }
    } else {
        let scratch = cache.scratch()?;
        put_together(lock, parts, scratch.path(), cache, progress)?;
        publish(scratch, &place)?;
        for library in libraries_of(lock, parts) {
            cache.remember_digest(&place.join("lib").join(&library.name), library.sha256)?;
        }
    }
    Ok((describe(lock, parts, &place)?, !is_there))
}

/// What an unpacked libtorch is called in the cache, and where it lies.
pub(crate) fn place_of(lock: &WheelsLock, parts: Parts, cache: &Cache) -> (String, PathBuf) {
    let key = Digest::of(&serde_json::to_vec(&(lock, parts == Parts::All)).unwrap_or_default());
    let name = format!("{}-{}", lock.name, key.short());
    let place = cache.folder("libtorch").join(&name);
    (name, place)
}

impl Libtorch {
    /// The same with headers to compile against, where it can have some: those of wheels are
    /// thousands of small files, and images need none of them.
    pub fn with_headers(&self, cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        let Origin::Wheels(lock, parts) = &self.origin else {
            return Ok(self.clone());
        };
        let (name, place) = place_of(lock, *parts, cache);
        let _lock = cache.lock(&name, progress)?;
        let include = place.join("include");
        if !include.is_dir() {
            let scratch = cache.scratch()?;
            let aside = scratch.path().join("include");
            fs::create_dir(&aside).map_err(at(&aside))?;
            unpack_headers(lock, &aside, cache, progress)?;
            fs::rename(&aside, &include).map_err(at(&include))?;
        }
        Ok(Self {
            build_folder: Some(place),
            ..self.clone()
        })
    }
}

/// The libraries that a fetch unpacks.
fn libraries_of(lock: &WheelsLock, parts: Parts) -> impl Iterator<Item = &WheelLibrary> {
    lock.libraries
        .iter()
        .filter(move |library| parts == Parts::All || library.wheel == "torch")
}

/// Whether an unpacked libtorch is there as the lock has it. Libraries are read only where they
/// look changed since they were unpacked.
fn is_whole(
    place: &Path,
    lock: &WheelsLock,
    parts: Parts,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<bool> {
    if !place.join("build-version").is_file() {
        return Ok(false);
    }
    let mut is_whole = true;
    for library in libraries_of(lock, parts) {
        let file = place.join("lib").join(&library.name);
        if !file.is_file() || cache.digest_of(&file, progress)? != library.sha256 {
            progress.note(&format!(
                "{} is damaged or missing; libtorch {} is put together again",
                file.display(),
                lock.name
            ));
            // Most likely they are one file.
            unpacked::doubt(library.sha256, cache)?;
            is_whole = false;
        }
    }
    Ok(is_whole)
}

/// Calls `found` with each of these wheels as soon as it is there: first those that the cache has,
/// then the others as they come in, those that take longest to unpack before the rest.
fn each_wheel<'a>(
    wheels: impl Iterator<Item = &'a Wheel>,
    unpacked_bytes: impl Fn(&Wheel) -> u64,
    cache: &Cache,
    progress: &dyn Progress,
    mut found: impl FnMut(&'a Wheel, PathBuf) -> Result<(), Stopped>,
) -> Result<()> {
    let mut missing = Vec::new();
    for wheel in wheels {
        match pip::cached(wheel, cache, progress)? {
            Some(path) => {
                if found(wheel, path).is_err() {
                    return Ok(());
                }
            }
            None => missing.push(wheel),
        }
    }
    if missing.is_empty() {
        // A full cache needs no network: pip itself is only fetched where a wheel is missing.
        return Ok(());
    }
    missing.sort_by_key(|wheel| Reverse(unpacked_bytes(wheel)));
    let pip = Pip::ready(cache, progress)?;
    for wheel in missing {
        if found(wheel, pip.fetch(wheel, cache, progress)?).is_err() {
            break;
        }
    }
    Ok(())
}

/// Puts a libtorch together in the layout that torch-sys looks for: `lib/`, `build-version`;
/// `include/` comes when it is asked for. Libraries that are kept are linked, the others unpacked.
fn put_together(
    lock: &WheelsLock,
    parts: Parts,
    to: &Path,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<()> {
    let lib = to.join("lib");
    fs::create_dir_all(&lib).map_err(at(&lib))?;
    check_libraries(lock, parts)?;
    let mut missing = Vec::new();
    for library in libraries_of(lock, parts) {
        match unpacked::find(library.sha256, cache, progress)? {
            Some(kept) => cache.link(&kept, &lib.join(&library.name))?,
            None => missing.push(library),
        }
    }
    if !missing.is_empty() {
        unpack(lock, &missing, &lib, cache, progress)?;
    }
    write_stand_in(&lib, lock.flavour)?;
    let version = to.join("build-version");
    fs::write(&version, format!("{}\n", lock.version)).map_err(at(&version))
}

/// Unpacks libraries into `folder`, and keeps each as soon as it is there. What has come in is
/// unpacked while the rest is fetched.
fn unpack(
    lock: &WheelsLock,
    libraries: &[&WheelLibrary],
    folder: &Path,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<()> {
    let of = |wheel: &Wheel| {
        let name = wheel.name.clone();
        let mut libraries = libraries.iter().copied();
        std::iter::from_fn(move || libraries.find(|library| library.wheel == name))
    };
    let wheels = lock.wheels.iter().chain(&lock.headers);
    let wheels = wheels.filter(|wheel| of(wheel).next().is_some());
    let total = libraries.iter().map(|library| library.size_bytes).sum();
    let meter = SharedMeter::new(progress.start(Action::Unpack, &lock.name, Some(total)));
    let (written, to_sync) = mpsc::channel();
    let meter = &meter;
    let work = move |(library, wheel): (&WheelLibrary, PathBuf)| {
        let place = folder.join(&library.name);
        // Where syncing has ended by an error, that is told below.
        let tell = |event| drop(written.send(event));
        let mut unsynced = 0;
        let (found, _) = OpenWheel::open(&wheel)?.extract(&library.path, &place, |n| {
            meter.add(n);
            unsynced += n;
            if unsynced >= SYNC_BYTES {
                unsynced = 0;
                tell(Written::Part(place.clone()));
            }
        })?;
        if found == library.sha256 {
            tell(Written::Whole(place, found));
            return Ok(());
        }
        Err(Error::WrongHash {
            what: format!("`{}` in {}", library.path, wheel.display()),
            expected: library.sha256,
            found,
            next: "the lock does not fit its own wheels: lock the image anew",
        })
    };
    thread::scope(|scope| {
        let keeping = scope.spawn(|| keep_all(to_sync, cache));
        let unpacked = work_while(
            |waiting| {
                let bytes = |wheel: &Wheel| of(wheel).map(|library| library.size_bytes).sum();
                each_wheel(wheels, bytes, cache, progress, |wheel, path| {
                    of(wheel).try_for_each(|library| {
                        waiting.add(library.size_bytes, (library, path.clone()))
                    })
                })
            },
            work,
        );
        let kept = keeping
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        unpacked.and(kept)
    })
}

/// A lock that names a library of a wheel that it does not name, or two by one name, was edited.
fn check_libraries(lock: &WheelsLock, parts: Parts) -> Result<()> {
    let names = |library: &WheelLibrary| {
        let mut wheels = lock.wheels.iter().chain(&lock.headers);
        wheels.any(|wheel| wheel.name == library.wheel)
    };
    let mut seen = BTreeSet::new();
    for library in libraries_of(lock, parts) {
        let cause = if !names(library) {
            "the lock names a library of a wheel that it does not name"
        } else if !seen.insert(&library.name) {
            "the lock names two libraries by one name"
        } else {
            continue;
        };
        return Err(Error::BadWheel {
            wheel: library.wheel.clone().into(),
            member: Some(library.name.clone()),
            cause: cause.to_owned(),
        });
    }
    Ok(())
}

/// How much of a file waits in memory at most before the disk is set to work on it.
const SYNC_BYTES: u64 = 64 << 20;

/// What was written of a library.
enum Written {
    Part(PathBuf),
    Whole(PathBuf, Digest),
}

/// Sends libraries to the disk while they and others are still unpacked, and keeps those that are
/// whole.
fn keep_all(written: mpsc::Receiver<Written>, cache: &Cache) -> Result<()> {
    for event in written {
        match event {
            Written::Part(place) => unpacked::sync(&place)?,
            Written::Whole(place, digest) => unpacked::keep(&place, digest, cache)?,
        }
    }
    Ok(())
}

/// Unpacks the headers of torch, and of CUDA's runtime where it is to be compiled against.
fn unpack_headers(
    lock: &WheelsLock,
    include: &Path,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<()> {
    let is_cuda = |wheel: &Wheel| {
        lock.flavour == Flavour::Cuda
            && (wheel.name.starts_with("nvidia-cuda-runtime") || lock.headers.contains(wheel))
    };
    let mut wheels = Vec::new();
    let all = lock.wheels.iter().chain(&lock.headers);
    let with_headers = all.filter(|wheel| wheel.name == "torch" || is_cuda(wheel));
    each_wheel(
        with_headers,
        |wheel| wheel.size_bytes,
        cache,
        progress,
        |wheel, path| {
            wheels.push((wheel, path));
            Ok(())
        },
    )?;
    // Whichever came in first, of two files with one name the same one stays.
    wheels.sort_by_key(|(wheel, _)| (wheel.name != "torch", &wheel.name));
    let _meter = progress.start(Action::Unpack, &format!("headers of {}", lock.name), None);
    for (wheel, path) in wheels {
        let mut open = OpenWheel::open(&path)?;
        if wheel.name == "torch" {
            open.extract_folder("torch/include/", include)?;
        } else {
            for folder in open.include_folders()? {
                open.extract_folder(&folder, include)?;
            }
        }
    }
    Ok(())
}

fn describe(lock: &WheelsLock, parts: Parts, place: &Path) -> Result<Libtorch> {
    let lib = place.join("lib");
    let libraries = match parts {
        Parts::Build => Vec::new(),
        Parts::All => lock
            .libraries
            .iter()
            .map(|library| Library {
                name: library.name.clone(),
                path: lib.join(&library.name),
                size_bytes: library.size_bytes,
            })
            .collect(),
    };
    Ok(Libtorch {
        version: lock.version.clone(),
        flavour: lock.flavour,
        name: lock.name.clone(),
        cxx11_abi: abi_is_cxx11(&lib.join("libc10.so"))?,
        build_folder: place.join("include").is_dir().then(|| place.to_owned()),
        libraries,
        origin: Origin::Wheels(Box::new(lock.clone()), parts),
    })
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::MetadataExt as _};

    use super::*;
    use crate::{Silent, lock::Wheel};

    const C10: &[u8] = b"\x7fELF with \0_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcEE\0 in it";

    /// A cache that holds one small wheel, and the lock that names it.
    fn world() -> (tempfile::TempDir, Cache, WheelsLock) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let path = cache.folder("wheels").join("torch-0-py3-none-any.whl");
        let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        let stored = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        for (name, content) in [
            ("torch/lib/libc10.so", C10),
            ("torch/include/c10/core.h", b"// header" as &[u8]),
            ("torch/lib/libunused.so", b"unused"),
        ] {
            archive.start_file(name, stored).unwrap();
            archive.write_all(content).unwrap();
        }
        archive.finish().unwrap();
        let lock = WheelsLock {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cpu,
            name: "2.11.0+cpu".to_owned(),
            wheels: vec![Wheel {
                name: "torch".to_owned(),
                version: "2.11.0".to_owned(),
                file: "torch-0-py3-none-any.whl".to_owned(),
                size_bytes: fs::metadata(&path).unwrap().len(),
                sha256: Digest::of_file(&path).unwrap(),
            }],
            headers: Vec::new(),
            wheels_unpacked_bytes: 0,
            libraries: vec![WheelLibrary {
                name: "libc10.so".to_owned(),
                wheel: "torch".to_owned(),
                path: "torch/lib/libc10.so".to_owned(),
                size_bytes: C10.len() as u64,
                sha256: Digest::of(C10),
            }],
        };
        (folder, cache, lock)
    }

    #[test]
    fn a_fetched_libtorch_has_the_layout_that_torch_sys_wants() {
        let (_folder, cache, lock) = world();
        let libtorch = fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        assert_eq!(libtorch.build_folder, None);
        let libtorch = libtorch.with_headers(&cache, &Silent).unwrap();
        let folder = libtorch.build_folder.clone().unwrap();
        assert_eq!(
            fs::read_to_string(folder.join("build-version")).unwrap(),
            "2.11.0\n"
        );
        assert_eq!(fs::read(folder.join("lib/libc10.so")).unwrap(), C10);
        assert!(folder.join("include/c10/core.h").is_file());
        assert!(!folder.join("lib/libunused.so").exists());
        assert!(libtorch.cxx11_abi);
        assert_eq!(libtorch.size_bytes(), C10.len() as u64);
    }

    #[test]
    fn a_damaged_unpacked_libtorch_is_made_again() {
        let (_folder, cache, lock) = world();
        let libtorch = fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        let library = &libtorch.libraries[0].path;
        let mut same_size = C10.to_vec();
        same_size[0] ^= 1;
        for damage in [b"cut".as_slice(), &same_size] {
            fs::write(library, damage).unwrap();
            fetch(&lock, Parts::All, &cache, &Silent).unwrap();
            assert_eq!(fs::read(library).unwrap(), C10);
        }
    }

    #[test]
    fn what_rotted_unseen_is_unpacked_again_once_it_is_doubted() {
        let (_folder, cache, lock) = world();
        let libtorch = fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        let library = &libtorch.libraries[0].path;
        let modified = fs::metadata(library).unwrap().modified().unwrap();
        let mut rotten = C10.to_vec();
        rotten[0] ^= 1;
        fs::write(library, &rotten).unwrap();
        let open = fs::File::options().write(true).open(library).unwrap();
        open.set_modified(modified).unwrap();
        fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        assert_eq!(fs::read(library).unwrap(), rotten);
        // As a load that does not come to the layer's digest has it doubted.
        cache.forget_digest(library).unwrap();
        fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        assert_eq!(fs::read(library).unwrap(), C10);
    }

    #[test]
    fn two_libraries_of_one_name_are_refused() {
        let (_folder, cache, mut lock) = world();
        lock.libraries.push(lock.libraries[0].clone());
        let error = fetch(&lock, Parts::All, &cache, &Silent).unwrap_err();
        assert!(
            error.to_string().contains("two libraries by one name"),
            "{error}"
        );
    }

    #[test]
    fn libraries_that_were_unpacked_and_not_kept_are_kept() {
        let (_folder, cache, lock) = world();
        fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        let kept = unpacked::place_of(lock.libraries[0].sha256, &cache);
        fs::remove_file(&kept).unwrap();
        fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), C10);
    }

    #[test]
    fn what_is_unpacked_is_unpacked_for_every_use_and_needs_its_wheel_no_more() {
        let (_folder, cache, lock) = world();
        let library = |parts| {
            let (_, place) = place_of(&lock, parts, &cache);
            fs::metadata(place.join("lib/libc10.so")).unwrap()
        };
        fetch(&lock, Parts::Build, &cache, &Silent).unwrap();
        fs::remove_file(cache.folder("wheels").join(&lock.wheels[0].file)).unwrap();
        let libtorch = fetch(&lock, Parts::All, &cache, &Silent).unwrap();
        assert_eq!(fs::read(&libtorch.libraries[0].path).unwrap(), C10);
        assert_eq!(library(Parts::Build).ino(), library(Parts::All).ino());
    }

    #[test]
    fn a_library_that_is_not_the_locked_one_is_refused_with_both_digests() {
        let (_folder, cache, mut lock) = world();
        lock.libraries[0].sha256 = Digest::of(b"another");
        let error = fetch(&lock, Parts::All, &cache, &Silent)
            .unwrap_err()
            .to_string();
        for part in [
            &Digest::of(b"another").to_string(),
            &Digest::of(C10).to_string(),
        ] {
            assert!(error.contains(part), "{error}");
        }
        // Nothing half-made stands where a whole one would.
        for folder in ["libtorch", "libraries"] {
            assert_eq!(fs::read_dir(cache.folder(folder)).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_library_that_its_wheel_lacks_is_named() {
        let (_folder, cache, mut lock) = world();
        lock.libraries[0].path = "torch/lib/absent.so".to_owned();
        let error = fetch(&lock, Parts::All, &cache, &Silent)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("torch-0-py3-none-any.whl") && error.contains("absent.so"),
            "{error}"
        );
    }

    #[test]
    fn two_fetches_at_once_agree() {
        let (_folder, cache, lock) = world();
        let fetches = [0; 4].map(|_| {
            let (cache, lock) = (cache.clone(), lock.clone());
            std::thread::spawn(move || fetch(&lock, Parts::All, &cache, &Silent).unwrap())
        });
        let found = fetches.map(|fetch| fetch.join().unwrap());
        assert!(found.iter().all(|libtorch| *libtorch == found[0]));
    }
}

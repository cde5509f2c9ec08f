//! A locked libtorch out of wheels: fetched, checked, unpacked.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;

use crate::{
    Digest, Error, Flavour, Result, canonical,
    error::at,
    libtorch::{
        Libtorch, Origin,
        folder::write_stand_in,
        pip::{self, Pip},
        wheel::OpenWheel,
    },
    lock::{Wheel, WheelLibrary, WheelsLock},
    progress::{Action, SharedMeter},
    store::{Cache, forget, publish},
};

/// Makes sure that a locked libtorch lies in the cache: fetches what is missing through pip,
/// checks it against the lock, and unpacks it. Its headers are left where they are until something
/// is compiled against it ([`Libtorch::with_headers`]).
pub(crate) fn fetch(lock: &WheelsLock, cache: &Cache) -> Result<Libtorch> {
    let (name, place) = place_of(lock, cache);
    let _lock = cache.lock(&name)?;
    let lib = place.join("lib");
    let is_there = |library: &WheelLibrary| is_whole(&lib.join(&library.name), library);
    if !place.join("build-version").is_file() || !lock.libraries.iter().all(is_there) {
        unpack_missing(lock, cache)?;
        let scratch = cache.scratch()?;
        put_together(lock, scratch.path(), cache)?;
        publish(scratch, &place)?;
    }
    cache.used(&place);
    let what = (&*lock.version, &*lock.name, lock.flavour);
    let libraries = lock.libraries.iter();
    let libraries = libraries.map(|library| (library.name.clone(), library.size_bytes));
    let origin = Origin::Wheels(Box::new(lock.clone()));
    Libtorch::unpacked(&place, what, libraries, lock.packages(), origin)
}

/// Whether a library is there, and not cut off. Its content was checked when it was written.
fn is_whole(file: &Path, library: &WheelLibrary) -> bool {
    fs::metadata(file).is_ok_and(|facts| facts.len() == library.size_bytes)
}

/// What an unpacked libtorch is called in the cache, and where it lies.
pub(crate) fn place_of(lock: &WheelsLock, cache: &Cache) -> (String, PathBuf) {
    let key = Digest::of(canonical::json(lock).as_bytes());
    let name = format!("{}-{}", lock.name, key.short());
    let place = cache.folder("libtorch").join(&name);
    (name, place)
}

impl Libtorch {
    /// The same with headers to compile against, where it can have some: those of wheels are
    /// thousands of small files, and images need none of them.
    pub fn with_headers(&self, cache: &Cache) -> Result<Self> {
        let Origin::Wheels(lock) = &self.origin else {
            return Ok(self.clone());
        };
        let (name, place) = place_of(lock, cache);
        let _lock = cache.lock(&name)?;
        let include = place.join("include");
        if !include.is_dir() {
            let scratch = cache.scratch()?;
            let aside = scratch.path().join("include");
            fs::create_dir(&aside).map_err(at(&aside))?;
            unpack_headers(lock, &aside, cache)?;
            fs::rename(&aside, &include).map_err(at(&include))?;
        }
        Ok(Self {
            build_folder: Some(place),
            ..self.clone()
        })
    }
}

/// Where these wheels lie, once those that the cache lacks were fetched.
fn fetched<'a>(
    wheels: impl Iterator<Item = &'a Wheel>,
    cache: &Cache,
) -> Result<BTreeMap<&'a str, PathBuf>> {
    let mut found = BTreeMap::new();
    // A full cache needs no network: pip itself is only fetched where a wheel is missing.
    let mut pip = None;
    for wheel in wheels {
        let mut place = pip::place_of(wheel, cache);
        if !place.is_file() {
            let pip = match &mut pip {
                Some(pip) => pip,
                none => none.insert(Pip::ready(cache)?),
            };
            place = pip.fetch(wheel, cache)?;
        }
        found.insert(wheel.name.as_str(), place);
    }
    Ok(found)
}

/// Puts a libtorch together in the layout that torch-sys looks for: `lib/`, `build-version`;
/// `include/` comes when it is asked for.
fn put_together(lock: &WheelsLock, to: &Path, cache: &Cache) -> Result<()> {
    let lib = to.join("lib");
    fs::create_dir_all(&lib).map_err(at(&lib))?;
    for library in &lock.libraries {
        cache.link(&cache.library(library.sha256), &lib.join(&library.name))?;
    }
    write_stand_in(&lib, lock.flavour)?;
    let version = to.join("build-version");
    fs::write(&version, format!("{}\n", lock.version)).map_err(at(&version))
}

/// Unpacks the libraries that the cache lacks, each into its own place.
fn unpack_missing(lock: &WheelsLock, cache: &Cache) -> Result<()> {
    let libraries = lock.libraries.iter();
    let missing: Vec<&WheelLibrary> = libraries
        .filter(|library| !is_whole(&cache.library(library.sha256), library))
        .collect();
    let is_needed = |wheel: &&Wheel| missing.iter().any(|library| library.wheel == wheel.name);
    let wheels = fetched(lock.all_wheels().filter(is_needed), cache)?;
    let total = missing.iter().map(|library| library.size_bytes).sum();
    let meter = SharedMeter::new(cache.start(Action::Unpack, &lock.name, Some(total)));
    let scratch = cache.scratch()?;
    let unpack = |library: &&WheelLibrary| {
        let wheel = &wheels[library.wheel.as_str()];
        unpack(library, wheel, scratch.path(), cache, &meter)
    };
    let unpacked = missing.par_iter().try_for_each(unpack);
    if let Err(Error::BadWheel { wheel, .. }) = &unpacked {
        // The next build fetches it anew.
        forget(wheel)?;
    }
    unpacked
}

/// Unpacks a library into its place in the cache.
fn unpack(
    library: &WheelLibrary,
    wheel: &Path,
    scratch: &Path,
    cache: &Cache,
    meter: &SharedMeter,
) -> Result<()> {
    let aside = scratch.join(&library.name);
    let (found, _) = OpenWheel::open(wheel)?.extract(&library.path, &aside, meter.part())?;
    if found != library.sha256 {
        let what = format!("`{}` in {}", library.path, wheel.display());
        let next = "the lock does not fit its own wheels: lock the image anew";
        return Err(Error::wrong_hash(&what, library.sha256, found, next));
    }
    let place = cache.library(found);
    fs::rename(&aside, &place).map_err(at(&place))
}

/// Unpacks the headers of torch, and of CUDA's runtime and NCCL where they are compiled against.
fn unpack_headers(lock: &WheelsLock, include: &Path, cache: &Cache) -> Result<()> {
    let is_cuda = |wheel: &Wheel| {
        lock.flavour == Flavour::Cuda
            && (wheel.name.starts_with("nvidia-cuda-runtime")
                || wheel.name.starts_with("nvidia-nccl")
                || lock.headers.contains(wheel))
    };
    let with_headers = lock.all_wheels();
    let with_headers = with_headers.filter(|wheel| wheel.name == "torch" || is_cuda(wheel));
    let wheels = fetched(with_headers, cache)?;
    let _meter = cache.start(Action::Unpack, &format!("headers of {}", lock.name), None);
    // Of two files with one name torch's own comes last, and stays.
    for (name, path) in wheels {
        let mut open = OpenWheel::open(&path)?;
        if name == "torch" {
            open.extract_folder("torch/include/", include)?;
        } else {
            for folder in open.include_folders()? {
                open.extract_folder(&folder, include)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::MetadataExt as _};

    use super::*;
    use crate::lock::Wheel;

    const C10: &[u8] = b"\x7fELF with \0_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcEE\0 in it";

    /// A cache that holds one small wheel, and the lock that names it.
    fn world() -> (tempfile::TempDir, Cache, WheelsLock) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let path = folder.path().join("torch-0-py3-none-any.whl");
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
        fs::rename(&path, pip::place_of(&lock.wheels[0], &cache)).unwrap();
        (folder, cache, lock)
    }

    #[test]
    fn a_fetched_libtorch_has_the_layout_that_torch_sys_wants() {
        let (_folder, cache, lock) = world();
        let libtorch = fetch(&lock, &cache).unwrap();
        assert_eq!(libtorch.build_folder, None);
        let libtorch = libtorch.with_headers(&cache).unwrap();
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
    fn what_is_unpacked_is_shared_and_needs_its_wheel_no_more() {
        let (_folder, cache, mut lock) = world();
        let inode = |libtorch: &Libtorch| fs::metadata(&libtorch.libraries[0].path).unwrap().ino();
        let first = fetch(&lock, &cache).unwrap();
        fs::remove_file(pip::place_of(&lock.wheels[0], &cache)).unwrap();
        lock.name = "another".to_owned();
        let second = fetch(&lock, &cache).unwrap();
        assert_ne!(first.libraries[0].path, second.libraries[0].path);
        assert_eq!(inode(&first), inode(&second));
    }

    #[test]
    fn a_damaged_wheel_is_named_and_goes() {
        let (_folder, cache, lock) = world();
        let wheel = pip::place_of(&lock.wheels[0], &cache);
        let mut damaged = fs::read(&wheel).unwrap();
        damaged[60] ^= 1;
        fs::write(&wheel, damaged).unwrap();
        let error = fetch(&lock, &cache).unwrap_err();
        assert!(matches!(error, Error::BadWheel { .. }), "{error}");
        assert!(!wheel.exists());
    }

    #[test]
    fn a_library_that_is_not_the_locked_one_is_refused_with_both_digests() {
        let (_folder, cache, mut lock) = world();
        lock.libraries[0].sha256 = Digest::of(b"another");
        let error = fetch(&lock, &cache).unwrap_err().to_string();
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
    fn two_fetches_at_once_agree() {
        let (_folder, cache, lock) = world();
        let fetches = [0; 4].map(|_| {
            let (cache, lock) = (cache.clone(), lock.clone());
            std::thread::spawn(move || fetch(&lock, &cache).unwrap())
        });
        let found = fetches.map(|fetch| fetch.join().unwrap());
        assert!(found.iter().all(|libtorch| *libtorch == found[0]));
    }
}

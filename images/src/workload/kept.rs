//! Scenario binaries that were compiled before, kept by the digest of what they were made from: no
//! image takes another's away, and none is compiled twice.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    Digest, Flavour, Libtorch, Result, canonical,
    error::at,
    libtorch::linkage::roots,
    lock::Toolchain,
    store::{Cache, publish},
    workload::{tch_workspace, toolchain},
};

/// Changes whenever cargo is called otherwise.
const FORMAT: u32 = 2;

/// What a scenario binary is made from.
#[derive(Serialize)]
struct Inputs<'a> {
    format: u32,
    sources: Digest,
    /// `None` for what binaries of all compilers have in common.
    toolchain: Option<Toolchain>,
    libtorch: &'a str,
    version: &'a str,
    flavour: Flavour,
    cxx11_abi: bool,
    library: Digest,
    /// Variables that change how cargo builds.
    profile: BTreeMap<String, String>,
}

/// The file beside a binary that says what it was made from, whatever the compilers.
const ORIGIN: &str = "made-from";

/// Where the binary for a libtorch lies or would lie, and what it is made from.
///
/// Where there is no compiler none can be made, and of those that were made from the same the one
/// that was used last counts.
pub(super) fn place(
    workspace: &Path,
    toolchain: Toolchain,
    libtorch: &Libtorch,
    cache: &Cache,
) -> Result<(PathBuf, Digest)> {
    let profile = env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_RELEASE_"));
    let has_compiler = toolchain.rust != toolchain::NONE;
    let mut inputs = Inputs {
        format: FORMAT,
        sources: tch_workspace::sources_digest(workspace, &libtorch.version)?,
        toolchain: Some(toolchain),
        libtorch: &libtorch.name,
        version: &libtorch.version,
        flavour: libtorch.flavour,
        cxx11_abi: libtorch.cxx11_abi,
        library: library_digest(libtorch, cache)?,
        profile: profile.collect(),
    };
    let key = Digest::of(canonical::json(&inputs).as_bytes());
    inputs.toolchain = None;
    let origin = Digest::of(canonical::json(&inputs).as_bytes());
    let programs = cache.folder("programs");
    let mut place = programs.join(key.short());
    if !has_compiler && !place.exists() {
        let kept = fs::read_dir(&programs).map_err(at(&programs))?.flatten();
        let alike = kept.filter(|kept| {
            fs::read_to_string(kept.path().join(ORIGIN)).is_ok_and(|text| text == origin.hex())
        });
        let used = |kept: &fs::DirEntry| kept.metadata().and_then(|facts| facts.modified()).ok();
        place = alike.max_by_key(used).map_or(place, |kept| kept.path());
    }
    Ok((place, origin))
}

/// Keeps a binary that was compiled.
pub(super) fn keep(
    compiled: &Path,
    place: &Path,
    origin: Digest,
    cache: &Cache,
) -> Result<PathBuf> {
    let scratch = cache.scratch()?;
    let copy = scratch.path().join("scenario");
    fs::copy(compiled, &copy).map_err(at(compiled))?;
    let note = scratch.path().join(ORIGIN);
    fs::write(&note, origin.hex()).map_err(at(&note))?;
    publish(scratch, place)?;
    Ok(place.join("scenario"))
}

/// The digest of libtorch's largest library: of two with one, headers are the same as well.
fn library_digest(libtorch: &Libtorch, cache: &Cache) -> Result<Digest> {
    let name = roots(Flavour::Cpu)[0];
    let mut libraries = libtorch.libraries.iter();
    match libraries.find(|library| library.name == name) {
        Some(library) => cache.digest_of(&library.path),
        None => Ok(Digest::of(b"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtorch::{Library, Origin};

    #[test]
    fn a_binary_is_another_where_libtorch_flavour_or_sources_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let cache = Cache::at(&root.join("cache")).unwrap();
        let write = |path: &str, text: &str| {
            let place = root.join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        for name in ["one", "two"] {
            write(&format!("{name}/libtorch_cpu.so"), "a library");
        }
        let libtorch = |name: &str, flavour: &str| Libtorch {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cuda,
            name: flavour.to_owned(),
            cxx11_abi: true,
            build_folder: Some(root.join(name)),
            libraries: vec![Library {
                name: "libtorch_cpu.so".to_owned(),
                path: root.join(name).join("libtorch_cpu.so"),
                size_bytes: 9,
            }],
            packages: BTreeMap::new(),
            origin: Origin::Here,
        };
        let with = |rust: &str, libtorch: &Libtorch| {
            let toolchain = Toolchain {
                rust: rust.to_owned(),
                ..toolchain::here(root, &libtorch.version)
            };
            place(root, toolchain, libtorch, &cache).unwrap()
        };
        let place = |libtorch: &Libtorch| with("rustc 1", libtorch).0;
        let one = place(&libtorch("one", "2.11.0+cu130"));
        assert_eq!(one, place(&libtorch("two", "2.11.0+cu130")));
        assert_ne!(one, place(&libtorch("one", "2.11.0+cu128")));
        // Without a compiler, the binary that was used last.
        let compiled = root.join("compiled");
        fs::write(&compiled, "a program").unwrap();
        let of = libtorch("one", "2.11.0+cu130");
        let none = with(toolchain::NONE, &of).0;
        assert!(none != one && !none.exists());
        for rust in ["rustc 2", "rustc 1"] {
            let (place, origin) = with(rust, &of);
            keep(&compiled, &place, origin, &cache).unwrap();
            cache.used(&place);
        }
        assert_eq!(with(toolchain::NONE, &of).0, one);
        assert!(!with("rustc 3", &of).0.exists());
        let other = libtorch("one", "2.11.0+cu128");
        assert!(!with(toolchain::NONE, &other).0.exists());
        write("two/libtorch_cpu.so", "another library");
        assert_ne!(one, place(&libtorch("two", "2.11.0+cu130")));
        write("scenarios/src/main.rs", "fn main() {}");
        assert_ne!(one, place(&libtorch("one", "2.11.0+cu130")));
    }
}

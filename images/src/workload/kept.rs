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
    libtorch::{Origin, wheels},
    lock::Toolchain,
    store::{Cache, publish, read_note},
    workload::{tch_workspace, toolchain},
};

/// Changes whenever cargo is called otherwise.
const FORMAT: u32 = 1;
/// Says, beside a binary, which libtorch it was compiled for.
pub(crate) const MADE_FOR: &str = "libtorch";
/// PyTorch's own headers. Those of CUDA beside them follow from the name of the flavour.
const HEADERS: [&str; 4] = ["ATen", "c10", "caffe2", "torch"];

/// What a scenario binary is made from.
#[derive(Serialize)]
struct Inputs<'a> {
    format: u32,
    sources: Digest,
    toolchain: Toolchain,
    libtorch: &'a str,
    version: &'a str,
    flavour: Flavour,
    cxx11_abi: bool,
    headers: Digest,
    /// Variables that change how cargo builds.
    profile: BTreeMap<String, String>,
}

/// Where the binary for a libtorch lies or would lie.
pub(super) fn place(workspace: &Path, libtorch: &Libtorch, cache: &Cache) -> Result<PathBuf> {
    let profile = env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_RELEASE_"));
    let inputs = Inputs {
        format: FORMAT,
        sources: tch_workspace::sources_digest(workspace, &libtorch.version)?,
        toolchain: toolchain::here(workspace, &libtorch.version),
        libtorch: &libtorch.name,
        version: &libtorch.version,
        flavour: libtorch.flavour,
        cxx11_abi: libtorch.cxx11_abi,
        headers: headers_digest(libtorch, cache)?,
        profile: profile.collect(),
    };
    let key = Digest::of(canonical::json(&inputs).as_bytes());
    Ok(cache.folder("programs").join(key.short()))
}

/// Keeps a binary that was compiled for a libtorch.
pub(super) fn keep(
    compiled: &Path,
    libtorch: &Libtorch,
    place: &Path,
    cache: &Cache,
) -> Result<PathBuf> {
    let scratch = cache.scratch()?;
    let copy = scratch.path().join("scenario");
    fs::copy(compiled, &copy).map_err(at(compiled))?;
    let note = scratch.path().join(MADE_FOR);
    fs::write(&note, &libtorch.name).map_err(at(&note))?;
    publish(scratch, place)?;
    Ok(place.join("scenario"))
}

/// The full name of the libtorch that a kept binary was compiled for.
pub(crate) fn made_for(place: &Path) -> Option<String> {
    fs::read_to_string(place.join(MADE_FOR)).ok()
}

/// The digest of a libtorch's headers. Those of the cache's own never change, and are read once.
fn headers_digest(libtorch: &Libtorch, cache: &Cache) -> Result<Digest> {
    let note = match (&libtorch.origin, &libtorch.build_folder) {
        (Origin::Wheels(lock), _) => Some(wheels::place_of(lock, cache).1),
        (Origin::Inside(_), Some(folder)) => Some(folder.clone()),
        _ => None,
    };
    let note = note.map(|place| {
        let key = format!("headers {}", place.display());
        cache.note_path("hashes", key.as_bytes())
    });
    if let Some(known) = note.as_deref().and_then(read_note::<Digest>) {
        return Ok(known);
    }
    let libtorch = libtorch.with_headers(cache)?;
    let mut found = BTreeMap::new();
    if let Some(folder) = &libtorch.build_folder {
        let include = folder.join("include");
        for name in HEADERS {
            collect(&include, Path::new(name), &mut found)?;
        }
    }
    let digest = Digest::of(canonical::json(&found).as_bytes());
    if let Some(note) = note {
        cache.write_note(&note, &digest)?;
    }
    Ok(digest)
}

fn collect(root: &Path, below: &Path, found: &mut BTreeMap<String, Digest>) -> Result<()> {
    let folder = root.join(below);
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        let name = below.join(entry.map_err(at(&folder))?.file_name());
        let path = root.join(&name);
        if path.is_dir() {
            collect(root, &name, found)?;
        } else {
            let digest = Digest::of_file(&path).map_err(at(&path))?;
            found.insert(name.to_string_lossy().into_owned(), digest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_another_where_headers_flavour_or_sources_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let cache = Cache::at(&root.join("cache")).unwrap();
        let write = |path: &str, text: &str| {
            let place = root.join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        for name in ["one", "two"] {
            write(&format!("{name}/include/torch/script.h"), "// a header");
        }
        // What lies beside PyTorch's own headers is not theirs.
        write("two/include/cuda.h", "// CUDA");
        let libtorch = |name: &str, flavour: &str| Libtorch {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cuda,
            name: flavour.to_owned(),
            cxx11_abi: true,
            build_folder: Some(root.join(name)),
            libraries: Vec::new(),
            packages: BTreeMap::new(),
            origin: Origin::Folder(root.join(name)),
        };
        let place = |libtorch: &Libtorch| place(root, libtorch, &cache).unwrap();
        let one = place(&libtorch("one", "2.11.0+cu130"));
        assert_eq!(one, place(&libtorch("two", "2.11.0+cu130")));
        assert_ne!(one, place(&libtorch("one", "2.11.0+cu128")));
        write("two/include/torch/script.h", "// another");
        assert_ne!(one, place(&libtorch("two", "2.11.0+cu130")));
        write("scenarios/src/main.rs", "fn main() {}");
        assert_ne!(one, place(&libtorch("one", "2.11.0+cu130")));
    }
}

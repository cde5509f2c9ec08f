//! What `xtask/fuzz` reads hostile input with: the readers that builds use, without what builds
//! need around them.

use std::{collections::BTreeMap, io::Cursor, path::Path};

use strict_yaml::Document;

use crate::{
    Cache, Digest, Result, Spec, base::archive, elf::Dynamic, libtorch::wheel::OpenWheel,
    lock::Lock,
};

/// Reads a spec as `images/*.yaml` are read.
pub fn spec(name: &str, text: &[u8]) -> Result<Spec> {
    let document = Document::from_bytes(name, text)?;
    Ok(Spec::read(&document, Path::new(""))?)
}

/// Reads a lock, seals it again and writes it, as `images lock` does.
pub fn sealed(json: &serde_json::Value) -> Option<Vec<u8>> {
    let lock: Lock = serde_json::from_value(json.clone()).ok()?;
    serde_json::to_vec(&lock.sealed()).ok()
}

/// Reads all that is ever read of a wheel, and takes its libraries and headers out below `to`.
pub fn wheel(file: &Path, to: &Path) -> Result<BTreeMap<String, Digest>> {
    let mut wheel = OpenWheel::open(file)?;
    let libraries = wheel.libraries()?;
    wheel.has_file_ending(".dist-info/METADATA")?;
    wheel.unpacked_bytes();
    let mut folders = wheel.include_folders()?;
    folders.push("torch/include/".to_owned());
    let mut found = BTreeMap::new();
    for (place, (name, member)) in libraries.into_iter().enumerate() {
        let (digest, _) = wheel.extract(&member, &to.join(format!("{place}")), |_| {})?;
        found.insert(name, digest);
    }
    for (place, folder) in folders.iter().enumerate() {
        wheel.extract_folder(folder, &to.join(format!("include-{place}")))?;
    }
    Ok(found)
}

/// Looks into a base archive, as a build does that sees it for the first time. Gives what would be
/// noted of it, as JSON, and that note read and written again.
pub fn archive(file: &Path, cache: &Cache) -> Result<(String, String)> {
    archive::looked_into(file, cache)
}

pub fn elf(bytes: &[u8]) -> Result<(), String> {
    Dynamic::of_reader(Cursor::new(bytes))
        .map(drop)
        .map_err(|error| error.to_string())
}

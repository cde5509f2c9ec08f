//! Archives and libraries.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use images::Cache;

use super::holds::{refused, same};

pub(super) fn wheel(input: &[u8], scratch: &Path) -> Result<bool, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let file = scratch.join("torch.whl");
    fs::write(&file, input).map_err(failed)?;
    // Deep enough for a path of `..` to end in a folder that is looked at.
    let top = scratch.join("wheel");
    if top.exists() {
        fs::remove_dir_all(&top).map_err(failed)?;
    }
    let folders = ["", "a", "a/b", "a/b/c"].map(|below| top.join(below));
    let found = images::fuzzing::wheel(&file, &top.join("a/b/c/d"));
    let entries = |folder: &PathBuf| fs::read_dir(folder).map_or(0, Iterator::count);
    if folders.iter().any(|folder| entries(folder) > 1) {
        return Err("a wheel wrote outside of its folder".to_owned());
    }
    match found {
        Ok(_) => Ok(true),
        Err(error) => refused(&error),
    }
}

pub(super) fn archive(input: &[u8], scratch: &Path) -> Result<bool, String> {
    let failed = |error: io::Error| format!("the scratch folder cannot be written: {error}");
    let file = scratch.join("base.tar");
    fs::write(&file, input).map_err(failed)?;
    let home = scratch.join("cache");
    let cache = Cache::at(&home).map_err(|error| format!("no cache: {error}"))?;
    let found = images::fuzzing::archive(&file, &cache);
    // What layers were unpacked to.
    let kept = home.join("bases");
    for entry in fs::read_dir(&kept).map_err(failed)? {
        fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    match found {
        Ok((first, second)) => same(&first, &second),
        Err(error) => refused(&error),
    }
}

pub(super) fn elf(input: &[u8], _: &Path) -> Result<bool, String> {
    match images::fuzzing::elf(input) {
        Ok(()) => Ok(true),
        Err(error) => refused(&error),
    }
}

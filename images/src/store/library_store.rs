//! Libraries out of wheels, each kept once by its digest: what locks, builds and versions of an
//! image share is unpacked once, and nothing is unpacked again because a wheel is looked into for
//! another purpose.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{Digest, Result, error::at, progress::Progress, store::Cache};

/// The folder of the cache that they lie in.
pub(crate) const FOLDER: &str = "libraries";

/// Where a library with this digest lies.
pub(crate) fn place_of(digest: Digest, cache: &Cache) -> PathBuf {
    cache.folder(FOLDER).join(digest.hex())
}

/// The library with this digest, where it is kept and still what it was. One that is damaged stays
/// until a sound one takes its place.
pub(crate) fn find(
    digest: Digest,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Option<PathBuf>> {
    let place = place_of(digest, cache);
    if !place.is_file() {
        return Ok(None);
    }
    if cache.digest_of(&place, progress)? == digest {
        return Ok(Some(place));
    }
    progress.note(&format!(
        "{} is damaged; it is unpacked again",
        place.display()
    ));
    Ok(None)
}

/// Keeps an unpacked library, which stays where it is too; one that was kept already gives way at
/// once, whether it is sound or not. The library is on the disk before its digest is noted, so that
/// the note means what is there after a power cut as well.
pub(crate) fn keep(unpacked: &Path, digest: Digest, cache: &Cache) -> Result<()> {
    sync(unpacked)?;
    let scratch = cache.scratch()?;
    let fresh = scratch.path().join("library");
    cache.link(unpacked, &fresh)?;
    let place = place_of(digest, cache);
    fs::rename(&fresh, &place).map_err(at(&place))?;
    cache.remember_digest(&place, digest)
}

/// Has a kept library read again before it is used: one of its names was found damaged.
pub(crate) fn doubt(digest: Digest, cache: &Cache) -> Result<()> {
    let place = place_of(digest, cache);
    if place.is_file() {
        cache.forget_digest(&place)?;
    }
    Ok(())
}

/// Waits until what was written of a file is on the disk.
pub(crate) fn sync(file: &Path) -> Result<()> {
    let open = File::open(file).map_err(at(file))?;
    open.sync_data().map_err(at(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    #[test]
    fn what_is_kept_is_found_until_it_is_damaged_and_again_once_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let library = folder.path().join("libx.so");
        let digest = Digest::of(b"library");
        assert_eq!(find(digest, &cache, &Silent).unwrap(), None);
        for damage in ["librarx", "cut"] {
            fs::write(&library, "library").unwrap();
            // Kept twice, as by two builds at once.
            keep(&library, digest, &cache).unwrap();
            keep(&library, digest, &cache).unwrap();
            fs::remove_file(&library).unwrap();
            let place = find(digest, &cache, &Silent).unwrap().unwrap();
            assert_eq!(fs::read(&place).unwrap(), b"library");

            fs::write(&place, damage).unwrap();
            // Whoever unpacks a sound one need not know.
            fs::write(&library, "library").unwrap();
            keep(&library, digest, &cache).unwrap();
            assert_eq!(fs::read(&place).unwrap(), b"library");
            fs::remove_file(&library).unwrap();
            fs::write(&place, damage).unwrap();
            assert_eq!(find(digest, &cache, &Silent).unwrap(), None);
        }
        assert_eq!(fs::read_dir(cache.folder("tmp")).unwrap().count(), 0);
    }
}

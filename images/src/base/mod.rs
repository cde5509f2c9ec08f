//! What an image stands on: the few packages that libtorch needs below it, an archive, or an image
//! that an engine has.

pub(crate) mod apt;
pub(crate) mod archive;
pub(crate) mod debian;
pub(crate) mod filesystem;
pub(crate) mod image;
mod packages;
pub(crate) mod ready;
pub(crate) mod saved_image;

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use crate::{
    Digest, Error, Result, atomic_write, error::at, lock::BaseLock, spec::Base, store::Cache,
};

use archive::archive;
use debian::{PACKAGES, debian};
use image::saved_place;
use ready::{BaseLayer, ReadyBase};

/// Makes a base ready. With a lock nothing but what it names is used.
pub(crate) fn ready(base: &Base, lock: Option<&BaseLock>, cache: &Cache) -> Result<ReadyBase> {
    match (base, lock) {
        (Base::Debian, Some(BaseLock::Debian(packages))) => debian(packages, cache),
        (Base::Debian, _) => {
            let packages = apt::resolve(&PACKAGES, cache)?;
            debian(&packages, cache)
        }
        (Base::Archive(file), lock) => {
            let ready = archive(file, cache)?;
            if let (Some(BaseLock::Archive(expected)), BaseLock::Archive(found)) =
                (lock, &ready.lock)
                && expected != found
            {
                let what = format!("the base archive {}", file.display());
                let next = "restore the archive, or lock the image anew";
                return Err(Error::wrong_hash(&what, *expected, *found, next));
            }
            Ok(ready)
        }
        (Base::Image(reference), _) => {
            let place = saved_place(reference, cache);
            if !place.is_file() {
                return Err(Error::Trouble(format!(
                    "the base image {reference} is not in the cache yet; `{} images build` takes it \
                     out of the engine",
                    protocol::program()
                )));
            }
            // One that cannot be read is taken out of the engine again.
            let mut ready =
                archive(&place, cache).inspect_err(|_| drop(fs::remove_file(&place)))?;
            ready.lock = BaseLock::Image(reference.clone());
            Ok(ready)
        }
    }
}

/// Writes the Debian base of this machine as an archive that other machines can build on.
pub fn write_debian_base(to: &Path, cache: &Cache) -> Result<Digest> {
    let ready = ready(&Base::Debian, None, cache)?;
    // It was made as one.
    let BaseLayer { file, id, .. } = &ready.layers[0];
    let mut from = File::open(file).map_err(at(file))?;
    atomic_write::whole(to, |copy| io::copy(&mut from, copy).map_err(at(to)))?;
    Ok(id.digest)
}

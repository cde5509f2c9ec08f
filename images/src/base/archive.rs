//! A base out of an archive: the tar of a root file system, or of an image.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use strict_yaml::printable;

use super::{
    ready::{BaseLayer, ReadyBase},
    saved_image::image_layers,
};
use crate::{
    Digest, Error, Glibc, Result,
    base::{filesystem::Filesystem, packages},
    canonical,
    elf::Dynamic,
    error::at,
    lock::BaseLock,
    oci::layer::LayerId,
    store::{Cache, read_note},
};

/// Changes whenever the same archive would be known otherwise.
const FORMAT: u32 = 7;
/// Where the C library lies, in the order that matters to nobody: a base has one.
const LIBC: [&str; 6] = [
    "lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/x86_64-linux-gnu/libc.so.6",
    "lib64/libc.so.6",
    "usr/lib64/libc.so.6",
    "usr/lib/libc.so.6",
    "lib/libc.so.6",
];

/// A root file system as a tar archive, or an image archive. Uncompressed layers are used as they
/// lie; compressed ones are unpacked into the cache.
pub(crate) fn archive(file: &Path, cache: &Cache) -> Result<ReadyBase> {
    check_kind(file)?;
    let digest = cache.digest_of(file)?;
    let key = format!("base {FORMAT} {digest} {}", file.display());
    let note = cache.note_path("layers", key.as_bytes());
    cache.used(file);
    let is_there = |known: &ReadyBase| known.layers.iter().all(|layer| layer.file.is_file());
    let known = match read_note::<ReadyBase>(&note) {
        Some(known) if is_there(&known) => known,
        _ => {
            let known = look_into(file, digest, cache)?;
            cache.write_note(&note, &known)?;
            known
        }
    };
    for layer in known.layers.iter().filter(|layer| layer.file != file) {
        cache.used(&layer.file);
    }
    Ok(known)
}

/// What can be told before all of it is read.
fn check_kind(file: &Path) -> Result<()> {
    let mut start = Vec::new();
    regular_file::open(file)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => bad_archive(file, "there is no such file"),
            _ => bad_archive(file, error.to_string()),
        })?
        .take(6)
        .read_to_end(&mut start)
        .map_err(at(file))?;
    if COMPRESSED.iter().any(|magic| start.starts_with(magic)) {
        return Err(bad_archive(file, "it is compressed; unpack it"));
    }
    Ok(())
}

/// How files begin that gzip, zstd, xz and bzip2 compressed.
const COMPRESSED: [&[u8]; 4] = [
    &[0x1f, 0x8b],
    &[0x28, 0xb5, 0x2f, 0xfd],
    &[0xfd, b'7', b'z', b'X', b'Z'],
    b"BZh",
];

pub(crate) fn bad_archive(file: &Path, cause: impl Into<String>) -> Error {
    let next = "give an uncompressed tar archive of a root file system, or what `docker image save` or \
                `podman save` writes";
    // Never what a reader says about its bytes: the file may be anybody's, named in a spec that
    // somebody else wrote. Names of members are quoted.
    Error::bad_base(file, &printable(cause.into()), next)
}

fn look_into(file: &Path, digest: Digest, cache: &Cache) -> Result<ReadyBase> {
    let size_bytes = fs::metadata(file).map_err(at(file))?.len();
    let mut files = Filesystem::of_archive(file).map_err(|cause| bad_archive(file, cause))?;
    let (layers, environment) = if files.file("manifest.json").is_some() {
        let saved = image_layers(file, &files, cache)?;
        files = saved.filesystem(file)?;
        let environment = saved.config.config().as_ref();
        let environment = environment.and_then(|config| config.env().clone());
        (saved.layers, environment.unwrap_or_default())
    } else {
        let layer = BaseLayer {
            id: LayerId { digest, size_bytes },
            file: file.to_owned(),
            offset: 0,
        };
        (vec![layer], Vec::new())
    };
    let mut names = files.paths().filter_map(|path| path.rsplit('/').next());
    if !names.any(crate::elf::is_library) {
        return Err(bad_archive(
            file,
            "no shared library is in it, not even the C library",
        ));
    }
    let (contents, unread) = packages::read(&files);
    Ok(ReadyBase {
        layers,
        lock: BaseLock::Archive(digest),
        glibc: glibc(&files).map_err(|_| bad_archive(file, "its C library is no ELF file"))?,
        library_path: library_path(&environment, &files),
        environment,
        is_preloading: files
            .file("etc/ld.so.preload")
            .is_some_and(|list| list.size_bytes > 0),
        contents: Some(contents),
        unread,
    })
}

/// What would be noted of an archive that is seen for the first time, and the same once that note
/// was read and written.
pub(crate) fn looked_into(file: &Path, cache: &Cache) -> Result<(String, String)> {
    check_kind(file)?;
    let digest = Digest::of_file(file).map_err(at(file))?;
    let known = look_into(file, digest, cache)?;
    let first = canonical::json(&known);
    let read = serde_json::from_str::<ReadyBase>(&first).map_err(|error| at(file)(error.into()))?;
    Ok((first, canonical::json(&read)))
}

/// The folders of an `LD_LIBRARY_PATH` that are there. A relative or empty one would be the folder
/// that a program is started in.
fn library_path(environment: &[String], files: &Filesystem) -> Vec<String> {
    let mut values = environment.iter().rev();
    let value = values.find_map(|pair| pair.strip_prefix("LD_LIBRARY_PATH="));
    let mut found = Vec::new();
    // ld.so(8) takes both.
    for folder in value.unwrap_or_default().split([':', ';']) {
        let folder = folder.trim_end_matches('/').to_owned();
        let is_there = folder.starts_with('/') && files.names_in(&folder).is_some();
        if is_there && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// The version of the C library, links followed: it was `libc.so.6 -> libc-2.31.so` once. `None`
/// where there is none, or not glibc's.
fn glibc(files: &Filesystem) -> object::Result<Option<Glibc>> {
    let Some(place) = LIBC.iter().find_map(|path| files.file(path)) else {
        return Ok(None);
    };
    let Ok(library) = place.open() else {
        return Ok(None);
    };
    Ok(Dynamic::of_reader(library)?.glibc_offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let check = |name: &str, content: Option<&[u8]>, expect: &str| {
            let file = folder.path().join(name);
            if let Some(content) = content {
                fs::write(&file, content).unwrap();
            }
            let error = archive(&file, &cache).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(expect), "{error}");
        };
        check("absent.tar", None, "there is no such file");
        check("noise.tar", Some(&[7; 2048]), "uncompressed tar");
        check("empty.tar", Some(&[0; 1024]), "not even the C library");
    }
}

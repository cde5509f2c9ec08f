//! A base out of an archive: the tar of a root file system, or of an image.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use strict_yaml::printable;

use super::{
    ready::{BaseLayer, ReadyBase},
    saved_image::{image_layers, members},
};
use crate::{
    Digest, Error, Glibc, Result,
    base::{filesystem::Filesystem, packages},
    canonical,
    elf::Dynamic,
    error::at,
    lock::{BaseContents, BaseLock},
    oci::layer::{LayerId, Source},
    store::{Cache, read_note},
};

/// Changes whenever the same archive would be known otherwise.
const FORMAT: u32 = 5;
/// Where the C library lies, in the order that matters to nobody: a base has one.
const LIBC: [&str; 6] = [
    "lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/x86_64-linux-gnu/libc.so.6",
    "lib64/libc.so.6",
    "usr/lib64/libc.so.6",
    "usr/lib/libc.so.6",
    "lib/libc.so.6",
];

/// What is known of a base archive without reading it again.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct Known {
    pub(super) layers: Vec<KnownLayer>,
    digest: Digest,
    glibc: Option<(u32, u32)>,
    pub(super) environment: Vec<String>,
    library_path: Vec<String>,
    is_preloading: bool,
    contents: BaseContents,
    unread: Vec<String>,
}

impl Known {
    /// Whether the layers that were unpacked into the cache are there.
    fn is_there(&self) -> bool {
        let mut files = self.layers.iter().filter_map(|layer| layer.file.as_ref());
        files.all(|file| file.is_file())
    }
}

/// One layer of a base archive.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct KnownLayer {
    pub(super) id: LayerId,
    /// Where it lies: in the archive itself, or unpacked in the cache where the archive has it
    /// compressed.
    pub(super) file: Option<PathBuf>,
    pub(super) offset: u64,
}

/// A root file system as a tar archive, or an image archive. Uncompressed layers are used as they
/// lie; compressed ones are unpacked into the cache.
pub(super) fn archive(file: &Path, cache: &Cache) -> Result<ReadyBase> {
    check_kind(file)?;
    let digest = cache.digest_of(file)?;
    let note = note_of(digest, cache);
    cache.used(file);
    let known = match read_note::<Known>(&note) {
        Some(known) if known.is_there() => known,
        _ => {
            let known = look_into(file, digest, cache)?;
            cache.write_note(&note, &known)?;
            known
        }
    };
    for unpacked in known.layers.iter().filter_map(|layer| layer.file.as_ref()) {
        cache.used(unpacked);
    }
    Ok(ReadyBase {
        layers: known
            .layers
            .into_iter()
            .map(|layer| BaseLayer {
                id: layer.id,
                source: Source::Part {
                    file: layer.file.unwrap_or_else(|| file.to_owned()),
                    offset: layer.offset,
                },
            })
            .collect(),
        lock: BaseLock::Archive(known.digest),
        glibc: known.glibc.map(|(major, minor)| Glibc { major, minor }),
        environment: known.environment,
        library_path: known.library_path,
        is_preloading: known.is_preloading,
        contents: Some(known.contents),
        unread: known.unread,
    })
}

fn note_of(digest: Digest, cache: &Cache) -> PathBuf {
    cache.note_path("layers", format!("base {FORMAT} {digest}").as_bytes())
}

/// What is noted of an archive.
pub(crate) struct Noted {
    pub(crate) layers: Vec<Digest>,
    /// The layers that were unpacked into the cache.
    pub(crate) unpacked: Vec<PathBuf>,
    pub(crate) library_path: Vec<String>,
}

/// What is noted of an archive; `None` where it was not looked into yet.
pub(crate) fn noted(file: &Path, cache: &Cache) -> Option<Noted> {
    let known = read_note::<Known>(&note_of(cache.known_digest(file)?, cache))?;
    let layers = known.layers.iter().map(|layer| layer.id.digest).collect();
    let unpacked = known.layers.into_iter().filter_map(|layer| layer.file);
    Some(Noted {
        layers,
        unpacked: unpacked.collect(),
        library_path: known.library_path,
    })
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
    match COMPRESSED
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
    {
        None => Ok(()),
        Some((_, program)) => Err(bad_archive(
            file,
            format!("it is compressed; unpack it with `{program}`"),
        )),
    }
}

/// How compressed files begin, and what unpacks them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "unzstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "unxz"),
    (b"BZh", "bunzip2"),
];

pub(super) fn bad_archive(file: &Path, cause: impl Into<String>) -> Error {
    Error::BadBase {
        file: file.to_owned(),
        // Never what a reader says about its bytes: the file may be anybody's, named in a spec that
        // somebody else wrote. Names of members are quoted.
        cause: printable(cause.into()),
        next: "give an uncompressed tar archive of a root file system, or what `docker image save` \
               or `podman save` writes",
    }
}

fn look_into(file: &Path, digest: Digest, cache: &Cache) -> Result<Known> {
    let size_bytes = fs::metadata(file).map_err(at(file))?.len();
    let members = members(file).map_err(|cause| bad_archive(file, cause))?;
    let mut known = Known {
        layers: Vec::new(),
        digest,
        glibc: None,
        environment: Vec::new(),
        library_path: Vec::new(),
        is_preloading: false,
        contents: BaseContents::default(),
        unread: Vec::new(),
    };
    if members.contains_key("manifest.json") {
        image_layers(file, &members, &mut known, cache)?;
    } else {
        known.layers.push(KnownLayer {
            id: LayerId { digest, size_bytes },
            file: None,
            offset: 0,
        });
    }
    let mut files = Filesystem::default();
    for layer in &known.layers {
        let archive = layer.file.as_deref().unwrap_or(file);
        files
            .add(archive, layer.offset, layer.id.size_bytes)
            .map_err(|_| bad_archive(file, "a layer in it is no readable tar archive"))?;
    }
    let mut names = files.paths().filter_map(|path| path.rsplit('/').next());
    if !names.any(crate::elf::is_library) {
        return Err(bad_archive(
            file,
            "no shared library is in it, not even the C library",
        ));
    }
    known.glibc = glibc(&files).map_err(|_| bad_archive(file, "its C library is no ELF file"))?;
    known.library_path = library_path(&known.environment, &files);
    known.is_preloading = files
        .file("etc/ld.so.preload")
        .is_some_and(|list| list.size_bytes > 0);
    let scratch = cache.scratch()?;
    (known.contents, known.unread) = packages::read(&files, scratch.path());
    Ok(known)
}

/// What would be noted of an archive that is seen for the first time, and the same once that note
/// was read and written.
pub(crate) fn looked_into(file: &Path, cache: &Cache) -> Result<(String, String)> {
    check_kind(file)?;
    let digest = Digest::of_file(file).map_err(at(file))?;
    let known = look_into(file, digest, cache)?;
    let first = canonical::json(&known);
    let read = serde_json::from_str::<Known>(&first).map_err(|error| at(file)(error.into()))?;
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
fn glibc(files: &Filesystem) -> object::Result<Option<(u32, u32)>> {
    let Some(place) = LIBC.iter().find_map(|path| files.file(path)) else {
        return Ok(None);
    };
    let Ok(library) = place.open() else {
        return Ok(None);
    };
    let glibc = Dynamic::of_reader(library)?.glibc_offered();
    Ok(glibc.map(|glibc| (glibc.major, glibc.minor)))
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

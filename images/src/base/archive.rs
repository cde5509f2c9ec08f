//! A base out of an archive: the tar of a root file system, or of an image.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use tar::EntryType;

use super::ready::{BaseLayer, ReadyBase};
use crate::{
    Digest, Error, Glibc, Result,
    base::filesystem::Filesystem,
    digest::HashingWriter,
    elf::Dynamic,
    error::at,
    lock::BaseLock,
    oci::layer::{BLOCK_BYTES, ExactFile, LayerId, Source},
    progress::Action,
    store::{Cache, read_note},
};

/// Changes whenever the same archive would be known otherwise.
const FORMAT: u32 = 3;
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
struct Known {
    layers: Vec<KnownLayer>,
    digest: Digest,
    glibc: Option<(u32, u32)>,
    libraries: BTreeSet<String>,
    environment: Vec<String>,
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
struct KnownLayer {
    id: LayerId,
    /// Where it lies: in the archive itself, or unpacked in the cache where the archive has it
    /// compressed.
    file: Option<PathBuf>,
    offset: u64,
}

/// A root file system as a tar archive, or an image archive. Uncompressed layers are used as they
/// lie; compressed ones are unpacked into the cache.
pub(super) fn archive(file: &Path, cache: &Cache) -> Result<ReadyBase> {
    check_kind(file)?;
    let digest = cache.digest_of(file)?;
    let note = cache.note_path("layers", format!("base {FORMAT} {digest}").as_bytes());
    let known = match read_note::<Known>(&note) {
        Some(known) if known.is_there() => known,
        _ => {
            let known = look_into(file, digest, cache)?;
            cache.write_note(&note, &known)?;
            known
        }
    };
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
        libraries: known.libraries,
        environment: known.environment,
    })
}

/// What can be told before all of it is read.
fn check_kind(file: &Path) -> Result<()> {
    let Ok(facts) = fs::metadata(file) else {
        return Err(bad_archive(file, "there is no such file"));
    };
    if !facts.is_file() {
        return Err(bad_archive(file, "it is no file"));
    }
    let mut start = Vec::new();
    File::open(file)
        .and_then(|file| file.take(6).read_to_end(&mut start))
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

fn bad_archive(file: &Path, cause: impl std::fmt::Display) -> Error {
    Error::BadBase {
        file: file.to_owned(),
        // What a reader of tar says may quote a header that is none.
        cause: printable(&cause.to_string()),
        next: "give an uncompressed tar archive of a root file system, or what `docker image save` \
               or `podman save` writes",
    }
}

fn printable(text: &str) -> String {
    let shown = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    text.chars().filter(|&c| shown(c)).take(200).collect()
}

fn look_into(file: &Path, digest: Digest, cache: &Cache) -> Result<Known> {
    let size_bytes = fs::metadata(file).map_err(at(file))?.len();
    let members = members(file).map_err(|error| bad_archive(file, error))?;
    let mut known = Known {
        layers: Vec::new(),
        digest,
        glibc: None,
        libraries: BTreeSet::new(),
        environment: Vec::new(),
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
            .map_err(|error| bad_archive(file, error))?;
    }
    for path in files.paths() {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with("ld-linux") || crate::elf::is_library(name) {
            known.libraries.insert(name.to_owned());
        }
    }
    if known.libraries.is_empty() {
        return Err(bad_archive(
            file,
            "no shared library is in it, not even the C library",
        ));
    }
    known.glibc = glibc(&files).map_err(|error| bad_archive(file, error))?;
    Ok(known)
}

/// The version of the C library, links followed: it was `libc.so.6 -> libc-2.31.so` once.
fn glibc(files: &Filesystem) -> io::Result<Option<(u32, u32)>> {
    let Some((path, place)) = LIBC
        .iter()
        .find_map(|path| Some((*path, files.file(path)?)))
    else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    place.open()?.read_to_end(&mut bytes)?;
    let dynamic = Dynamic::of_bytes(path, &bytes).map_err(io::Error::other)?;
    Ok(dynamic
        .glibc_offered
        .map(|glibc| (glibc.major, glibc.minor)))
}

/// Each file of an archive: where it starts, and its size. `docker image save` writes a layer
/// that is there already as a link to the first.
fn members(file: &Path) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let mut found = BTreeMap::new();
    let mut links = Vec::new();
    let size_bytes = fs::metadata(file)?.len();
    let mut end = 0;
    let mut archive = tar::Archive::new(File::open(file)?);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.trim_start_matches("./").to_owned();
        end = entry.raw_file_position() + entry.size().next_multiple_of(BLOCK_BYTES);
        if end > size_bytes {
            return Err(io::Error::other(format!("it is cut off within `{path}`")));
        }
        if entry.header().entry_type() == EntryType::Symlink
            && let Some(target) = entry.link_name_bytes()
        {
            links.push((path, String::from_utf8_lossy(&target).into_owned()));
        } else {
            found.insert(path, (entry.raw_file_position(), entry.size()));
        }
    }
    // A block of zeros is the end, as the reader sees it: the end of the file is none.
    if end + BLOCK_BYTES > size_bytes {
        return Err(io::Error::other(
            "it is cut off: no end follows its last file",
        ));
    }
    for (path, target) in links {
        // `../<layer>/layer.tar`, from `<layer>/layer.tar`.
        if let Some(place) = found.get(target.trim_start_matches("../")).copied() {
            found.insert(path, place);
        }
    }
    Ok(found)
}

/// One image of `docker image save`'s manifest.json.
#[derive(serde::Deserialize)]
struct SavedImage {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

fn image_layers(
    file: &Path,
    members: &BTreeMap<String, (u64, u64)>,
    known: &mut Known,
    cache: &Cache,
) -> Result<()> {
    let read = |name: &str| -> Result<Vec<u8>> {
        let (offset, size) = members
            .get(name)
            .ok_or_else(|| bad_archive(file, format!("`{name}` is missing")))?;
        let mut part = ExactFile::part(file, *offset, *size).map_err(at(file))?;
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes)
            .map_err(|e| bad_archive(file, e))?;
        Ok(bytes)
    };
    let images: Vec<SavedImage> =
        serde_json::from_slice(&read("manifest.json")?).map_err(|e| bad_archive(file, e))?;
    let [image] = images.as_slice() else {
        return Err(bad_archive(
            file,
            format!("it holds {} images, expected one", images.len()),
        ));
    };
    let config: oci_spec::image::ImageConfiguration =
        serde_json::from_slice(&read(&image.config)?).map_err(|e| bad_archive(file, e))?;
    known.environment = config
        .config()
        .as_ref()
        .and_then(|config| config.env().clone())
        .unwrap_or_default();
    let expected = config.rootfs().diff_ids();
    if expected.len() != image.layers.len() {
        return Err(bad_archive(
            file,
            "its configuration and its manifest disagree on the layers",
        ));
    }
    for (layer, expected) in image.layers.iter().zip(expected) {
        let (offset, size_bytes) = *members
            .get(layer)
            .ok_or_else(|| bad_archive(file, format!("`{layer}` is missing")))?;
        let member = Member {
            archive: file,
            name: layer,
            offset,
            size_bytes,
        };
        known.layers.push(member.layer(expected, cache)?);
    }
    Ok(())
}

/// A layer's file in an image archive.
struct Member<'a> {
    archive: &'a Path,
    name: &'a str,
    offset: u64,
    size_bytes: u64,
}

impl Member<'_> {
    fn open(&self) -> Result<ExactFile> {
        ExactFile::part(self.archive, self.offset, self.size_bytes).map_err(at(self.archive))
    }

    /// The layer, checked against the digest that the image's configuration says.
    fn layer(&self, expected: &str, cache: &Cache) -> Result<KnownLayer> {
        let bad = |cause: String| bad_archive(self.archive, cause);
        let mut meter = cache.start(Action::Verify, self.name, Some(self.size_bytes));
        let mut done = 0;
        let digest = Digest::of_reader(self.open()?, |n| {
            done += n;
            meter.advance_to(done);
        })
        .map_err(|error| bad(error.to_string()))?;
        if digest.to_string() == expected {
            let id = LayerId {
                digest,
                size_bytes: self.size_bytes,
            };
            return Ok(KnownLayer {
                id,
                file: None,
                offset: self.offset,
            });
        }
        let mut magic = [0; 2];
        let is_gzip = self.open()?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
        if !is_gzip {
            return Err(bad(format!(
                "layer `{}` is {digest}, expected {expected}; compressed layers are read where \
                 they are compressed by gzip",
                self.name
            )));
        }
        self.unpacked(expected, cache)
    }

    /// Unpacks the layer into the cache.
    fn unpacked(&self, expected: &str, cache: &Cache) -> Result<KnownLayer> {
        let bad = |cause: String| bad_archive(self.archive, cause);
        let scratch = cache.scratch()?;
        let aside = scratch.path().join("layer.tar");
        let mut writer = HashingWriter::new(File::create(&aside).map_err(at(&aside))?);
        let mut from = GzDecoder::new(BufReader::with_capacity(1 << 18, self.open()?));
        let mut buffer = vec![0; 1 << 18];
        loop {
            let n = from
                .read(&mut buffer)
                .map_err(|error| bad(format!("layer `{}`: {error}", self.name)))?;
            if n == 0 {
                break;
            }
            io::Write::write_all(&mut writer, &buffer[..n]).map_err(at(&aside))?;
        }
        let (_, digest, size_bytes) = writer.finish();
        if digest.to_string() != expected {
            return Err(bad(format!(
                "layer `{}` is {digest} once unpacked, expected {expected}",
                self.name
            )));
        }
        let place = cache
            .folder("bases")
            .join(format!("layer-{}.tar", digest.hex()));
        fs::rename(&aside, &place).map_err(at(&place))?;
        Ok(KnownLayer {
            id: LayerId { digest, size_bytes },
            file: Some(place),
            offset: 0,
        })
    }
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

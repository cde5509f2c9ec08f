//! The layers of an image archive, as `docker image save` and `podman save` write it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use flate2::read::GzDecoder;
use tar::EntryType;

use super::{archive::bad_archive, ready::BaseLayer};
use crate::{
    Digest, Result,
    digest::{CopyError, copy_hashed},
    error::at,
    oci::{
        layer::{BLOCK_BYTES, LayerId},
        part::FilePart,
    },
    progress::Action,
    store::Cache,
};

/// Each file of an archive: where it starts, and its size. `docker image save` writes a layer
/// that is there already as a link to the first.
pub(super) fn members(file: &Path) -> Result<BTreeMap<String, (u64, u64)>, &'static str> {
    const NO_TAR: &str = "it is no tar archive";
    let no_tar = |_: io::Error| NO_TAR;
    let mut found = BTreeMap::new();
    let mut links = Vec::new();
    let size_bytes = fs::metadata(file).map_err(no_tar)?.len();
    let mut end = 0;
    let mut archive = tar::Archive::new(File::open(file).map_err(no_tar)?);
    for entry in archive.entries_with_seek().map_err(no_tar)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(_) if found.is_empty() => return Err(NO_TAR),
            Err(_) => return Err("it is cut off or damaged"),
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = path.trim_start_matches("./").to_owned();
        // A file with holes may say any size.
        let padded = entry.size().checked_next_multiple_of(BLOCK_BYTES);
        let ends = padded.and_then(|size| size.checked_add(entry.raw_file_position()));
        end = match ends.filter(|end| *end <= size_bytes) {
            Some(end) => end,
            None => return Err("it is cut off within a file"),
        };
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
        return Err("it is cut off: no end follows its last file");
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

/// The layers of the image in an archive, and its environment.
pub(super) fn image_layers(
    file: &Path,
    members: &BTreeMap<String, (u64, u64)>,
    cache: &Cache,
) -> Result<(Vec<BaseLayer>, Vec<String>)> {
    let read = |name: &str| -> Result<Vec<u8>> {
        let (offset, size) = members
            .get(name)
            .ok_or_else(|| bad_archive(file, format!("`{name}` is missing")))?;
        let mut part = FilePart::open(file, *offset, *size).map_err(at(file))?;
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes).map_err(at(file))?;
        Ok(bytes)
    };
    let images: Vec<SavedImage> = serde_json::from_slice(&read("manifest.json")?)
        .map_err(|_| bad_archive(file, "its manifest.json is not that of an image"))?;
    let [image] = images.as_slice() else {
        return Err(bad_archive(
            file,
            format!("it holds {} images, expected one", images.len()),
        ));
    };
    let config: oci_spec::image::ImageConfiguration = serde_json::from_slice(&read(&image.config)?)
        .map_err(|_| bad_archive(file, "its configuration is not that of an image"))?;
    let environment = config.config().as_ref();
    let environment = environment.and_then(|config| config.env().clone());
    let expected = config.rootfs().diff_ids();
    if expected.len() != image.layers.len() {
        return Err(bad_archive(
            file,
            "its configuration and its manifest disagree on the layers",
        ));
    }
    let mut layers = Vec::new();
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
        layers.push(member.layer(expected, cache)?);
    }
    Ok((layers, environment.unwrap_or_default()))
}

/// A layer's file in an image archive.
struct Member<'a> {
    archive: &'a Path,
    name: &'a str,
    offset: u64,
    size_bytes: u64,
}

impl Member<'_> {
    fn open(&self) -> Result<FilePart> {
        FilePart::open(self.archive, self.offset, self.size_bytes).map_err(at(self.archive))
    }

    /// The layer, checked against the digest that the image's configuration says.
    fn layer(&self, expected: &str, cache: &Cache) -> Result<BaseLayer> {
        let bad = |cause: String| bad_archive(self.archive, cause);
        let mut meter = cache.start(Action::Verify, self.name, Some(self.size_bytes));
        let digest = Digest::of_reader(self.open()?, |done| meter.advance_to(done))
            .map_err(|error| bad(error.to_string()))?;
        if digest.to_string() == expected {
            let id = LayerId {
                digest,
                size_bytes: self.size_bytes,
            };
            return Ok(BaseLayer {
                id,
                file: self.archive.to_owned(),
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

    fn unpacked(&self, expected: &str, cache: &Cache) -> Result<BaseLayer> {
        let bad = |cause: String| bad_archive(self.archive, cause);
        let scratch = cache.scratch()?;
        let aside = scratch.path().join("layer.tar");
        let from = GzDecoder::new(self.open()?.buffered());
        let to = File::create(&aside).map_err(at(&aside))?;
        let (digest, size_bytes) = copy_hashed(from, to, |_| {}).map_err(|error| match error {
            CopyError::Read(error) => bad(format!("layer `{}`: {error}", self.name)),
            CopyError::Write(error) => at(&aside)(error),
        })?;
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
        Ok(BaseLayer {
            id: LayerId { digest, size_bytes },
            file: place,
            offset: 0,
        })
    }
}

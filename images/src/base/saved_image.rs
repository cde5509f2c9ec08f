//! The layers of an image archive, as `docker image save` and `podman save` write it.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use flate2::read::GzDecoder;
use oci_spec::image::ImageConfiguration;

use super::{
    archive::bad_archive,
    filesystem::{Filesystem, Place},
    ready::{BaseLayer, shown},
};
use crate::{
    Digest, Result,
    digest::{CopyError, copy_hashed},
    error::at,
    oci::{layer::LayerId, part::FilePart},
    progress::Action,
    store::Cache,
};

/// One image of `docker image save`'s manifest.json.
#[derive(serde::Deserialize)]
struct SavedImage {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

/// The image in an archive.
pub(crate) struct SavedLayers {
    pub(crate) layers: Vec<BaseLayer>,
    /// Its configuration, whose digest is the image's ID.
    pub(crate) id: Digest,
    pub(crate) config: ImageConfiguration,
}

impl SavedLayers {
    /// The files that its layers show together.
    pub(crate) fn filesystem(&self, file: &Path) -> Result<Filesystem> {
        let unreadable = |_| bad_archive(file, "a layer in it is no readable tar archive");
        shown(&self.layers).map_err(unreadable)
    }
}

/// What is in the archive of an image.
pub(crate) fn image_layers(file: &Path, files: &Filesystem, cache: &Cache) -> Result<SavedLayers> {
    let find = |name: &str| {
        let missing = || bad_archive(file, format!("`{name}` is missing"));
        files.file(name).ok_or_else(missing)
    };
    let read = |name: &str| -> Result<Vec<u8>> { find(name)?.bytes().map_err(at(file)) };
    let images: Vec<SavedImage> = serde_json::from_slice(&read("manifest.json")?)
        .map_err(|_| bad_archive(file, "its manifest.json is not that of an image"))?;
    let [image] = images.as_slice() else {
        return Err(bad_archive(
            file,
            format!("it holds {} images, expected one", images.len()),
        ));
    };
    let bytes = read(&image.config)?;
    let config: ImageConfiguration = serde_json::from_slice(&bytes)
        .map_err(|_| bad_archive(file, "its configuration is not that of an image"))?;
    let expected = config.rootfs().diff_ids();
    if expected.len() != image.layers.len() {
        return Err(bad_archive(
            file,
            "its configuration and its manifest disagree on the layers",
        ));
    }
    let mut layers = Vec::new();
    for (layer, expected) in image.layers.iter().zip(expected) {
        let member = Member {
            archive: file,
            name: layer,
            place: find(layer)?,
        };
        layers.push(member.layer(expected, cache)?);
    }
    Ok(SavedLayers {
        layers,
        id: Digest::of(&bytes),
        config,
    })
}

/// A layer's file in an image archive.
struct Member<'a> {
    archive: &'a Path,
    name: &'a str,
    place: Place,
}

impl Member<'_> {
    fn open(&self) -> Result<FilePart> {
        self.place.open().map_err(at(self.archive))
    }

    /// The layer, checked against the digest that the image's configuration says.
    fn layer(&self, expected: &str, cache: &Cache) -> Result<BaseLayer> {
        let bad = |cause: String| bad_archive(self.archive, cause);
        let mut meter = cache.start(Action::Verify, self.name, Some(self.place.size_bytes));
        let digest = Digest::of_reader(self.open()?, |done| meter.advance_to(done))
            .map_err(|error| bad(error.to_string()))?;
        if digest.to_string() == expected {
            let id = LayerId {
                digest,
                size_bytes: self.place.size_bytes,
            };
            return Ok(BaseLayer {
                id,
                file: self.archive.to_owned(),
                offset: self.place.offset,
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

//! Pushing an assembled image to a registry, straight from its parts: no engine is asked.
//!
//! Layers are compressed to the same bytes on any machine, so the digest of the manifest, by which
//! runners pull the image, is known before anything is sent. A layer that the registry has is not
//! sent again, and one that was compressed stays in the cache, so that a push that was cut off goes
//! on where it was.

mod compress;
mod patience;
mod registry;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use oci_spec::image::{ImageManifestBuilder, MediaType};

use crate::{
    Assembly, Digest, Error, Result, canonical,
    error::at,
    lock::Lock,
    oci::archive::{annotations, descriptor},
    store::Cache,
};

pub use compress::Compression;
pub(crate) use compress::zstd_encoder;
use compress::{Blob, compressed};
use registry::Registry;
pub use registry::{Destination, Pushed};

/// An image as a registry will have it.
#[derive(Debug, Clone)]
pub struct Packed {
    assembly: Arc<Assembly>,
    by: Compression,
    layers: Vec<Blob>,
    manifest: String,
}

impl Packed {
    /// Compresses the layers of an image, and writes its manifest.
    pub fn new(assembly: &Arc<Assembly>, by: Compression, cache: &Cache) -> Result<Self> {
        let layers = assembly.layers.iter();
        let layers: Vec<Blob> = layers
            .map(|layer| compressed(layer, by, cache))
            .collect::<Result<_>>()?;
        let kind = match by {
            Compression::Gzip => MediaType::ImageLayerGzip,
            Compression::Zstd => MediaType::ImageLayerZstd,
        };
        let build = || {
            let config = &assembly.documents.config;
            let described = layers
                .iter()
                .map(|blob| descriptor(kind.clone(), blob.digest, blob.size_bytes))
                .collect::<Result<Vec<_>, _>>()?;
            ImageManifestBuilder::default()
                .schema_version(2_u32)
                .media_type(MediaType::ImageManifest)
                .config(descriptor(
                    MediaType::ImageConfig,
                    assembly.config_id,
                    config.len() as u64,
                )?)
                .layers(described)
                .annotations(annotations(&assembly.documents.labels))
                .build()
        };
        let manifest = build().map_err(|error: oci_spec::OciSpecError| {
            at(std::path::Path::new("image manifest"))(std::io::Error::other(error.to_string()))
        })?;
        Ok(Self {
            assembly: Arc::clone(assembly),
            by,
            layers,
            manifest: canonical::json(&manifest),
        })
    }

    /// The digest of the manifest: what to pull it by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }

    /// Refuses an image whose lock says another digest. A lock knows that of gzipped layers, and of
    /// the image that it locks.
    pub fn check_lock(&self) -> Result<()> {
        let image = self.assembly.lock.expected.image.as_ref();
        match image.and_then(|image| image.push_digest) {
            Some(locked) if self.by == Compression::Gzip && locked != self.digest() => {
                Err(Error::OtherPushDigest {
                    image: self.assembly.facts.name.clone(),
                    locked,
                    found: self.digest(),
                })
            }
            _ => Ok(()),
        }
    }

    /// The lock of the image with the digest that it is pulled by.
    #[must_use]
    pub fn lock(&self) -> Lock {
        let mut lock = self.assembly.lock.clone();
        if let Some(image) = &mut lock.expected.image {
            image.push_digest = (self.by == Compression::Gzip).then(|| self.digest());
        }
        lock.sealed()
    }

    /// What the layers take in the registry.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.layers.iter().map(|blob| blob.size_bytes).sum()
    }

    /// Sends what the registry lacks, and looks whether it has what was sent.
    pub async fn push(&self, to: &Destination, cache: &Cache) -> Result<Pushed> {
        let registry = Registry::open(to, &self.assembly.facts.name)?;
        let mut sent_bytes = 0;
        for (layer, blob) in self.assembly.layers.iter().zip(&self.layers) {
            sent_bytes += registry.send(layer.name, blob, cache).await?;
        }
        let config = self.assembly.documents.config.clone();
        registry
            .send_config(config, self.assembly.config_id, cache)
            .await?;
        let digest = self.digest();
        registry
            .send_manifest(self.manifest.clone(), digest, cache)
            .await?;
        Ok(Pushed {
            reference: format!("{to}@{digest}"),
            tag: self.assembly.facts.name.clone(),
            digest,
            size_bytes: self.size_bytes(),
            sent_bytes,
        })
    }
}

impl Error {
    fn of_registry(registry: &str, cause: impl std::fmt::Display) -> Self {
        Self::Registry {
            registry: registry.to_owned(),
            cause: cause.to_string(),
        }
    }
}

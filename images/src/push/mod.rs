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

use oci_spec::image::MediaType;

use crate::{
    Assembly, Digest, Error, Result,
    lock::Lock,
    oci::{archive::manifest, layer::LayerId},
    store::Cache,
};

use compress::{Blob, compressed};
use registry::Registry;
pub use registry::{Destination, Pushed};

/// An image as a registry will have it.
#[derive(Debug, Clone)]
pub struct Packed {
    assembly: Arc<Assembly>,
    layers: Vec<Blob>,
    manifest: String,
}

impl Packed {
    /// Compresses the layers of an image, and writes its manifest.
    pub fn new(assembly: &Arc<Assembly>, cache: &Cache) -> Result<Self> {
        let layers = assembly.layers.iter();
        let layers: Vec<Blob> = layers
            .map(|layer| compressed(layer, cache))
            .collect::<Result<_>>()?;
        let kind = MediaType::ImageLayerGzip;
        let ids: Vec<LayerId> = layers.iter().map(|blob| blob.id).collect();
        let documents = &assembly.documents;
        let manifest = manifest(&documents.config, &kind, &ids, &documents.labels);
        Ok(Self {
            assembly: Arc::clone(assembly),
            layers,
            manifest,
        })
    }

    /// The digest of the manifest: what to pull it by.
    pub fn digest(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }

    /// Refuses an image whose lock says another digest.
    pub fn check_lock(&self) -> Result<()> {
        let image = self.assembly.lock.expected.image.as_ref();
        match image.and_then(|image| image.push_digest) {
            Some(locked) if locked != self.digest() => Err(Error::Input(format!(
                "push digest of {image} changed: {}, locked {locked} (same layers, other \
                     compression); to accept it: {} images lock --workload --push-digest {image}",
                self.digest(),
                protocol::program(),
                image = self.assembly.facts.name
            ))),
            _ => Ok(()),
        }
    }

    /// The lock of the image with the digest that it is pulled by.
    pub fn lock(&self) -> Lock {
        let mut lock = self.assembly.lock.clone();
        if let Some(image) = &mut lock.expected.image {
            image.push_digest = Some(self.digest());
        }
        lock.sealed()
    }

    /// The image as a registry will have it, of which nothing was sent.
    pub fn unsent(&self, to: &Destination) -> Pushed {
        let digest = self.digest();
        Pushed {
            reference: format!("{to}@{digest}"),
            tag: self.assembly.facts.name.clone(),
            digest,
            size_bytes: self.layers.iter().map(|blob| blob.id.size_bytes).sum(),
            sent_bytes: 0,
        }
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
            sent_bytes,
            ..self.unsent(to)
        })
    }
}

impl Error {
    pub(crate) fn of_registry(registry: &str, cause: impl std::fmt::Display) -> Self {
        Self::Trouble(format!("{registry}: {cause}"))
    }
}

//! The documents around an image's layers, and the archive that carries them.
//!
//! The archive is an OCI layout (`oci-layout`, `index.json`) and what `docker image load` has
//! always read (`manifest.json`) at once, over the same blobs: so every engine computes the same
//! IDs. Documents are canonical JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
};

use oci_spec::image::MediaType;
use serde_json::{Value, json};
use tar::{Builder, EntryType};

use crate::{
    Digest, Error, Result, canonical,
    digest::HashingWriter,
    error::at,
    oci::layer::{LayerId, Source, header},
    spec::reserved::{ANNOTATION_FULL_NAME, ANNOTATION_NAME, DOMAIN},
};

/// What goes into an image's documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Documents {
    /// The image's configuration: its digest is the ID on Docker's graph drivers and Podman.
    pub(crate) config: String,
    /// The OCI manifest: its digest is the ID on Docker's containerd store.
    pub(crate) manifest: String,
    /// What both say of the image.
    pub(crate) labels: BTreeMap<String, String>,
}

/// What a configuration says besides the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) environment: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) user: String,
}

impl Documents {
    pub(crate) fn new(settings: &Settings, layers: &[LayerId]) -> Self {
        let diff_ids: Vec<Digest> = layers.iter().map(|layer| layer.digest).collect();
        let config = canonical::json(&json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": settings.environment,
                "Entrypoint": settings.entrypoint,
                "User": settings.user,
                "WorkingDir": "/",
                "Labels": settings.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }));
        Self {
            manifest: manifest(&config, &MediaType::ImageLayer, layers, &settings.labels),
            config,
            labels: settings.labels.clone(),
        }
    }

    pub(crate) fn config_id(&self) -> Digest {
        Digest::of(self.config.as_bytes())
    }

    pub(crate) fn manifest_id(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }
}

/// The manifest of an image whose layers are of this kind; OCI's own labels are its annotations.
pub(crate) fn manifest(
    config: &str,
    kind: &MediaType,
    layers: &[LayerId],
    labels: &BTreeMap<String, String>,
) -> String {
    let mut annotations = labels.clone();
    annotations.retain(|name, _| name.starts_with("org.opencontainers."));
    let layers = layers
        .iter()
        .map(|layer| descriptor(kind, layer.digest, layer.size_bytes));
    canonical::json(&json!({
        "schemaVersion": 2,
        "mediaType": MediaType::ImageManifest,
        "config": described(&MediaType::ImageConfig, config),
        "layers": layers.collect::<Vec<_>>(),
        "annotations": annotations,
    }))
}

fn described(kind: &MediaType, document: &str) -> Value {
    descriptor(kind, Digest::of(document.as_bytes()), document.len() as u64)
}

fn descriptor(kind: &MediaType, digest: Digest, size_bytes: u64) -> Value {
    json!({"mediaType": kind, "digest": digest, "size": size_bytes})
}

/// One layer of an archive; `None` where the engine has it already and it is left out.
pub(crate) struct ArchiveLayer<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: LayerId,
    pub(crate) source: Option<&'a Source>,
}

/// The bytes of the layers that [`write_archive`] writes.
pub(crate) fn archive_bytes(layers: &[ArchiveLayer]) -> u64 {
    layers
        .iter()
        .filter(|layer| layer.source.is_some())
        .map(|layer| layer.id.size_bytes)
        .sum()
}

/// Writes the archive of an image under a name.
pub(crate) fn write_archive(
    reference: &str,
    documents: &Documents,
    layers: &[ArchiveLayer],
    to: impl Write,
) -> Result<()> {
    let blob = |digest: Digest| format!("blobs/sha256/{}", digest.hex());
    let blobs: Vec<String> = layers.iter().map(|layer| blob(layer.id.digest)).collect();
    let loaded = canonical::json(&json!([{
        "Config": blob(documents.config_id()),
        "RepoTags": [reference],
        "Layers": blobs,
    }]));
    let index = index(reference, documents);
    let small = BTreeMap::from([
        ("oci-layout".to_owned(), r#"{"imageLayoutVersion":"1.0.0"}"#),
        ("index.json".to_owned(), index.as_str()),
        ("manifest.json".to_owned(), loaded.as_str()),
        (blob(documents.config_id()), documents.config.as_str()),
        (blob(documents.manifest_id()), documents.manifest.as_str()),
    ]);
    let failed = |error| at(Path::new("image archive"))(error);
    let mut archive = Builder::new(to);
    let mut append = |kind, mode, path: &str, content: &str| {
        let mut entry = header(kind, mode, content.len() as u64);
        archive.append_data(&mut entry, path, content.as_bytes())
    };
    for folder in ["blobs", "blobs/sha256"] {
        append(EntryType::Directory, 0o755, folder, "").map_err(failed)?;
    }
    for (path, content) in &small {
        append(EntryType::Regular, 0o644, path, content).map_err(failed)?;
    }
    let mut written = BTreeSet::new();
    for (layer, blob) in layers.iter().zip(&blobs) {
        let Some(source) = layer.source.filter(|_| written.insert(layer.id.digest)) else {
            continue;
        };
        let mut entry = header(EntryType::Regular, 0o644, layer.id.size_bytes);
        entry.set_path(blob).map_err(failed)?;
        entry.set_cksum();
        let to = archive.get_mut();
        to.write_all(entry.as_bytes()).map_err(failed)?;
        // What was hashed long ago is hashed once more on its way: an engine that does not look
        // would keep other bytes under the layer's name.
        let mut hashing = HashingWriter::new(&mut *to);
        source.write(layer.id.size_bytes, &mut hashing)?;
        let (_, found, _) = hashing.finish();
        if found != layer.id.digest {
            return Err(Error::StaleLayer {
                layer: layer.name.to_owned(),
                expected: layer.id.digest,
                found,
            });
        }
        let padding = layer.id.size_bytes.next_multiple_of(512) - layer.id.size_bytes;
        to.write_all(&[0; 512][..usize::try_from(padding).unwrap_or(0)])
            .map_err(failed)?;
    }
    archive
        .into_inner()
        .map_err(failed)?
        .flush()
        .map_err(failed)
}

fn index(reference: &str, documents: &Documents) -> String {
    let name = format!("{DOMAIN}{reference}");
    let tag = reference.rsplit(':').next().unwrap_or_default();
    let mut manifest = described(&MediaType::ImageManifest, &documents.manifest);
    manifest["annotations"] = json!({ANNOTATION_FULL_NAME: name, ANNOTATION_NAME: tag});
    canonical::json(&json!({
        "schemaVersion": 2,
        "mediaType": MediaType::ImageIndex,
        "manifests": [manifest],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::layer::{Node, Tree};

    fn settings() -> Settings {
        Settings {
            environment: vec!["A=1".to_owned()],
            labels: ["b", "a", "org.opencontainers.image.title"]
                .map(|name| (name.to_owned(), "x".to_owned()))
                .into(),
            entrypoint: vec!["/x".to_owned()],
            user: "65534:65534".to_owned(),
        }
    }

    fn layer() -> (LayerId, Source) {
        let mut tree = Tree::default();
        tree.insert(
            "x",
            Node::Bytes {
                content: b"x".to_vec(),
                mode: 0o644,
            },
        );
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        let id = LayerId {
            digest: Digest::of(&bytes),
            size_bytes: bytes.len() as u64,
        };
        (id, Source::Tree(tree))
    }

    #[test]
    fn documents_have_one_spelling() {
        let documents = Documents::new(&settings(), &[layer().0]);
        insta::assert_snapshot!(documents.config, @r#"{"architecture":"amd64","config":{"Entrypoint":["/x"],"Env":["A=1"],"Labels":{"a":"x","b":"x","org.opencontainers.image.title":"x"},"User":"65534:65534","WorkingDir":"/"},"os":"linux","rootfs":{"diff_ids":["sha256:5a34eb37e2f72f7e48b0658b5ca4a3466541f9104a8a1f4668047836789f0c22"],"type":"layers"}}"#);
        let manifest: serde_json::Value = serde_json::from_str(&documents.manifest).unwrap();
        assert_eq!(
            manifest["config"]["digest"],
            documents.config_id().to_string()
        );
        assert_eq!(
            manifest["annotations"],
            json!({"org.opencontainers.image.title": "x"})
        );
        // Hash maps come out in another order each time.
        for _ in 0..20 {
            assert_eq!(documents, Documents::new(&settings(), &[layer().0]));
        }
    }

    #[test]
    fn both_manifests_name_the_same_blobs() {
        let (id, source) = layer();
        let documents = Documents::new(&settings(), &[id]);
        let mut bytes = Vec::new();
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: Some(&source),
        }];
        write_archive("torchgauge/x:1", &documents, &layers, &mut bytes).unwrap();
        let mut blobs = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            if let Some(hex) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(Digest::of(&content).hex(), hex);
            }
            blobs.insert(path, content);
        }
        let text = |path: &str| String::from_utf8(blobs[path].clone()).unwrap();
        for digest in [documents.config_id(), documents.manifest_id(), id.digest] {
            assert!(blobs.contains_key(&format!("blobs/sha256/{}", digest.hex())));
        }
        assert!(text("manifest.json").contains(&documents.config_id().hex()));
        assert!(text("manifest.json").contains("torchgauge/x:1"));
        assert!(text("index.json").contains(&documents.manifest_id().hex()));
    }

    #[test]
    fn a_layer_that_the_engine_has_is_left_out() {
        let (id, _) = layer();
        let documents = Documents::new(&settings(), &[id]);
        let mut bytes = Vec::new();
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: None,
        }];
        write_archive("torchgauge/x:1", &documents, &layers, &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let blob = format!("blobs/sha256/{}", id.digest.hex());
        assert!(
            archive
                .entries()
                .unwrap()
                .all(|e| e.unwrap().path().unwrap().to_str() != Some(&blob))
        );
    }

    #[test]
    fn a_layer_that_is_not_what_was_hashed_stops_the_archive() {
        let (mut id, source) = layer();
        id.digest = Digest::of(b"another");
        let documents = Documents::new(&settings(), &[id]);
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: Some(&source),
        }];
        let error = write_archive("torchgauge/x:1", &documents, &layers, Vec::new()).unwrap_err();
        assert!(matches!(error, Error::StaleLayer { .. }), "{error}");
    }
}

//! The documents around an image's layers, and the archive that carries them.
//!
//! The archive is an OCI layout (`oci-layout`, `index.json`) and what `docker image load` has
//! always read (`manifest.json`) at once, over the same blobs: so every engine computes the same
//! IDs. Documents are canonical JSON.

use std::{collections::BTreeMap, io::Write, path::Path};

use oci_spec::OciSpecError;
use oci_spec::image::{
    Arch, ConfigBuilder, Descriptor, DescriptorBuilder, ImageConfigurationBuilder,
    ImageIndexBuilder, ImageManifestBuilder, MediaType, Os, RootFsBuilder,
};
use serde_json::json;
use tar::{Builder, EntryType};

use crate::{
    Digest, Error, Result, canonical,
    digest::HashingWriter,
    error::at,
    oci::layer::{LayerId, Source, header},
    spec::reserved::ANNOTATION_NAME,
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
    pub(crate) fn new(settings: &Settings, layers: &[LayerId]) -> Result<Self> {
        Self::build(settings, layers).map_err(|error| Error::Io {
            path: "image configuration".into(),
            source: std::io::Error::other(error.to_string()),
        })
    }

    fn build(settings: &Settings, layers: &[LayerId]) -> Result<Self, OciSpecError> {
        let labels: std::collections::HashMap<_, _> = settings.labels.clone().into_iter().collect();
        let config = ConfigBuilder::default()
            .env(settings.environment.clone())
            .entrypoint(settings.entrypoint.clone())
            .user(settings.user.clone())
            .working_dir("/")
            .labels(labels)
            .build()?;
        let diff_ids: Vec<String> = layers
            .iter()
            .map(|layer| layer.digest.to_string())
            .collect();
        let rootfs = RootFsBuilder::default()
            .typ("layers")
            .diff_ids(diff_ids)
            .build()?;
        let config = ImageConfigurationBuilder::default()
            .architecture(Arch::Amd64)
            .os(Os::Linux)
            .config(config)
            .rootfs(rootfs)
            .build()?;
        let config = canonical::json(&config);
        let layers = layers
            .iter()
            .map(|layer| descriptor(MediaType::ImageLayer, layer.digest, layer.size_bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageManifest)
            .config(descriptor(
                MediaType::ImageConfig,
                Digest::of(config.as_bytes()),
                config.len() as u64,
            )?)
            .layers(layers)
            .annotations(annotations(&settings.labels))
            .build()?;
        Ok(Self {
            config,
            manifest: canonical::json(&manifest),
            labels: settings.labels.clone(),
        })
    }

    pub(crate) fn config_id(&self) -> Digest {
        Digest::of(self.config.as_bytes())
    }

    pub(crate) fn manifest_id(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }
}

/// What a manifest says of an image with these labels.
pub(crate) fn annotations(
    labels: &BTreeMap<String, String>,
) -> std::collections::HashMap<String, String> {
    let public = labels
        .iter()
        .filter(|(name, _)| name.starts_with("org.opencontainers."));
    public
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

pub(crate) fn descriptor(
    kind: MediaType,
    digest: Digest,
    size_bytes: u64,
) -> Result<Descriptor, OciSpecError> {
    let digest: oci_spec::image::Digest = digest.to_string().parse()?;
    DescriptorBuilder::default()
        .media_type(kind)
        .digest(digest)
        .size(size_bytes)
        .build()
}

/// One layer of an archive; `None` where the engine has it already and it is left out.
pub(crate) struct ArchiveLayer<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: LayerId,
    pub(crate) source: Option<&'a Source>,
}

/// The size of what [`write_archive`] writes, up to a few KiB of documents.
pub(crate) fn archive_bytes(layers: &[ArchiveLayer]) -> u64 {
    layers
        .iter()
        .filter(|layer| layer.source.is_some())
        .map(|layer| layer.id.size_bytes)
        .sum()
}

/// Writes the archive of an image under a name.
///
/// `beside` are annotations of the index, which no engine's ID follows from.
pub(crate) fn write_archive(
    reference: &str,
    documents: &Documents,
    beside: &BTreeMap<String, String>,
    layers: &[ArchiveLayer],
    to: impl Write,
) -> Result<()> {
    let blob = |digest: Digest| format!("blobs/sha256/{}", digest.hex());
    let mut small = BTreeMap::new();
    small.insert(
        "oci-layout".to_owned(),
        r#"{"imageLayoutVersion":"1.0.0"}"#.to_owned(),
    );
    small.insert(
        "index.json".to_owned(),
        index(reference, documents, beside)?,
    );
    small.insert(
        "manifest.json".to_owned(),
        canonical::json(&json!([{
            "Config": blob(documents.config_id()),
            "RepoTags": [reference],
            "Layers": layers.iter().map(|layer| blob(layer.id.digest)).collect::<Vec<_>>(),
        }])),
    );
    small.insert(blob(documents.config_id()), documents.config.clone());
    small.insert(blob(documents.manifest_id()), documents.manifest.clone());

    let failed = |error| at(Path::new("image archive"))(error);
    let mut archive = Builder::new(to);
    for folder in ["blobs", "blobs/sha256"] {
        let mut entry = header(EntryType::Directory, 0o755, 0);
        entry.set_path(folder).map_err(failed)?;
        entry.set_cksum();
        archive.append(&entry, std::io::empty()).map_err(failed)?;
    }
    for (path, content) in &small {
        let mut entry = header(EntryType::Regular, 0o644, content.len() as u64);
        entry.set_path(path).map_err(failed)?;
        entry.set_cksum();
        archive.append(&entry, content.as_bytes()).map_err(failed)?;
    }
    let mut written = Vec::new();
    for layer in layers {
        let Some(source) = layer.source.filter(|_| !written.contains(&layer.id.digest)) else {
            continue;
        };
        written.push(layer.id.digest);
        let mut entry = header(EntryType::Regular, 0o644, layer.id.size_bytes);
        entry.set_path(blob(layer.id.digest)).map_err(failed)?;
        entry.set_cksum();
        let to = archive.get_mut();
        to.write_all(entry.as_bytes()).map_err(failed)?;
        let exact = ExactWriter {
            to: &mut *to,
            left: layer.id.size_bytes,
        };
        // What was hashed long ago is hashed once more on its way: an engine that does not look
        // would keep other bytes under the layer's name.
        let mut hashing = HashingWriter::new(exact);
        source.write(layer.id.size_bytes, &mut hashing)?;
        let (exact, found, _) = hashing.finish();
        exact.finish().map_err(failed)?;
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

fn index(
    reference: &str,
    documents: &Documents,
    beside: &BTreeMap<String, String>,
) -> Result<String> {
    let build = || {
        let tag = reference.rsplit(':').next().unwrap_or_default();
        let mut manifest = descriptor(
            MediaType::ImageManifest,
            documents.manifest_id(),
            documents.manifest.len() as u64,
        )?;
        // containerd's store knows names in full, with the domain that engines give to short ones.
        let mut annotations: std::collections::HashMap<String, String> =
            beside.clone().into_iter().collect();
        annotations.insert(
            "io.containerd.image.name".to_owned(),
            format!("docker.io/{reference}"),
        );
        annotations.insert(ANNOTATION_NAME.to_owned(), tag.to_owned());
        manifest.set_annotations(Some(annotations));
        ImageIndexBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageIndex)
            .manifests([manifest])
            .build()
    };
    let index = build().map_err(|error: OciSpecError| Error::Io {
        path: "index.json".into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(canonical::json(&index))
}

/// Passes on exactly as many bytes as a header has announced.
struct ExactWriter<W> {
    to: W,
    left: u64,
}

impl<W: Write> ExactWriter<W> {
    fn finish(self) -> std::io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        Err(std::io::Error::other(format!(
            "a layer is {} bytes short; run again",
            self.left
        )))
    }
}

impl<W: Write> Write for ExactWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(std::io::Error::other(
                "a layer is larger than it was hashed; run again",
            ));
        }
        let n = self.to.write(bytes)?;
        self.left -= n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
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

    fn beside() -> BTreeMap<String, String> {
        let key = "org.opencontainers.image.revision";
        BTreeMap::from([(key.to_owned(), "abc".to_owned())])
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
        let documents = Documents::new(&settings(), &[layer().0]).unwrap();
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
            assert_eq!(
                documents,
                Documents::new(&settings(), &[layer().0]).unwrap()
            );
        }
    }

    #[test]
    fn both_manifests_name_the_same_blobs() {
        let (id, source) = layer();
        let documents = Documents::new(&settings(), &[id]).unwrap();
        let mut bytes = Vec::new();
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: Some(&source),
        }];
        write_archive("torchgauge/x:1", &documents, &beside(), &layers, &mut bytes).unwrap();
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
        assert!(text("index.json").contains(r#""org.opencontainers.image.revision":"abc""#));
        assert!(!documents.manifest.contains("revision"));
    }

    #[test]
    fn a_layer_that_the_engine_has_is_left_out() {
        let (id, _) = layer();
        let documents = Documents::new(&settings(), &[id]).unwrap();
        let mut bytes = Vec::new();
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: None,
        }];
        write_archive("torchgauge/x:1", &documents, &beside(), &layers, &mut bytes).unwrap();
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
        id.size_bytes += 512;
        let documents = Documents::new(&settings(), &[id]).unwrap();
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: Some(&source),
        }];
        let error = write_archive("torchgauge/x:1", &documents, &beside(), &layers, Vec::new())
            .unwrap_err();
        assert!(error.to_string().contains("512 bytes short"), "{error}");
        id.size_bytes -= 512;
        id.digest = Digest::of(b"another");
        let layers = [ArchiveLayer {
            name: "x",
            id,
            source: Some(&source),
        }];
        let error = write_archive("torchgauge/x:1", &documents, &beside(), &layers, Vec::new())
            .unwrap_err();
        assert!(matches!(error, Error::StaleLayer { .. }), "{error}");
    }
}

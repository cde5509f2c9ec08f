//! Looking at images, naming and removing them.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use bollard::{
    models::ImageInspect,
    query_parameters::{ListImagesOptionsBuilder, RemoveImageOptions, TagImageOptionsBuilder},
};
use serde::{Deserialize, Serialize};

use crate::{
    connect::Engine,
    error::{Cause, Result},
};

/// What an engine says about one image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Digest with its algorithm, `sha256:…`. Of the image's configuration or of its
    /// manifest, as the engine keeps images.
    pub id: String,
    /// References that name this image, such as `torchgauge/cpu:latest`.
    pub tags: Vec<String>,
    /// References by digest under which registries know this image, `name@sha256:…`; empty for one
    /// that was loaded.
    pub digests: Vec<String>,
    /// Digests of the unpacked layers (`diff_ids`), base first.
    pub layers: Vec<String>,
    /// Size as the engine counts it.
    pub size_bytes: u64,
    pub labels: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    /// Folders that the image declares as volumes: an engine makes each a writable one on the
    /// machine's disk, with a copy of what the image has there.
    pub volumes: Vec<String>,
    /// What it starts before a command; empty where it says nothing.
    pub entrypoint: Vec<String>,
    /// What it starts, or gives its entry point, where no command is given.
    pub command: Vec<String>,
    /// Whom it runs as; empty for root.
    pub user: String,
    /// The folder that it starts in; empty for `/`.
    pub workdir: String,
    /// `amd64`, `arm64`, …
    pub architecture: Option<String>,
    /// The folder that it is unpacked in; `None` where an engine keeps it.
    pub root: Option<PathBuf>,
}

impl From<ImageInspect> for ImageFacts {
    fn from(image: ImageInspect) -> Self {
        let config = image.config.unwrap_or_default();
        Self {
            id: with_algorithm(image.id.unwrap_or_default()),
            tags: image.repo_tags.unwrap_or_default(),
            digests: image.repo_digests.unwrap_or_default(),
            layers: image
                .root_fs
                .and_then(|root| root.layers)
                .unwrap_or_default(),
            size_bytes: image.size.map_or(0, unsigned),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
            environment: config
                .env
                .unwrap_or_default()
                .into_iter()
                .map(|pair| match pair.split_once('=') {
                    Some((key, value)) => (key.to_owned(), value.to_owned()),
                    None => (pair, String::new()),
                })
                .collect(),
            volumes: config.volumes.unwrap_or_default().into_iter().collect(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            user: config.user.unwrap_or_default(),
            workdir: config.working_dir.unwrap_or_default(),
            architecture: image.architecture,
            root: None,
        }
    }
}

/// One line of a list of images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSummary {
    /// Digest with its algorithm, `sha256:…`.
    pub id: String,
    /// References that name this image; empty where none does.
    pub tags: Vec<String>,
    /// Size as the engine counts it, shared layers included.
    pub size_bytes: u64,
    pub labels: BTreeMap<String, String>,
}

/// A size, which engines give as what may be below 0.
pub(crate) fn unsigned(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

/// Podman leaves the algorithm out in some places.
fn with_algorithm(id: String) -> String {
    if id.contains(':') || id.is_empty() {
        id
    } else {
        format!("sha256:{id}")
    }
}

impl Engine {
    /// The image of this reference or id; `None` where the engine has none.
    pub async fn image(&self, reference: &str) -> Result<Option<ImageFacts>> {
        let found = Cause::absent(self.docker().inspect_image(reference).await);
        let found = found.map_err(|cause| self.failed("inspect image", reference, cause))?;
        Ok(found.map(Into::into))
    }

    /// Images that carry a label: `key`, or `key=value`.
    pub async fn list_images(&self, label: &str) -> Result<Vec<ImageSummary>> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListImagesOptionsBuilder::default()
            .filters(&filters)
            .build();
        let images = self.docker().list_images(Some(options)).await;
        let images = images
            .map_err(|error| self.failed("list images", format!("with label {label}"), error))?;
        // Docker's way to say that there is none.
        let is_tag = |tag: &String| tag != "<none>:<none>";
        Ok(images
            .into_iter()
            .map(|image| ImageSummary {
                id: with_algorithm(image.id),
                tags: image.repo_tags.into_iter().filter(is_tag).collect(),
                size_bytes: unsigned(image.size),
                labels: image.labels.into_iter().collect(),
            })
            .collect())
    }

    /// Gives an image one more name, `repository:tag`; the name moves where another
    /// image has it.
    pub async fn tag(&self, image: &str, name: &str) -> Result<()> {
        let (repository, tag) = split_name(name);
        let options = TagImageOptionsBuilder::default()
            .repo(repository)
            .tag(tag)
            .build();
        self.docker()
            .tag_image(image, Some(options))
            .await
            .map_err(|error| self.failed("tag image", format!("{image} as {name}"), error))
    }

    /// Takes a name away, which is no id: by one, all names would go. The image stays where it has
    /// other names, and goes where it has none. Fine where the name is not there.
    pub async fn untag(&self, name: &str) -> Result<()> {
        let options = None::<RemoveImageOptions>;
        let removed = self.docker().remove_image(name, options, None).await;
        Cause::absent(removed)
            .map(drop)
            .map_err(|cause| self.failed("remove image", name, cause))
    }
}

/// `repository:tag`; a colon before a slash belongs to a registry's port.
fn split_name(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn names_split_at_the_tag() {
        for (name, expect) in [
            ("torchgauge/cpu:2.11.0", ("torchgauge/cpu", "2.11.0")),
            ("torchgauge/cpu", ("torchgauge/cpu", "latest")),
            ("localhost:5000/cpu", ("localhost:5000/cpu", "latest")),
            ("localhost:5000/cpu:1", ("localhost:5000/cpu", "1")),
        ] {
            assert_eq!(split_name(name), expect, "{name}");
        }
    }
}

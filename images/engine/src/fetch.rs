//! Pulling an image into the engine, taking one out of it, and a file out of a container.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use bollard::{
    auth::DockerCredentials,
    models::CreateImageInfo,
    query_parameters::{
        ContainerArchiveInfoOptionsBuilder, CreateImageOptionsBuilder,
        DownloadFromContainerOptionsBuilder,
    },
};
use futures_util::StreamExt as _;

use crate::{
    connect::Engine,
    container::Container,
    error::{Cause, Result},
    images::unsigned,
};

/// Who is to pull from a registry: a user with a password or an access token in its place, or what a
/// registry gave at a login and takes instead.
pub type Login = DockerCredentials;

/// How far each layer of a pull is: bytes there, and in all.
#[derive(Default)]
struct Layers {
    sizes: BTreeMap<String, (u64, u64)>,
    /// Those that are pulled.
    pulled: BTreeSet<String>,
    /// Whether the engine had some already.
    has_others: bool,
}

impl Layers {
    /// Takes a line in; the sums where it said something about sizes.
    fn hear(&mut self, line: &CreateImageInfo) -> Option<(u64, u64)> {
        let id = line.id.as_ref()?;
        match line.status.as_deref() {
            Some("Pulling fs layer") => _ = self.pulled.insert(id.clone()),
            Some("Already exists") => self.has_others = true,
            _ => {}
        }
        let detail = line.progress_detail.as_ref()?;
        let number = |n: Option<i64>| n.map_or(0, unsigned);
        let total = number(detail.total);
        // Unpacking counts from the start again.
        if total == 0 || line.status.as_deref() != Some("Downloading") {
            return None;
        }
        self.sizes
            .insert(id.clone(), (number(detail.current), total));
        let sum = |pick: fn(&(u64, u64)) -> u64| self.sizes.values().map(pick).sum();
        Some((sum(|layer| layer.0), sum(|layer| layer.1)))
    }

    /// Compressed bytes of the image, where all of its layers were pulled and have sizes.
    fn all_bytes(&self) -> Option<u64> {
        let sizes = self.pulled.iter();
        let sizes: Option<Vec<u64>> = sizes.map(|id| Some(self.sizes.get(id)?.1)).collect();
        let sizes = sizes.filter(|sizes| !sizes.is_empty() && !self.has_others);
        sizes.map(|sizes| sizes.iter().sum())
    }
}

impl Engine {
    /// Has the engine pull an image by its reference, best one with a digest. `progress` hears of
    /// the bytes downloaded, and of those known so far to be needed. Without a `login` the engine
    /// asks as nobody. Returns the compressed bytes of the image where all of its layers were pulled
    /// and the engine reports their sizes, as Docker does.
    pub async fn pull(
        &self,
        reference: &str,
        login: Option<Login>,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Option<u64>> {
        let options = CreateImageOptionsBuilder::default()
            .from_image(reference)
            .build();
        let mut lines = Box::pin(self.patient().create_image(Some(options), None, login));
        let mut layers = Layers::default();
        while let Some(line) = lines.next().await {
            let line = line.map_err(|error| self.failed("pull image", reference, error))?;
            if let Some(detail) = &line.error_detail {
                let words = detail.message.clone().unwrap_or_default();
                return Err(self.failed("pull image", reference, Cause::Reported(words)));
            }
            if let Some((bytes, total)) = layers.hear(&line) {
                progress(bytes, total);
            }
        }
        Ok(layers.all_bytes())
    }

    /// Takes an image out of the engine as an archive. `piece` gets its bytes in order; an error
    /// of its own ends it.
    pub async fn save(
        &self,
        image: &str,
        mut piece: impl FnMut(&[u8]) -> io::Result<()> + Send,
    ) -> Result<()> {
        let mut pieces = Box::pin(self.patient().export_image(image));
        let mut bytes = 0;
        while let Some(next) = pieces.next().await {
            let next = next.map_err(|error| self.failed("save image", image, error))?;
            bytes += next.len();
            piece(&next).map_err(|error| self.failed("save image", image, error))?;
        }
        if bytes == 0 {
            let nothing = Cause::Reported("an archive without a byte in it".to_owned());
            return Err(self.failed("save image", image, nothing));
        }
        Ok(())
    }
}

/// What lies at a path of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFacts {
    pub size_bytes: u64,
    /// Where it leads within the container, where it is a link.
    pub link_target: Option<String>,
}

impl Container {
    /// What lies at a path of the container, which need not have been started; `None` where nothing
    /// does.
    pub async fn stat(&self, path: &str) -> Result<Option<PathFacts>> {
        let options = ContainerArchiveInfoOptionsBuilder::default()
            .path(path)
            .build();
        let docker = self.engine.docker();
        let found = docker.get_container_archive_info(&self.id, Some(options));
        let found = Cause::absent(found.await)
            .map_err(|cause| self.failed("find a file in container", cause))?;
        Ok(found.map(|found| PathFacts {
            size_bytes: unsigned(found.size),
            // Podman gives every path the target that it has itself.
            link_target: Some(found.link_target)
                .filter(|target| !target.is_empty() && target != path),
        }))
    }

    /// What lies at a path of the container, which need not have been started, as a tar archive.
    /// `piece` gets its bytes in order; an error of its own ends it. False where nothing lies there.
    pub async fn copy_out(
        &self,
        path: &str,
        mut piece: impl FnMut(&[u8]) -> io::Result<()> + Send,
    ) -> Result<bool> {
        let options = DownloadFromContainerOptionsBuilder::default()
            .path(path)
            .build();
        let docker = self.engine.patient();
        let mut pieces = Box::pin(docker.download_from_container(&self.id, Some(options)));
        let failed = |cause: Cause| self.failed("copy a file out of container", cause);
        while let Some(next) = pieces.next().await {
            match Cause::absent(next).map_err(failed)? {
                Some(next) => piece(&next).map_err(|error| failed(error.into()))?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

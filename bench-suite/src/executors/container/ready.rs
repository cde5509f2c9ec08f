//! Before the first container: images in the engine, and a way to each GPU.

use engine::{Endpoint, Engine, GpuAccess, GpuHost, Store, gpu::candidates};
use protocol::Device;
use record::{EngineFacts, Place, word_of};
use tokio_util::sync::CancellationToken;

use super::{Container, ContainerImage, Obstacle, find_gpu};
use crate::executors::{ExecutorError, Finding, ImageSource, Prepared};

impl Container {
    pub(super) async fn make_ready(
        &mut self,
        images: &[String],
        places: &[Place],
        source: &dyn ImageSource,
    ) -> Result<Prepared, ExecutorError> {
        let mut prepared = Prepared::default();
        for name in images {
            let loaded = source.load(name, Store::Engine(&self.engine)).await;
            let image = prepared.take(loaded.map_err(ExecutorError::Image)?);
            self.images.insert(name.clone(), image);
        }
        for left in self.engine.sweep_dead_owners().await? {
            source.note(&format!(
                "removed the container {} of a session that is gone",
                record::printable(&left.name)
            ));
        }
        for Place { device, .. } in places {
            if let (Device::Cuda(index), Some(image)) = (device, self.images.values().next()) {
                let access = self.reach_gpu(image, *index, source).await?;
                self.gpus.insert(*device, access);
            }
        }
        let engine = self.engine.facts();
        let gpu = self.gpus.values().next();
        prepared.engine = EngineFacts {
            kind: engine.product.to_string().to_lowercase(),
            version: Some(engine.version.clone()),
            storage_driver: engine.storage_driver.clone(),
            gpu_path: gpu.map(|access| word_of(access.path)),
        };
        Ok(prepared)
    }

    /// The way to the GPU on which CUDA works inside a container.
    async fn reach_gpu(
        &self,
        image: &ContainerImage,
        index: u32,
        source: &dyn ImageSource,
    ) -> Result<GpuAccess, ExecutorError> {
        source.note(&format!(
            "looking for a way from containers to cuda:{index}"
        ));
        let (host, cancel) = (GpuHost::discover(), CancellationToken::new());
        // In others nothing could try; a program that worked on the CPU instead is found out.
        let image = Some(image).filter(|image| image.entrypoint.is_some());
        let found = find_gpu(&self.hosts[0], &self.engine, &host, image, index, &cancel);
        let access = found.await.map_err(|tried| {
            let word = |(path, obstacle): &Obstacle| format!("{}: {obstacle}", word_of(path));
            let tried: Vec<String> = tried.iter().map(word).collect();
            let message = format!(
                "containers of {} do not reach the GPU:\n  {}\n\
                 `--engine process` goes without containers; `{} doctor` has details",
                self.engine.facts().describe(),
                tried.join("\n  "),
                protocol::program()
            );
            ExecutorError::Unavailable(message.into())
        })?;
        let way = word_of(access.path);
        source.note(&format!("containers reach cuda:{index} by {way}"));
        Ok(access)
    }
}

/// Whether an engine answers, and which ways lead from it to a GPU.
pub(super) async fn examine() -> Vec<Finding> {
    let what = "container engine";
    let engine = match Engine::connect(&Endpoint::Auto).await {
        Ok(engine) => engine,
        Err(error) => {
            let fix =
                "runs go without containers (--engine process); to have them, start an engine";
            return vec![Finding::missing(what, error.to_string(), fix)];
        }
    };
    if let Err(error) = engine.facts().check_here() {
        let fix = "run torchgauge on the engine's machine";
        return vec![Finding::missing(what, error.to_string(), fix)];
    }
    let mut findings = vec![Finding::ok(what, engine.facts().describe())];
    for candidate in candidates(engine.facts(), &GpuHost::discover()) {
        let (what, path) = ("GPU in containers", candidate.path);
        findings.push(match candidate.obstacle {
            None => Finding::ok(what, path.to_string()),
            Some(obstacle) => Finding {
                fix: None,
                ..Finding::missing(what, format!("{path}: {obstacle}"), "")
            },
        });
    }
    findings
}

//! A container from creation to removal.

use std::io;

use bollard::query_parameters::{CreateContainerOptionsBuilder, KillContainerOptionsBuilder};
use tokio::sync::watch;

use crate::{
    body::create_body,
    connect::Engine,
    error::{Cause, Error, Result},
    fallback::{Fallback, fall_back},
    registry::short,
    spec::ContainerSpec,
};

/// A container that this process made. Removed by [`Container::remove`], and
/// also when dropped, whatever the reason; [`Engine::cleanup`] waits for what a
/// drop has started.
#[derive(Debug)]
pub struct Container {
    pub(crate) engine: Engine,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) spec: ContainerSpec,
    /// Told true when the container has ended or is to be removed, so that streams
    /// that an engine never ends can end.
    pub(crate) ended: watch::Sender<bool>,
    warnings: Vec<String>,
    fallbacks: Vec<Fallback>,
    is_removed: bool,
}

impl Engine {
    /// Makes a container. Nothing is pulled, nothing is started.
    ///
    /// A caller that is cancelled in here leaves nothing behind: the creation runs
    /// to its end and what comes out of it is removed.
    pub async fn create(&self, spec: &ContainerSpec) -> Result<Container> {
        spec.check()?;
        let (engine, spec) = (self.clone(), spec.clone());
        let name = spec.name.clone().unwrap_or_default();
        // A task of its own: were the request dropped half way, the engine would make
        // a container whose id nobody knows.
        let creation = tokio::spawn(async move { engine.create_falling_back(spec).await });
        match creation.await {
            Ok(result) => result,
            Err(error) => Err(self.failed("create container", name, io::Error::other(error))),
        }
    }

    async fn create_falling_back(&self, mut spec: ContainerSpec) -> Result<Container> {
        let (mut fallbacks, product) = (Vec::new(), self.facts().product);
        let response = loop {
            let name = spec.name.as_ref();
            let options =
                name.map(|name| CreateContainerOptionsBuilder::default().name(name).build());
            let body = create_body(&spec, product);
            let created = self.docker().create_container(options, body).await;
            match created.map_err(Cause::from) {
                Ok(response) => break response,
                Err(cause) => match fall_back(&mut spec, product, &fallbacks, cause.message()) {
                    Some(fallback) => fallbacks.push(fallback),
                    None => return Err(self.explain_create(&spec, cause)),
                },
            }
        };
        self.live().insert(response.id.clone());
        Ok(Container {
            engine: self.clone(),
            name: spec.name.clone().unwrap_or_else(|| short(&response.id)),
            id: response.id,
            spec,
            ended: watch::Sender::new(false),
            warnings: response.warnings,
            fallbacks,
            is_removed: false,
        })
    }

    fn explain_create(&self, spec: &ContainerSpec, cause: Cause) -> Error {
        if cause.has_status(404) && cause.message().to_lowercase().contains("image") {
            return Error::ImageMissing {
                engine: self.facts().describe(),
                image: spec.image.clone(),
            };
        }
        let name = spec.name.clone().unwrap_or_default();
        self.failed("create container", name, cause)
    }
}

impl Container {
    /// The engine's id. It changes at most once, in [`Container::start`], where
    /// something refused there had to be given up.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name asked for, or the short id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the engine warned about when creating, such as a limit that its kernel
    /// does not have.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What was asked for as best effort and refused.
    pub fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    /// Starts the container. Where the engine refuses what is best effort only now
    /// (ulimits), the container is made again without, and started.
    pub async fn start(&mut self) -> Result<()> {
        loop {
            let cause = match self.engine.docker().start_container(&self.id, None).await {
                Ok(()) => return Ok(()),
                Err(error) => Cause::from(error),
            };
            let mut spec = self.spec.clone();
            let product = self.engine.facts().product;
            let fallback = fall_back(&mut spec, product, &self.fallbacks, cause.message());
            let Some(fallback) = fallback else {
                return Err(self.failed("start container", cause));
            };
            self.engine.remove_by_id(&self.id).await?;
            let mut fresh = self.engine.create(&spec).await?;
            fresh
                .fallbacks
                .splice(0..0, self.fallbacks.drain(..).chain([fallback]));
            // Streams taken from the old one see its end when it is dropped here.
            let mut old = std::mem::replace(self, fresh);
            old.is_removed = true;
        }
    }

    /// Ends the container's processes at once (SIGKILL). Fine where it has ended
    /// or is gone already.
    pub async fn kill(&self) -> Result<()> {
        self.signal("KILL").await
    }

    /// Asks the container's process to end (SIGTERM). Fine where it has ended or is gone already.
    pub async fn terminate(&self) -> Result<()> {
        self.signal("TERM").await
    }

    async fn signal(&self, signal: &str) -> Result<()> {
        let options = KillContainerOptionsBuilder::default().signal(signal);
        let docker = self.engine.docker();
        let killed = docker.kill_container(&self.id, Some(options.build()));
        // Podman before 5 answers 500 where the container has ended.
        let ended = "can only kill running containers";
        match Cause::absent(killed.await) {
            Ok(_) => Ok(()),
            Err(cause) if cause.has_status(409) || cause.message().contains(ended) => Ok(()),
            Err(cause) => Err(self.failed("kill container", cause)),
        }
    }

    pub(crate) fn failed(&self, operation: &'static str, cause: impl Into<Cause>) -> Error {
        self.engine.failed(operation, &self.name, cause)
    }

    /// Kills the container where it runs, removes it, and comes back when it is
    /// gone. Where that fails, the id stays with [`Engine::cleanup`].
    pub async fn remove(mut self) -> Result<()> {
        self.ended.send_replace(true);
        self.engine.remove_by_id(&self.id).await?;
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.ended.send_replace(true);
        if !self.is_removed {
            self.engine
                .remove_in_background(std::mem::take(&mut self.id));
        }
    }
}

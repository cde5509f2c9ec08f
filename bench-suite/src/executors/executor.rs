//! What an executor is, and what is known about one before it is opened.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use engine::Store;
use futures_util::future::BoxFuture;
use protocol::Device;
use record::{EngineFacts, ImageFacts, Isolation, Place};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    container::ContainerImage,
    images::{ImageSource, Loaded, SourceError},
    nodes::Scheduler,
    order::{Execution, Order},
};
use crate::{host::Host, suite::Program};

/// Carries runs out, one at a time or several at once.
pub trait Executor: Send + Sync {
    /// The machines that its runs happen on; at least one.
    fn hosts(&self) -> &[Arc<dyn Host>];

    /// The host of this name; the first where none has it.
    fn host(&self, name: &str) -> &dyn Host {
        let hosts = self.hosts();
        let named = hosts.iter().find(|host| host.name() == name);
        named.unwrap_or(&hosts[0]).as_ref()
    }

    /// What its images are loaded into or unpacked for; `None` where it takes them in another form.
    fn store(&self) -> Option<Store<'_>> {
        None
    }

    /// Why it does not run this program of the user's; unless it says otherwise, it runs the built-in
    /// workload alone.
    ///
    /// # Errors
    /// With the next step.
    fn takes(&self, _: &Program) -> Result<(), String> {
        takes_none(&self.describe())
    }

    /// Most ranks that a run may have on such devices: one a GPU, and on the CPU one a core, of which
    /// four may share one.
    fn most_ranks(&self, device: Device) -> u32 {
        let machine = self.hosts()[0].facts();
        match device {
            Device::Cpu => machine.cpu.logical_cores.max(4),
            Device::Cuda(_) => u32::try_from(machine.gpus.len()).unwrap_or(u32::MAX),
        }
    }

    /// Where its runs execute, such as `as plain processes`.
    fn describe(&self) -> String;

    /// What carries its runs to nodes, block by block, and the engine that these run them with;
    /// `None` where they are carried out here.
    fn scheduler(&self) -> Option<(&dyn Scheduler, &str)> {
        None
    }

    /// Makes ready whatever runs of these images in these places need; once, before any run.
    fn prepare<'a>(
        &'a mut self,
        images: &'a [String],
        places: &'a [Place],
        source: &'a dyn ImageSource,
    ) -> BoxFuture<'a, Result<Prepared, ExecutorError>>;

    /// Carries one run out. It comes back when nothing of the run is left, also where `cancel`
    /// ends it.
    fn run<'a>(
        &'a self,
        order: &'a Order,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Execution>;

    /// What separates its runs from the rest of the machine.
    fn isolation(&self) -> Isolation;

    /// Whether it ends a run at its memory limit.
    fn limits_memory(&self) -> bool {
        true
    }

    /// Waits for the engine to answer again after it failed a run. `false` where it does not, or
    /// `cancel` came first: then nothing more can run.
    fn recover<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => true,
                () = cancel.cancelled() => false,
            }
        })
    }

    /// Removes what the session's runs left that could not be removed at once.
    fn clean_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

pub(super) fn takes_none(executor: &str) -> Result<(), String> {
    Err(format!(
        "runs {executor} take no program; pass --engine container"
    ))
}

/// Before a run that the engine failed is attempted again.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What there is to say once an executor is ready.
#[derive(Debug, Clone, Default)]
pub struct Prepared {
    pub engine: EngineFacts,
    pub images: Vec<ImageFacts>,
    pub notes: Vec<String>,
}

impl Prepared {
    /// Notes an image that was loaded, and gives it as containers run it.
    pub(super) fn take(&mut self, loaded: Loaded) -> ContainerImage {
        self.images.push(loaded.facts);
        self.notes.extend(loaded.notes);
        ContainerImage {
            image: loaded.id,
            entrypoint: loaded.program.map(|program| vec![program]),
            ..ContainerImage::default()
        }
    }

    /// Of images of which the names alone are known, on an engine of this kind.
    pub(super) fn named(kind: &str, images: &[String]) -> Self {
        let image = |name: &String| ImageFacts {
            name: name.clone(),
            ..ImageFacts::default()
        };
        Self {
            engine: EngineFacts {
                kind: kind.to_owned(),
                ..EngineFacts::default()
            },
            images: images.iter().map(image).collect(),
            notes: Vec::new(),
        }
    }
}

/// What is known about an executor before it is opened.
#[derive(Debug)]
pub struct Registration {
    /// Its word on the command line. What follows a colon there is its argument.
    pub word: &'static str,
    /// What its argument is, such as `PROFILE`; `None` where it takes none.
    pub argument: Option<&'static str>,
    /// Words for it with an argument, each with the argument and its help.
    pub aliases: &'static [(&'static str, &'static str, &'static str)],
    /// Where runs execute, for the command line's help.
    pub help: &'static str,
    pub is_automatic: bool,
    /// Whether it carries blocks to nodes, which run them with another engine.
    pub is_scheduler: bool,
    /// Whether the command line's help leaves it out.
    pub is_hidden: bool,
    /// Connects to whatever carries runs out; with the argument, empty where none was given.
    pub open: fn(String) -> BoxFuture<'static, Opening>,
    /// What works of it on this machine, and the fix where something does not.
    pub examine: fn() -> BoxFuture<'static, Vec<Finding>>,
    /// Ends what is left of runs whose folders are in this one, and gives how many there were.
    pub sweep: fn(&Path) -> usize,
}

pub type Opening = Result<Box<dyn Executor>, ExecutorError>;

/// Why an executor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("{0}")]
    Argument(Box<dyn Error + Send + Sync>),
    #[error("{0}")]
    Unavailable(Box<dyn Error + Send + Sync>),
    #[error("{0}")]
    Image(SourceError),
}

/// Something that was looked at on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub what: &'static str,
    pub state: State,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Ok,
    /// Not here, and not needed for everything.
    Missing,
}

impl Finding {
    pub fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Ok,
            found: found.into(),
            fix: None,
        }
    }

    pub fn missing(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Missing,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

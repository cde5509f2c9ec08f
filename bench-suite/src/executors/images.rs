//! Images in the forms in which executors run them.

use std::{error::Error, path::PathBuf};

use engine::Store;
use futures_util::future::BoxFuture;
use record::ImageFacts;

/// Why an image is not to be had.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// Makes images, in whatever form they are asked for.
pub trait ImageSource: Send + Sync {
    /// Loads the image of this name into an engine, or unpacks it for Apptainer, unless it is there.
    fn load<'a>(
        &'a self,
        image: &'a str,
        store: Store<'a>,
    ) -> BoxFuture<'a, Result<Loaded, SourceError>>;

    /// The parts of the image of this name as files on this machine.
    fn unpack<'a>(
        &'a self,
        image: &'a str,
    ) -> BoxFuture<'a, Result<(LocalRuntime, ImageFacts), SourceError>>;

    fn note(&self, text: &str);
}

#[derive(Debug, Clone)]
pub struct Loaded {
    pub id: String,
    /// The built-in workload in it, which is started whatever its own entry point is; `None` where it
    /// has none, and runs programs alone.
    pub program: Option<String>,
    pub facts: ImageFacts,
    pub notes: Vec<String>,
    /// What it declares, with the folder that it is unpacked in; an engine is asked for each run.
    pub unpacked: Option<engine::ImageFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRuntime {
    pub program: PathBuf,
    /// Folders with libtorch's libraries, before those of the environment.
    pub library_path: Vec<PathBuf>,
}

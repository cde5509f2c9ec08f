//! What an image is made of below the scenario binary: what explains how it differs from another.

use std::collections::BTreeMap;

use crate::{
    Assembly, Image, Result, Sources,
    assembly::{Lower, contents::environment},
    lock::Lock,
    store::Cache,
};

/// What an image is made of below the scenario binary, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Versions of torch, CUDA, cuDNN, NCCL, glibc and of the base's distribution.
    pub versions: BTreeMap<String, String>,
    /// Packages of the base and wheels, by version.
    pub packages: BTreeMap<String, String>,
    /// The image's environment.
    pub environment: BTreeMap<String, String>,
    /// libtorch's libraries, in bytes.
    pub libraries: BTreeMap<String, u64>,
    /// The GPU architectures that libtorch's libraries have code for: `all`, `none`, or the names
    /// that the spec gives.
    pub gpu_code: String,
    /// The layers from the bottom up, in bytes.
    pub layers: Vec<(String, u64)>,
}

impl Parts {
    pub(crate) fn new(
        versions: BTreeMap<String, String>,
        environment: BTreeMap<String, String>,
        gpu_code: String,
        lock: &Lock,
    ) -> Self {
        let layers = lock.expected.layers.iter();
        let top = lock.expected.image.iter().map(|image| &image.layer);
        Self {
            versions,
            packages: lock.packages(),
            environment,
            gpu_code,
            libraries: lock
                .libtorch
                .libraries()
                .map(|(name, bytes, _)| (name.to_owned(), bytes))
                .collect(),
            layers: layers
                .chain(top)
                .map(|layer| (layer.name.clone(), layer.size_bytes))
                .collect(),
        }
    }
}

impl From<&Assembly> for Parts {
    fn from(assembly: &Assembly) -> Self {
        Self::new(
            assembly.versions.clone(),
            assembly.environment(),
            assembly.facts.gpu_code.clone(),
            &assembly.lock,
        )
    }
}

/// What explains how an image differs from another: everything below the scenario binary, so that
/// nothing is compiled for it.
pub fn parts(image: &Image, sources: &Sources, cache: &Cache) -> Result<Parts> {
    let lower = Lower::ready(image, sources, cache)?;
    let versions = lower.versions();
    let environment = environment(image, &lower.libtorch, &lower.base);
    let gpu_code = lower.gpu_code(image);
    let lock = lower.into_lock(image, sources, None);
    Ok(Parts::new(versions, environment, gpu_code, &lock))
}

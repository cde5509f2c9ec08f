//! Which way a container reaches the GPU, found out by trying.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use engine::{Engine, GpuAccess, GpuHost, GpuPath, gpu::candidates};
use protocol::{Device, Model, RunFile, Steps, Task, VERSION, Variant};
use record::Outcome;
use tokio_util::sync::CancellationToken;

use super::{Container, ContainerImage};
use crate::{
    evaluation::Evaluation,
    executors::{Executor as _, Order},
    host::Host,
    suite::Limits,
};

/// A way that does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProbe {
    /// The way.
    pub path: GpuPath,
    /// Why not.
    pub obstacle: String,
}

/// Finds a way to give containers of this image the GPU with this index: the first on which
/// CUDA works inside a container. An engine may ignore what it does not understand without a
/// word, so nothing less than a step of a small model on the GPU counts.
///
/// # Errors
/// What was tried, with what stood in the way of each.
pub async fn find_gpu(
    host: &Arc<dyn Host>,
    engine: &Engine,
    gpus: &GpuHost,
    image: &ContainerImage,
    index: u32,
    cancel: &CancellationToken,
) -> Result<GpuAccess, Vec<GpuProbe>> {
    let mut probes = Vec::new();
    for candidate in candidates(engine.facts(), gpus) {
        let path = candidate.path;
        let tried = match candidate.obstacle {
            Some(obstacle) => Err(obstacle),
            None => match GpuAccess::resolve(engine.facts(), gpus, path, index) {
                Ok(access) => attempt(host, engine, image, access, cancel).await,
                Err(error) => Err(error.to_string()),
            },
        };
        match tried {
            Ok(access) => return Ok(access),
            Err(obstacle) => probes.push(GpuProbe { path, obstacle }),
        }
        if cancel.is_cancelled() {
            break;
        }
    }
    Err(probes)
}

async fn attempt(
    host: &Arc<dyn Host>,
    engine: &Engine,
    image: &ContainerImage,
    access: GpuAccess,
    cancel: &CancellationToken,
) -> Result<GpuAccess, String> {
    let folder = tempfile::Builder::new()
        .prefix("torchgauge-probe-")
        .tempdir()
        .map_err(|error| format!("cannot make a folder for the probe: {error}"))?;
    let work = folder.path().join("run");
    std::fs::create_dir(&work)
        .map_err(|error| format!("cannot make {}: {error}", work.display()))?;
    let images = BTreeMap::from([("probe".to_owned(), image.clone())]);
    let executor = Container::new(Arc::clone(host), engine.clone(), images, [access.clone()]);
    let order = Order {
        session: crate::session::fresh_name(),
        run: "probe".to_owned(),
        attempt: 1,
        image: "probe".to_owned(),
        asked: RunFile {
            version: VERSION,
            run: "probe".to_owned(),
            model: Model::VitTiny,
            task: Task::Inference,
            variant: Variant::default(),
            device: Device::Cuda(0),
            steps: Steps {
                calibrate: false,
                ..Steps::new(0, 1)
            },
            seed: 1,
            threads: None,
            gpu_memory_bytes: None,
            allocator_memory_bytes: None,
            deadline_seconds: None,
        },
        device: Device::Cuda(access.index),
        limits: Limits {
            time: Duration::from_mins(3),
            ..Limits::default()
        },
        machine_memory_bytes: 0,
        is_watched: false,
        environment: BTreeMap::new(),
        folder: work,
        shared: folder.path().to_owned(),
        log: folder.path().join("log"),
    };
    let execution = executor.run(&order, cancel).await;
    let told = Evaluation::of(&order, &execution);
    let gpu = told.results.started.and_then(|started| started.cuda);
    match told.outcome {
        // A step that was done on the CPU is none on the GPU.
        Outcome::Ok if gpu.is_none() => Err(
            "the engine took the request, and the container told of no GPU: a step of a small \
             model ran on the CPU"
                .to_owned(),
        ),
        Outcome::Ok => Ok(access),
        Outcome::Expected { message, .. } | Outcome::Failed { message, .. } => Err(message),
    }
}

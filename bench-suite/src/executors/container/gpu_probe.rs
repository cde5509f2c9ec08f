//! Which way a container reaches the GPU, found out by trying.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use engine::{
    Engine, GpuAccess, GpuHost, GpuPath,
    gpu::{Candidate, candidates},
};
use protocol::{Device, Model, RunFile, Steps, Task, VERSION, Variant};
use record::{Outcome, Place};
use tokio_util::sync::CancellationToken;

use super::{Container, ContainerImage};
use crate::{
    evaluation::Evaluation,
    executors::{Asked, Executor as _, Order},
    host::Host,
    suite::Limits,
};

/// A way that does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProbe {
    pub path: GpuPath,
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
    for (path, way) in ways(engine, gpus, index) {
        let tried = match way {
            Ok(access) => attempt(host, engine, image, access, cancel).await,
            Err(obstacle) => Err(obstacle),
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

/// The first way that nothing is known to stand in, untried.
pub(super) fn first_way(
    engine: &Engine,
    gpus: &GpuHost,
    index: u32,
) -> Result<GpuAccess, Vec<GpuProbe>> {
    let mut probes = Vec::new();
    for (path, way) in ways(engine, gpus, index) {
        match way {
            Ok(access) => return Ok(access),
            Err(obstacle) => probes.push(GpuProbe { path, obstacle }),
        }
    }
    Err(probes)
}

/// The ways to a GPU, each as it can be asked for, or with what stands in it.
fn ways(
    engine: &Engine,
    gpus: &GpuHost,
    index: u32,
) -> impl Iterator<Item = (GpuPath, Result<GpuAccess, String>)> {
    let all = candidates(engine.facts(), gpus).into_iter();
    all.map(move |Candidate { path, obstacle }| {
        let resolve = || GpuAccess::resolve(engine.facts(), gpus, path, index);
        let way = match obstacle {
            Some(obstacle) => Err(obstacle),
            None => resolve().map_err(|error| error.to_string()),
        };
        (path, way)
    })
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
    let session = folder.path().file_name().unwrap_or_default();
    let session = session.to_string_lossy().into_owned();
    let work = folder.path().join("run");
    std::fs::create_dir(&work)
        .map_err(|error| format!("cannot make {}: {error}", work.display()))?;
    let images = BTreeMap::from([("probe".to_owned(), image.clone())]);
    let executor = Container::new(Arc::clone(host), engine.clone(), images, [access.clone()]);
    let order = Order {
        session,
        run: "probe".to_owned(),
        attempt: 1,
        image: "probe".to_owned(),
        asked: Asked::Builtin(Box::new(RunFile {
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
            trace: None,
            ranks: 1,
            threads: None,
            gpu_memory_bytes: None,
            allocator_memory_bytes: None,
            deadline_seconds: None,
        })),
        places: vec![Place {
            host: String::new(),
            device: Device::Cuda(access.index),
        }],
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
    let gpu = told.results.first().started.as_ref();
    let gpu = gpu.and_then(|started| started.cuda.clone());
    match told.outcome {
        // A step that was done on the CPU is none on the GPU.
        Outcome::Ok if gpu.is_none() => Err(
            "the engine took the request, and the container told of no GPU: a step of a small \
             model ran on the CPU"
                .to_owned(),
        ),
        Outcome::Ok => Ok(access),
        failed => Err(failed.message().to_owned()),
    }
}

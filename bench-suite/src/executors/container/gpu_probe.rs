//! Which way a container reaches the GPU, found out by trying.

use std::{collections::BTreeMap, sync::Arc};

use engine::{
    Engine, GpuAccess, GpuHost, GpuPath,
    gpu::{Candidate, candidates},
};
use protocol::Device;
use record::Outcome;
use tokio_util::sync::CancellationToken;

use super::{Container, ContainerImage};
use crate::{
    host::Host,
    plan::{Plan, Request},
    scratch_run::{self, ScratchRuns},
    suite::Suite,
};

/// A way that does not serve, and what stands in it.
pub type Obstacle = (GpuPath, String);

/// Finds a way to give containers of this image the GPU with this index: the first on which
/// CUDA works inside a container. An engine may ignore what it does not understand without a
/// word, so nothing less than a step of a small model on the GPU counts. Without an image that could
/// try, the first way that nothing is known to stand in.
///
/// # Errors
/// What was tried, with what stood in the way of each.
pub async fn find_gpu(
    host: &Arc<dyn Host>,
    engine: &Engine,
    gpus: &GpuHost,
    image: Option<&ContainerImage>,
    index: u32,
    cancel: &CancellationToken,
) -> Result<GpuAccess, Vec<Obstacle>> {
    let mut obstacles = Vec::new();
    for Candidate { path, obstacle } in candidates(engine.facts(), gpus) {
        let resolve = || GpuAccess::resolve(engine.facts(), gpus, path, index);
        let way = match obstacle {
            Some(obstacle) => Err(obstacle),
            None => resolve().map_err(|error| error.to_string()),
        };
        let tried = match (way, image) {
            (Ok(access), Some(image)) => attempt(host, engine, image, access, cancel).await,
            (way, _) => way,
        };
        match tried {
            Ok(access) => return Ok(access),
            Err(obstacle) => obstacles.push((path, obstacle)),
        }
        if cancel.is_cancelled() {
            break;
        }
    }
    Err(obstacles)
}

/// A step of a small model.
const PROBE: &str = "version: 1\ndescription: d\nscenarios: [{name: probe, model: vit-tiny, \
    task: inference, steps: {warmup: 0, measured: 1, calibrate: false}, limits: {time: 3min}}]\n";

async fn attempt(
    host: &Arc<dyn Host>,
    engine: &Engine,
    image: &ContainerImage,
    access: GpuAccess,
    cancel: &CancellationToken,
) -> Result<GpuAccess, String> {
    let suite = Suite::from_text("probe.yaml", PROBE).map_err(|error| error.to_string())?;
    let plan = Plan::new(&Request {
        suites: &[suite],
        images: &["probe".to_owned()],
        device: Device::Cuda(access.index),
        blocks: None,
        order_seed: Some(0),
    });
    let plan = plan.map_err(|error| error.to_string())?;
    let folder = tempfile::Builder::new()
        .prefix("torchgauge-probe-")
        .tempdir()
        .map_err(|error| format!("cannot make a folder for the probe: {error}"))?;
    let session = folder.path().file_name().unwrap_or_default();
    let runs = ScratchRuns {
        hosts: &BTreeMap::from([(host.name().to_owned(), host.facts())]),
        session: &session.to_string_lossy(),
        folder: folder.path(),
        is_watched: false,
    };
    let images = BTreeMap::from([("probe".to_owned(), image.clone())]);
    let executor = Container::new(Arc::clone(host), engine.clone(), images, [access.clone()]);
    let ran = scratch_run::run(runs, &plan.cells[0], "probe", &executor, cancel).await;
    let ran = ran.map_err(|error| error.to_string())?;
    match ran.outcome {
        // A step that was done on the CPU is none on the GPU.
        Outcome::Ok if ran.started.is_none_or(|started| started.cuda.is_none()) => Err(
            "the engine took the request, and the container reported no GPU: a step of a small \
             model ran on the CPU"
                .to_owned(),
        ),
        Outcome::Ok => Ok(access),
        failed => Err(failed.message().to_owned()),
    }
}

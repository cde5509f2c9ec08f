//! From an order to the container that carries it out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use engine::{ContainerSpec, GpuAccess, ImageFacts, Mount, Owner};
use protocol::Device;
use record::{Reason, Stage};

use super::{
    Container, ContainerImage, HOME, KERNEL_CACHE_FOLDER, RESULTS_FILE, RUN_FILE, SNAPSHOT_FILE,
    end::not_started, program,
};
use crate::{
    executors::{
        Execution, KERNEL_CACHE, Order,
        order::{no_files, no_image},
    },
    outcome::End,
};

impl Container {
    /// Everything before the engine makes the container.
    pub(super) async fn container_spec(
        &self,
        order: &Order,
        execution: &mut Execution,
    ) -> Result<ContainerSpec, End> {
        let image = self.images.get(&order.cell.plan.image);
        let image = image.ok_or_else(|| no_image(&order.cell.plan.image))?;
        let facts = match self.engine.image(&image.image).await {
            Ok(Some(facts)) => facts,
            Ok(None) => {
                let message = format!(
                    "the image {} is gone from the engine; `{} images build` makes it again",
                    image.image,
                    protocol::program()
                );
                return Err(End::never(Reason::ImageBroken, Stage::Create, message));
            }
            Err(error) => return Err(not_started(&error, Stage::Create)),
        };
        execution.record.image_id = Some(facts.id.clone());
        of(order, image, &facts, &self.gpus)
    }
}

/// The container that carries an order out in an image that is there, with its files.
pub(in crate::executors) fn of(
    order: &Order,
    image: &ContainerImage,
    facts: &ImageFacts,
    gpus: &BTreeMap<Device, GpuAccess>,
) -> Result<ContainerSpec, End> {
    write_files(order).map_err(|error| no_files(&error))?;
    let environment = environment(order, image, &facts.environment, gpus);
    let mut mounts = vec![
        mount(order.run_file(), RUN_FILE, true),
        mount(order.results_file(), RESULTS_FILE, false),
    ];
    let snapshot = order.snapshot_file();
    mounts.extend(snapshot.map(|file| mount(file, SNAPSHOT_FILE, false)));
    let kernel_cache = order.shared_kernel_cache();
    mounts.extend(kernel_cache.map(|cache| mount(cache, KERNEL_CACHE_FOLDER, false)));
    let devices: BTreeSet<_> = order.cell.places.iter().map(|place| place.device).collect();
    let devices = devices.into_iter();
    let spec = ContainerSpec {
        name: Some(name(order)),
        image: image.image.clone(),
        entrypoint: image.entrypoint.clone(),
        command: vec![RUN_FILE.to_owned(), RESULTS_FILE.to_owned()],
        environment,
        labels: Owner::this_process(&order.session, &order.run).labels(),
        mounts,
        limits: engine_limits(order),
        ipc: order.cell.limits.ipc,
        gpus: devices
            .filter_map(|device| gpus.get(&device).cloned())
            .collect(),
        ..ContainerSpec::default()
    };
    match order.cell.work.program() {
        None => Ok(spec),
        Some(program) => {
            program::change(spec, program, order, facts).map_err(|error| no_files(&error))
        }
    }
}

/// The workload's variables, over those that the image declares.
fn environment(
    order: &Order,
    image: &ContainerImage,
    declared: &BTreeMap<String, String>,
    gpus: &BTreeMap<Device, GpuAccess>,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::from([
        ("HOME".to_owned(), HOME.to_owned()),
        ("XDG_CACHE_HOME".to_owned(), HOME.to_owned()),
    ]);
    if order.cell.device().is_cuda() {
        let folder = match order.shared_kernel_cache() {
            Some(_) => KERNEL_CACHE_FOLDER.to_owned(),
            None => format!("{HOME}/{KERNEL_CACHE}"),
        };
        environment.insert(protocol::KERNEL_CACHE_VARIABLE.to_owned(), folder);
    }
    environment.extend(image.environment.clone());
    environment.extend(order.environment.clone());
    if let Some(gpu) = gpus.get(&order.cell.device()) {
        const VARIABLE: &str = "LD_LIBRARY_PATH";
        let before = environment.get(VARIABLE).or(declared.get(VARIABLE));
        if let Some(path) = gpu.library_path(before.map(String::as_str)) {
            environment.insert(VARIABLE.to_owned(), path);
        }
    }
    environment
}

pub(super) fn mount(source: PathBuf, target: &str, read_only: bool) -> Mount {
    Mount {
        source,
        target: target.to_owned(),
        read_only,
    }
}

/// The container's user is nobody's, so the files are everybody's. The folders around them are this
/// user's alone (0700), which keeps other users of the machine out and not the engine, which mounts
/// the files.
fn write_files(order: &Order) -> io::Result<()> {
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    order.write_files()?;
    allow(&order.run_file(), 0o644)?;
    allow(&order.results_file(), 0o666)?;
    if let Some(snapshot) = order.snapshot_file() {
        allow(&snapshot, 0o666)?;
    }
    if let Some(cache) = order.shared_kernel_cache() {
        fs::create_dir_all(&cache)?;
        allow(&cache, 0o777)?;
        allow(cache.parent().unwrap_or(&order.shared), 0o700)?;
    }
    Ok(())
}

/// Memory of a container that nobody limits: 90 % of the machine's, so that what goes wrong in it
/// ends it and not the machine.
fn memory_limit(order: &Order) -> Option<u64> {
    let machine = order.machine_memory_bytes / 10 * 9;
    let own = order.cell.limits.memory_bytes;
    own.or((machine > 0).then_some(machine))
}

/// The container's name. One that an engine could not remove keeps its name, and the next attempt
/// gets its own.
fn name(order: &Order) -> String {
    let name = format!("torchgauge-{}-{}", order.session, order.run);
    match order.attempt {
        1 => name,
        attempt => format!("{name}-{attempt}"),
    }
}

fn engine_limits(order: &Order) -> engine::Limits {
    // What the ranks of a run hand each other lies there.
    const SHARED_BYTES: u64 = 1 << 30;
    let limits = &order.cell.limits;
    let ranks = order.ranks();
    let usual = engine::Limits::default().pids;
    engine::Limits {
        memory_bytes: memory_limit(order),
        tmp_bytes: Some(limits.tmp_bytes),
        cpus: limits.cpus,
        cpuset: limits.cpuset.clone(),
        shm_bytes: limits.shm_bytes.or((ranks > 1).then_some(SHARED_BYTES)),
        pids: limits.pids.or(usual.map(|each| each.saturating_mul(ranks))),
        ulimits: limits.ulimits.clone(),
    }
}

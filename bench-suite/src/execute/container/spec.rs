//! From an order to the container that carries it out.

use std::{collections::BTreeMap, fs, io, os::unix::fs::PermissionsExt as _};

use engine::{ContainerSpec, Mount, Owner, Ulimit};
use record::{Reason, Stage};

use super::{Container, HOME, KERNEL_CACHE_FOLDER, RESULTS_FILE, RUN_FILE, not_started};
use crate::{
    execute::{Execution, KERNEL_CACHE, Order, no_files, no_image},
    outcome::End,
    suite::{Ipc, Limits},
};

impl Container {
    /// Everything before the engine makes the container.
    pub(super) async fn prepare(
        &self,
        order: &Order,
        execution: &mut Execution,
    ) -> Result<ContainerSpec, End> {
        let image = self
            .images
            .get(&order.image)
            .ok_or_else(|| no_image(&order.image))?;
        let facts = match self.engine.image(&image.image).await {
            Ok(Some(facts)) => facts,
            Ok(None) => {
                return Err(End::NotStarted {
                    reason: Reason::ImageBroken,
                    stage: Stage::Create,
                    message: format!(
                        "the image {} is gone from the engine; `cargo xtask images build` makes it again",
                        image.image
                    ),
                });
            }
            Err(error) => return Err(not_started(&error, Stage::Create)),
        };
        execution.image_id = Some(facts.id);
        let writable = || {
            order.write_files()?;
            // The container's user is nobody's; the folder around the files stays private.
            fs::set_permissions(order.run_file(), fs::Permissions::from_mode(0o644))?;
            fs::set_permissions(order.results_file(), fs::Permissions::from_mode(0o666))?;
            if let Some(cache) = order.shared_kernel_cache() {
                fs::create_dir_all(&cache)?;
                fs::set_permissions(&cache, fs::Permissions::from_mode(0o777))?;
            }
            Ok(())
        };
        writable().map_err(|error: io::Error| no_files(&error))?;
        let mut environment = BTreeMap::from([
            ("HOME".to_owned(), HOME.to_owned()),
            ("XDG_CACHE_HOME".to_owned(), HOME.to_owned()),
        ]);
        let kernel_cache = order.shared_kernel_cache();
        if order.device.is_cuda() {
            let folder = match kernel_cache {
                Some(_) => KERNEL_CACHE_FOLDER.to_owned(),
                None => format!("{HOME}/{KERNEL_CACHE}"),
            };
            environment.insert(protocol::KERNEL_CACHE_VARIABLE.to_owned(), folder);
        }
        environment.extend(image.environment.clone());
        environment.extend(order.environment.clone());
        let gpu = self.gpus.get(&order.device);
        if let Some(gpu) = gpu {
            let before = environment
                .get("LD_LIBRARY_PATH")
                .or_else(|| facts.environment.get("LD_LIBRARY_PATH"));
            if let Some(path) = gpu.library_path(before.map(String::as_str)) {
                environment.insert("LD_LIBRARY_PATH".to_owned(), path);
            }
        }
        let mount = |source, target: &str, read_only| Mount {
            source,
            target: target.to_owned(),
            read_only,
        };
        let mut mounts = vec![
            mount(order.run_file(), RUN_FILE, true),
            mount(order.results_file(), RESULTS_FILE, false),
        ];
        mounts.extend(kernel_cache.map(|cache| mount(cache, KERNEL_CACHE_FOLDER, false)));
        Ok(ContainerSpec {
            name: Some(name(order)),
            image: image.image.clone(),
            entrypoint: image.entrypoint.clone(),
            command: vec![RUN_FILE.to_owned(), RESULTS_FILE.to_owned()],
            environment,
            labels: Owner::this_process(&order.session, &order.asked.run).labels(),
            mounts,
            limits: engine_limits(&order.limits),
            ipc: match order.limits.ipc {
                Ipc::Private => engine::Ipc::Private,
                Ipc::Host => engine::Ipc::Host,
            },
            gpu: gpu.cloned(),
            ..ContainerSpec::default()
        })
    }
}

/// The container's name. One that an engine could not remove keeps its name, and the next try
/// gets its own.
fn name(order: &Order) -> String {
    let name = format!("torchgauge-{}-{}", order.session, order.asked.run);
    match order.attempt {
        1 => name,
        attempt => format!("{name}-{attempt}"),
    }
}

fn engine_limits(limits: &Limits) -> engine::Limits {
    let defaults = engine::Limits::default();
    engine::Limits {
        memory_bytes: limits.memory_bytes,
        cpus: limits.cpus,
        cpuset: limits.cpuset.clone(),
        shm_bytes: limits.shm_bytes,
        pids: limits.pids.or(defaults.pids),
        ulimits: limits
            .ulimits
            .iter()
            .map(|(name, limit)| Ulimit {
                name: name.clone(),
                soft: limit.soft,
                hard: limit.hard,
            })
            .collect(),
        ..defaults
    }
}

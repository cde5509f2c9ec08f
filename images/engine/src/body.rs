//! From a spec to the engine's create request.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
};

use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, HealthConfig, HostConfig,
    HostConfigLogConfig, Mount as ApiMount, MountType, ResourcesUlimits,
};

use crate::{
    facts::Product,
    gpu::{GpuAccess, GpuPath},
    spec::{ContainerSpec, LOG_BYTES, Mount, Network, UNPRIVILEGED, User},
};

pub(crate) fn create_body(spec: &ContainerSpec, product: Product) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        entrypoint: spec.entrypoint.clone(),
        cmd: (!spec.command.is_empty()).then(|| spec.command.clone()),
        env: Some(
            spec.environment
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
        ),
        labels: Some(spec.labels.clone().into_iter().collect()),
        user: match &spec.user {
            User::Unprivileged => Some(UNPRIVILEGED.to_owned()),
            User::OfImage => None,
            User::Named(name) => Some(name.clone()),
        },
        working_dir: spec.workdir.clone(),
        hostname: spec.hostname.clone(),
        // The image's own would run beside the workload, as its user.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..Default::default()
        }),
        // Some engines keep a network alive for containers that do not say this.
        network_disabled: Some(spec.network == Network::None),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        // A terminal would mix stdout and stderr and change line ends.
        tty: Some(false),
        host_config: Some(host_config(spec, product)),
        ..Default::default()
    }
}

fn host_config(spec: &ContainerSpec, product: Product) -> HostConfig {
    let limits = &spec.limits;
    let drivers = spec.gpus.first().into_iter();
    let mounts = drivers.flat_map(|gpu| &gpu.mounts);
    let mounts: Vec<_> = spec.mounts.iter().chain(mounts).map(bind).collect();
    // Files of the driver's belong to all of its GPUs.
    let devices: BTreeSet<_> = spec.gpus.iter().flat_map(|gpu| &gpu.devices).collect();
    let device = |path: &PathBuf| DeviceMapping {
        path_on_host: Some(path.to_string_lossy().into_owned()),
        path_in_container: Some(path.to_string_lossy().into_owned()),
        cgroup_permissions: Some("rwm".to_owned()),
    };
    let memory = limits.memory_bytes.map(signed);
    HostConfig {
        memory,
        // Equal to memory: no swap, which would make a measurement meaningless.
        memory_swap: memory,
        nano_cpus: limits.cpus.map(nano_cpus),
        cpuset_cpus: limits.cpuset.clone(),
        shm_size: limits.shm_bytes.map(signed),
        pids_limit: limits.pids.map(i64::from),
        ulimits: (!limits.ulimits.is_empty()).then(|| {
            let api = |(name, limit): (&String, &crate::Ulimit)| ResourcesUlimits {
                name: Some(name.clone()),
                soft: Some(limit.soft),
                hard: Some(limit.hard),
            };
            limits.ulimits.iter().map(api).collect()
        }),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(!spec.is_root_writable),
        network_mode: Some(spec.network.word().to_owned()),
        ipc_mode: Some(spec.ipc.word().to_owned()),
        init: Some(!spec.without_init),
        // The exit state is gone with the container, so it is removed by hand.
        auto_remove: Some(false),
        log_config: Some(log_config(product)),
        tmpfs: tmpfs(spec),
        device_requests: device_request(&spec.gpus).map(|request| vec![request]),
        devices: (!devices.is_empty()).then(|| devices.into_iter().map(device).collect()),
        mounts: (!mounts.is_empty()).then_some(mounts),
        ..Default::default()
    }
}

/// The kind of log whose rotation can be told: a daemon's own default may rotate
/// after a few megabytes, and a reader loses what is rotated away under it.
/// Podman takes the same name for its own `k8s-file`.
fn log_config(product: Product) -> HostConfigLogConfig {
    let mut options = HashMap::from([("max-size".to_owned(), LOG_BYTES.to_string())]);
    if product == Product::Docker {
        // With one file alone, rotation would drop everything that was written so far.
        options.insert("max-file".to_owned(), "2".to_owned());
    }
    HostConfigLogConfig {
        typ: Some("json-file".to_owned()),
        config: Some(options),
    }
}

/// Memory on `/tmp` and on what is shadowed, where nothing else is mounted there.
fn tmpfs(spec: &ContainerSpec) -> Option<HashMap<String, String>> {
    let is_free = |folder: &&str| {
        let mut targets = spec.mounts.iter().map(|mount| &mount.target);
        targets.all(|target| target.trim_end_matches('/') != folder.trim_end_matches('/'))
    };
    let exec = if spec.is_tmp_executable {
        "exec"
    } else {
        "noexec"
    };
    let size = spec.limits.tmp_bytes.map(|bytes| format!(",size={bytes}"));
    let size = size.unwrap_or_default();
    let options = format!("rw,nosuid,nodev,{exec},mode=1777{size}");
    let shadowed = spec.shadowed.iter().map(String::as_str);
    let folders = ["/tmp"].into_iter().chain(shadowed).filter(is_free);
    let all: HashMap<_, _> = folders
        .map(|folder| (folder.to_owned(), options.clone()))
        .collect();
    (!all.is_empty()).then_some(all)
}

/// A mount rather than a `-v` style bind: a source that is not there is an error,
/// not a folder that the engine makes up.
fn bind(mount: &Mount) -> ApiMount {
    ApiMount {
        typ: Some(MountType::BIND),
        source: Some(mount.source.to_string_lossy().into_owned()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        ..Default::default()
    }
}

/// One request for all GPUs: of several the NVIDIA runtime serves the last alone.
fn device_request(gpus: &[GpuAccess]) -> Option<DeviceRequest> {
    let ids = |prefix: &str| {
        let indices = gpus.iter().map(|gpu| format!("{prefix}{}", gpu.index));
        Some(indices.collect())
    };
    match gpus.first()?.path {
        GpuPath::Cdi => Some(DeviceRequest {
            driver: Some("cdi".to_owned()),
            device_ids: ids("nvidia.com/gpu="),
            ..Default::default()
        }),
        GpuPath::NvidiaRuntime => Some(DeviceRequest {
            driver: Some("nvidia".to_owned()),
            device_ids: ids(""),
            // `gpu` selects the request; the others become NVIDIA_DRIVER_CAPABILITIES.
            capabilities: Some(vec![vec![
                "gpu".to_owned(),
                "compute".to_owned(),
                "utility".to_owned(),
            ]]),
            ..Default::default()
        }),
        GpuPath::Passthrough => None,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "what is out of range becomes the nearest in it, which engines refuse"
)]
fn nano_cpus(cpus: f64) -> i64 {
    (cpus * 1e9).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardened_request() {
        let spec = ContainerSpec {
            name: Some("run-1".into()),
            image: "sha256:abc".into(),
            command: vec!["scenario".into()],
            mounts: vec![Mount {
                source: "/a".into(),
                target: "/b".into(),
                read_only: true,
            }],
            limits: crate::Limits {
                memory_bytes: Some(1 << 30),
                cpus: Some(1.5),
                cpuset: Some("0,1".into()),
                tmp_bytes: Some(1 << 30),
                ..Default::default()
            },
            ..Default::default()
        };
        // Sorted by way of a value: the API's maps are in no order.
        let body = create_body(&spec, Product::Docker);
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&serde_json::to_value(body).unwrap()).unwrap()
        );
    }
}

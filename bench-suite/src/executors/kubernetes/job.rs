//! The Job of a part: one Pod, with a container for each run, one after another.

use k8s_openapi::{
    ByteString,
    api::{batch::v1::Job, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource as _;
use serde_json::{Value, json};

use super::{
    super::nodes::inside::{HOME, IMAGE_VARIABLE, PROGRAM},
    profile::Profile,
    program,
};
use crate::{
    host::{LOCKS_VARIABLE, NAME_VARIABLE},
    session::Due,
};

/// Says which session a Job and its Pod are of, and which block.
pub(super) const SESSION: &str = "torchgauge/session";
pub(super) const BLOCK: &str = "torchgauge/block";
/// Where the part comes in, with its file and that of the mounts.
const PARCEL: &str = "/part";
const ARCHIVES: [&str; 2] = ["part.tar.gz", "files.tar.gz"];
/// The files that are mounted, in the container that fills them.
const FILES: &str = "/files";
/// Nobody's on any distribution.
const USER: u32 = 65532;
/// How long a run that is told to end may take to clean up.
const GRACE_SECONDS: u32 = 60;
/// Results of a session that nobody came back for go after a week.
const KEPT_SECONDS: u32 = 7 * 24 * 3600;

/// The container of a run.
pub(super) fn name_of(run: &Due) -> String {
    format!("run-{}", run.name.split('-').next().unwrap_or_default())
}

pub(super) fn job(
    name: &str,
    (session, block): (&str, u32),
    runs: &[Due],
    profile: &Profile,
) -> Result<Job, serde_json::Error> {
    let mut labels = json!(profile.labels);
    labels[SESSION] = session.into();
    labels[BLOCK] = block.to_string().into();
    let mut of_job = labels.clone();
    if let Some(queue) = &profile.queue {
        of_job["kueue.x-k8s.io/queue-name"] = queue.as_str().into();
    }
    let sources = program::sources(runs);
    let (mut containers, mut copies) = (Vec::new(), Vec::new());
    for run in runs {
        let (files, own) = program::mounts(run, &sources);
        containers.push(container(run, files, profile));
        copies.extend(own);
    }
    let last = containers.pop();
    containers.insert(0, begin(&copies, profile));
    let mut volumes = vec![
        json!({"name": "home", "emptyDir": {}}),
        json!({"name": "program", "emptyDir": {}}),
        json!({"name": "files", "emptyDir": {}}),
        json!({"name": "part", "configMap": {"name": name}}),
    ];
    for container in runs.iter().map(name_of) {
        volumes.push(json!({"name": format!("tmp-{container}"), "emptyDir": {}}));
        let memory = json!({"medium": "Memory"});
        volumes.push(json!({"name": format!("shm-{container}"), "emptyDir": memory}));
    }
    let secrets: Vec<Value> = profile
        .image_pull_secrets
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": of_job},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "activeDeadlineSeconds": profile.time().map(|time| time.as_secs().max(1)),
                    "terminationGracePeriodSeconds": GRACE_SECONDS,
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "nodeSelector": profile.node_selector,
                    "tolerations": profile.tolerations,
                    "affinity": affinity(profile),
                    "priorityClassName": profile.priority_class,
                    "runtimeClassName": profile.runtime_class,
                    "imagePullSecrets": secrets,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "volumes": volumes,
                    "initContainers": containers,
                    "containers": [last],
                },
            },
        },
    }))
}

/// What lays out the part, the program, and what is mounted, before any run.
fn begin(copies: &[String], profile: &Profile) -> Value {
    let all = [
        ("home", HOME),
        ("program", PROGRAM),
        ("part", PARCEL),
        ("files", FILES),
    ];
    let [part, files] = ARCHIVES.map(|name| format!("{PARCEL}/{name}"));
    json!({
        "name": "program",
        "image": profile.program,
        "command": ["torchgauge", "pod", "begin", part, files, HOME, PROGRAM, FILES, copies.join(",")],
        "volumeMounts": mounts(&all),
        "resources": resources(profile, false),
        "securityContext": confined(),
    })
}

/// One block at a time on the CPUs of a node; of a GPU, the kubelet sees to that.
fn affinity(profile: &Profile) -> Value {
    if profile.all_gpus() > 0 {
        return Value::Null;
    }
    let session = json!([{"key": SESSION, "operator": "Exists"}]);
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchExpressions": session},
        "topologyKey": "kubernetes.io/hostname",
    }]}})
}

fn container(run: &Due, files: Vec<Value>, profile: &Profile) -> Value {
    // Without a word about it, the folder is the image's own.
    let program = run.program.as_ref();
    let folder = program.map_or(Some(HOME), |program| program.file.workdir.as_deref());
    let [tmp, shm] = ["tmp", "shm"].map(|name| format!("{name}-{}", name_of(run)));
    let mut mounts = mounts(&[("home", HOME), (&tmp, "/tmp"), (&shm, "/dev/shm")]);
    mounts.push(json!({"name": "program", "mountPath": PROGRAM, "readOnly": true}));
    mounts.extend(files);
    json!({
        "name": name_of(run),
        "image": run.image,
        "command": [format!("{PROGRAM}/torchgauge"), "pod", "run", "--run", run.name, format!("{HOME}/part")],
        "workingDir": folder,
        "env": [
            {"name": NAME_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": IMAGE_VARIABLE, "value": run.image},
            {"name": LOCKS_VARIABLE, "value": format!("{HOME}/locks")},
            {"name": "HOME", "value": "/tmp"},
            {"name": "XDG_CACHE_HOME", "value": "/tmp/.cache"},
        ],
        "volumeMounts": mounts,
        "resources": resources(profile, true),
        "securityContext": confined(),
    })
}

fn mounts(all: &[(&str, &str)]) -> Vec<Value> {
    all.iter()
        .map(|(name, path)| json!({"name": name, "mountPath": path}))
        .collect()
}

fn resources(profile: &Profile, runs: bool) -> Value {
    let all = profile.container(runs);
    json!({"limits": all, "requests": all})
}

fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// The part and the mounts on their way in; they go with their Job.
pub(super) fn config_map(of: &Job, archives: [Vec<u8>; 2]) -> ConfigMap {
    let named = ARCHIVES.map(str::to_owned).into_iter();
    ConfigMap {
        metadata: ObjectMeta {
            name: of.metadata.name.clone(),
            labels: of.metadata.labels.clone(),
            owner_references: Some(of.owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        binary_data: Some(named.zip(archives.map(ByteString)).collect()),
        ..ConfigMap::default()
    }
}

//! The Job of a part: one Pod, with a container for each run, one after another.

use k8s_openapi::{ByteString, api::batch::v1::Job, api::core::v1::ConfigMap};
use serde_json::{Value, json};

use super::{IMAGE_VARIABLE, profile::Profile};
use crate::host::{LOCKS_VARIABLE, NAME_VARIABLE};

/// Says which session a Job and its Pod are of, and which block.
pub(super) const SESSION: &str = "torchgauge/session";
pub(super) const BLOCK: &str = "torchgauge/block";
/// The part, in every container.
const HOME: &str = "/torchgauge";
/// The program, which no image may write.
const PROGRAM: &str = "/program";
/// Where the part comes in, and its file.
const PARCEL: (&str, &str) = ("/part", "part.tar.gz");
/// Nobody's on any distribution.
const USER: u32 = 65532;
/// How long a run that is told to end may take to clean up.
const GRACE_SECONDS: u32 = 60;
/// Results of a session that nobody came back for go after a week.
const KEPT_SECONDS: u32 = 7 * 24 * 3600;

/// A run: its container, its name, and the reference of its image.
pub(super) struct Step {
    pub(super) container: String,
    pub(super) run: String,
    pub(super) image: String,
}

pub(super) fn job(
    name: &str,
    (session, block): (&str, u32),
    steps: &[Step],
    profile: &Profile,
) -> Result<Job, serde_json::Error> {
    let mut labels = json!(profile.labels);
    labels[SESSION] = session.into();
    labels[BLOCK] = block.to_string().into();
    let mut of_job = labels.clone();
    if let Some(queue) = &profile.queue {
        of_job["kueue.x-k8s.io/queue-name"] = queue.as_str().into();
    }
    let begin = json!({
        "name": "program",
        "image": profile.program,
        "command": ["torchgauge", "pod", "begin", format!("{}/{}", PARCEL.0, PARCEL.1), HOME, PROGRAM],
        "volumeMounts": mounts(&[("home", HOME), ("program", PROGRAM), ("part", PARCEL.0)]),
        "resources": resources(profile, false),
        "securityContext": confined(),
    });
    let mut containers: Vec<Value> = steps.iter().map(|step| container(step, profile)).collect();
    let last = containers.pop();
    containers.insert(0, begin);
    let mut volumes = vec![
        json!({"name": "home", "emptyDir": {}}),
        json!({"name": "program", "emptyDir": {}}),
        json!({"name": "part", "configMap": {"name": name}}),
    ];
    for Step { container, .. } in steps {
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

fn container(step: &Step, profile: &Profile) -> Value {
    let program = format!("{PROGRAM}/torchgauge");
    let [tmp, shm] = ["tmp", "shm"].map(|name| format!("{name}-{}", step.container));
    let mut mounts = mounts(&[("home", HOME), (&tmp, "/tmp"), (&shm, "/dev/shm")]);
    mounts.push(json!({"name": "program", "mountPath": PROGRAM, "readOnly": true}));
    json!({
        "name": step.container,
        "image": step.image,
        "command": [program, "pod", "run", format!("{HOME}/part"), step.run],
        "workingDir": HOME,
        "env": [
            {"name": NAME_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": IMAGE_VARIABLE, "value": step.image},
            {"name": LOCKS_VARIABLE, "value": format!("{HOME}/locks")},
            {"name": "HOME", "value": "/tmp"},
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

/// The part on its way in; it goes with its Job.
pub(super) fn config_map(of: &Job, archive: Vec<u8>) -> ConfigMap {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: of.metadata.name.clone().unwrap_or_default(),
        uid: of.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    ConfigMap {
        metadata: ObjectMeta {
            name: of.metadata.name.clone(),
            labels: of.metadata.labels.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        binary_data: Some([(PARCEL.1.to_owned(), ByteString(archive))].into()),
        ..ConfigMap::default()
    }
}

//! What the API server says of a Job and its Pod, and what that means for a block.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStateTerminated, ContainerStatus, Pod},
};

use super::super::ExecutorError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// For a node, or for what else may come.
    Waits(String),
    /// An image is not there yet, in the kubelet's words.
    Pulls(String),
    Runs(String),
    /// The Pod came to its end.
    Done,
    /// Why it did not, with the next step.
    Ended(String),
}

pub(super) fn node(pod: Option<&Pod>) -> &str {
    let spec = pod.and_then(|pod| pod.spec.as_ref());
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// Every container of a Pod, in the order in which they run.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let first = status.and_then(|status| status.init_container_statuses.as_deref());
    let last = status.and_then(|status| status.container_statuses.as_deref());
    first
        .unwrap_or_default()
        .iter()
        .chain(last.unwrap_or_default())
}

pub(super) fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

/// The container that runs.
pub(super) fn running(pod: &Pod) -> Option<&ContainerStatus> {
    containers(pod).find(|one| {
        let state = one.state.as_ref();
        state.is_some_and(|state| state.running.is_some())
    })
}

/// What has become of a Job.
pub(super) fn of(job: Option<&Job>, pod: Option<&Pod>) -> State {
    let Some(job) = job else {
        return State::Ended(
            "lost its Job, which somebody deleted; `--resume` submits it again".to_owned(),
        );
    };
    let Some(pod) = pod else {
        return without_pod(job);
    };
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.as_deref().unwrap_or_default();
    if phase == "Succeeded" {
        return State::Done;
    }
    let condition = |kind: &str, state: &str| {
        let mut all = status.conditions.iter().flatten();
        all.find(|one| one.type_ == kind && one.status == state)
    };
    if phase == "Failed" || pod.metadata.deletion_timestamp.is_some() {
        let disrupted = condition("DisruptionTarget", "True");
        let of_pod = status.reason.as_deref();
        let reason = of_pod.or_else(|| disrupted?.reason.as_deref());
        let of_pod = status.message.as_deref();
        let message = of_pod.or_else(|| disrupted?.message.as_deref());
        return State::Ended(ended(pod, reason, message));
    }
    if let Some(one) = condition("PodScheduled", "False") {
        let said = words(one.reason.as_deref(), one.message.as_deref());
        return State::Waits(format!("waits for a node: {said}"));
    }
    if let Some(held_up) = containers(pod).find_map(|container| held_up(container, pod)) {
        return held_up;
    }
    let node = node(Some(pod));
    match running(pod) {
        Some(container) => State::Runs(format!("runs {} on {node}", container.name)),
        None if phase == "Unknown" => State::Waits("waits: its node does not answer".to_owned()),
        None => State::Waits(format!("waits on {node} for its next container")),
    }
}

/// Whether a queue holds it back.
pub(super) fn is_suspended(job: Option<&Job>) -> bool {
    let spec = job.and_then(|job| job.spec.as_ref());
    spec.is_some_and(|spec| spec.suspend == Some(true))
}

fn without_pod(job: &Job) -> State {
    let status = job.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    if let Some(failed) = conditions.find(|one| one.type_ == "Failed" && one.status == "True") {
        let words = words(failed.reason.as_deref(), failed.message.as_deref());
        return State::Ended(format!("failed without a Pod: {words}"));
    }
    let why = if is_suspended(Some(job)) {
        "is suspended, as Kueue does until there is room"
    } else {
        "has no Pod yet"
    };
    State::Waits(format!("waits: its Job {why}"))
}

/// What keeps a container from starting, where something does.
fn held_up(container: &ContainerStatus, pod: &Pod) -> Option<State> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let said = words(Some(reason), waiting.message.as_deref());
    match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "RegistryUnavailable"
        | "ImageInspectError" => Some(State::Pulls(format!(
            "cannot pull {}: {said}",
            container.image
        ))),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            Some(State::Ended(format!(
                "cannot start {} of {}: {said}; `kubectl describe pod {}` has details",
                container.name,
                container.image,
                pod.metadata.name.as_deref().unwrap_or_default()
            )))
        }
        _ => None,
    }
}

/// Why a Pod did not come to its end, with the next step.
fn ended(pod: &Pod, reason: Option<&str>, message: Option<&str>) -> String {
    let said = words(reason, message);
    match reason.unwrap_or_default() {
        "DeadlineExceeded" => {
            return format!("reached its time limit ({said}); raise `time` in the profile");
        }
        "Evicted" | "TerminationByKubelet" => {
            return format!(
                "was evicted ({said}); give it more in `resources`, and go on with `--resume`"
            );
        }
        "EvictionByEvictionAPI" => {
            return format!(
                "was evicted, as when a node is drained ({said}); go on with `--resume`"
            );
        }
        "Preempting" | "PreemptionByScheduler" => {
            return format!(
                "made room for another Pod ({said}); go on with `--resume`, or give it a `priority_class`"
            );
        }
        "NodeLost"
        | "NodeShutdown"
        | "Shutdown"
        | "Terminated"
        | "DeletionByTaintManager"
        | "DeletionByPodGC" => {
            return format!("its node was lost ({said}); what it finished is kept: `--resume`");
        }
        _ => {}
    }
    let failed = containers(pod)
        .find_map(|one| Some((one, terminated(one).filter(|end| end.exit_code != 0)?)));
    match failed {
        Some((container, end)) if end.reason.as_deref() == Some("OOMKilled") => format!(
            "ran out of memory in {} ({}: OOMKilled); give `resources` more `memory`, or the suite a smaller batch",
            container.name, container.image
        ),
        Some((container, end)) => format!(
            "could not carry out {} in {}: {}, exit code {}; is it for glibc 2.17 or newer, and does `program` bring \
             `torchgauge`?",
            container.name,
            container.image,
            words(end.reason.as_deref(), end.message.as_deref()),
            end.exit_code
        ),
        None if pod.metadata.deletion_timestamp.is_some() => {
            "lost its Pod, which somebody deleted or whose node was lost; `--resume` goes on"
                .to_owned()
        }
        None => format!("failed ({said}); go on with `--resume`"),
    }
}

fn words(reason: Option<&str>, message: Option<&str>) -> String {
    let all = [reason, message]
        .into_iter()
        .flatten()
        .filter(|word| !word.is_empty());
    let all: Vec<&str> = all.map(str::trim).collect();
    if all.is_empty() {
        "no reason given".to_owned()
    } else {
        all.join(": ")
    }
}

/// Whether another attempt at pulling would end the same.
pub(super) fn never_pulls(said: &str) -> bool {
    const WORDS: [&str; 8] = [
        "InvalidImageName",
        "ErrImageNeverPull",
        "not found",
        "manifest unknown",
        "does not exist",
        "unauthorized",
        "denied",
        "authentication required",
    ];
    WORDS.iter().any(|word| said.contains(word))
}

/// What the API server refuses, with the key of the profile or what else is at fault.
pub(super) fn refused(error: &kube::Error, profile: &str) -> ExecutorError {
    let kube::Error::Api(status) = error else {
        return unavailable(&error.to_string());
    };
    let said = &status.message;
    let next = match status.code {
        401 => return unavailable(&format!("{said}; log in again")),
        403 if said.contains("exceeded quota") => {
            "the quota of the `namespace` is used up; free some of it, or take another"
        }
        403 => "ask whoever runs the cluster for it; docs/fleets.md has the rights that are needed",
        404 if said.contains("namespaces") => {
            "no such `namespace`; `kubectl get namespaces` lists them"
        }
        400 | 422 => "correct the key of the profile that it names",
        413 => "give fewer cells at once",
        _ => return unavailable(said),
    };
    ExecutorError::Argument(format!("Kubernetes: {said}; profile {profile}: {next}").into())
}

pub(super) fn unavailable(said: &str) -> ExecutorError {
    let message = format!(
        "Kubernetes does not answer: {said}; its Jobs go on, and --resume finds them again"
    );
    ExecutorError::Unavailable(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(status: &Value) -> State {
        let job =
            serde_json::from_value(json!({"metadata": {}, "spec": {"template": {}}})).unwrap();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": []}, "status": status});
        of(Some(&job), Some(&serde_json::from_value(pod).unwrap()))
    }

    fn container(state: &Value) -> Value {
        json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "run-0000", "image": "r/a", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
    }

    #[test]
    fn endings_name_the_next_step() {
        let mut endings = Vec::new();
        for status in [
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            json!({"phase": "Failed", "reason": "DeadlineExceeded"}),
            json!({"phase": "Failed", "reason": "NodeLost"}),
            json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}),
            json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}),
            json!({"phase": "Failed", "initContainerStatuses": [{"name": "run-0000", "image": "r/a", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
            container(
                &json!({"waiting": {"reason": "CreateContainerError", "message": "no such"}}),
            ),
        ] {
            let State::Ended(found) = told(&status) else {
                panic!("{status}")
            };
            endings.push(found);
        }
        let State::Ended(found) = of(None, None) else {
            panic!()
        };
        endings.push(found);
        insta::assert_snapshot!(endings.join("\n"), @r"
        was evicted (Evicted: low on memory); give it more in `resources`, and go on with `--resume`
        reached its time limit (DeadlineExceeded); raise `time` in the profile
        its node was lost (NodeLost); what it finished is kept: `--resume`
        made room for another Pod (PreemptionByScheduler); go on with `--resume`, or give it a `priority_class`
        its node was lost (DeletionByTaintManager); what it finished is kept: `--resume`
        ran out of memory in run-0000 (r/a: OOMKilled); give `resources` more `memory`, or the suite a smaller batch
        cannot start run-0000 of r/a: CreateContainerError: no such; `kubectl describe pod p` has details
        lost its Job, which somebody deleted; `--resume` submits it again
        ");
    }

    #[test]
    fn what_a_block_waits_for_is_told_in_the_cluster_s_words() {
        let said = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.";
        let waits = told(&json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}]}));
        assert_eq!(
            waits,
            State::Waits(format!("waits for a node: Unschedulable: {said}"))
        );
        let pulls = told(&container(
            &json!({"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}),
        ));
        let words = "cannot pull r/a: ErrImagePull: manifest unknown";
        assert_eq!(pulls, State::Pulls(words.to_owned()));
        assert!(never_pulls(words) && !never_pulls("ErrImagePull: i/o timeout"));
        assert_eq!(
            told(&container(&json!({"running": {}}))),
            State::Runs("runs run-0000 on n1".to_owned())
        );
        assert_eq!(told(&json!({"phase": "Succeeded"})), State::Done);
    }
}

//! What a session asks a Kubernetes cluster for.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use strict_yaml::{Document, YamlError};

use crate::suite::units::Time;

/// A profile's file: its words go into the Jobs as they are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    /// Version of this format: 1.
    version: u32,
    /// The image that brings `torchgauge` into Pods.
    pub(super) program: String,
    /// Of the kubeconfig; the current one unless it is given.
    pub(super) context: Option<String>,
    pub(super) namespace: Option<String>,
    /// GPUs of a node, as `nvidia.com/gpu`.
    #[serde(default)]
    gpus: u32,
    /// What each container may take and gets, such as `cpu` and `memory`.
    #[serde(default)]
    pub(super) resources: Map<String, Value>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) node_selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) tolerations: Vec<Value>,
    /// Kueue's queue.
    pub(super) queue: Option<String>,
    pub(super) priority_class: Option<String>,
    pub(super) runtime_class: Option<String>,
    #[serde(default)]
    pub(super) image_pull_secrets: Vec<String>,
    /// How long a block may take.
    time: Option<Time>,
    /// How long a block may wait for a node.
    start_within: Option<Time>,
    /// What runs a run inside of its image.
    engine: Option<String>,
}

/// How long a block waits for a node where the profile does not say.
const START_WITHIN: Duration = Duration::from_hours(1);
/// What the keys of other GPUs begin with, such as MIG's.
const GPUS: &str = "nvidia.com/";

impl Profile {
    pub(super) fn read(path: &Path) -> Result<Self, YamlError> {
        Self::of(&Document::read(path)?)
    }

    fn of(document: &Document) -> Result<Self, YamlError> {
        let mut profile: Self = document.parse()?;
        let wrong = |key: &str, message: &str| Err(document.top().key(key).error(message, None));
        if profile.version != 1 {
            let found = profile.version;
            return wrong("version", &format!("{found} is unknown; expected 1"));
        }
        if profile.gpus > 0 && profile.resources.contains_key("nvidia.com/gpu") {
            return wrong(
                "gpus",
                "`resources` has nvidia.com/gpu as well; expected only one of them",
            );
        }
        let is_quantity = |value: &Value| value.is_string() || value.is_number();
        if !profile.resources.values().all(is_quantity) {
            return wrong("resources", "expected quantities, such as `memory: 64Gi`");
        }
        if !profile.tolerations.iter().all(Value::is_object) {
            return wrong(
                "tolerations",
                "expected a list of tolerations, as Pods have them",
            );
        }
        if profile.gpus > 0 {
            let gpus = profile.gpus.into();
            profile.resources.insert(format!("{GPUS}gpu"), gpus);
        }
        Ok(profile)
    }

    /// GPUs of a node that it asks for.
    pub(super) fn all_gpus(&self) -> u32 {
        // Pods have counts as text, too.
        let count = |value: &Value| {
            let text = value.as_str().and_then(|text| text.parse().ok());
            let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
            count.or(text).unwrap_or(1)
        };
        let gpus = self
            .resources
            .iter()
            .filter(|(key, _)| key.starts_with(GPUS));
        gpus.map(|(_, value)| count(value)).sum()
    }

    /// What a container gets, one that runs something with the GPUs.
    pub(super) fn container(&self, runs: bool) -> Map<String, Value> {
        let mut all = self.resources.clone();
        all.retain(|key, _| runs || !key.starts_with(GPUS));
        all
    }

    pub(super) fn time(&self) -> Option<Duration> {
        self.time.map(Duration::from)
    }

    pub(super) fn start_within(&self) -> Duration {
        self.start_within.map_or(START_WITHIN, Duration::from)
    }

    pub(super) fn engine(&self) -> &str {
        self.engine.as_deref().unwrap_or("process")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_strictly() {
        let read = |text: &str| {
            Profile::of(&Document::from_text("p.yaml", text).unwrap()).map_err(|e| e.to_string())
        };
        let profile = read(
            "version: 1\nprogram: r/torchgauge@sha256:1\ngpus: 2\ntime: 2h\n\
             resources: {cpu: 8, memory: 64Gi, nvidia.com/mig-1g.10gb: '1'}\n",
        )
        .unwrap();
        assert_eq!(profile.all_gpus(), 3);
        assert_eq!(profile.time(), Some(Duration::from_hours(2)));
        assert_eq!(profile.container(true).len(), 4);
        assert_eq!(profile.container(false).len(), 2);
        let refusals = [
            "version: 2\nprogram: x\n",
            "version: 1\n",
            "version: 1\nprogram: x\nnamespcae: a\n",
            "version: 1\nprogram: x\ntime: 90\n",
            "version: 1\nprogram: x\ngpus: 1\nresources: {nvidia.com/gpu: 1}\n",
            "version: 1\nprogram: x\nresources: {cpu: [1]}\n",
            "version: 1\nprogram: x\ntolerations: [gpu]\n",
        ]
        .map(|text| read(text).unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        p.yaml:1:10: version: 2 is unknown; expected 1
        p.yaml:1:1: (top level): the key `program` is missing; add it to the keys here
        p.yaml:3:1: namespcae: unknown key `namespcae`; expected one of version, program, context, namespace, gpus, resources, labels, node_selector, tolerations, queue, priority_class, runtime_class, image_pull_secrets, time, start_within, engine; did you mean `namespace`?
        p.yaml:3:7: time: the wrong kind of value: the number 90; expected a time with its unit, from 1ms to 7d, such as 90s or 5min
        p.yaml:3:7: gpus: `resources` has nvidia.com/gpu as well; expected only one of them
        p.yaml:3:13: resources: expected quantities, such as `memory: 64Gi`
        p.yaml:3:14: tolerations: expected a list of tolerations, as Pods have them
        ");
    }
}

//! What a container can go without where an engine refuses it.

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};

use crate::{
    facts::Product,
    spec::{ContainerSpec, Ulimit},
};

/// Something that the spec asked for as best effort and the engine refused, so
/// that the container goes without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// What was given up: `ulimits` (those of the spec), `default ulimits` (those that
    /// the engine sets by itself; this process's own are used) or `init`.
    pub what: String,
    pub reason: String,
}

/// Gives up what is best effort where the engine's words say that this stood in
/// the way; `None` where nothing can be given up any more.
pub(crate) fn fall_back(
    spec: &mut ContainerSpec,
    product: Product,
    given_up: &[Fallback],
    message: &str,
) -> Option<Fallback> {
    let words = message.to_lowercase();
    let is_new = |what: &str| given_up.iter().all(|fallback| fallback.what != what);
    let fallback = |what: &str| Fallback {
        what: what.to_owned(),
        reason: message.trim().to_owned(),
    };
    if words.contains("rlimit") || words.contains("ulimit") {
        // Podman raises two limits by itself, which a kernel refuses where the engine
        // runs inside of a container. What this process has, it can pass on.
        if product == Product::Podman && is_new(DEFAULT_ULIMITS) {
            let mut ulimits = own_ulimits(spec.limits.pids);
            ulimits.append(&mut spec.limits.ulimits);
            spec.limits.ulimits = ulimits;
            return Some(fallback(DEFAULT_ULIMITS));
        }
        if is_new(ULIMITS) && !spec.limits.ulimits.is_empty() {
            spec.limits.ulimits = match product {
                Product::Podman => own_ulimits(spec.limits.pids),
                Product::Docker => BTreeMap::new(),
            };
            return Some(fallback(ULIMITS));
        }
    }
    // Podman: "container-init binary not found on the host"; Docker: "exec:
    // "docker-init": executable file not found in $PATH".
    let no_init = words.contains("container-init")
        || words.contains("docker-init")
        || words.contains("catatonit");
    if is_new(INIT) && !spec.without_init && no_init {
        spec.without_init = true;
        return Some(fallback(INIT));
    }
    None
}

const ULIMITS: &str = "ulimits";
const DEFAULT_ULIMITS: &str = "default ulimits";
const INIT: &str = "init";

/// Limits on open files and processes, the two that Podman sets, that an engine on
/// this machine can be expected to be allowed: this process's own, and for
/// processes no more than the container may have anyway.
fn own_ulimits(pids: Option<u32>) -> BTreeMap<String, Ulimit> {
    let limit = |name: &str, resource, most: u32| {
        let own = getrlimit(resource);
        let value = |own: Option<u64>| {
            i64::from(own.map_or(most, |own| u32::try_from(own).unwrap_or(most).min(most)))
        };
        let (soft, hard) = (value(own.current), value(own.maximum));
        (name.to_owned(), Ulimit { soft, hard })
    };
    // 1048576 is what Podman asks for.
    let processes = pids.unwrap_or(1 << 20);
    [
        limit("nofile", Resource::Nofile, 1 << 20),
        limit("nproc", Resource::Nproc, processes),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every attempt with the same words, and collects what is given up.
    fn check(product: Product, message: &str, expect: &[&str], limits: &[&str]) {
        let mut spec = ContainerSpec {
            image: "image".into(),
            ..Default::default()
        };
        let unlimited = Ulimit { soft: -1, hard: -1 };
        spec.limits.ulimits.insert("memlock".into(), unlimited);
        let mut given_up = Vec::new();
        while let Some(fallback) = fall_back(&mut spec, product, &given_up, message) {
            given_up.push(fallback);
            assert!(given_up.len() < 5, "{given_up:?}");
        }
        let found: Vec<&str> = given_up.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(found, expect, "{message}");
        let names: Vec<&str> = spec.limits.ulimits.keys().map(String::as_str).collect();
        assert_eq!(names, limits, "{message}");
        assert_eq!(spec.without_init, found.contains(&"init"));
    }

    #[test]
    fn only_what_is_best_effort_is_given_up_and_only_once() {
        use Product::{Docker, Podman};
        let rlimits = "OCI runtime create failed: error setting rlimits for ready process: \
                       operation not permitted";
        check(Docker, rlimits, &["ulimits"], &[]);
        check(
            Podman,
            rlimits,
            &["default ulimits", "ulimits"],
            &["nofile", "nproc"],
        );
        let init = "container-init binary not found on the host: stat catatonit: no such file";
        check(Podman, init, &["init"], &["memlock"]);
        check(Docker, "No such image: x", &[], &["memlock"]);
        check(Docker, "", &[], &["memlock"]);
    }
}

//! What steps need where Slurm itself makes their containers, by `--container`: an OCI bundle for each
//! run, which the site's runtime starts. The node writes it before the step.

use std::collections::BTreeMap;

use engine::{ContainerSpec, ImageFacts, Mount};

use super::{
    super::{IMAGE_VARIABLE, nodes::inside::PROGRAM},
    queue::NO_STEP,
};

/// A home that can be written to.
const HOME: &str = "/tmp";

/// The bundle lies on the node: an overlay's folders must, and Slurm's daemon reads it as root.
pub(super) const FIRST: &str = "bundle=$(mktemp -d)/bundle || exit\n\
    trap 'clear; rmdir \"${bundle%/*}\"' EXIT\n";
pub(super) const OPTIONS: &str = "\"--container=$bundle\"";

/// What a step's script runs before `srun`.
pub(super) fn prepare() -> String {
    format!(
        "\"$program\" pod bundle \"${IMAGE_VARIABLE}\" \"$bundle\" \"$mounts\" \"$@\" &\n    \
         step=$!\n    \
         wait \"$step\" || {{ stop_if_ended; exit {NO_STEP}; }}\n    \
         stop_if_ended\n    "
    )
}

/// The words of a run's own for [`step_spec`].
pub(super) fn options(is_writable: bool, workdir: Option<&str>) -> Vec<String> {
    let workdir = workdir.map(|folder| format!("--workdir={folder}"));
    let writable = is_writable.then(|| "--writable".to_owned());
    workdir.into_iter().chain(writable).collect()
}

/// What a step's container is, with the mounts `SOURCE:TARGET[:ro],…`; without `workdir` it starts where
/// the image says.
pub fn step_spec(
    image: &ImageFacts,
    mounts: &str,
    workdir: Option<&str>,
    is_writable: bool,
) -> ContainerSpec {
    let mut environment = BTreeMap::from([("HOME".to_owned(), HOME.to_owned())]);
    let cache = "XDG_CACHE_HOME".to_owned();
    if !image.environment.contains_key(&cache) {
        environment.insert(cache, format!("{HOME}/.cache"));
    }
    ContainerSpec {
        entrypoint: Some(vec![format!("{PROGRAM}/torchgauge")]),
        environment,
        mounts: mounts.split(',').filter_map(bound).collect(),
        workdir: workdir.map(str::to_owned),
        is_root_writable: is_writable,
        ..ContainerSpec::default()
    }
}

/// `SOURCE:TARGET[:ro]`; nothing for nothing.
fn bound(words: &str) -> Option<Mount> {
    let (source, target) = words.split_once(':')?;
    let plain = target.strip_suffix(":ro");
    Some(Mount {
        source: source.into(),
        target: plain.unwrap_or(target).to_owned(),
        read_only: plain.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_mounts_and_a_home_and_the_image_s_cache() {
        let mut image = ImageFacts::default();
        let found = step_spec(&image, "/a:/b:ro,/c:/d,", None, true);
        let told = |mount: &Mount| (mount.source.clone(), mount.target.clone(), mount.read_only);
        let mounts: Vec<_> = found.mounts.iter().map(told).collect();
        let expected = [("/a", "/b", true), ("/c", "/d", false)]
            .map(|(source, target, is_ro)| (source.into(), target.to_owned(), is_ro));
        assert_eq!(mounts, expected);
        assert_eq!(found.environment["HOME"], "/tmp");
        assert_eq!(found.environment["XDG_CACHE_HOME"], "/tmp/.cache");
        let own = ("XDG_CACHE_HOME".to_owned(), "/c".to_owned());
        image.environment.extend([own]);
        let found = step_spec(&image, "", Some("/"), false);
        assert!(!found.environment.contains_key("XDG_CACHE_HOME"));
        assert!(found.mounts.is_empty());
    }
}

//! Runs that this program carries out inside of their images, where something else made the containers:
//! a Pod's, or that of a step of Slurm's.

use std::{
    env,
    path::{Path, PathBuf},
};

use super::super::ExecutorError;
use crate::{session::Part, suite::Program};

/// Says there which image a container is of.
pub const IMAGE_VARIABLE: &str = "TORCHGAUGE_IMAGE";
/// Says there what made the container of a step: [`Steps::word`].
pub(in crate::executors) const STEPS_VARIABLE: &str = "TORCHGAUGE_STEPS";
/// What is the session's there: locks, and a Pod's part.
pub(in crate::executors) const HOME: &str = "/torchgauge";
/// The folder of this program, which no image may write.
pub(in crate::executors) const PROGRAM: &str = "/program";

/// What made the container that this process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executors) enum Inside {
    Pod,
    Step(Steps),
}

/// What makes the containers of Slurm's steps, in the profile's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executors) enum Steps {
    Pyxis,
    /// Slurm itself, by the runtime in the site's `oci.conf`.
    Oci,
}

impl Steps {
    pub(in crate::executors) fn of(word: &str) -> Option<Self> {
        [Self::Pyxis, Self::Oci]
            .into_iter()
            .find(|steps| steps.word() == word)
    }

    pub(in crate::executors) fn word(self) -> &'static str {
        match self {
            Self::Pyxis => "pyxis",
            Self::Oci => "oci",
        }
    }

    pub(in crate::executors) fn name(self) -> &'static str {
        match self {
            Self::Pyxis => "Pyxis",
            Self::Oci => "Slurm's --container",
        }
    }

    pub(in crate::executors) fn container(self) -> &'static str {
        match self {
            Self::Pyxis => "a step of Pyxis",
            Self::Oci => "a step of Slurm's --container",
        }
    }
}

/// Where this process is, if it is in the image that a run is to have.
pub(in crate::executors) fn inside() -> Option<Inside> {
    env::var_os(IMAGE_VARIABLE)?;
    let steps = env::var(STEPS_VARIABLE).ok();
    let steps = steps.and_then(|word| Steps::of(&word));
    Some(steps.map_or(Inside::Pod, Inside::Step))
}

/// Refuses a part with an image that nodes might pull as different ones; `or` is another way than to
/// push it.
pub(in crate::executors) fn check_images(part: &Part, or: &str) -> Result<(), ExecutorError> {
    match part.runs.iter().find(|run| !run.image.contains("@sha256:")) {
        None => Ok(()),
        Some(run) => Err(ExecutorError::Argument(
            format!(
                "the image {} is not what every node would pull as the same; expected \
                 REGISTRY/REPOSITORY@sha256:DIGEST, as `images push` prints it{or}",
                run.image
            )
            .into(),
        )),
    }
}

/// Why no such container (`a Pod`) runs this program.
pub(in crate::executors) fn takes(program: &Program, container: &str) -> Result<(), String> {
    program.check_files()?;
    if !program.file.environment_files.is_empty() {
        return Err(format!(
            "{container} takes no variables of files; set those that are no secrets by `--env` or \
             `environment`, and bring the others in the image"
        ));
    }
    let is_taken = |target: &&str| {
        // By what it names, not by how it is written.
        let target: PathBuf = Path::new(target).components().collect();
        let own = [HOME, PROGRAM].iter().any(|own| target.starts_with(own));
        own || ["/", "/dev", "/dev/shm", "/tmp"]
            .iter()
            .any(|own| target == Path::new(own))
    };
    let mut targets = program.mounts.iter().map(|mount| mount.target.as_str());
    match targets.find(is_taken) {
        Some(target) => Err(format!(
            "{container} has {target} itself; mount to another target"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(in crate::executors) mod tests {
    use super::*;
    use crate::suite::{Launcher, ProgramFile, ProgramMount};

    pub(in crate::executors) fn program(mounts: &[(&Path, &str, bool)]) -> Program {
        let file = ProgramFile::new(vec!["python3".to_owned()]);
        let mount = |(source, target, is_scratch): &(&Path, &str, bool)| ProgramMount {
            source: source.to_path_buf(),
            target: (*target).to_owned(),
            is_scratch: *is_scratch,
        };
        Program {
            file,
            mounts: mounts.iter().map(mount).collect(),
            samples_per_step: None,
            launcher: Launcher::Torchgauge,
        }
    }

    #[test]
    fn what_a_pod_cannot_do_names_the_next_step() {
        let here = tempfile::tempdir().unwrap();
        let check = |target: &str| takes(&program(&[(here.path(), target, false)]), "a Pod");
        for target in ["/workspace", "/tmp/x", "/programs"] {
            check(target).unwrap();
        }
        let refusals = [
            "/tmp",
            "/program",
            "/dev/shm",
            "/program/torchgauge",
            "//tmp",
            "/tmp/.",
        ]
        .map(|target| check(target).unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        a Pod has /tmp itself; mount to another target
        a Pod has /program itself; mount to another target
        a Pod has /dev/shm itself; mount to another target
        a Pod has /program/torchgauge itself; mount to another target
        a Pod has //tmp itself; mount to another target
        a Pod has /tmp/. itself; mount to another target
        ");
        let mut secret = program(&[]);
        let file = here.path().join("secrets");
        std::fs::write(&file, "A=1\n").unwrap();
        secret.file.environment_files.push(file);
        let error = takes(&secret, "a Pod").unwrap_err();
        insta::assert_snapshot!(error.replace(here.path().to_str().unwrap(), "/here"), @"a Pod takes no variables of files; set those that are no secrets by `--env` or `environment`, and bring the others in the image");
    }
}

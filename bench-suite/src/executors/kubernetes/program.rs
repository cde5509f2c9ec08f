//! What programs of the user's need in Pods: their mounts, as files of a volume that the Pod's first
//! container fills.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    super::{ExecutorError, mounts::pack},
    job::{HOME, PROGRAM, name_of},
    parcel,
};
use crate::{
    session::{Due, Part},
    suite::Program,
};

/// The most that a `ConfigMap` may hold.
const MOST_PART: usize = 1 << 20;

/// Why no Pod runs this program.
pub(super) fn takes(program: &Program) -> Result<(), String> {
    program.check_files()?;
    if !program.file.environment_files.is_empty() {
        let refused = "a Pod takes no variables of files; set those that are no secrets by `--env` or \
                       `environment`, and bring the others in the image";
        return Err(refused.to_owned());
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
            "a Pod has {target} itself; mount to another target"
        )),
        None => Ok(()),
    }
}

/// The sources of all mounts, each once; by its place here it is found again.
pub(super) fn sources(runs: &[Due]) -> Vec<&Path> {
    let mut all = Vec::new();
    let programs = runs.iter().filter_map(|run| run.program.as_ref());
    for mount in programs.flat_map(|program| &program.mounts) {
        if !all.contains(&mount.source.as_path()) {
            all.push(mount.source.as_path());
        }
    }
    all
}

/// A part and the mounts of its programs, as a Pod gets them.
pub(super) fn archives(part: &Part) -> Result<[Vec<u8>; 2], ExecutorError> {
    let packed = parcel::of_part(&part.folder).and_then(|own| {
        let room = MOST_PART.checked_sub(own.len());
        let room = room.ok_or(io::ErrorKind::WriteZero)?;
        Ok([own, pack(&sources(&part.runs), room)?])
    });
    packed.map_err(|error| {
        let mut message = format!("cannot pack block {}: {error}", part.block);
        if error.kind() == io::ErrorKind::WriteZero {
            message = format!(
                "block {} takes more than {MOST_PART} bytes, packed, with its mounts, and a ConfigMap no more; mount a \
                 folder with less in it, or bring it in the image; without mounts, give fewer cells at once",
                part.block
            );
        }
        ExecutorError::Argument(message.into())
    })
}

/// The mounts of a run's container out of the volume `files`: a source as it is, or a copy of its
/// own, which comes second as `NUMBER:NAME`.
pub(super) fn mounts(run: &Due, sources: &[&Path]) -> (Vec<Value>, Vec<String>) {
    let (mut mounts, mut copies) = (Vec::new(), Vec::new());
    let program = run.program.iter();
    for (place, mount) in program.flat_map(|program| &program.mounts).enumerate() {
        let number = sources.iter().position(|source| *source == mount.source);
        let mut name = number.unwrap_or_default().to_string();
        if mount.is_scratch {
            let copy = format!("{}-{place}", name_of(run));
            copies.push(format!("{name}:{copy}"));
            name = copy;
        }
        mounts.push(json!({
            "name": "files",
            "mountPath": mount.target,
            "subPath": name,
            "readOnly": !mount.is_scratch,
        }));
    }
    (mounts, copies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{ProgramFile, ProgramMount};

    fn program(mounts: &[(&Path, &str, bool)]) -> Program {
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
            launcher: crate::suite::Launcher::Torchgauge,
        }
    }

    #[test]
    fn each_source_is_packed_once_and_each_copy_is_a_run_s_own() {
        let (one, other) = (Path::new("/one"), Path::new("/other"));
        let programs = [
            program(&[(one, "/a", false), (other, "/b", true)]),
            program(&[(other, "/c", false)]),
        ];
        let due = |program: &Program| Due {
            name: "0001-x".to_owned(),
            image: String::new(),
            program: Some(program.clone()),
        };
        let runs = programs.each_ref().map(due);
        let sources = sources(&runs);
        assert_eq!(sources, [one, other]);
        let (found, copies) = mounts(&runs[0], &sources);
        assert_eq!(copies, ["1:run-0001-1"]);
        let expected = [("/a", "0", true), ("/b", "run-0001-1", false)];
        for (mount, (target, name, is_kept)) in found.iter().zip(expected) {
            assert_eq!(mount["mountPath"], target);
            assert_eq!(mount["subPath"], name);
            assert_eq!(mount["readOnly"], is_kept);
        }
        assert_eq!(mounts(&runs[1], &sources).0[0]["subPath"], "1");
    }

    #[test]
    fn what_a_pod_cannot_do_names_the_next_step() {
        let here = tempfile::tempdir().unwrap();
        let check = |target: &str| takes(&program(&[(here.path(), target, false)]));
        for target in ["/workspace", "/tmp/x", "/programs"] {
            check(target).unwrap();
        }
        for target in [
            "/tmp",
            "/program",
            "/dev/shm",
            "/program/torchgauge",
            "//tmp",
            "/tmp/.",
        ] {
            let error = check(target).unwrap_err();
            assert!(error.contains("mount to another target"), "{error}");
        }
        let mut secret = program(&[]);
        let file = here.path().join("secrets");
        std::fs::write(&file, "A=1\n").unwrap();
        secret.file.environment_files.push(file);
        let error = takes(&secret).unwrap_err();
        assert!(error.contains("bring the others in the image"), "{error}");
    }
}

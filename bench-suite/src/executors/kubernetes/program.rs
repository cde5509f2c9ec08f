//! What programs of the user's need in Pods: their mounts, as files of a volume that the Pod's first
//! container fills.

use std::{io, path::Path};

use serde_json::{Value, json};

use super::{
    super::{ExecutorError, mounts::pack},
    job::name_of,
    parcel,
};
use crate::session::{Due, Part};

/// The most that a `ConfigMap` may hold.
const MOST_PART: usize = 1 << 20;

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
    use crate::{executors::nodes::inside::tests::program, suite::Program};

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
}

//! What reads outside input, one target each.

mod binaries;
mod documents;
mod holds;
mod sessions;

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::{
    Scratch,
    edit::{self, Material},
    seeds,
};

/// The run that event lines and run files are of.
pub(crate) const RUN: &str = "0001-b0-torch";

type Edit = fn(&[u8], u32, &Material, &mut ChaCha8Rng) -> Vec<u8>;

/// One parser of outside input.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it reads, in a few words.
    pub about: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    parts: fn(&[u8]) -> Vec<Value>,
    edit: Edit,
    check: fn(&[u8], &Scratch) -> Result<bool, String>,
}

impl Target {
    pub(crate) fn material(&self) -> Material {
        Material::of((self.seeds)(), self.parts)
    }

    pub(crate) fn edit(
        &self,
        start: &[u8],
        edits: u32,
        from: &Material,
        random: &mut ChaCha8Rng,
    ) -> Vec<u8> {
        (self.edit)(start, edits, from, random)
    }

    /// Has the parser read an input. Whether it was accepted, or what does not hold.
    pub(crate) fn check(&self, input: &[u8], scratch: &Scratch) -> Result<bool, String> {
        (self.check)(input, scratch)
    }
}

/// All targets.
#[must_use]
pub fn all() -> &'static [Target] {
    TARGETS
}

/// The target of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const TARGETS: &[Target] = &[
    Target {
        name: "suite",
        about: "suites: YAML, its limits, axes to cells, claims",
        seeds: seeds::suites,
        parts: yaml_parts,
        edit: edit::yaml::edit,
        check: documents::suite,
    },
    Target {
        name: "spec",
        about: "image specs",
        seeds: seeds::specs,
        parts: yaml_parts,
        edit: edit::yaml::edit,
        check: documents::spec,
    },
    Target {
        name: "lock",
        about: "image locks, most of them sealed again after the edit",
        seeds: seeds::locks,
        parts: json_parts,
        edit: edit_lock,
        check: documents::lock,
    },
    Target {
        name: "records",
        about: "lines of records.ndjson, of all versions",
        seeds: seeds::records,
        parts: lines_parts,
        edit: edit_lines,
        check: sessions::records,
    },
    Target {
        name: "session",
        about: "session folders: session.json and records.ndjson, repaired and written anew",
        seeds: seeds::session_folders,
        parts: folder_parts,
        edit: edit_folder,
        check: sessions::session,
    },
    Target {
        name: "report",
        about: "what is shown and judged of a session folder that could be read",
        seeds: seeds::session_folders,
        parts: folder_parts,
        edit: edit_folder,
        check: sessions::report,
    },
    Target {
        name: "csv",
        about: "series that `trend` imports, and the change points in them",
        seeds: seeds::series,
        parts: |_| Vec::new(),
        edit: edit::table::edit,
        check: sessions::csv,
    },
    Target {
        name: "ledger",
        about: "ledgers of regressions: TOML, entries that are there twice, conflict markers",
        seeds: seeds::ledgers,
        parts: |_| Vec::new(),
        edit: edit_lines,
        check: sessions::ledger,
    },
    Target {
        name: "event",
        about: "event lines of a workload",
        seeds: seeds::events,
        parts: lines_parts,
        edit: edit_lines,
        check: sessions::event,
    },
    Target {
        name: "run-file",
        about: "run files, as the workload reads them",
        seeds: seeds::run_files,
        parts: json_parts,
        edit: edit::json::edit,
        check: documents::run_file,
    },
    Target {
        name: "wheel",
        about: "wheels: the zip archive, its list, what is taken out",
        seeds: seeds::wheels,
        parts: |_| Vec::new(),
        edit: edit::zip::edit,
        check: binaries::wheel,
    },
    Target {
        name: "archive",
        about: "bases as tar archives: members, links, packages, the C library",
        seeds: seeds::archives,
        parts: |_| Vec::new(),
        edit: edit::tar::edit,
        check: binaries::archive,
    },
    Target {
        name: "image",
        about: "images as `docker image save` writes them: manifest, configuration, layers",
        seeds: seeds::saved_images,
        parts: image_parts,
        edit: edit::tar::edit_image,
        check: binaries::archive,
    },
    Target {
        name: "elf",
        about: "dynamic sections of shared libraries",
        seeds: seeds::libraries,
        parts: |_| Vec::new(),
        edit: edit::elf::edit,
        check: binaries::elf,
    },
];

fn json_parts(document: &[u8]) -> Vec<Value> {
    serde_json::from_slice(document).into_iter().collect()
}

fn yaml_parts(document: &[u8]) -> Vec<Value> {
    serde_yaml::from_slice(document).into_iter().collect()
}

fn lines_parts(document: &[u8]) -> Vec<Value> {
    document
        .split(|byte| *byte == b'\n')
        .flat_map(json_parts)
        .collect()
}

fn folder_parts(folder: &[u8]) -> Vec<Value> {
    folder
        .split(|byte| *byte == 0)
        .flat_map(lines_parts)
        .collect()
}

fn image_parts(_: &[u8]) -> Vec<Value> {
    let words = [
        "manifest.json",
        "config.json",
        "0/layer.tar",
        "1/layer.tar",
        "LD_PRELOAD=x",
    ];
    words.map(Value::from).into()
}

fn edit_lock(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let edited = edit::json::edit(document, edits, from, random);
    // With the old seal nothing behind the seal is reached.
    let value = serde_json::from_slice(&edited)
        .ok()
        .filter(|_| random.random_bool(0.8));
    let sealed = value.and_then(|value| images::fuzzing::sealed(&value));
    sealed.unwrap_or(edited)
}

fn edit_lines(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = document
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..edits {
        if lines.is_empty() {
            break;
        }
        let at = random.random_range(0..lines.len());
        match random.random_range(0..16) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = random.random_range(0..lines.len());
                lines.swap(at, other);
            }
            3 => {
                if let Some(other) = from.seeds.choose(random) {
                    lines.insert(at, other.clone());
                }
            }
            4 => drop(lines[at].pop()),
            _ => {
                let end = lines[at].ends_with(b"\n");
                lines[at] = edit::json::edit(&lines[at], 1, from, random);
                if end {
                    lines[at].push(b'\n');
                }
            }
        }
    }
    lines.concat()
}

fn edit_folder(folder: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let (session, records) = split(folder);
    let own = random.random_range(0..=edits);
    let mut edited = if own > 0 {
        edit::json::edit(session, own, from, random)
    } else {
        session.to_vec()
    };
    // The NUL stands between the two files and in neither.
    edited.retain(|byte| *byte != 0);
    edited.push(0);
    edited.extend(edit_lines(records, edits - own, from, random));
    edited
}

fn split(folder: &[u8]) -> (&[u8], &[u8]) {
    let middle = folder
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(folder.len());
    (
        &folder[..middle],
        folder.get(middle + 1..).unwrap_or_default(),
    )
}

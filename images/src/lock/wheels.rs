//! What a lock says of a libtorch out of wheels.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, Flavour, lock::plain_name};

/// A wheel: a Python package that carries libraries or headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package's name, such as `nvidia-cuda-runtime`.
    pub name: String,
    pub version: String,
    /// The file's name in the package index.
    pub file: String,
    pub size_bytes: u64,
    pub sha256: Digest,
}

/// One shared library out of a wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WheelLibrary {
    /// Its file name, by which others ask for it: `libc10.so`.
    pub name: String,
    /// The package of the wheel that holds it.
    pub wheel: String,
    /// Its path inside the wheel.
    pub path: String,
    pub size_bytes: u64,
    pub sha256: Digest,
}

/// A libtorch made of wheels: which, and which files of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WheelsLock {
    /// torch's version, such as `2.11.0`.
    pub version: String,
    /// With or without CUDA.
    pub flavour: Flavour,
    /// The flavour's full name, such as `2.11.0+cu130`.
    pub name: String,
    /// The wheels that hold the libraries, torch first.
    pub wheels: Vec<Wheel>,
    /// Wheels that only building against it needs.
    pub headers: Vec<Wheel>,
    /// What everything in the wheels that torch requires takes unpacked, also in those of which
    /// nothing is used.
    pub wheels_unpacked_bytes: u64,
    /// The libraries that programs load, sorted by name: these and no others go into an image.
    pub libraries: Vec<WheelLibrary>,
}

impl WheelsLock {
    /// All wheels, with those that only building needs.
    pub(crate) fn all_wheels(&self) -> impl Iterator<Item = &Wheel> {
        self.wheels.iter().chain(&self.headers)
    }

    /// The packages in an image: name without CUDA to version.
    pub(crate) fn packages(&self) -> BTreeMap<String, String> {
        let wheels = self.wheels.iter();
        wheels
            .map(|wheel| (plain_name(&wheel.name).to_owned(), wheel.version.clone()))
            .collect()
    }

    /// Why the libraries do not fit the wheels, where they do not.
    pub(super) fn unfit(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        self.libraries.iter().find_map(|library| {
            let name = &library.name;
            if !self.all_wheels().any(|wheel| wheel.name == library.wheel) {
                Some(format!(
                    "no wheel of it is {}, which `{name}` is to come from",
                    library.wheel
                ))
            } else if !seen.insert(name) {
                Some(format!("it names two libraries `{name}`"))
            } else {
                None
            }
        })
    }
}

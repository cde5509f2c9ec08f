//! What a lock says: everything that goes into an image, by version, size and hash.

pub(crate) mod changes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Digest, Error, Flavour, Result, atomic_write, canonical,
    error::at,
    lock::changes::{Change, changes},
};

/// The version of the format that this crate reads and writes.
pub const LOCK_VERSION: u32 = 2;

/// The end of a lock's file name, after the spec's name.
pub(crate) const LOCK_SUFFIX: &str = ".lock.json";

/// The only platform so far.
pub(crate) const PLATFORM: &str = "linux/amd64";

/// An image's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Torchgauge image lock")]
pub struct Lock {
    /// The format's version: 2.
    #[schemars(range(min = 2, max = 2))]
    pub version: u32,
    /// The image's name.
    pub image: String,
    /// Digest of the spec that it was made from.
    pub spec: Digest,
    /// Operating system and architecture, as engines write it.
    pub platform: String,
    /// What the scenario binary is built with.
    pub toolchain: Toolchain,
    /// What the image stands on.
    pub base: BaseLock,
    /// The libtorch in it.
    pub libtorch: LibtorchLock,
    /// What building it gave.
    pub expected: Expected,
    /// Digest of everything above, so that an edit by hand shows.
    pub seal: Digest,
}

/// What the scenario binary is built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The Rust compiler, in its own words.
    pub rust: String,
    /// The C++ compiler, in its own words.
    pub cxx: String,
    /// The linker, in its own words.
    pub linker: String,
    /// The C library that it is linked against, by its own name.
    pub libc: String,
    /// The version of the tch crate that fits libtorch.
    pub tch: String,
}

impl Toolchain {
    /// What is another one now.
    pub(crate) fn changes_to(&self, now: &Self) -> Vec<Change> {
        let tools = |one: &Self| {
            [
                ("Rust compiler", &one.rust),
                ("C++ compiler", &one.cxx),
                ("linker", &one.linker),
                ("C library", &one.libc),
                ("tch", &one.tch),
            ]
            .map(|(name, tool)| (name.to_owned(), tool.clone()))
            .into()
        };
        changes(&tools(self), &tools(now))
    }
}

/// A Debian package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebPackage {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The architecture that it is built for.
    pub architecture: String,
    /// The file's name in the archive.
    pub file: String,
    /// The file's size.
    pub size_bytes: u64,
    /// The file's digest.
    pub sha256: Digest,
}

/// What the image stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum BaseLock {
    /// These packages, unpacked.
    Debian(Vec<DebPackage>),
    /// An archive with this content.
    Archive(Digest),
    /// This image, by digest.
    Image(String),
}

/// The libtorch in the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum LibtorchLock {
    /// Out of wheels.
    Wheels(WheelsLock),
    /// Out of an installed PyTorch.
    Installed(InstalledLock),
}

impl LibtorchLock {
    /// The flavour's full name, such as `2.11.0+cu130`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Wheels(wheels) => &wheels.name,
            Self::Installed(installed) => &installed.name,
        }
    }

    /// The libraries: name, size in bytes, digest.
    #[must_use]
    pub fn libraries(&self) -> Box<dyn Iterator<Item = (&str, u64, Digest)> + '_> {
        match self {
            Self::Wheels(wheels) => Box::new(
                wheels
                    .libraries
                    .iter()
                    .map(|l| (l.name.as_str(), l.size_bytes, l.sha256)),
            ),
            Self::Installed(installed) => Box::new(
                installed
                    .libraries
                    .iter()
                    .map(|l| (l.name.as_str(), l.size_bytes, l.sha256)),
            ),
        }
    }
}

/// The libtorch of an installed PyTorch: the tree of files that programs load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstalledLock {
    /// torch's version.
    pub version: String,
    /// With or without CUDA.
    pub flavour: Flavour,
    /// The flavour's full name.
    pub name: String,
    /// The libraries that programs load, sorted by name.
    pub libraries: Vec<InstalledLibrary>,
}

/// One shared library of an installed PyTorch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstalledLibrary {
    /// Its file name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

/// What building the image gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The layers below the scenario binary, base first.
    pub layers: Vec<ExpectedLayer>,
    /// The image with the scenario binary on top; absent where none was built for the lock.
    pub image: Option<ExpectedImage>,
}

/// The whole image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedImage {
    /// The scenario binary's digest.
    pub scenario: Digest,
    /// Digest of the sources that it was compiled from; absent where it was given.
    pub sources: Option<Digest>,
    /// The layer with the scenario binary.
    pub layer: ExpectedLayer,
    /// The image's ID where the engine calls it by its configuration (Docker's graph drivers,
    /// Podman).
    pub config_id: Digest,
    /// The image's ID where the engine calls it by its manifest (Docker's containerd store).
    pub manifest_id: Digest,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedLayer {
    /// What is in it: `base`, `libtorch` or `scenario`.
    pub name: String,
    /// Its digest, uncompressed (`diff_id`).
    pub digest: Digest,
    /// Its size as a tar archive.
    pub size_bytes: u64,
}

impl Lock {
    /// The same lock with the seal that fits it.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.seal = self.seal_of_content();
        self
    }

    fn seal_of_content(&self) -> Digest {
        let unsealed = Self {
            seal: Digest::of(b""),
            ..self.clone()
        };
        Digest::of(canonical::json(&unsealed).as_bytes())
    }

    /// Reads the lock beside a spec; `None` where there is none.
    pub(crate) fn read_beside(spec: &Path, name: &str) -> Result<Option<Self>> {
        let file = spec.with_file_name(format!("{name}{LOCK_SUFFIX}"));
        match fs::read(&file) {
            Ok(json) => Self::from_json(&file, &json).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::BadLock {
                cause: error.to_string(),
                file,
            }),
        }
    }

    /// Reads a lock; one that was edited by hand or cut off is an error.
    pub fn from_json(file: &Path, json: &[u8]) -> Result<Self> {
        let bad = |cause: String| Error::BadLock {
            file: file.to_owned(),
            cause,
        };
        let value: serde_json::Value =
            serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        if value["version"] != LOCK_VERSION {
            return Err(bad(format!(
                "its version is {}, expected {LOCK_VERSION}",
                value["version"]
            )));
        }
        let lock: Self = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        if let Some(name) = lock.file_names().find(|name| !is_plain(name)) {
            return Err(bad(format!("`{name}` is no plain file name")));
        }
        if let LibtorchLock::Wheels(wheels) = &lock.libtorch
            && let Some(cause) = wheels.unfit()
        {
            return Err(bad(cause));
        }
        let seal = lock.seal_of_content();
        if seal != lock.seal {
            return Err(bad(format!(
                "it was edited by hand: its seal is {}, its content has {seal}",
                lock.seal
            )));
        }
        Ok(lock)
    }

    /// Names that become those of files in the cache and in images.
    fn file_names(&self) -> impl Iterator<Item = &str> {
        let debs = match &self.base {
            BaseLock::Debian(packages) => packages.as_slice(),
            BaseLock::Archive(_) | BaseLock::Image(_) => &[],
        };
        let wheels = match &self.libtorch {
            LibtorchLock::Wheels(wheels) => wheels.wheels.iter().chain(&wheels.headers),
            LibtorchLock::Installed(_) => [].iter().chain(&[]),
        };
        debs.iter()
            .map(|package| package.file.as_str())
            .chain(wheels.map(|wheel| wheel.file.as_str()))
            .chain(self.libtorch.libraries().map(|(name, ..)| name))
    }

    /// What another lock of the same spec has that this one does not.
    #[must_use]
    pub fn changes_to(&self, newer: &Self) -> Vec<Change> {
        changes(&self.packages(), &newer.packages())
    }

    /// Every package: name to version.
    pub(crate) fn packages(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        if let BaseLock::Debian(packages) = &self.base {
            found.extend(packages.iter().map(|p| (p.name.clone(), p.version.clone())));
        }
        if let LibtorchLock::Wheels(wheels) = &self.libtorch {
            found.extend(wheels.packages());
        }
        found
    }

    /// Writes the lock, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self).map_err(|e| at(file)(e.into()))?;
        json.push('\n');
        atomic_write::whole(file, |to| {
            io::Write::write_all(to, json.as_bytes()).map_err(at(file))
        })
    }

    /// The JSON Schema of locks.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Lock).to_value()
    }
}

/// A wheel: a Python package that carries libraries or headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package's name, such as `nvidia-cuda-runtime`.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The file's name in the package index.
    pub file: String,
    /// The file's size.
    pub size_bytes: u64,
    /// The file's digest.
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
    /// Its size.
    pub size_bytes: u64,
    /// Its digest.
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
    fn unfit(&self) -> Option<String> {
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

/// A package's name without its CUDA: those for CUDA 12 say so in their names, those for CUDA 13 do
/// not all.
pub(crate) fn plain_name(name: &str) -> &str {
    name.trim_end_matches("-cu12").trim_end_matches("-cu13")
}

/// Whether a name is one file's, and not a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

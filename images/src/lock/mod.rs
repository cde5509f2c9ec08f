//! What a lock says: everything that goes into an image, by version, size and hash.

mod base;
mod wheels;

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::Path,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strict_yaml::printable;

use crate::{Digest, Error, Flavour, Result, atomic_write, canonical, error::at};

pub use base::{BaseContents, BaseLock, BasePackage, DebPackage, PackageKind};
pub use wheels::{Wheel, WheelLibrary, WheelsLock};

pub const LOCK_VERSION: u32 = 4;

/// The end of a lock's file name, after the spec's name.
pub(crate) const LOCK_SUFFIX: &str = ".lock.json";

/// The only platform so far.
pub(crate) const PLATFORM: &str = "linux/amd64";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Torchgauge image lock")]
pub struct Lock {
    /// The format's version: 4.
    #[schemars(range(min = 4, max = 4))]
    pub version: u32,
    pub image: String,
    /// Digest of the spec that it was made from.
    pub spec: Digest,
    /// Operating system and architecture, as engines write it.
    pub platform: String,
    /// What the scenario binary is built with.
    pub toolchain: Toolchain,
    /// What the image stands on.
    pub base: BaseLock,
    /// What was found in a base that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<BaseContents>,
    pub libtorch: LibtorchLock,
    /// What building it gave.
    pub expected: Expected,
    /// Digest of everything above, so that an edit by hand shows.
    pub seal: Digest,
}

/// Every package of a base and a libtorch: name to version.
pub(crate) fn packages(
    base: &BaseLock,
    contents: Option<&BaseContents>,
    libtorch: &LibtorchLock,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if let BaseLock::Debian(packages) = base {
        found.extend(packages.iter().map(|p| (p.name.clone(), p.version.clone())));
    }
    if let LibtorchLock::Wheels(wheels) = libtorch {
        found.extend(wheels.packages());
    }
    // What goes on top hides what the base has.
    for (name, version) in contents.into_iter().flat_map(BaseContents::names) {
        found.entry(name).or_insert(version);
    }
    found
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum LibtorchLock {
    Wheels(WheelsLock),
    /// Out of an installed PyTorch.
    Installed(InstalledLock),
}

impl LibtorchLock {
    /// The flavour's full name, such as `2.11.0+cu130`.
    pub fn name(&self) -> &str {
        match self {
            Self::Wheels(wheels) => &wheels.name,
            Self::Installed(installed) => &installed.name,
        }
    }

    /// The libraries: name, size in bytes, digest.
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
    pub name: String,
    pub size_bytes: u64,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedImage {
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
    /// What a registry has the image under, and it is pulled by: the digest of the manifest with
    /// gzipped layers. Absent where nobody compressed them for the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_digest: Option<Digest>,
}

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
        let mut json = Vec::new();
        match regular_file::open_own(&file).and_then(|mut open| open.read_to_end(&mut json)) {
            Ok(_) => Self::from_json(&file, &json).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::bad_lock(&file, &error.to_string())),
        }
    }

    /// Reads a lock; one that was edited by hand or cut off is an error.
    pub fn from_json(file: &Path, json: &[u8]) -> Result<Self> {
        // It quotes the lock, which may be anybody's.
        let bad = |cause: String| Error::bad_lock(file, &printable(cause));
        let value: serde_json::Value =
            serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        let version = value["version"].as_u64().unwrap_or(0);
        if version != u64::from(LOCK_VERSION) {
            return Err(bad(format!(
                "its version is {version}, expected {LOCK_VERSION}"
            )));
        }
        let lock: Self = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
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

    /// The layers, base first, with that of the scenario binary where it is locked.
    pub fn layers(&self) -> impl Iterator<Item = &ExpectedLayer> {
        let top = self.expected.image.iter().map(|image| &image.layer);
        self.expected.layers.iter().chain(top)
    }

    /// The sum of the layers' sizes.
    pub fn size_bytes(&self) -> u64 {
        self.layers().map(|layer| layer.size_bytes).sum()
    }

    /// Writes the lock, whole or not at all.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self).map_err(|e| at(file)(e.into()))?;
        json.push('\n');
        atomic_write::whole(file, |to| {
            io::Write::write_all(to, json.as_bytes()).map_err(at(file))
        })
    }

    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Lock).to_value()
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

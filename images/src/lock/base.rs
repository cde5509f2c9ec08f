//! What a lock says of the base.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, lock::plain_name};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebPackage {
    pub name: String,
    pub version: String,
    /// The architecture that it is built for.
    pub architecture: String,
    pub file: String,
    pub size_bytes: u64,
    pub sha256: Digest,
}

/// What the image stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum BaseLock {
    /// These packages, unpacked.
    Debian(Vec<DebPackage>),
    Archive(Digest),
    Image(String),
}

/// What was found in a base that was given: nothing is pinned by it, the base's digest does that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaseContents {
    /// The distribution and its version, such as `ubuntu 24.04`.
    pub distribution: Option<String>,
    /// The packages, sorted.
    pub packages: Vec<BasePackage>,
}

/// A package that is installed in a base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BasePackage {
    pub kind: PackageKind,
    pub name: String,
    pub version: String,
    /// The architecture that it is built for, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    Deb,
    Rpm,
    Apk,
    Conda,
    /// pip, or another installer of Python packages.
    Pip,
    /// Anything else, such as NVIDIA's installer of CUDA.
    Generic,
}

impl PackageKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Apk => "apk",
            Self::Conda => "conda",
            Self::Pip => "pip",
            Self::Generic => "other",
        }
    }
}

impl BaseContents {
    /// The packages: name to version. A name that several have is told apart by what installed it.
    pub(crate) fn names(&self) -> BTreeMap<String, String> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for package in &self.packages {
            let name = match package.kind {
                PackageKind::Pip => plain_name(&package.name),
                _ => &package.name,
            };
            let version = &package.version;
            if found.get(name).is_none_or(|known| known == version) {
                found.insert(name.to_owned(), version.clone());
                continue;
            }
            let named = found.entry(format!("{name} ({})", package.kind.word()));
            named
                .and_modify(|known| {
                    if !known.split(", ").any(|one| one == version) {
                        known.push_str(", ");
                        known.push_str(version);
                    }
                })
                .or_insert_with(|| version.clone());
        }
        found
    }
}

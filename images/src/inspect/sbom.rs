//! A software bill of materials of an image, in the CycloneDX format, out of its lock.

use std::{collections::BTreeSet, io::Write as _, path::Path};

use serde::Serialize;

use crate::{
    Digest, Result, atomic_write, canonical,
    error::at,
    lock::{BaseContents, BaseLock, LibtorchLock, Lock, PackageKind},
};

/// What of `CycloneDX` 1.5 is written (<https://cyclonedx.org/docs/1.5/json>).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bom {
    #[serde(rename = "bomFormat")]
    format: &'static str,
    spec_version: &'static str,
    serial_number: String,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
}

#[derive(Serialize)]
struct Metadata {
    component: Component,
}

#[derive(Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(rename = "bom-ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
}

#[derive(Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

/// The bill of materials of a locked image as `CycloneDX` 1.5 JSON. The same lock gives the same
/// text.
#[must_use]
pub fn sbom(lock: &Lock) -> String {
    let name = lock.libtorch.name().to_owned();
    canonical::json(&Bom {
        format: "CycloneDX",
        spec_version: "1.5",
        serial_number: serial_number(lock.seal),
        version: 1,
        metadata: Metadata {
            component: Component::container(&lock.image, Some(name)),
        },
        components: components(lock),
    })
}

fn components(lock: &Lock) -> Vec<Component> {
    let mut found: Vec<Component> = match &lock.base {
        BaseLock::Debian(packages) => packages
            .iter()
            .map(|one| {
                let end = format!("?arch={}", one.architecture);
                Component::library(
                    "deb/debian",
                    &one.name,
                    &one.version,
                    &end,
                    Some(one.sha256),
                )
            })
            .collect(),
        BaseLock::Archive(digest) => {
            let (name, version) = ("base-archive", digest.to_string());
            vec![Component::library(
                "generic",
                name,
                &version,
                "",
                Some(*digest),
            )]
        }
        BaseLock::Image(reference) => vec![Component::container(reference, None)],
    };
    match &lock.libtorch {
        LibtorchLock::Wheels(wheels) => {
            found.extend(wheels.wheels.iter().map(|one| {
                Component::library("pypi", &one.name, &one.version, "", Some(one.sha256))
            }));
        }
        LibtorchLock::Installed(installed) => {
            found.extend(installed.libraries.iter().map(|one| {
                Component::library("generic", &one.name, &installed.name, "", Some(one.sha256))
            }));
        }
    }
    found.extend(lock.expected.image.iter().map(|image| {
        let version = image.scenario.short();
        Component::library(
            "generic",
            "torchgauge-scenario",
            &version,
            "",
            Some(image.scenario),
        )
    }));
    found.extend(lock.contents.iter().flat_map(inside));
    // A package may lie in the base twice, or in the base and in a layer on top.
    let mut seen = BTreeSet::new();
    found.retain(|one| one.reference.is_none() || seen.insert(one.reference.clone()));
    found
}

/// The packages of a base that was given, by their package URLs
/// (<https://github.com/package-url/purl-spec>).
fn inside(contents: &BaseContents) -> Vec<Component> {
    let distribution = contents.distribution.as_deref().unwrap_or_default();
    let (id, _) = distribution.split_once(' ').unwrap_or((distribution, ""));
    let mut found: Vec<Component> = Vec::new();
    for package in &contents.packages {
        let kind = match package.kind {
            PackageKind::Deb => format!("deb/{id}"),
            PackageKind::Rpm => format!("rpm/{id}"),
            PackageKind::Apk => format!("apk/{id}"),
            PackageKind::Conda => "conda".to_owned(),
            PackageKind::Pip => "pypi".to_owned(),
            PackageKind::Generic => "generic".to_owned(),
        };
        let name = match package.kind {
            PackageKind::Conda => "subdir",
            _ => "arch",
        };
        let end = match &package.architecture {
            Some(architecture) => format!("?{name}={architecture}"),
            None => String::new(),
        };
        let kind = kind.trim_end_matches('/');
        let component = Component::library(kind, &package.name, &package.version, &end, None);
        found.push(component);
    }
    found
}

/// Writes the bill of materials into a file, whole or not at all.
pub fn write_sbom(lock: &Lock, to: &Path) -> Result<()> {
    atomic_write::whole(to, |file| writeln!(file, "{}", sbom(lock)).map_err(at(to)))
}

/// A serial number that follows from the lock, as a version 8 UUID (RFC 9562).
fn serial_number(seal: Digest) -> String {
    let hex = seal.hex();
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..32]
    )
}

impl Component {
    fn container(name: &str, version: Option<String>) -> Self {
        Self {
            kind: "container",
            name: name.to_owned(),
            version,
            reference: None,
            purl: None,
            hashes: Vec::new(),
        }
    }

    /// A component by its package URL: `pkg:KIND/NAME@VERSION` and what follows it.
    fn library(kind: &str, name: &str, version: &str, end: &str, sha256: Option<Digest>) -> Self {
        let escaped = version.replace(':', "%3A").replace('+', "%2B");
        let purl = format!("pkg:{kind}/{name}@{escaped}{end}");
        Self {
            kind: "library",
            name: name.to_owned(),
            version: Some(version.to_owned()),
            reference: Some(purl.clone()),
            purl: Some(purl),
            hashes: sha256
                .into_iter()
                .map(|digest| Hash {
                    alg: "SHA-256",
                    content: digest.hex(),
                })
                .collect(),
        }
    }
}

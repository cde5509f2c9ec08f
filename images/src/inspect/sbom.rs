//! A software bill of materials of an image, in the CycloneDX format, out of its lock.

use std::{io::Write as _, path::Path, str::FromStr};

use cyclonedx_bom::prelude::*;
use cyclonedx_bom::{
    external_models::uri::Purl,
    models::{
        component::{Classification, Component, Components},
        hash::{Hash, HashAlgorithm, HashValue, Hashes},
        metadata::Metadata,
    },
};

use crate::{
    Digest, Error, Result, atomic_write, canonical,
    error::at,
    lock::{BaseLock, LibtorchLock, Lock},
};

/// The bill of materials of a locked image as `CycloneDX` 1.5 JSON. The same lock gives the same
/// text.
pub fn sbom(lock: &Lock) -> Result<String> {
    let failed = |cause: String| Error::Sbom {
        image: lock.image.clone(),
        cause,
    };
    let name = lock.libtorch.name();
    let about = Component::new(Classification::Container, &lock.image, name, None);
    let bom = Bom {
        serial_number: Some(serial_number(lock.seal).map_err(failed)?),
        metadata: Some(Metadata {
            component: Some(about),
            ..Metadata::default()
        }),
        components: Some(Components(components(lock))),
        ..Bom::default()
    };
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json)
        .map_err(|error| failed(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&json).map_err(|error| failed(error.to_string()))?;
    Ok(canonical::json(&value))
}

fn components(lock: &Lock) -> Vec<Component> {
    let mut found: Vec<Component> = match &lock.base {
        BaseLock::Debian(packages) => packages
            .iter()
            .map(|one| {
                let kind = format!("deb/debian/{}", one.name);
                let end = format!("?arch={}", one.architecture);
                component(&kind, &one.name, &one.version, &end, one.sha256)
            })
            .collect(),
        BaseLock::Archive(digest) => {
            let (name, version) = ("base-archive", digest.to_string());
            let mut base = component("generic/base-archive", name, &version, "", *digest);
            base.purl = Purl::from_str(&format!("pkg:generic/{name}@{version}")).ok();
            vec![base]
        }
        BaseLock::Image(reference) => {
            let mut base = Component::new(Classification::Container, reference, "", None);
            base.version = None;
            vec![base]
        }
    };
    match &lock.libtorch {
        LibtorchLock::Wheels(wheels) => found.extend(wheels.wheels.iter().map(|one| {
            let kind = format!("pypi/{}", one.name);
            component(&kind, &one.name, &one.version, "", one.sha256)
        })),
        LibtorchLock::Installed(installed) => found.extend(installed.libraries.iter().map(|one| {
            let kind = format!("generic/{}", one.name);
            component(&kind, &one.name, &installed.name, "", one.sha256)
        })),
    }
    if let Some(image) = &lock.expected.image {
        let (name, version) = ("torchgauge-scenario", image.scenario.short());
        let kind = format!("generic/{name}");
        found.push(component(&kind, name, &version, "", image.scenario));
    }
    found
}

/// Writes the bill of materials into a file, whole or not at all.
pub fn write_sbom(lock: &Lock, to: &Path) -> Result<()> {
    let text = sbom(lock)?;
    atomic_write::whole(to, |file| writeln!(file, "{text}").map_err(at(to)))
}

/// A serial number that follows from the lock, as a version 8 UUID (RFC 9562).
fn serial_number(seal: Digest) -> Result<UrnUuid, String> {
    let hex = seal.hex();
    UrnUuid::new(format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..32]
    ))
    .map_err(|error| format!("{error:?}"))
}

/// A component by its package URL, whose parts are the kind with the name, the version and what
/// follows it.
fn component(kind: &str, name: &str, version: &str, end: &str, sha256: Digest) -> Component {
    let escaped = version.replace(':', "%3A").replace('+', "%2B");
    let purl = format!("pkg:{kind}@{escaped}{end}");
    let mut component = Component::new(Classification::Library, name, version, Some(purl.clone()));
    component.purl = Purl::from_str(&purl).ok();
    component.hashes = Some(Hashes(vec![Hash {
        alg: HashAlgorithm::SHA_256,
        content: HashValue(sha256.hex()),
    }]));
    component
}

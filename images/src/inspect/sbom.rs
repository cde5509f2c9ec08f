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
    let mut components = Vec::new();
    match &lock.base {
        BaseLock::Debian(packages) => {
            for package in packages {
                let purl = format!(
                    "pkg:deb/debian/{}@{}?arch={}",
                    package.name,
                    package.version.replace(':', "%3A").replace('+', "%2B"),
                    package.architecture
                );
                components.push(component(
                    &package.name,
                    &package.version,
                    &purl,
                    package.sha256,
                ));
            }
        }
        BaseLock::Archive(digest) => {
            let purl = format!("pkg:generic/base-archive@{digest}");
            components.push(component(
                "base-archive",
                &digest.to_string(),
                &purl,
                *digest,
            ));
        }
        BaseLock::Image(reference) => {
            let mut base = Component::new(Classification::Container, reference, "", None);
            base.version = None;
            components.push(base);
        }
    }
    match &lock.libtorch {
        LibtorchLock::Wheels(wheels) => {
            for wheel in &wheels.wheels {
                let purl = format!(
                    "pkg:pypi/{}@{}",
                    wheel.name,
                    wheel.version.replace('+', "%2B")
                );
                components.push(component(&wheel.name, &wheel.version, &purl, wheel.sha256));
            }
        }
        LibtorchLock::Installed(installed) => {
            for library in &installed.libraries {
                let purl = format!(
                    "pkg:generic/{}@{}",
                    library.name,
                    installed.name.replace('+', "%2B")
                );
                components.push(component(
                    &library.name,
                    &installed.name,
                    &purl,
                    library.sha256,
                ));
            }
        }
    }
    if let Some(image) = &lock.expected.image {
        let version = image.scenario.short();
        let purl = format!("pkg:generic/torchgauge-scenario@{version}");
        components.push(component(
            "torchgauge-scenario",
            &version,
            &purl,
            image.scenario,
        ));
    }
    let about = Component::new(
        Classification::Container,
        &lock.image,
        lock.libtorch.name(),
        None,
    );
    let bom = Bom {
        serial_number: Some(serial_number(lock.seal).map_err(&failed)?),
        metadata: Some(Metadata {
            component: Some(about),
            ..Metadata::default()
        }),
        components: Some(Components(components)),
        ..Bom::default()
    };
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json)
        .map_err(|error| failed(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&json).map_err(|error| failed(error.to_string()))?;
    Ok(canonical::json(&value))
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

fn component(name: &str, version: &str, purl: &str, sha256: Digest) -> Component {
    let mut component = Component::new(
        Classification::Library,
        name,
        version,
        Some(purl.to_owned()),
    );
    component.purl = Purl::from_str(purl).ok();
    component.hashes = Some(Hashes(vec![Hash {
        alg: HashAlgorithm::SHA_256,
        content: HashValue(sha256.hex()),
    }]));
    component
}

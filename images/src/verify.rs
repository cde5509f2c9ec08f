//! Building an image once more from scratch, and comparing.

use std::{fs, io, path::Path, sync::Arc};

use serde::Serialize;

use crate::{
    Assembly, Digest, Image, Packed, Result,
    assembly::{assemble, sources::Sources},
    error::at,
    store::Cache,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The first build's ID (of its configuration).
    #[serde(rename = "config_id")]
    pub expected: Digest,
    /// The second build's ID (of its configuration).
    #[serde(rename = "second_config_id")]
    pub found: Digest,
    /// The layers, from the bottom up.
    pub layers: Vec<ComparedLayer>,
    /// The first difference, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// A layer's digest in both builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedLayer {
    pub name: String,
    pub first: Digest,
    pub second: Digest,
}

/// Where two builds of an image first differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The layer, `configuration`, or `manifest` of a registry.
    pub layer: String,
    /// What differs, in words.
    pub what: String,
}

impl Verification {
    /// Whether both builds gave the same image, to be pulled by the locked digest where there is
    /// one.
    pub fn is_identical(&self) -> bool {
        self.difference.is_none()
    }
}

/// Builds an image again from scratch and compares it with `first`, layer by layer.
///
/// "From scratch": an empty cache in another folder (downloaded packages are taken along and
/// hashed again), and the scenario binary compiled in a copy of the checkout's sources, unless
/// [`Sources::scenario_binary`] gives one. Compiling takes minutes.
pub fn verify(
    image: &Image,
    first: &Assembly,
    sources: &Sources,
    cache: &Cache,
) -> Result<Verification> {
    let scratch = cache.scratch()?;
    let second_cache = cache.with_downloads(&scratch.path().join("cache"))?;
    let mut second_sources = sources.clone();
    if sources.scenario_binary.is_none() {
        let checkout = scratch.path().join("checkout");
        copy_checkout(&sources.workspace, &checkout)?;
        second_sources.workspace = checkout;
        second_sources.target = scratch.path().join("target");
    }
    let second = assemble(image, &second_sources, &second_cache)?;
    let mut found = compare(first, &second);
    if found.is_identical() {
        found.difference = other_push_digest(first, second, &second_cache)?;
    }
    Ok(found)
}

/// Whether the second build has another push digest than the lock of the first one.
fn other_push_digest(
    first: &Assembly,
    second: Assembly,
    cache: &Cache,
) -> Result<Option<Difference>> {
    let image = first.lock.expected.image.as_ref();
    let Some(locked) = image.and_then(|image| image.push_digest) else {
        return Ok(None);
    };
    let found = Packed::new(&Arc::new(second), cache)?.digest();
    Ok((found != locked).then(|| Difference {
        layer: "manifest".to_owned(),
        what: format!("push digest {found}, locked {locked}"),
    }))
}

/// Compares two builds of an image.
fn compare(first: &Assembly, second: &Assembly) -> Verification {
    let layers = first
        .layers
        .iter()
        .zip(&second.layers)
        .map(|(a, b)| ComparedLayer {
            name: a.name.to_owned(),
            first: a.id.digest,
            second: b.id.digest,
        })
        .collect();
    Verification {
        expected: first.config_id,
        found: second.config_id,
        layers,
        difference: first_difference(first, second),
    }
}

fn first_difference(first: &Assembly, second: &Assembly) -> Option<Difference> {
    for (a, b) in first.layers.iter().zip(&second.layers) {
        if a.id.digest != b.id.digest {
            return Some(Difference {
                layer: a.name.to_owned(),
                what: format!("{} against {}", a.id.digest, b.id.digest),
            });
        }
    }
    let elsewhere = |what: &str| {
        Some(Difference {
            layer: "configuration".to_owned(),
            what: what.to_owned(),
        })
    };
    if first.layers.len() != second.layers.len() {
        elsewhere("the number of layers")
    } else if first.config_id != second.config_id {
        elsewhere("environment, labels or entry point")
    } else {
        None
    }
}

/// Copies the files of a checkout but for those that git ignores, and the large folders where there
/// is nothing of git's.
fn copy_checkout(from: &Path, to: &Path) -> Result<()> {
    let is_large = |entry: &ignore::DirEntry| {
        let large = ["target", ".git", "sessions"];
        entry.depth() == 1 && large.iter().any(|name| entry.file_name() == *name)
    };
    let mut walk = ignore::WalkBuilder::new(from);
    walk.hidden(false).parents(false).require_git(false);
    for entry in walk.filter_entry(move |entry| !is_large(entry)).build() {
        let entry = entry.map_err(|error| at(from)(io::Error::other(error)))?;
        let source = entry.path();
        let place = to.join(source.strip_prefix(from).unwrap_or(source));
        if source.is_dir() {
            fs::create_dir_all(&place).map_err(at(&place))?;
        } else if source.is_file() {
            fs::copy(source, &place).map_err(at(source))?;
        }
    }
    Ok(())
}

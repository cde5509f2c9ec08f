//! Building an image once more from scratch, and comparing.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use serde::Serialize;

use crate::{
    Assembly, Compression, Digest, Error, Image, Packed, Result,
    assembly::{Layer, assemble, sources::Sources},
    error::at,
    program,
    store::Cache,
};

/// What a second build gave.
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
    /// Its name.
    pub name: String,
    /// Of the first build.
    pub first: Digest,
    /// Of the second build.
    pub second: Digest,
}

/// Where two builds of an image first differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The layer, `configuration`, or `manifest` of a registry.
    pub layer: String,
    /// The file in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What differs, in words.
    pub what: String,
}

impl Verification {
    /// Whether both builds gave the same image, to be pulled by the locked digest where there is
    /// one.
    #[must_use]
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
    let mut found = compare(first, &second)?;
    if found.is_identical() {
        found.difference = other_push_digest(first, second, &second_cache)?;
    }
    Ok(found)
}

/// How the second build would be pulled by another digest than the first one's lock says.
fn other_push_digest(
    first: &Assembly,
    second: Assembly,
    cache: &Cache,
) -> Result<Option<Difference>> {
    let image = first.lock.expected.image.as_ref();
    let Some(locked) = image.and_then(|image| image.push_digest) else {
        return Ok(None);
    };
    let found = Packed::new(&Arc::new(second), Compression::Gzip, cache)?.digest();
    Ok((found != locked).then(|| Difference {
        layer: "manifest".to_owned(),
        file: None,
        what: format!("it would be pulled by {found}, and its lock says {locked}"),
    }))
}

/// Compares two builds of an image.
pub(crate) fn compare(first: &Assembly, second: &Assembly) -> Result<Verification> {
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
    Ok(Verification {
        expected: first.config_id,
        found: second.config_id,
        layers,
        difference: first_difference(first, second)?,
    })
}

fn first_difference(first: &Assembly, second: &Assembly) -> Result<Option<Difference>> {
    for (a, b) in first.layers.iter().zip(&second.layers) {
        if a.id.digest != b.id.digest {
            return difference_in_layer(a, b).map(Some);
        }
    }
    let elsewhere = |what: &str| {
        Some(Difference {
            layer: "configuration".to_owned(),
            file: None,
            what: what.to_owned(),
        })
    };
    Ok(if first.layers.len() != second.layers.len() {
        elsewhere("the number of layers")
    } else if first.config_id != second.config_id {
        elsewhere("environment, labels or entry point")
    } else {
        None
    })
}

fn difference_in_layer(a: &Layer, b: &Layer) -> Result<Difference> {
    let (files_a, files_b) = (files_of(a)?, files_of(b)?);
    let difference = |file: &str, what: String| Difference {
        layer: a.name.to_owned(),
        file: Some(format!("/{file}")),
        what,
    };
    for (file, in_a) in &files_a {
        match files_b.get(file) {
            None => return Ok(difference(file, "only the first build has it".to_owned())),
            Some(in_b) if in_b != in_a => {
                return Ok(difference(file, format!("{in_a} against {in_b}")));
            }
            Some(_) => {}
        }
    }
    if let Some(file) = files_b.keys().find(|file| !files_a.contains_key(*file)) {
        return Ok(difference(file, "only the second build has it".to_owned()));
    }
    Ok(Difference {
        layer: a.name.to_owned(),
        file: None,
        what: "no file now: one was changed after the first build had hashed it, and kept its \
               size, time and inode"
            .to_owned(),
    })
}

/// Each of a layer's entries: path to what it is.
fn files_of(layer: &Layer) -> Result<BTreeMap<String, String>> {
    let mut file = tempfile::tempfile().map_err(at(Path::new("temporary file")))?;
    let failed = |error| at(Path::new(layer.name))(error);
    layer.source.write(layer.id.size_bytes, &mut file)?;
    std::io::Seek::rewind(&mut file).map_err(failed)?;
    let mut archive = tar::Archive::new(std::io::BufReader::with_capacity(1 << 20, file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let header = entry.header();
        let kind = header.entry_type();
        let mode = header.mode().map_err(failed)?;
        let link = entry
            .link_name_bytes()
            .map(|link| String::from_utf8_lossy(&link).into_owned());
        let content = Digest::of_reader(entry.by_ref(), |_| {}).map_err(failed)?;
        let what = match link {
            Some(link) => format!("a link to {link}"),
            None if kind.is_dir() => format!("a folder with mode {mode:o}"),
            None => format!("{content} with mode {mode:o}"),
        };
        files.insert(path, what);
    }
    Ok(files)
}

/// Copies the files that git knows or would add, or everything but the large folders where the
/// checkout is none of git's.
fn copy_checkout(from: &Path, to: &Path) -> Result<()> {
    for file in checkout_files(from)? {
        let (source, place) = (from.join(&file), to.join(&file));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        // A file that was deleted and not committed yet is still on git's list.
        if source.is_file() {
            fs::copy(&source, &place).map_err(at(&source))?;
        }
    }
    Ok(())
}

fn checkout_files(from: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(from).args([
        "-c",
        "core.quotePath=false",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    if let Ok(list) = program::output(&mut git, "list the checkout's files", "") {
        return Ok(list.lines().map(PathBuf::from).collect());
    }
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let absolute = from.join(&folder);
        for entry in fs::read_dir(&absolute).map_err(at(&absolute))? {
            let entry = entry.map_err(at(&absolute))?;
            let relative = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(at(&absolute))?;
            if kind.is_dir() {
                let large = ["target", ".git", "sessions"]
                    .iter()
                    .any(|name| relative == Path::new(name));
                if !large {
                    folders.push(relative);
                }
            } else if kind.is_file() {
                files.push(relative);
            }
        }
    }
    if files.is_empty() {
        return Err(Error::Io {
            path: from.to_owned(),
            source: std::io::Error::other("there is no file in the checkout"),
        });
    }
    Ok(files)
}

//! What an image stands on: the few packages that libtorch needs below it, or an archive.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tar::EntryType;

use crate::{
    Digest, Error, Glibc, Result, apt,
    cache::{Cache, read_note},
    canonical,
    digest::HashingWriter,
    elf::Dynamic,
    error::at,
    layer::{LayerId, Node, Source, Tree},
    lock::{BaseLock, DebPackage},
    program,
    progress::{Action, Progress},
    spec::Base,
};

/// The packages of a Debian base: the C library, the C++ runtime, what libtorch and NVIDIA's
/// libraries link besides, and the names and folders that programs expect.
pub(crate) const PACKAGES: [&str; 7] = [
    "base-files",
    "libc-bin",
    "libc6",
    "libgcc-s1",
    "libgomp1",
    "libstdc++6",
    "zlib1g",
];

/// Folders that nothing in the image reads: documentation, character sets and locales that
/// iostreams do not use, tools of the C library.
const LEFT_OUT: [&str; 8] = [
    "usr/share/",
    "usr/bin/",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/lib/x86_64-linux-gnu/audit/",
    "usr/lib/locale/",
    "usr/libexec/",
    "etc/update-motd.d/",
    "etc/skel/",
];

/// Changes whenever the same packages would give another base.
const FORMAT: u32 = 1;

/// One layer of a base.
#[derive(Debug, Clone)]
pub(crate) struct BaseLayer {
    pub(crate) id: LayerId,
    pub(crate) source: Source,
}

/// A base that is ready to be built on.
#[derive(Debug, Clone)]
pub(crate) struct ReadyBase {
    pub(crate) layers: Vec<BaseLayer>,
    pub(crate) lock: BaseLock,
    /// Its libc's version, where it has one that can be read.
    pub(crate) glibc: Option<Glibc>,
    /// File names of its shared libraries.
    pub(crate) libraries: BTreeSet<String>,
    /// Environment that comes with it.
    pub(crate) environment: Vec<String>,
}

/// Makes a base ready. With a lock nothing but what it names is used.
pub(crate) fn ready(
    base: &Base,
    lock: Option<&BaseLock>,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<ReadyBase> {
    match (base, lock) {
        (Base::Debian, Some(BaseLock::Debian(packages))) => debian(packages, cache, progress),
        (Base::Debian, _) => debian(&apt::resolve(&PACKAGES, cache, progress)?, cache, progress),
        (Base::Archive(file), lock) => {
            let ready = archive(file, cache, progress)?;
            if let (Some(BaseLock::Archive(expected)), BaseLock::Archive(found)) =
                (lock, &ready.lock)
                && expected != found
            {
                return Err(Error::WrongHash {
                    what: format!("the base archive {}", file.display()),
                    expected: *expected,
                    found: *found,
                    next: "restore the archive, or lock the image anew",
                });
            }
            Ok(ready)
        }
        (Base::Image(reference), _) => Err(Error::BadBase {
            file: PathBuf::from(reference),
            cause: "layers are not read out of an engine".to_owned(),
            next: "save the image (`docker image save --output FILE REFERENCE`, uncompressed layers) \
                   and write `base: {archive: FILE}`",
        }),
    }
}

/// What is known of a base archive without reading it again.
#[derive(serde::Serialize, serde::Deserialize)]
struct Known {
    layers: Vec<(LayerId, u64)>,
    digest: Digest,
    glibc: Option<(u32, u32)>,
    libraries: BTreeSet<String>,
    environment: Vec<String>,
}

/// Unpacks packages into one layer, kept in the cache as a tar archive of its own.
fn debian(packages: &[DebPackage], cache: &Cache, progress: &dyn Progress) -> Result<ReadyBase> {
    let key = Digest::of(canonical::json(&(FORMAT, packages)).as_bytes());
    let place = cache
        .folder("bases")
        .join(format!("debian-{}.tar", key.short()));
    let _lock = cache.lock(&format!("base-{}", key.short()), progress)?;
    if !place.exists() {
        let debs = apt::fetch(packages, cache, progress)?;
        let _meter = progress.start(Action::Unpack, "Debian base", None);
        let mut tree = skeleton();
        for deb in &debs {
            unpack_deb(deb, &mut tree)?;
        }
        write_archive(&tree, &place, cache)?;
    }
    let mut ready = archive(&place, cache, progress)?;
    ready.lock = BaseLock::Debian(packages.to_vec());
    Ok(ready)
}

/// Writes the Debian base of this machine as an archive that other machines can build on.
pub fn write_debian_base(to: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Digest> {
    let ready = ready(&Base::Debian, None, cache, progress)?;
    let Some(BaseLayer {
        source: Source::Part { file, .. },
        id,
    }) = ready.layers.first()
    else {
        return Err(Error::BadBase {
            file: to.to_owned(),
            cause: "the base has no layer".to_owned(),
            next: "run again",
        });
    };
    let folder = to
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut aside = tempfile::NamedTempFile::new_in(folder).map_err(at(folder))?;
    let mut from = File::open(file).map_err(at(file))?;
    io::copy(&mut from, &mut aside).map_err(at(to))?;
    aside.persist(to).map_err(|error| at(to)(error.error))?;
    Ok(id.digest)
}

fn write_archive(tree: &Tree, place: &Path, cache: &Cache) -> Result<()> {
    let scratch = cache.scratch()?;
    let aside = scratch.path().join("base.tar");
    let mut writer = HashingWriter::new(File::create(&aside).map_err(at(&aside))?);
    tree.write(&mut writer)?;
    let (_, digest, _) = writer.finish();
    fs::rename(&aside, place).map_err(at(place))?;
    cache.remember_digest(place, digest)
}

/// The merged `/usr` that Debian has had since 12, whatever the packages still carry.
fn skeleton() -> Tree {
    let mut tree = Tree::default();
    for name in ["bin", "lib", "lib64", "sbin"] {
        tree.insert(&format!("usr/{name}"), Node::Folder { mode: 0o755 });
        tree.insert(
            name,
            Node::Link {
                target: format!("usr/{name}"),
            },
        );
    }
    for name in ["dev", "etc", "proc", "root", "run", "sys", "var"] {
        tree.insert(name, Node::Folder { mode: 0o755 });
    }
    tree.insert("tmp", Node::Folder { mode: 0o1777 });
    tree
}

/// Where a path of a package lies in the image; `None` where it is left out.
fn place_of(path: &str) -> Option<String> {
    let path = path.trim_start_matches("./").trim_matches('/');
    let merged = ["bin", "lib", "lib64", "sbin"]
        .iter()
        .find(|name| path == **name || path.starts_with(&format!("{name}/")));
    let path = if merged.is_some() {
        format!("usr/{path}")
    } else {
        path.to_owned()
    };
    let left_out = LEFT_OUT
        .iter()
        .any(|folder| format!("{path}/").starts_with(folder));
    (!path.is_empty() && !left_out).then_some(path)
}

fn unpack_deb(deb: &Path, tree: &mut Tree) -> Result<()> {
    let bad = |cause: String| Error::BadBase {
        file: deb.to_owned(),
        cause,
        next: "delete it, so that the next build fetches it anew",
    };
    let mut command = Command::new("dpkg-deb");
    command.arg("--fsys-tarfile").arg(deb);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| Error::NoProgram {
            program: "dpkg-deb".to_owned(),
            purpose: "unpack Debian packages",
            source,
            next: "give a base archive (`--base-archive FILE`)",
        })?;
    let unpacked = match child.stdout.take() {
        Some(output) => unpack_tar(output, tree),
        None => Ok(()),
    };
    let output = child.wait_with_output().map_err(at(deb))?;
    if !output.status.success() {
        return Err(bad(String::from_utf8_lossy(&output.stderr)
            .trim()
            .to_owned()));
    }
    unpacked.map_err(|error| bad(error.to_string()))
}

fn unpack_tar(from: impl Read, tree: &mut Tree) -> io::Result<()> {
    let mut archive = tar::Archive::new(BufReader::new(from));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Some(place) = place_of(&path) else {
            continue;
        };
        let mode = entry.header().mode()? & 0o7777;
        let link = entry
            .link_name_bytes()
            .map(|name| String::from_utf8_lossy(&name).into_owned());
        match entry.header().entry_type() {
            // The merged folders and what the skeleton says stay.
            EntryType::Directory if tree.contains(&place) => {}
            EntryType::Directory => tree.insert(&place, Node::Folder { mode }),
            EntryType::Symlink => {
                tree.insert(
                    &place,
                    Node::Link {
                        target: link.unwrap_or_default(),
                    },
                );
            }
            EntryType::Link => {
                // Sorting may put a hard link before what it links to: a copy is always right.
                let original = link.as_deref().and_then(place_of);
                let original = original.and_then(|path| tree.get(&path).cloned());
                tree.insert(
                    &place,
                    original.ok_or_else(|| io::Error::other("a hard link to nothing"))?,
                );
            }
            EntryType::Regular => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                tree.insert(&place, Node::Bytes { content, mode });
            }
            _ => {}
        }
    }
    Ok(())
}

/// A root file system as a tar archive, or an image archive with such layers, used as it lies.
fn archive(file: &Path, cache: &Cache, progress: &dyn Progress) -> Result<ReadyBase> {
    if !file.is_file() {
        return Err(bad_archive(file, "there is no such file"));
    }
    let digest = cache.digest_of(file, progress)?;
    let note = cache.note_path("layers", format!("base {FORMAT} {digest}").as_bytes());
    let known = if let Some(known) = read_note::<Known>(&note) {
        known
    } else {
        let known = look_into(file, digest)?;
        cache.write_note(&note, &known)?;
        known
    };
    Ok(ReadyBase {
        layers: known
            .layers
            .into_iter()
            .map(|(id, offset)| BaseLayer {
                id,
                source: Source::Part {
                    file: file.to_owned(),
                    offset,
                },
            })
            .collect(),
        lock: BaseLock::Archive(known.digest),
        glibc: known.glibc.map(|(major, minor)| Glibc { major, minor }),
        libraries: known.libraries,
        environment: known.environment,
    })
}

fn bad_archive(file: &Path, cause: impl std::fmt::Display) -> Error {
    Error::BadBase {
        file: file.to_owned(),
        cause: cause.to_string(),
        next: "give an uncompressed tar archive of a root file system or of an image \
               (`docker image save`, uncompressed)",
    }
}

fn look_into(file: &Path, digest: Digest) -> Result<Known> {
    let size_bytes = fs::metadata(file).map_err(at(file))?.len();
    let mut members = BTreeMap::new();
    let mut archive = tar::Archive::new(File::open(file).map_err(at(file))?);
    for entry in archive
        .entries_with_seek()
        .map_err(|e| bad_archive(file, e))?
    {
        let entry = entry.map_err(|e| bad_archive(file, e))?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        members.insert(path, (entry.raw_file_position(), entry.size()));
    }
    let mut known = Known {
        layers: Vec::new(),
        digest,
        glibc: None,
        libraries: BTreeSet::new(),
        environment: Vec::new(),
    };
    if members.contains_key("manifest.json") {
        image_layers(file, &members, &mut known)?;
    } else {
        known.layers.push((LayerId { digest, size_bytes }, 0));
    }
    for (id, offset) in known.layers.clone() {
        scan_layer(file, offset, id.size_bytes, &mut known).map_err(|e| bad_archive(file, e))?;
    }
    if known.libraries.is_empty() {
        return Err(bad_archive(
            file,
            "no shared library is in it, not even the C library",
        ));
    }
    Ok(known)
}

/// One image of `docker image save`'s manifest.json.
#[derive(serde::Deserialize)]
struct SavedImage {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

fn image_layers(
    file: &Path,
    members: &BTreeMap<String, (u64, u64)>,
    known: &mut Known,
) -> Result<()> {
    let read = |name: &str| -> Result<Vec<u8>> {
        let (offset, size) = members
            .get(name)
            .ok_or_else(|| bad_archive(file, format!("`{name}` is missing")))?;
        let mut part = crate::layer::ExactFile::part(file, *offset, *size).map_err(at(file))?;
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes)
            .map_err(|e| bad_archive(file, e))?;
        Ok(bytes)
    };
    let images: Vec<SavedImage> =
        serde_json::from_slice(&read("manifest.json")?).map_err(|e| bad_archive(file, e))?;
    let [image] = images.as_slice() else {
        return Err(bad_archive(
            file,
            format!("it holds {} images, expected one", images.len()),
        ));
    };
    let config: oci_spec::image::ImageConfiguration =
        serde_json::from_slice(&read(&image.config)?).map_err(|e| bad_archive(file, e))?;
    known.environment = config
        .config()
        .as_ref()
        .and_then(|config| config.env().clone())
        .unwrap_or_default();
    let expected = config.rootfs().diff_ids();
    if expected.len() != image.layers.len() {
        return Err(bad_archive(
            file,
            "its configuration and its manifest disagree on the layers",
        ));
    }
    for (layer, expected) in image.layers.iter().zip(expected) {
        let (offset, size_bytes) = *members
            .get(layer)
            .ok_or_else(|| bad_archive(file, format!("`{layer}` is missing")))?;
        let part = crate::layer::ExactFile::part(file, offset, size_bytes).map_err(at(file))?;
        let digest = Digest::of_reader(part, |_| {}).map_err(|e| bad_archive(file, e))?;
        if digest.to_string() != *expected {
            return Err(bad_archive(
                file,
                format!(
                    "layer `{layer}` is {digest}, expected {expected}: compressed layers are not read"
                ),
            ));
        }
        known.layers.push((LayerId { digest, size_bytes }, offset));
    }
    Ok(())
}

/// Notes the libraries of a layer, and its libc's version.
fn scan_layer(file: &Path, offset: u64, size_bytes: u64, known: &mut Known) -> io::Result<()> {
    let part = crate::layer::ExactFile::part(file, offset, size_bytes)?;
    let mut archive = tar::Archive::new(BufReader::new(part));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_loader = name.starts_with("ld-linux");
        if !is_loader && !crate::wheel::is_library(&name) {
            continue;
        }
        if name == "libc.so.6" && entry.header().entry_type() == EntryType::Regular {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            let dynamic = Dynamic::of_bytes(&path, &bytes).map_err(io::Error::other)?;
            known.glibc = dynamic
                .glibc_offered
                .map(|glibc| (glibc.major, glibc.minor));
        }
        known.libraries.insert(name);
    }
    Ok(())
}

/// Makes sure that the tools of a Debian base are here: for `doctor`.
pub fn check_debian_tools() -> Result<()> {
    for tool in ["apt-get", "dpkg-deb"] {
        program::output(
            Command::new(tool).arg("--version"),
            "make the Debian base of images",
            "install apt and dpkg, or give a base archive (`--base-archive FILE`)",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_merged_into_usr_and_documentation_is_left_out() {
        let check = |path: &str, expect: Option<&str>| {
            assert_eq!(place_of(path).as_deref(), expect, "{path}");
        };
        check(
            "./lib/x86_64-linux-gnu/libc.so.6",
            Some("usr/lib/x86_64-linux-gnu/libc.so.6"),
        );
        check(
            "./lib64/ld-linux-x86-64.so.2",
            Some("usr/lib64/ld-linux-x86-64.so.2"),
        );
        check(
            "./usr/lib/x86_64-linux-gnu/libz.so.1",
            Some("usr/lib/x86_64-linux-gnu/libz.so.1"),
        );
        check("./libx/y", Some("libx/y"));
        check("./usr/share/doc/libc6/copyright", None);
        check("./usr/share", None);
        check("./", None);
    }

    #[test]
    fn a_package_that_is_none_is_named_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let deb = folder.path().join("libc6_1_amd64.deb");
        for content in ["", "!<arch>\ndebian-binary   cut off"] {
            fs::write(&deb, content).unwrap();
            let error = unpack_deb(&deb, &mut Tree::default())
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("libc6_1_amd64.deb") && error.contains("delete it"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_archive_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let check = |name: &str, content: Option<&[u8]>, expect: &str| {
            let file = folder.path().join(name);
            if let Some(content) = content {
                fs::write(&file, content).unwrap();
            }
            let error = archive(&file, &cache, &crate::progress::Silent)
                .unwrap_err()
                .to_string();
            assert!(error.contains(name) && error.contains(expect), "{error}");
        };
        check("absent.tar", None, "there is no such file");
        check("noise.tar", Some(&[7; 2048]), "uncompressed tar");
        check("empty.tar", Some(&[0; 1024]), "not even the C library");
    }
}

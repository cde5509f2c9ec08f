//! The Debian base: a few packages, unpacked into one layer.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tar::EntryType;

use super::{archive::archive, ready::ReadyBase};
use crate::{
    Digest, Error, Result,
    base::apt,
    canonical,
    error::at,
    lock::{BaseLock, DebPackage},
    oci::layer::{Node, Tree},
    program,
    progress::Action,
    store::Cache,
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

/// Where the base made of these packages lies in the cache.
pub(crate) fn debian_place(packages: &[DebPackage], cache: &Cache) -> PathBuf {
    let key = Digest::of(canonical::json(&(FORMAT, packages)).as_bytes()).short();
    cache.folder("bases").join(format!("debian-{key}.tar"))
}

/// Unpacks packages into one layer, kept in the cache as a tar archive of its own.
pub(super) fn debian(packages: &[DebPackage], cache: &Cache) -> Result<ReadyBase> {
    let place = debian_place(packages, cache);
    if !place.is_file() {
        let debs = apt::fetch(packages, cache)?;
        let _meter = cache.start(Action::Unpack, "Debian base", None);
        let mut tree = skeleton();
        for deb in &debs {
            unpack_deb(deb, &mut tree).inspect_err(|_| drop(fs::remove_file(deb)))?;
        }
        let scratch = cache.scratch()?;
        let aside = scratch.path().join("base.tar");
        tree.write(File::create(&aside).map_err(at(&aside))?)?;
        fs::rename(&aside, &place).map_err(at(&place))?;
    }
    let mut ready = archive(&place, cache)?;
    ready.lock = BaseLock::Debian(packages.to_vec());
    ready.contents = None;
    Ok(ready)
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
    let bad = |cause: &str| Error::bad_base(deb, cause, "it was removed from the cache: run again");
    let mut command = Command::new("dpkg-deb");
    command.arg("--fsys-tarfile").arg(deb);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| {
            let next = "give a base archive (`--base-archive FILE`)";
            program::absent(&command, "unpack Debian packages", &source, next)
        })?;
    let unpacked = match child.stdout.take() {
        Some(output) => unpack_tar(output, tree),
        None => Ok(()),
    };
    let output = child.wait_with_output().map_err(at(deb))?;
    if !output.status.success() {
        return Err(bad(String::from_utf8_lossy(&output.stderr).trim()));
    }
    unpacked.map_err(|error| bad(&error.to_string()))
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

#[cfg(test)]
mod tests {
    use std::fs;

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
        let refusals = ["", "!<arch>\ndebian-binary   cut off"].map(|content| {
            fs::write(&deb, content).unwrap();
            let error = unpack_deb(&deb, &mut Tree::default()).unwrap_err();
            assert!(matches!(error, Error::Input(_)), "{error:?}");
            let text = error.to_string();
            let text = text.replace(folder.path().to_str().unwrap(), "/folder");
            // The cause is in dpkg's words.
            let (start, rest) = text.split_once(" dpkg-deb: ").unwrap();
            let (_, end) = rest.rsplit_once("; ").unwrap();
            format!("{start} dpkg-deb: …; {end}")
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        the archive /folder/libc6_1_amd64.deb cannot be used: dpkg-deb: …; it was removed from the cache: run again
        the archive /folder/libc6_1_amd64.deb cannot be used: dpkg-deb: …; it was removed from the cache: run again
        ");
    }
}

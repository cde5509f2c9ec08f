//! A checkout's workload sources, changed to another version of tch.
//!
//! Each tch is generated for one torch and compiles against a few newer ones. An image with an
//! older torch needs the scenario binary built with an older tch, which cargo cannot have beside
//! the first in one workspace (both link `tch`). So the workload's folder is copied, and its
//! workspace manifest asks for the other version. Which versions of everything else go with it
//! stands in `images/tch-<version>.Cargo.lock`, and what the newest torches have removed that a tch
//! still wraps in `images/tch-<version>.h`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use toml_edit::{Array, DocumentMut, Item, Table, Value};
use walkdir::WalkDir;

use crate::{Digest, Error, Result, canonical, error::at, spec::flavour::tch_for};

/// The folder of the workload, and what of the checkout's root goes with it.
const WORKLOAD: &str = "scenarios";
const ROOT_FILES: [&str; 1] = ["rust-toolchain.toml"];
/// What of the workload's folder is not compiled.
const NOT_COMPILED: [&str; 2] = ["yaml", "md"];
const NOT_COMPILED_FOLDERS: [&str; 6] =
    ["tests", "benches", "examples", "golden", "parity", "python"];
/// The packages whose version is tch's.
const TCH_PACKAGES: [&str; 2] = ["tch", "torch-sys"];

/// A workspace to build the scenario binary in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) folder: PathBuf,
    /// Whether its `Cargo.lock` fits as it is.
    pub(crate) locked: bool,
    /// What to put before each source in C++.
    pub(crate) header: Option<PathBuf>,
}

/// The checkout itself where it has this tch already, else a copy of its workload in `place`.
pub(crate) fn with_tch(workspace: &Path, tch: &str, place: &Path) -> Result<Checkout> {
    let lock_file = workspace.join("Cargo.lock");
    let lock = fs::read_to_string(&lock_file).map_err(at(&lock_file))?;
    let header = own_file(workspace, tch, "h").map(|file| workspace.join(file));
    if locked_version(&lock, "tch").is_none_or(|version| version == tch) {
        return Ok(Checkout {
            folder: workspace.to_owned(),
            locked: true,
            header,
        });
    }
    copy_folder(&workspace.join(WORKLOAD), &place.join(WORKLOAD))?;
    for name in ROOT_FILES {
        copy_file(&workspace.join(name), &place.join(name))?;
    }
    let manifest = workspace.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(at(&manifest))?;
    let adapted = adapt_manifest(&text, tch).map_err(|cause| Error::Io {
        path: manifest.clone(),
        source: std::io::Error::other(cause),
    })?;
    write_changed(&place.join("Cargo.toml"), adapted.as_bytes())?;
    // cargo keeps every version in it that still fits, so it need not follow each change of the
    // checkout's own to the letter.
    let seed = fs::read_to_string(workspace.join(of_tch(tch, "Cargo.lock"))).unwrap_or(lock);
    write_changed(&place.join("Cargo.lock"), seed.as_bytes())?;
    let copied = |file: PathBuf| {
        let copy = place.join("tch.h");
        copy_file(&file, &copy).map(|()| copy)
    };
    let header = header.map(copied).transpose()?;
    Ok(Checkout {
        folder: place.to_owned(),
        locked: false,
        header,
    })
}

/// A file of a checkout that goes with a tch: its `Cargo.lock`, and the header (`h`) with what it
/// wraps and newer torches lack.
fn of_tch(tch: &str, end: &str) -> PathBuf {
    format!("images/tch-{tch}.{end}").into()
}

/// The same where the checkout has it.
fn own_file(workspace: &Path, tch: &str, end: &str) -> Option<PathBuf> {
    Some(of_tch(tch, end)).filter(|file| workspace.join(file).is_file())
}

/// Digest of what the scenario binary for a torch is compiled from: the workload's code, the
/// manifests above it, and the versions of all that it needs. Suites, documentation and tests are
/// no part of it.
pub(crate) fn sources_digest(workspace: &Path, torch: &str) -> Result<Digest> {
    let mut files = vec![PathBuf::from("Cargo.toml")];
    let own = |end: &str| {
        let (tch, _) = tch_for(torch).ok()?;
        own_file(workspace, tch, end)
    };
    files.push(own("Cargo.lock").unwrap_or_else(|| "Cargo.lock".into()));
    files.extend(own("h"));
    files.extend(ROOT_FILES.map(PathBuf::from));
    let folder = workspace.join(WORKLOAD);
    let is_left_out = |path: &Path, is_folder: bool| {
        let (end, words) = if is_folder {
            (path.file_name(), &NOT_COMPILED_FOLDERS[..])
        } else {
            (path.extension(), &NOT_COMPILED[..])
        };
        words.iter().any(|word| end == Some(word.as_ref()))
    };
    let walk = WalkDir::new(&folder).into_iter();
    let walk = walk.filter_entry(|one| !is_left_out(one.path(), one.file_type().is_dir()));
    for entry in folder.is_dir().then_some(walk).into_iter().flatten() {
        let entry = entry.map_err(|error| at(&folder)(error.into()))?;
        if !entry.file_type().is_dir() {
            let path = entry.path().strip_prefix(workspace);
            files.extend(path.map(Path::to_owned));
        }
    }
    files.sort();
    let mut found = BTreeMap::new();
    for file in files {
        let place = workspace.join(&file);
        // What is not there is no source: a small checkout may have no toolchain file.
        if place.is_file() {
            let digest = Digest::of_file(&place).map_err(at(&place))?;
            found.insert(file.to_string_lossy().into_owned(), digest);
        }
    }
    Ok(Digest::of(canonical::json(&found).as_bytes()))
}

/// The version of a package in a `Cargo.lock`.
fn locked_version(lock: &str, package: &str) -> Option<String> {
    let lock: DocumentMut = lock.parse().ok()?;
    let mut packages = lock.get("package")?.as_array_of_tables()?.iter();
    let is_it = |entry: &&Table| entry.get("name").and_then(Item::as_str) == Some(package);
    Some(packages.find(is_it)?.get("version")?.as_str()?.to_owned())
}

/// The workspace's manifest with the workload alone in it, and another tch.
fn adapt_manifest(text: &str, tch: &str) -> Result<String, String> {
    let mut manifest: DocumentMut = text
        .parse()
        .map_err(|e: toml_edit::TomlError| e.to_string())?;
    let workspace = manifest
        .get_mut("workspace")
        .and_then(Item::as_table_mut)
        .ok_or("it has no [workspace]")?;
    let members = workspace.get("members").and_then(Item::as_array);
    let members = members.ok_or("its workspace has no members")?.iter();
    let is_of_workload = |m: &str| m == WORKLOAD || m.starts_with("scenarios/");
    let members = members.filter(|member| member.as_str().is_some_and(is_of_workload));
    let members: Array = members.cloned().collect();
    workspace.insert("members", Item::Value(members.into()));
    workspace.remove("default-members");
    let dependencies = workspace
        .get_mut("dependencies")
        .and_then(Item::as_table_like_mut)
        .ok_or("its workspace has no dependencies")?;
    for package in TCH_PACKAGES {
        let Some(dependency) = dependencies.get_mut(package) else {
            continue;
        };
        let version = Value::from(format!("={tch}"));
        match dependency.as_table_like_mut() {
            Some(table) => {
                table.insert("version", Item::Value(version));
            }
            None => *dependency = Item::Value(version),
        }
    }
    // Settings for packages that are not here would only be warned about.
    manifest.remove("profile");
    Ok(manifest.to_string())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(at(to))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        names.push(entry.file_name());
        if entry.file_type().map_err(at(&source))?.is_dir() {
            copy_folder(&source, &place)?;
        } else {
            copy_file(&source, &place)?;
        }
    }
    for entry in fs::read_dir(to).map_err(at(to))?.flatten() {
        if !names.contains(&entry.file_name()) {
            let stale = entry.path();
            let removed = if stale.is_dir() {
                fs::remove_dir_all(&stale)
            } else {
                fs::remove_file(&stale)
            };
            removed.map_err(at(&stale))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    write_changed(to, &fs::read(from).map_err(at(from))?)
}

/// Leaves a file alone that has the content already: cargo goes by times.
fn write_changed(to: &Path, content: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::write(to, content).map_err(at(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace]\nmembers = [\"images\", \"scenarios\", \"scenarios/protocol\"]\n\
        default-members = [\"images\"]\n[workspace.dependencies]\ntch = \"0.24\"\n\
        torch-sys = { version = \"0.24\", features = [\"x\"] }\nserde = \"1\"\n\
        [profile.dev.package.images]\nopt-level = 3\n";

    fn lock(tch: &str) -> String {
        format!("version = 4\n\n[[package]]\nname = \"tch\"\nversion = \"{tch}\"\n")
    }

    fn checkout() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("scenarios/src")).unwrap();
        fs::write(folder.path().join("scenarios/src/main.rs"), "fn main() {}").unwrap();
        fs::write(folder.path().join("rust-toolchain.toml"), "").unwrap();
        fs::write(folder.path().join("Cargo.toml"), MANIFEST).unwrap();
        fs::write(folder.path().join("Cargo.lock"), lock("0.24.0")).unwrap();
        folder
    }

    #[test]
    fn the_checkouts_own_tch_needs_no_copy() {
        let folder = checkout();
        let place = folder.path().join("copy");
        let found = with_tch(folder.path(), "0.24.0", &place).unwrap();
        assert_eq!(found.folder, folder.path());
        assert!(found.locked && !place.exists());
    }

    #[test]
    fn another_tch_is_asked_for_in_a_copy_of_the_workload() {
        let folder = checkout();
        let place = folder.path().join("copy");
        let found = with_tch(folder.path(), "0.19.0", &place).unwrap();
        assert_eq!(found.folder, place);
        let manifest = fs::read_to_string(place.join("Cargo.toml")).unwrap();
        for part in [
            "tch = \"=0.19.0\"",
            "version = \"=0.19.0\", features",
            "serde = \"1\"",
        ] {
            assert!(manifest.contains(part), "{manifest}");
        }
        for part in ["images", "default-members", "profile"] {
            assert!(!manifest.contains(part), "{manifest}");
        }
        assert!(place.join("scenarios/src/main.rs").is_file());
    }

    #[test]
    fn what_a_torch_has_removed_is_put_before_each_source() {
        let folder = checkout();
        let place = folder.path().join("copy");
        fs::create_dir(folder.path().join("images")).unwrap();
        fs::write(folder.path().join("images/tch-0.26.0.h"), "// names").unwrap();
        let found = with_tch(folder.path(), "0.26.0", &place).unwrap();
        let header = found.header.unwrap();
        assert!(header.starts_with(&place));
        assert_eq!(fs::read_to_string(header).unwrap(), "// names");
        let other = with_tch(folder.path(), "0.19.0", &place).unwrap();
        assert_eq!(other.header, None);
        // Nor does it matter whether the checkout has moved to this tch itself.
        fs::write(folder.path().join("Cargo.lock"), lock("0.26.0")).unwrap();
        let own = with_tch(folder.path(), "0.26.0", &place).unwrap();
        assert_eq!(own.folder, folder.path());
        assert_eq!(own.header, Some(folder.path().join("images/tch-0.26.0.h")));
    }

    #[test]
    fn a_committed_lock_says_what_goes_with_a_tch() {
        let folder = checkout();
        let place = folder.path().join("copy");
        fs::create_dir(folder.path().join("images")).unwrap();
        fs::write(
            folder.path().join("images/tch-0.19.0.Cargo.lock"),
            lock("0.19.0"),
        )
        .unwrap();
        with_tch(folder.path(), "0.19.0", &place).unwrap();
        let found = fs::read_to_string(place.join("Cargo.lock")).unwrap();
        assert_eq!(locked_version(&found, "tch").as_deref(), Some("0.19.0"));
        with_tch(folder.path(), "0.20.0", &place).unwrap();
        let found = fs::read_to_string(place.join("Cargo.lock")).unwrap();
        assert_eq!(locked_version(&found, "tch").as_deref(), Some("0.24.0"));
    }

    #[test]
    fn the_sources_digest_follows_code_and_versions_and_nothing_else() {
        let folder = checkout();
        let digest = || sources_digest(folder.path(), "2.11.0").unwrap();
        let write = |path: &str, text: &str| {
            let place = folder.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        let before = digest();
        write("scenarios/smoke.yaml", "version: 1");
        write("scenarios/README.md", "words");
        write("scenarios/tests/it.rs", "#[test]");
        write("scenarios/parity/draw.py", "import torch");
        write("images/other.yaml", "version: 1");
        assert_eq!(digest(), before);
        let mut seen = vec![before];
        for (path, text) in [
            ("scenarios/src/main.rs", "fn main() { }"),
            ("scenarios/libtorch/cpp/shim.cpp", "int x;"),
            ("Cargo.lock", &lock("0.25.0")),
            ("images/tch-0.24.0.Cargo.lock", &lock("0.24.0")),
            ("images/tch-0.24.0.h", "// names"),
        ] {
            write(path, text);
            assert!(!seen.contains(&digest()), "{path}");
            seen.push(digest());
        }
    }

    #[test]
    fn a_second_copy_changes_only_what_changed() {
        let folder = checkout();
        let place = folder.path().join("copy");
        with_tch(folder.path(), "0.19.0", &place).unwrap();
        let main = place.join("scenarios/src/main.rs");
        let before = fs::metadata(&main).unwrap().modified().unwrap();
        fs::write(folder.path().join("scenarios/src/new.rs"), "").unwrap();
        with_tch(folder.path(), "0.19.0", &place).unwrap();
        assert_eq!(fs::metadata(&main).unwrap().modified().unwrap(), before);
        assert!(place.join("scenarios/src/new.rs").is_file());
        fs::remove_file(folder.path().join("scenarios/src/new.rs")).unwrap();
        with_tch(folder.path(), "0.19.0", &place).unwrap();
        assert!(!place.join("scenarios/src/new.rs").exists());
    }
}

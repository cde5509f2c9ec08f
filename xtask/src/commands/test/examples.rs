//! The example changes of CONTRIBUTING.md, applied to a copy of the tree, so that what it says of
//! them cannot rot.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::error::{Error, Result, starting, writing};

/// Each is a patch against the tree it lies in.
const PATCHES: &str = "docs/examples/*.patch";

/// Copies the tracked files below `target` and applies every example to the copy.
pub(super) fn applied(root: &Path, target: &Path) -> Result<PathBuf> {
    let tree = target.join("examples");
    let failed = writing(&tree);
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(&failed)?;
    }
    let listed = git(root, &["ls-files", "-z"])?;
    for name in listed.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        // Deleted, and the deletion not committed yet.
        if !from.is_file() {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(&tree)).map_err(&failed)?;
        fs::copy(from, to).map_err(&failed)?;
    }
    // A repository of its own: `git apply` would take the paths for those of the one around it.
    git(&tree, &["init", "--quiet"])?;
    let patches = git(root, &["ls-files", "-z", PATCHES])?;
    for patch in patches.split_terminator('\0') {
        git(&tree, &["apply", patch])?;
    }
    // To cargo, packages of one name and version are the same wherever their workspace lies, and by
    // their times it takes a build of one for that of the other.
    let manifest = tree.join("Cargo.toml");
    let version = |suffix| format!("\nversion = \"{}{suffix}\"\n", env!("CARGO_PKG_VERSION"));
    let text = fs::read_to_string(&manifest).map_err(&failed)?;
    let text = text.replacen(&version(""), &version("-examples"), 1);
    fs::write(&manifest, text).map_err(failed)?;
    Ok(tree)
}

fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(starting("git"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let command = format!("git {}: {}", words.join(" "), said.trim());
    Err(Error::tests_failed("example changes", &command))
}

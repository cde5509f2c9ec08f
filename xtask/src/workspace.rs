//! Where suites, image specs and the workload's sources lie: in a checkout, else in a folder of the
//! user's cache, which this program writes from what it carries.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use images::Cache;

use crate::error::{Error, Result, starting, writing};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The revision that this program was built from; `unknown` outside of git.
pub(crate) const REVISION: &str = env!("TORCHGAUGE_REVISION");

/// Whether cargo runs this program, and with it a checkout's build of it.
pub(crate) fn is_run_by_cargo() -> bool {
    env::var_os("CARGO").is_some()
}

/// The words by which the user calls this program.
pub(crate) fn program() -> &'static str {
    if is_run_by_cargo() {
        "cargo xtask"
    } else {
        "torchgauge"
    }
}

/// The checkout: the nearest folder upwards from here that has `scenarios/` and `images/`, else,
/// where cargo runs this program, the one that cargo runs it from.
pub(crate) fn checkout() -> Result<PathBuf> {
    let here = env::current_dir().map_err(starting("the current folder"))?;
    checkout_from(&here).ok_or_else(|| {
        Error::Input(format!(
            "no checkout of Torchgauge at {} or above it; `test`, `codegen` and `dist` need one, whose \
             root has `scenarios/` and `images/`",
            here.display()
        ))
    })
}

fn checkout_from(here: &Path) -> Option<PathBuf> {
    // Asked while it runs: compiled in, it would make the program's bytes those of one folder.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").filter(|_| is_run_by_cargo());
    let cargos = manifest.as_deref().map(Path::new).and_then(Path::parent);
    here.ancestors()
        .chain(cargos)
        .find(|folder| folder.join("scenarios").is_dir() && folder.join("images").is_dir())
        .map(Path::to_owned)
}

/// Cargo's target folder of a checkout.
pub(crate) fn target(root: &Path) -> PathBuf {
    let given = env::var_os("CARGO_TARGET_DIR");
    given.map_or_else(|| root.join("target"), PathBuf::from)
}

/// The checkout, or the folder that stands in for it.
pub(crate) fn root() -> Result<PathBuf> {
    let here = env::current_dir().map_err(starting("the current folder"))?;
    checkout_from(&here).map_or_else(|| carried(&embedded_place()?), Ok)
}

/// The revision of what lies in `root`, where it is this program's own.
pub(crate) fn carried_revision(root: &Path) -> Option<&'static str> {
    let is_carried = embedded_place().is_ok_and(|place| place == root);
    is_carried.then_some(REVISION)
}

fn embedded_place() -> Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(Cache::user_folder()?
        .join("checkout")
        .join(format!("{version}-{DIGEST}")))
}

/// Writes what this program carries into `place`, whole or not at all, where it is not there yet.
fn carried(place: &Path) -> Result<PathBuf> {
    let failed = writing(place);
    let parent = place.parent().unwrap_or(place);
    if !place.is_dir() {
        fs::create_dir_all(parent).map_err(&failed)?;
        let fresh = tempfile::tempdir_in(parent).map_err(&failed)?;
        let stubs = STUBS.iter().map(|(name, text)| (*name, text.as_bytes()));
        for (name, content) in FILES.iter().copied().chain(stubs) {
            let file = fresh.path().join(name);
            fs::create_dir_all(file.parent().unwrap_or(parent)).map_err(&failed)?;
            fs::write(file, content).map_err(&failed)?;
        }
        match fs::rename(fresh.path(), place) {
            // Another process was faster, with the same files.
            Err(_) if place.is_dir() => {}
            renamed => renamed.map_err(failed)?,
        }
    }
    Ok(place.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// cargo finds the workload in it, with every version as the checkout locks it.
    #[test]
    fn what_is_carried_is_a_workspace_that_builds_the_workload() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("checkout/1");
        let root = carried(&place).unwrap();
        assert_eq!(carried(&place).unwrap(), root);
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--package", "scenario"])
            .args(["--edges", "normal,build", "--prefix", "none"])
            .current_dir(&root)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        let tree = String::from_utf8_lossy(&output.stdout);
        for package in ["scenario v", "libtorch v", "protocol v", "tch v"] {
            assert!(tree.contains(package), "{package} in {tree}");
        }
        // To build is more than to list: cargo then looks for the files of every member. It gets no
        // further than to the compiler.
        let output = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--offline", "--package", "scenario"])
            .env("RUSTC", "/no/compiler")
            .current_dir(&root)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("/no/compiler"), "{told}");
        for file in ["src/main.rs", "libtorch/Cargo.toml", "smoke.yaml"] {
            let name = format!("scenarios/{file}");
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&name);
            assert_eq!(fs::read(root.join(&name)).unwrap(), fs::read(own).unwrap());
        }
    }
}

//! Debian packages by apt, as a plain user: the machine's own sources and keys, private state.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, Result,
    error::at,
    lock::DebPackage,
    program,
    progress::Action,
    store::{Cache, take},
};

const INSTALL_APT: &str = "on a machine without apt and dpkg give a base archive \
                           (`--base-archive FILE`, or `base: {archive: FILE}` in the spec); \
                           `images base --to FILE` on a Debian machine makes one";

/// The machine's lists of packages, which any user may read.
const HOST_LISTS: &str = "/var/lib/apt/lists";

/// An apt with its own state.
struct Apt {
    state: PathBuf,
    lists: PathBuf,
}

impl Apt {
    fn new(state: &Path, lists: &Path) -> Result<Self> {
        for folder in [
            state.join("cache/archives/partial"),
            state.join("lists/partial"),
        ] {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        // Nothing is installed, as far as this apt knows.
        let status = state.join("status");
        fs::write(&status, "").map_err(at(&status))?;
        Ok(Self {
            state: state.to_owned(),
            lists: lists.to_owned(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        for setting in [
            option("Dir::State", &self.state),
            option("Dir::State::lists", &self.lists),
            option("Dir::State::status", &self.state.join("status")),
            option("Dir::Cache", &self.state.join("cache")),
            option("Dir::Log", &self.state),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=5".to_owned(),
        ] {
            command.args(["-o", &setting]);
        }
        command
            .arg("--quiet=2")
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn update(&self, cache: &Cache) -> Result<()> {
        let _meter = cache.start(Action::Resolve, "Debian packages", None);
        let mut command = self.command();
        command.arg("update");
        let outcome = program::run(&mut command, "fetch Debian packages", INSTALL_APT, |_| true)?;
        if outcome.status.success() {
            return Ok(());
        }
        Err(program::failed(
            &command,
            outcome,
            "Check the network and the machine's apt sources, or give a base archive",
        ))
    }
}

/// Tries with the machine's own lists first, and with fresh private ones where those do not do.
fn with_lists<T>(cache: &Cache, work: impl Fn(&Apt) -> Result<T>) -> Result<T> {
    let scratch = cache.scratch()?;
    let state = scratch.path();
    if let Ok(done) = Apt::new(state, Path::new(HOST_LISTS)).and_then(|apt| work(&apt)) {
        return Ok(done);
    }
    let apt = Apt::new(state, &state.join("lists"))?;
    apt.update(cache)?;
    work(&apt)
}

/// Which files apt would take for these packages, with their hashes.
pub(crate) fn resolve(names: &[&str], cache: &Cache) -> Result<Vec<DebPackage>> {
    with_lists(cache, |apt| packages(apt, names))
}

fn packages(apt: &Apt, names: &[&str]) -> Result<Vec<DebPackage>> {
    let mut command = apt.command();
    command.args(["download", "--print-uris"]).args(names);
    let text = program::output(&mut command, "resolve Debian packages", INSTALL_APT)?;
    let mut packages = Vec::new();
    for name in names {
        let found = text
            .lines()
            .filter_map(read_uri)
            .find(|package| package.name == *name);
        packages.push(found.ok_or_else(|| Error::NoPackage {
            what: (*name).to_owned(),
            cause: format!("its answer was:\n{text}"),
            next: "check the machine's apt sources, or give a base archive",
        })?);
    }
    Ok(packages)
}

/// Reads `'http://…/libc6_2.36-9_amd64.deb' libc6_2.36-9_amd64.deb 2757136 SHA256:…`.
fn read_uri(line: &str) -> Option<DebPackage> {
    let mut words = line.split_whitespace();
    let _uri = words.next()?;
    let file = words.next()?;
    let size_bytes = words.next()?.parse().ok()?;
    let sha256 = words.next()?.strip_prefix("SHA256:")?;
    let mut parts = file.strip_suffix(".deb")?.split('_');
    Some(DebPackage {
        name: parts.next()?.to_owned(),
        version: parts.next()?.replace("%3a", ":"),
        architecture: parts.next()?.to_owned(),
        file: file.to_owned(),
        size_bytes,
        sha256: format!("sha256:{sha256}").parse().ok()?,
    })
}

/// Fetches locked packages into the cache; returns their paths in the same order.
pub(crate) fn fetch(packages: &[DebPackage], cache: &Cache) -> Result<Vec<PathBuf>> {
    let missing: Vec<&DebPackage> = packages
        .iter()
        .filter(|package| !place_of(package, cache).is_file())
        .collect();
    if !missing.is_empty() {
        with_lists(cache, |apt| download(apt, &missing, cache))?;
    }
    Ok(packages.iter().map(|one| place_of(one, cache)).collect())
}

pub(crate) fn place_of(package: &DebPackage, cache: &Cache) -> PathBuf {
    cache.package("debs", package.sha256, &package.file)
}

fn download(apt: &Apt, packages: &[&DebPackage], cache: &Cache) -> Result<()> {
    let total = packages.iter().map(|package| package.size_bytes).sum();
    let mut meter = cache.start(Action::Download, "Debian packages", Some(total));
    let mut done = 0;
    for package in packages {
        let scratch = cache.scratch()?;
        let mut command = apt.command();
        command
            .current_dir(scratch.path())
            .arg("download")
            .arg(format!("{}={}", package.name, package.version));
        let outcome = program::run(&mut command, "fetch Debian packages", INSTALL_APT, |_| true)?;
        if !outcome.status.success() {
            return Err(Error::NoPackage {
                what: format!("{} {}", package.name, package.version),
                cause: outcome.tail,
                next: "Debian keeps only the newest version of a release: lock the image anew, \
                       or give a base archive made from the locked packages",
            });
        }
        let fetched = scratch.path().join(&package.file);
        take(
            &fetched,
            package.sha256,
            &place_of(package, cache),
            "nothing of it was kept: check the machine's apt sources, or lock the image anew",
        )?;
        done += package.size_bytes;
        meter.advance_to(done);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apts_list_of_files_is_read() {
        let line = "'http://debian.example/pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb' \
                    zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86656 \
                    SHA256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let package = read_uri(line).unwrap();
        assert_eq!(package.name, "zlib1g");
        assert_eq!(package.version, "1:1.2.13.dfsg-1");
        assert_eq!(package.architecture, "amd64");
        assert_eq!(package.size_bytes, 86656);
        assert_eq!(package.sha256, crate::Digest::of(b""));
        assert_eq!(read_uri("W: something"), None);
    }
}

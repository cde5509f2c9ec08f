//! Fetching wheels by name through pip.
//!
//! The host's pip may be old: it only fetches one pip of a known version and hash, which then
//! runs from its own wheel and knows raw progress (24.1) and resuming broken transfers (25.1).

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    Digest, Error, Result,
    error::at,
    lock::Wheel,
    program,
    progress::{Action, Meter},
    store::{Cache, take},
};

const PIP_VERSION: &str = "25.3";
pub(crate) const FILE: &str = "pip-25.3-py3-none-any.whl";
const PIP_SHA256: &str = "sha256:9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd";

/// Wheels are fetched for this Python, whatever the host's: all torch versions offer it.
/// libtorch itself does not depend on it.
const PYTHON: &str = "3.11";

/// The platforms that wheels for x86-64 Linux with glibc are published under, newest first.
const PLATFORMS: [&str; 12] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_26_x86_64",
    "manylinux_2_25_x86_64",
    "manylinux_2_24_x86_64",
    "manylinux_2_18_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_12_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
    "linux_x86_64",
];

/// What every call of pip is given, the host's and the known one.
const ALWAYS: [&str; 4] = [
    "--disable-pip-version-check",
    "--no-input",
    "--no-cache-dir",
    "--only-binary=:all:",
];

const INSTALL_PYTHON: &str =
    "install Python 3.9 or newer with pip (Debian and Ubuntu: `apt-get install python3-pip`)";

/// What pip says where its index does not have it.
const NO_MATCH: &str = "No matching distribution found";

const OTHER_CONTENT: &str = "nothing of it was kept: check the package index that pip is set to, \
                             or lock the image anew";

pub(crate) fn place_of(wheel: &Wheel, cache: &Cache) -> PathBuf {
    cache.package("wheels", wheel.sha256, &wheel.file)
}

fn pip_sha256() -> Digest {
    // A test reads it too.
    PIP_SHA256.parse().unwrap_or(Digest::of(b""))
}

/// A pip that runs from its wheel.
#[derive(Debug, Clone)]
pub(crate) struct Pip {
    wheel: PathBuf,
}

impl Pip {
    /// Takes the known pip out of the cache, or fetches it.
    pub(crate) fn ready(cache: &Cache) -> Result<Self> {
        let wheel = cache.package("wheels", pip_sha256(), FILE);
        if wheel.is_file() {
            return Ok(Self { wheel });
        }
        let scratch = cache.scratch()?;
        let _meter = cache.start(Action::Download, "pip", None);
        let mut command = Command::new("python3");
        command
            .args(["-m", "pip", "download", "--no-deps"])
            .args(ALWAYS)
            .arg("--dest")
            .arg(scratch.path())
            .arg(format!("pip=={PIP_VERSION}"));
        let outcome = program::run(&mut command, "fetch wheels", INSTALL_PYTHON, |_| true)?;
        if outcome.tail.contains("No module named pip") {
            let next = format!("To go on, {INSTALL_PYTHON}");
            return Err(program::failed(&command, outcome, &next));
        }
        if !outcome.status.success() {
            return Err(explain(&command, outcome, &format!("pip {PIP_VERSION}")));
        }
        take(
            &scratch.path().join(FILE),
            pip_sha256(),
            &wheel,
            OTHER_CONTENT,
        )?;
        Ok(Self { wheel })
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("python3");
        command
            .arg(self.wheel.join("pip"))
            .arg(subcommand)
            .args(ALWAYS)
            .args(["--retries", "10"])
            .args(["--implementation", "cp", "--abi", "cp311"])
            .args(["--python-version", PYTHON]);
        for platform in PLATFORMS {
            command.args(["--platform", platform]);
        }
        command
    }

    /// Which wheels installing `requirements` would take, with their hashes and without sizes.
    /// Nothing is installed, and only metadata is fetched: from an index that does not offer it
    /// apart, by ranges of the wheels (`fast-deps`), which would be 3 GB otherwise.
    pub(crate) fn resolve(&self, requirements: &[String], cache: &Cache) -> Result<Vec<Wheel>> {
        match self.resolved(requirements, &["--use-feature=fast-deps"], cache) {
            // An index may know neither ranges nor hashes, and then pip reads whole wheels.
            Err(error) if !error.to_string().contains(NO_MATCH) => {
                self.resolved(requirements, &[], cache)
            }
            found => found,
        }
    }

    fn resolved(
        &self,
        requirements: &[String],
        more: &[&str],
        cache: &Cache,
    ) -> Result<Vec<Wheel>> {
        let scratch = cache.scratch()?;
        let report = scratch.path().join("report.json");
        let mut command = self.command("install");
        command
            .args([
                "--dry-run",
                "--ignore-installed",
                "--progress-bar",
                "off",
                "--target",
            ])
            .arg(scratch.path().join("target"))
            .arg("--report")
            .arg(&report)
            .args(more)
            .args(requirements);
        let outcome = program::run(&mut command, "resolve wheels", INSTALL_PYTHON, |_| true)?;
        if !outcome.status.success() {
            return Err(explain(&command, outcome, &requirements.join(", ")));
        }
        let json = fs::read(&report).map_err(at(&report))?;
        read_report(&json).map_err(|cause| {
            let cause = format!("pip's report cannot be read: {cause}");
            not_offered(&requirements.join(", "), &cause)
        })
    }

    /// Fetches one locked wheel into the cache, unless it is there already, and returns its path.
    /// Its size and hash are the lock's, or it is an error.
    pub(crate) fn fetch(&self, wheel: &Wheel, cache: &Cache) -> Result<PathBuf> {
        let place = place_of(wheel, cache);
        if place.is_file() {
            return Ok(place);
        }
        let scratch = cache.scratch()?;
        let requirements = scratch.path().join("requirements.txt");
        let line = format!(
            "{}=={} --hash=sha256:{}\n",
            wheel.name,
            wheel.version,
            wheel.sha256.hex()
        );
        fs::write(&requirements, line).map_err(at(&requirements))?;
        let mut command = self.command("download");
        command
            .args([
                "--no-deps",
                "--progress-bar",
                "raw",
                "--resume-retries",
                "20",
            ])
            .args(["--require-hashes", "--dest"])
            .arg(scratch.path())
            .arg("--requirement")
            .arg(&requirements);
        let total = Some(wheel.size_bytes).filter(|n| *n > 0);
        let mut meter = cache.start(Action::Download, &wheel.file, total);
        download(&mut command, &mut *meter, wheel)?;
        let fetched = scratch.path().join(&wheel.file);
        take(&fetched, wheel.sha256, &place, OTHER_CONTENT)?;
        Ok(place)
    }
}

fn download(command: &mut Command, meter: &mut dyn Meter, wheel: &Wheel) -> Result<()> {
    let outcome = program::run(
        command,
        "fetch wheels",
        INSTALL_PYTHON,
        |line| match raw_progress(line) {
            Some((done, total)) => {
                meter.set_total(total);
                meter.advance_to(done);
                false
            }
            None => true,
        },
    )?;
    if outcome.status.success() {
        return Ok(());
    }
    let what = format!("{} {}", wheel.name, wheel.version);
    if let Some(found) = hash_that_pip_got(&outcome.tail) {
        let expected = wheel.sha256;
        return Err(Error::wrong_hash(
            &wheel.file,
            expected,
            found,
            OTHER_CONTENT,
        ));
    }
    Err(explain(command, outcome, &what))
}

/// Reads `Progress 262144 of 10715597`.
fn raw_progress(line: &str) -> Option<(u64, u64)> {
    let (done, total) = line.strip_prefix("Progress ")?.split_once(" of ")?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

/// Reads the `Got` line below pip's `Expected sha256 …`.
fn hash_that_pip_got(output: &str) -> Option<Digest> {
    let (_, rest) = output.split_once("DO NOT MATCH THE HASHES")?;
    let hex = rest
        .lines()
        .find_map(|line| line.trim().strip_prefix("Got"))?;
    format!("sha256:{}", hex.trim()).parse().ok()
}

/// The error for what pip does not offer.
pub(super) fn not_offered(what: &str, output: &str) -> Error {
    Error::Trouble(format!(
        "pip offers no {what} for this platform:\n{output}\nCheck the version, the network, and \
         pip's index settings (`python3 -m pip config list`)"
    ))
}

fn explain(command: &Command, outcome: program::Outcome, what: &str) -> Error {
    if outcome.tail.contains(NO_MATCH) {
        return not_offered(what, &outcome.tail);
    }
    let next = if outcome.tail.contains("No space left on device") {
        "Free some space in the cache folder and run again: finished wheels are kept"
    } else {
        "Check the network and pip's settings (`python3 -m pip config list`), and run again: \
         finished wheels are kept"
    };
    program::failed(command, outcome, next)
}

/// Reads pip's installation report. Sizes are not in it.
fn read_report(json: &[u8]) -> Result<Vec<Wheel>, String> {
    let report: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let entries = report["install"].as_array().ok_or("`install` is missing")?;
    let read = |entry: &Value| {
        let text = |place: &str| {
            let found = entry.pointer(place).and_then(Value::as_str);
            found.ok_or_else(|| format!("`{place}` is missing in {entry}"))
        };
        let url = text("/download_info/url")?;
        let file = url.rsplit('/').next().unwrap_or_default();
        let file = file.split(['#', '?']).next().unwrap_or_default();
        let hash = text("/download_info/archive_info/hashes/sha256")?;
        Ok(Wheel {
            name: text("/metadata/name")?
                .to_lowercase()
                .replace(['_', '.'], "-"),
            version: text("/metadata/version")?.to_owned(),
            // Local versions (`+cu130`) are percent-encoded in URLs.
            file: file.replace("%2B", "+"),
            size_bytes: 0,
            sha256: format!("sha256:{hash}").parse()?,
        })
    };
    entries.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_pip_has_a_hash() {
        assert!(PIP_SHA256.parse::<Digest>().is_ok());
        assert!(FILE.contains(PIP_VERSION));
    }

    #[test]
    fn raw_progress_is_read() {
        assert_eq!(
            raw_progress("Progress 262144 of 10715597"),
            Some((262_144, 10_715_597))
        );
        assert_eq!(raw_progress("Progress made"), None);
        assert_eq!(raw_progress("Collecting torch"), None);
    }

    #[test]
    fn the_hash_that_pip_got_is_found() {
        let digest = Digest::of(b"x");
        let output = format!(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    \
             torch==2.11.0 from …:\n        Expected sha256 {}\n             Got        {}\n",
            Digest::of(b"y").hex(),
            digest.hex()
        );
        assert_eq!(hash_that_pip_got(&output), Some(digest));
        assert_eq!(hash_that_pip_got("Got nothing"), None);
    }
}

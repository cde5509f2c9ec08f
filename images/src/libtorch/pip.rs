//! Fetching wheels by name through pip.
//!
//! The host's pip may be old: it only fetches one pip of a known version and hash, which then
//! runs from its own wheel and knows raw progress (24.1) and resuming broken transfers (25.1).

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Digest, Error, Result,
    error::at,
    libtorch::resolve::read_report,
    lock::Wheel,
    program,
    progress::{Action, Meter, Progress},
    store::Cache,
};

const PIP_VERSION: &str = "25.3";
pub(crate) const PIP_FILE: &str = "pip-25.3-py3-none-any.whl";
const PIP_SHA256: &str = "sha256:9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd";

/// Wheels are fetched for this Python, whatever the host's: all torch versions offer it.
/// libtorch itself does not depend on it.
pub(crate) const PYTHON: &str = "3.11";

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

pub(crate) const INSTALL_PYTHON: &str =
    "install Python 3.9 or newer with pip (Debian and Ubuntu: `apt-get install python3-pip`)";

/// What pip is asked for besides a package and its version.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Request {
    pip: &'static str,
    python: &'static str,
    platforms: [&'static str; 12],
}

/// What every resolution asks pip for.
pub(crate) fn request() -> Request {
    Request {
        pip: PIP_VERSION,
        python: PYTHON,
        platforms: PLATFORMS,
    }
}

/// A pip that runs from its wheel.
#[derive(Debug, Clone)]
pub(crate) struct Pip {
    wheel: PathBuf,
}

impl Pip {
    /// Takes the known pip out of the cache, or fetches it.
    pub(crate) fn ready(cache: &Cache, progress: &dyn Progress) -> Result<Self> {
        let wheel = cache.folder("wheels").join(PIP_FILE);
        let expected: Digest = PIP_SHA256.parse().map_err(|_| Error::NotOffered {
            what: "pip".to_owned(),
            output: String::new(),
        })?;
        let _lock = cache.lock("pip", progress)?;
        if wheel.exists() && cache.digest_of(&wheel, progress)? == expected {
            return Ok(Self { wheel });
        }
        let scratch = cache.scratch()?;
        let _meter = progress.start(Action::Download, "pip", None);
        let mut command = Command::new("python3");
        command
            .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
            .args([
                "--disable-pip-version-check",
                "--no-input",
                "--no-cache-dir",
                "--dest",
            ])
            .arg(scratch.path())
            .arg(format!("pip=={PIP_VERSION}"));
        let outcome = program::run(&mut command, "fetch wheels", INSTALL_PYTHON, |_| true)?;
        if outcome.tail.contains("No module named pip") {
            return Err(program::failed(
                &command,
                outcome,
                format!("To go on, {INSTALL_PYTHON}"),
            ));
        }
        if !outcome.status.success() {
            return Err(explain(&command, outcome, &format!("pip {PIP_VERSION}")));
        }
        accept(cache, &scratch.path().join(PIP_FILE), &wheel, expected)?;
        Ok(Self { wheel })
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("python3");
        command
            .arg(self.wheel.join("pip"))
            .args([
                subcommand,
                "--disable-pip-version-check",
                "--no-input",
                "--no-cache-dir",
            ])
            .args(["--retries", "10", "--only-binary=:all:"])
            .args([
                "--implementation",
                "cp",
                "--abi",
                "cp311",
                "--python-version",
                PYTHON,
            ]);
        for platform in PLATFORMS {
            command.args(["--platform", platform]);
        }
        command
    }

    /// Which wheels installing `requirements` would take, with their hashes and without sizes.
    /// Nothing is installed, and only metadata is fetched.
    pub(crate) fn resolve(&self, requirements: &[String], cache: &Cache) -> Result<Vec<Wheel>> {
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
            .args(requirements);
        let outcome = program::run(&mut command, "resolve wheels", INSTALL_PYTHON, |_| true)?;
        if !outcome.status.success() {
            return Err(explain(&command, outcome, &requirements.join(", ")));
        }
        let json = fs::read(&report).map_err(at(&report))?;
        read_report(&json).map_err(|cause| Error::NotOffered {
            what: requirements.join(", "),
            output: format!("pip's report cannot be read: {cause}"),
        })
    }

    /// Fetches one locked wheel into the cache, unless it is there already, and returns its path.
    /// Its size and hash are the lock's, or it is an error.
    pub(crate) fn fetch(
        &self,
        wheel: &Wheel,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<PathBuf> {
        let place = cache.folder("wheels").join(&wheel.file);
        let _lock = cache.lock(&wheel.file, progress)?;
        // Whoever held the lock may have fetched it.
        if let Some(place) = cached(wheel, cache, progress)? {
            return Ok(place);
        }
        let scratch = cache.scratch()?;
        let requirements = scratch.path().join("requirements.txt");
        let line = format!(
            "{}=={} --hash={}\n",
            wheel.name,
            wheel.version,
            hash_option(wheel)
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
        let mut meter = progress.start(
            Action::Download,
            &wheel.file,
            Some(wheel.size_bytes).filter(|n| *n > 0),
        );
        download(&mut command, &mut *meter, wheel)?;
        drop(meter);
        accept(
            cache,
            &scratch.path().join(&wheel.file),
            &place,
            wheel.sha256,
        )?;
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
        return Err(wrong_hash(&wheel.file, wheel.sha256, found));
    }
    Err(explain(command, outcome, &what))
}

/// A locked wheel that the cache has. One whose content is another is removed, so that it is
/// fetched again.
pub(crate) fn cached(
    wheel: &Wheel,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Option<PathBuf>> {
    let place = cache.folder("wheels").join(&wheel.file);
    if !place.exists() {
        return Ok(None);
    }
    let found = cache.digest_of(&place, progress)?;
    if found == wheel.sha256 {
        return Ok(Some(place));
    }
    progress.note(&format!(
        "the cached {} is damaged ({found} instead of {}); fetching it again",
        wheel.file, wheel.sha256
    ));
    fs::remove_file(&place).map_err(at(&place))?;
    Ok(None)
}

fn hash_option(wheel: &Wheel) -> String {
    format!("sha256:{}", wheel.sha256.hex())
}

fn wrong_hash(file: &str, expected: Digest, found: Digest) -> Error {
    Error::WrongHash {
        what: file.to_owned(),
        expected,
        found,
        next: "nothing of it was kept: check the package index that pip is set to, or lock the image anew",
    }
}

/// Puts a fetched wheel into the cache if it is the right one.
fn accept(cache: &Cache, fetched: &Path, place: &Path, expected: Digest) -> Result<()> {
    let found = Digest::of_file(fetched).map_err(at(fetched))?;
    if found != expected {
        let name = fetched.file_name().unwrap_or_default().to_string_lossy();
        return Err(wrong_hash(&name, expected, found));
    }
    fs::rename(fetched, place).map_err(at(place))?;
    cache.remember_digest(place, found)
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

fn explain(command: &Command, outcome: program::Outcome, what: &str) -> Error {
    if outcome.tail.contains("No matching distribution found") {
        return Error::NotOffered {
            what: what.to_owned(),
            output: outcome.tail,
        };
    }
    let next = if outcome.tail.contains("No space left on device") {
        "Free some space in the cache folder and run again: finished wheels are kept"
    } else {
        "Check the network and pip's settings (`python3 -m pip config list`), and run again: \
         finished wheels are kept"
    };
    program::failed(command, outcome, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_pip_has_a_hash() {
        assert!(PIP_SHA256.parse::<Digest>().is_ok());
        assert!(PIP_FILE.contains(PIP_VERSION));
    }

    #[test]
    fn a_truncated_cached_wheel_is_removed_and_said() {
        struct Notes(std::sync::Mutex<Vec<String>>);
        impl Progress for Notes {
            fn start(&self, _: Action, _: &str, _: Option<u64>) -> Box<dyn Meter> {
                Box::new(crate::Silent)
            }
            fn note(&self, text: &str) {
                self.0.lock().unwrap().push(text.to_owned());
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let wheel = Wheel {
            name: "x".to_owned(),
            version: "1".to_owned(),
            file: "x-1-py3-none-any.whl".to_owned(),
            size_bytes: 5,
            sha256: Digest::of(b"whole"),
        };
        let place = cache.folder("wheels").join(&wheel.file);
        let notes = Notes(std::sync::Mutex::default());
        fs::write(&place, "whole").unwrap();
        assert_eq!(cached(&wheel, &cache, &notes).unwrap(), Some(place.clone()));
        fs::write(&place, "who").unwrap();
        assert_eq!(cached(&wheel, &cache, &notes).unwrap(), None);
        assert!(!place.exists());
        assert!(notes.0.lock().unwrap()[0].contains("x-1-py3-none-any.whl is damaged"));
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

    #[test]
    fn a_wrong_wheel_never_reaches_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let fetched = folder.path().join("x.whl");
        fs::write(&fetched, "evil").unwrap();
        let place = cache.folder("wheels").join("x.whl");
        let error = accept(&cache, &fetched, &place, Digest::of(b"good"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&Digest::of(b"good").to_string()), "{error}");
        assert!(error.contains(&Digest::of(b"evil").to_string()), "{error}");
        assert!(!place.exists());
    }
}

//! What pip resolved, kept: asking it again takes half a minute of every build that has no lock.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use serde::Serialize;

use crate::{
    Digest, Flavour, Result, canonical,
    error::at,
    libtorch::{
        linkage,
        linkage::Rules,
        pip::{self, Request},
        resolve::resolve,
    },
    lock::WheelsLock,
    program,
    progress::Progress,
    store::Cache,
};

/// Changes whenever the same answer of pip's would be read otherwise.
const FORMAT: u32 = 1;

/// A libtorch out of wheels, as pip resolves it for an image without a lock.
pub(crate) struct Resolution {
    /// Which wheels, and which of their libraries.
    pub(crate) lock: WheelsLock,
    /// Whether pip was asked by an earlier build.
    pub(crate) is_kept: bool,
}

/// Takes what an earlier build kept, or asks pip.
pub(crate) fn kept_or_new(
    version: &str,
    flavour: Flavour,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Resolution> {
    let question = Question::new(version, flavour)?;
    let place = question.place(cache);
    let _lock = cache.lock(&question.name(), progress)?;
    if let Some(lock) = read(&place, cache, progress)? {
        progress.note(&format!(
            "torch {version} has no lock, and is what pip resolved {}; to ask pip again and write \
             down its answer: cargo xtask images lock NAME; to drop it: cargo xtask images prune \
             --cache=resolved",
            age(&place)
        ));
        return Ok(Resolution {
            lock,
            is_kept: true,
        });
    }
    ask(&question, &place, cache, progress)
}

/// Asks pip, whatever was kept, and keeps its answer.
pub(crate) fn new(
    version: &str,
    flavour: Flavour,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Resolution> {
    let question = Question::new(version, flavour)?;
    let place = question.place(cache);
    let _lock = cache.lock(&question.name(), progress)?;
    ask(&question, &place, cache, progress)
}

fn ask(
    question: &Question,
    place: &Path,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Resolution> {
    let lock = resolve(question.version, question.flavour, cache, progress)?;
    write(&lock, place, cache)?;
    Ok(Resolution {
        lock,
        is_kept: false,
    })
}

fn write(lock: &WheelsLock, place: &Path, cache: &Cache) -> Result<()> {
    let scratch = cache.scratch()?;
    let aside = scratch.path().join("resolved.json");
    let json = canonical::json(lock);
    fs::write(&aside, &json).map_err(at(&aside))?;
    cache.seal(&aside, Digest::of(json.as_bytes()), place)
}

/// What is kept for this version and flavour, and where; `None` where nothing is.
pub(crate) fn kept(
    version: &str,
    flavour: Flavour,
    cache: &Cache,
) -> Result<Option<(PathBuf, WheelsLock)>> {
    let place = Question::new(version, flavour)?.place(cache);
    Ok(read(&place, cache, &crate::Silent)?.map(|lock| (place, lock)))
}

/// Keeps an answer as one of pip's.
#[cfg(test)]
pub(crate) fn keep(
    lock: &WheelsLock,
    version: &str,
    flavour: Flavour,
    cache: &Cache,
) -> Result<()> {
    write(lock, &Question::new(version, flavour)?.place(cache), cache)
}

/// One that was damaged or that another version wrote is none.
fn read(place: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Option<WheelsLock>> {
    if !cache.sound(place, progress)? {
        return Ok(None);
    }
    let json = fs::read(place).map_err(at(place))?;
    Ok(serde_json::from_slice(&json).ok())
}

/// How long ago a file was written, in words.
fn age(place: &Path) -> String {
    let written = fs::metadata(place).and_then(|facts| facts.modified());
    let since = written
        .ok()
        .and_then(|written| SystemTime::now().duration_since(written).ok())
        .unwrap_or_default();
    let hours = since.as_secs() / 3600;
    match (hours / 24, hours) {
        (0, 0) => "within the last hour".to_owned(),
        (0, 1) => "an hour ago".to_owned(),
        (0, hours) => format!("{hours} hours ago"),
        (1, _) => "a day ago".to_owned(),
        (days, _) => format!("{days} days ago"),
    }
}

/// Everything that pip's answer, and what is made of it, depends on: besides what the index offers.
#[derive(Serialize)]
struct Question<'a> {
    format: u32,
    version: &'a str,
    flavour: Flavour,
    request: Request,
    rules: Rules,
    settings: Settings,
}

impl<'a> Question<'a> {
    fn new(version: &'a str, flavour: Flavour) -> Result<Self> {
        Ok(Self {
            format: FORMAT,
            version,
            flavour,
            request: pip::request(),
            rules: linkage::rules(flavour),
            settings: Settings::here()?,
        })
    }

    fn name(&self) -> String {
        let key = Digest::of(canonical::json(self).as_bytes());
        format!("torch-{}-{}-{}", self.version, self.flavour, key.short())
    }

    fn place(&self, cache: &Cache) -> PathBuf {
        cache
            .folder("resolved")
            .join(format!("{}.json", self.name()))
    }
}

/// How pip is set on this machine: which index it asks, and the like. Read without pip, which
/// takes most of a second to say it.
#[derive(Serialize, PartialEq, Debug)]
struct Settings {
    /// The variables that begin with `PIP_`.
    variables: BTreeMap<String, String>,
    /// Those of its configuration files that are there, by digest.
    files: BTreeMap<PathBuf, Digest>,
}

impl Settings {
    fn here() -> Result<Self> {
        let mut command = Command::new("python3");
        command.args(["-I", "-c", "import sys; print(sys.prefix)"]);
        let prefix = program::output(&mut command, "resolve wheels", pip::INSTALL_PYTHON)?;
        let variables = env::vars_os()
            .map(|(name, value)| {
                let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .filter(|(name, _)| name.starts_with("PIP_"))
            .collect();
        Ok(Self::of(variables, &config_files(Path::new(prefix.trim()))))
    }

    fn of(variables: BTreeMap<String, String>, files: &[PathBuf]) -> Self {
        let named = variables.get("PIP_CONFIG_FILE").map(PathBuf::from);
        let files = files
            .iter()
            .chain(&named)
            .filter_map(|file| Some((file.clone(), Digest::of(&fs::read(file).ok()?))))
            .collect();
        Self { variables, files }
    }
}

/// Where pip looks for its configuration besides `PIP_CONFIG_FILE`
/// (<https://pip.pypa.io/en/stable/topics/configuration/>).
fn config_files(prefix: &Path) -> Vec<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from);
    let home = folder("HOME").unwrap_or_default();
    let dirs = env::var_os("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    let mut files: Vec<PathBuf> = env::split_paths(&dirs)
        .map(|folder| folder.join("pip/pip.conf"))
        .collect();
    files.extend([
        "/etc/pip.conf".into(),
        prefix.join("pip.conf"),
        home.join(".pip/pip.conf"),
        folder("XDG_CONFIG_HOME")
            .unwrap_or_else(|| home.join(".config"))
            .join("pip/pip.conf"),
    ]);
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn question(version: &str, flavour: Flavour, settings: Settings) -> String {
        let settings = Question {
            settings,
            ..Question::new(version, flavour).unwrap()
        };
        settings.name()
    }

    #[test]
    fn another_version_flavour_or_index_is_another_question() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pip.conf");
        let variables = |index: &str| {
            let name = "PIP_INDEX_URL".to_owned();
            BTreeMap::from([(name, index.to_owned())])
        };
        let files = [file.clone()];
        let plain = || Settings::of(variables("one"), &files);
        let mut seen = vec![question("2.11.0", Flavour::Cpu, plain())];
        assert_eq!(seen[0], question("2.11.0", Flavour::Cpu, plain()));
        for other in [
            question("2.12.1", Flavour::Cpu, plain()),
            question("2.11.0", Flavour::Cuda, plain()),
            question(
                "2.11.0",
                Flavour::Cpu,
                Settings::of(variables("two"), &files),
            ),
        ] {
            assert!(!seen.contains(&other), "{other}");
            seen.push(other);
        }
        for content in ["[global]\nindex-url = a\n", "[global]\nindex-url = b\n"] {
            fs::write(&file, content).unwrap();
            let other = question("2.11.0", Flavour::Cpu, plain());
            assert!(!seen.contains(&other), "{content}");
            seen.push(other);
        }
        let named = BTreeMap::from([(
            "PIP_CONFIG_FILE".to_owned(),
            file.to_string_lossy().into_owned(),
        )]);
        assert_eq!(Settings::of(named, &[]).files.len(), 1);
    }

    #[test]
    fn a_damaged_answer_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let place = cache.folder("resolved").join("x.json");
        assert_eq!(read(&place, &cache, &Silent).unwrap(), None);
        let lock = WheelsLock {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cpu,
            name: "2.11.0+cpu".to_owned(),
            wheels: Vec::new(),
            headers: Vec::new(),
            wheels_unpacked_bytes: 0,
            libraries: Vec::new(),
        };
        let keep = |json: &str| {
            let aside = folder.path().join("tmp/x");
            fs::write(&aside, json).unwrap();
            cache
                .seal(&aside, Digest::of(json.as_bytes()), &place)
                .unwrap();
        };
        let json = canonical::json(&lock);
        keep(&json);
        assert_eq!(read(&place, &cache, &Silent).unwrap(), Some(lock));
        fs::write(&place, json.replace("2.11.0", "2.12.1")).unwrap();
        assert_eq!(read(&place, &cache, &Silent).unwrap(), None);
        keep("{\"of\": \"another version\"}");
        assert_eq!(read(&place, &cache, &Silent).unwrap(), None);
    }

    #[test]
    fn ages_are_told_in_words() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (hours, words) in [
            (0, "within the last hour"),
            (1, "an hour ago"),
            (5, "5 hours ago"),
            (30, "a day ago"),
            (100, "4 days ago"),
        ] {
            let then = SystemTime::now() - std::time::Duration::from_secs(hours * 3600 + 60);
            file.as_file().set_modified(then).unwrap();
            assert_eq!(age(file.path()), words);
        }
    }
}

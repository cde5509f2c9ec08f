//! Programs that are not Torchgauge's: what a scenario with `program:` runs, and what that needs.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf, absolute},
};

use engine::Network;
use protocol::{Axes, Axis, Until, Variant};
use record::{Method, word_of};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strict_yaml::{Spot, YamlError};

use super::axes::schema_of;

/// Most words of a command, and most letters of each.
const MOST_WORDS: usize = 1_000;
const LONGEST_WORD: usize = 100_000;

/// A program as one variant runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// As its suite says; nothing in it stands for a parameter any more.
    pub file: ProgramFile,
    pub mounts: Vec<ProgramMount>,
    /// Samples of one step of one process, where the program does not say.
    pub samples_per_step: Option<f64>,
    /// Who starts its ranks, where it has several.
    pub launcher: Launcher,
}

/// Who starts the ranks of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launcher {
    /// Torchgauge: the command once for each, with the variables that torchrun sets.
    Torchgauge,
    /// The command itself, as torchrun does.
    Command,
}

impl Launcher {
    /// By what a command is called, as itself or as a module of Python.
    pub fn of(command: &[String]) -> Self {
        const KNOWN: [&str; 9] = [
            "accelerate",
            "accelerate.commands.launch",
            "deepspeed",
            "horovodrun",
            "mpiexec",
            "mpirun",
            "torch.distributed.launch",
            "torch.distributed.run",
            "torchrun",
        ];
        let module = command.iter().skip_while(|word| *word != "-m").nth(1);
        let program = command.first().and_then(|word| word.rsplit('/').next());
        let mut names = program.into_iter().chain(module.map(String::as_str));
        if names.any(|name| KNOWN.contains(&name)) {
            Self::Command
        } else {
            Self::Torchgauge
        }
    }
}

/// A file or folder of this machine that a program finds in its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramMount {
    /// With its whole path.
    pub source: PathBuf,
    /// Absolute, in the container.
    pub target: String,
    /// Whether each run gets a copy of its own that it may write to.
    pub is_scratch: bool,
}

impl Program {
    /// Sets what metrics depend on of how it is run.
    pub(crate) fn set_method(&self, ranks: u32, method: &mut Method) {
        let file = &self.file;
        method.set("program.hook", file.hook);
        method.set("program.network", file.network.word());
        method.set_or_none("program.samples_per_step", self.samples_per_step);
        method.set("program.until", word_of(file.until));
        let is_own = ranks > 1 && self.launcher == Launcher::Torchgauge;
        method.set_or_none("program.launcher", is_own.then_some("torchgauge"));
        method.set_or_none("program.user", file.user.as_ref());
        method.set("program.writable", file.writable);
    }

    /// The first of its files that does not lie below this folder, by its key and its place there:
    /// a suite may be somebody else's.
    pub(super) fn outside(&self, folder: &Path) -> Option<(&'static str, usize)> {
        // As the sources of mounts are.
        let folder = &absolute(Path::new(".").join(folder)).unwrap_or_else(|_| folder.to_owned());
        let is_below = |path: &Path| {
            let path = &absolute(path).unwrap_or_else(|_| path.to_owned());
            let up = path.strip_prefix(folder).unwrap_or(path);
            let plain = up
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            let (whole, real) = (folder.canonicalize(), path.canonicalize());
            // What is not there is refused where it is needed.
            let is_real =
                || real.is_ok_and(|real| whole.is_ok_and(|whole| real.starts_with(whole)));
            plain && (!path.exists() || is_real())
        };
        let mut mounts = self.mounts.iter().map(|mount| mount.source.as_path());
        let mut files = self.file.environment_files.iter().map(PathBuf::as_path);
        let mount = mounts.position(|path| !is_below(path));
        let file = files.position(|path| !is_below(path));
        mount
            .map(|place| ("mounts", place))
            .or(file.map(|place| ("environment_files", place)))
    }

    /// What of its files is not on this machine, or is not as it is to be.
    pub(crate) fn check_files(&self) -> Result<(), String> {
        let missing = self.mounts.iter().find(|mount| !mount.source.exists());
        if let Some(ProgramMount { source, target, .. }) = missing {
            return Err(format!(
                "there is no {} to mount as {target}; expected a file or folder of this machine",
                source.display()
            ));
        }
        self.secrets().map(drop).map_err(|error| error.to_string())
    }

    /// The variables of its files, a `NAME=VALUE` a line.
    ///
    /// # Errors
    /// With the file and the line, and never with a value.
    pub fn secrets(&self) -> io::Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for path in &self.file.environment_files {
            let text = fs::read_to_string(path).map_err(|error| {
                let words = format!("the environment file {}: {error}", path.display());
                io::Error::new(error.kind(), words)
            })?;
            for (place, line) in text.lines().map(str::trim).enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let pair = line.split_once('=').filter(|(name, _)| is_variable(name));
                let Some((name, value)) = pair else {
                    let (path, line) = (path.display(), place + 1);
                    let words =
                        format!("the environment file {path}, line {line}: expected NAME=VALUE");
                    return Err(io::Error::other(words));
                };
                all.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(all)
    }
}

pub fn is_variable(name: &str) -> bool {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let starts_well = name.starts_with(is_fit) && !name.starts_with(|c: char| c.is_ascii_digit());
    starts_well && name.chars().all(is_fit)
}

/// `program:` as written in a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramFile {
    /// The command with its arguments; `{axis}` is replaced by the value of an axis.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// Variables, over those of the image; `{axis}` as in the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files with further variables, a `NAME=VALUE` a line, which no record holds: for secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment_files: Vec<PathBuf>,
    /// Files and folders of this machine, `SOURCE:TARGET`, to read; with `:rw` behind, each run
    /// gets a copy of its own to write to. A source is relative to the suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// The folder that it starts in; the image's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The user, `NAME` or `UID:GID`; the image's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it has of a network; `none` by default.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub network: Network,
    /// Whether it may write to the container's root file system, which goes with the run; false
    /// by default: then `/tmp` alone is there to write to.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub writable: bool,
    /// Whether the hook that reads steps and memory of a Python program is put on `PYTHONPATH`;
    /// true by default.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub hook: bool,
    /// Samples of one step of one process, for the throughput, where the program does not report
    /// them: a number, or `{axis}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_step: Option<Samples>,
    /// When a run is over: `measured`, after its measured steps, or `exit`, when the program ends;
    /// `measured` by default.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub until: Until,
    /// Who starts the ranks of a run of several: `torchgauge`, the command once for each, or the
    /// `command` itself; by default the command where that is torchrun or a launcher like it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<Launcher>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_yes(given: &bool) -> bool {
    *given
}

fn is_usual<T: Default + PartialEq>(given: &T) -> bool {
    *given == T::default()
}

/// A number, or the name of the axis that gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Samples(pub Value);

schema_of!(Samples as "Samples", _ => json_schema!({
    "anyOf": [
        { "type": "number", "exclusiveMinimum": 0 },
        { "type": "string", "pattern": r"^\{[a-z][a-z0-9_]*\}$" },
    ],
}));

impl ProgramFile {
    /// A command with nothing said about how it is run.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            hook: true,
            ..Self::default()
        }
    }

    pub(super) fn check(&self, at: &Spot<'_>) -> Result<(), YamlError> {
        let wrong = |at: Spot<'_>, message: String, expected: &str| {
            Err(at.expecting(message, expected, None))
        };
        let command = at.key("command");
        if self.command.first().is_none_or(String::is_empty) {
            let expected = "expected a program with its arguments, each a word of the list";
            return wrong(command, "no program".to_owned(), expected);
        }
        if self.command.len() > MOST_WORDS {
            let message = format!("{} words", self.command.len());
            return wrong(command, message, "expected at most 1000");
        }
        let is_fit = |word: &String| word.len() <= LONGEST_WORD && !word.contains('\0');
        if let Some(place) = self.command.iter().position(|word| !is_fit(word)) {
            let expected = "expected at most 100000 letters without NUL";
            return wrong(command.index(place), "no word".to_owned(), expected);
        }
        for (name, value) in &self.environment {
            if !is_variable(name) || value.contains('\0') {
                let message = format!("`{name}` names no variable");
                let expected = "expected letters, digits and _, no digit first";
                return wrong(at.key("environment").key(name), message, expected);
            }
        }
        for (place, mount) in self.mounts.iter().enumerate() {
            if let Err(expected) = mount_of(mount, Path::new("/")) {
                let message = format!("`{mount}` is no mount");
                return wrong(at.key("mounts").index(place), message, expected);
            }
        }
        for (key, given) in [("workdir", &self.workdir), ("user", &self.user)] {
            let is_fit = |text: &String| {
                let is_path = key != "workdir" || text.starts_with('/');
                is_path && !text.is_empty() && !text.contains(char::is_control)
            };
            if given.as_ref().is_some_and(|text| !is_fit(text)) {
                let expected = match key {
                    "workdir" => "expected an absolute path in the container",
                    _ => "expected NAME, UID or UID:GID",
                };
                return wrong(at.key(key), format!("no {key}"), expected);
            }
        }
        if let Some(Samples(given)) = &self.samples_per_step
            && !given.is_string()
            && !given.as_f64().is_some_and(|samples| samples > 0.0)
        {
            let expected = "expected a number above 0, or `{axis}`";
            return wrong(
                at.key("samples_per_step"),
                format!("{given} samples"),
                expected,
            );
        }
        Ok(())
    }

    /// Whether something stands for this axis's value.
    pub(super) fn uses(&self, axis: &str) -> bool {
        let place = format!("{{{axis}}}");
        let samples = self.samples_per_step.as_ref();
        let samples = samples.and_then(|Samples(samples)| samples.as_str());
        let mut texts = self.command.iter().chain(self.environment.values());
        texts.any(|text| text.contains(&place)) || samples == Some(&place)
    }

    /// The program of these axes. `folder`: that of the suite.
    pub(super) fn of(&self, axes: &Axes, folder: &Path) -> Result<Program, String> {
        let fill = |text: &String| {
            let axes = axes.iter();
            axes.fold(text.clone(), |text, (axis, value)| {
                text.replace(&format!("{{{axis}}}"), value)
            })
        };
        let samples_per_step = match &self.samples_per_step {
            None => None,
            Some(Samples(Value::String(text))) => {
                let filled = fill(text);
                let number = filled.parse::<f64>().ok();
                let number = number.filter(|samples| samples.is_finite() && *samples > 0.0);
                Some(number.ok_or(filled)?)
            }
            Some(Samples(number)) => number.as_f64(),
        };
        let environment = self.environment.iter();
        let environment = environment.map(|(name, value)| (name.clone(), fill(value)));
        let (files, mounts) = (self.environment_files.iter(), self.mounts.iter());
        Ok(Program {
            file: Self {
                command: self.command.iter().map(fill).collect(),
                environment: environment.collect(),
                environment_files: files.map(|file| folder.join(file)).collect(),
                ..self.clone()
            },
            mounts: mounts
                .filter_map(|mount| mount_of(mount, folder).ok())
                .collect(),
            samples_per_step,
            launcher: self.launcher.unwrap_or_else(|| Launcher::of(&self.command)),
        })
    }
}

/// `SOURCE:TARGET`, with `:ro` or `:rw` behind it or not.
pub fn mount_of(text: &str, folder: &Path) -> Result<ProgramMount, &'static str> {
    const EXPECTED: &str =
        "expected SOURCE:/TARGET, or SOURCE:/TARGET:rw for a copy a run to write to";
    let (rest, is_scratch) = match text.rsplit_once(':') {
        Some((rest, "rw")) => (rest, true),
        Some((rest, "ro")) => (rest, false),
        _ => (text, false),
    };
    let (source, target) = rest.rsplit_once(':').ok_or(EXPECTED)?;
    let target = target.trim_end_matches('/');
    let is_fit = target.len() > 1
        && target.starts_with('/')
        && !target.split('/').any(|part| part == "..")
        && !text.contains([',', '\n', '\0'])
        && !source.is_empty();
    if !is_fit || target == "/run/torchgauge" || target.starts_with("/run/torchgauge/") {
        return Err(EXPECTED);
    }
    let source = folder.join(source);
    Ok(ProgramMount {
        // Engines take no other; where there is no current folder nothing can be mounted anyway.
        source: std::path::absolute(&source).unwrap_or(source),
        target: target.to_owned(),
        is_scratch,
    })
}

/// Whether an axis of ours sets variables alone, so that it works on any program.
pub(super) fn is_environment(axis: &str) -> bool {
    let mut ours = Axis::ALL.iter();
    ours.any(|known| known.name == axis && known.is_environment())
}

/// The variables of the axes of ours that a program's variant chose.
pub(super) fn environment_of(file: &ProgramFile, axes: &Axes) -> Variant {
    let is_ours = |axis: &str| is_environment(axis) && !file.uses(axis);
    let chosen = axes.iter().filter(|(axis, _)| is_ours(axis));
    let chosen = chosen.map(|(axis, value)| (axis.clone(), json_of(value)));
    // Each was typed when it was read.
    serde_json::from_value(Value::Object(chosen.collect())).unwrap_or_default()
}

fn json_of(text: &str) -> Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => text.into(),
    }
}

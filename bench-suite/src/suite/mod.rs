//! Suites: what to measure, read from `scenarios/*.yaml`.
//!
//! A suite names scenarios; each is a model and a task with axes, whose Cartesian product are the
//! variants. Everything is checked when the suite is read, for every device that a scenario is
//! for, so that a suite that reads on one machine reads on all of them. A combination that means
//! nothing is an error with its place in the file; a suite says itself what it leaves out
//! (`exclude`, `devices`). The format is described in `scenarios/suites.md`.

mod catalog;
mod claims;
mod expand;
mod expect;
mod file;
mod limits;
mod question;
mod thresholds;
mod units;
mod validity;
mod values;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use protocol::{Device, Model, Steps, Task, Variant};
use record::{Claim, Reason, SuiteQuestion, ValidityLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use strict_yaml::{Document, YamlError};

pub use catalog::{Catalog, Listed};
pub use limits::{Ipc, Limits, Ulimit};

/// Version of the suite format.
pub const VERSION: u32 = 1;
/// Most cells of one suite.
pub const MAX_CELLS: usize = 1000;
/// Most blocks of a session.
pub const MAX_BLOCKS: u32 = 1000;

/// Why a suite cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file is wrong; [`YamlError::render`] shows where.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The folder of suites cannot be listed.
    #[error("cannot list the suites in {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No such suite.
    #[error(
        "there is no suite `{name}` in {folder}; there are {}{}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") },
        meant.as_ref().map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where was looked.
        folder: PathBuf,
        /// What is there.
        known: Vec<String>,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// The file's name cannot be a suite's.
    #[error(
        "{path}: a suite is named after its file; expected up to 40 of a-z, 0-9 and -, \
         then .yaml, such as smoke.yaml"
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
}

impl SuiteError {
    /// The error as it is shown to people; see [`YamlError::render`].
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Yaml(error) => error.render(color),
            other => format!("{other}\n"),
        }
    }
}

/// Where a scenario may run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The CPU.
    Cpu,
    /// A CUDA GPU.
    Cuda,
}

impl DeviceKind {
    /// A device of this kind, for checks that do not care which.
    #[must_use]
    pub fn any(self) -> Device {
        match self {
            Self::Cpu => Device::Cpu,
            Self::Cuda => Device::Cuda(0),
        }
    }

    /// The word in suites.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => Self::Cpu,
            Device::Cuda(_) => Self::Cuda,
        }
    }
}

/// A suite whose every cell is sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name: the file's, without `.yaml`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// What it asks, where it says so.
    pub question: Option<SuiteQuestion>,
    /// How many blocks, unless the user says otherwise.
    pub blocks: u32,
    /// The scenarios, in the file's order.
    pub scenarios: Vec<Scenario>,
    /// What somebody claimed, for a session to judge.
    pub claims: Vec<Claim>,
}

/// One scenario of a suite, expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name, unique in the suite.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// How many steps.
    pub steps: Steps,
    /// Seed of parameters, data and dropout.
    pub seed: u64,
    /// Threads for work on the CPU; `None`: as many as the run may use.
    pub threads: Option<u32>,
    /// What a run may use.
    pub limits: Limits,
    /// Relative changes that count as none, by metric, where the suite sets its own.
    pub thresholds: BTreeMap<String, f64>,
    /// From when on the machine is not fit to measure on.
    pub validity: ValidityLimits,
    /// The variants, in the order of the axes, included ones last.
    pub variants: Vec<ScenarioVariant>,
}

/// One variant and where it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioVariant {
    /// The choice on every axis.
    pub variant: Variant,
    /// The devices, at least one.
    pub devices: Vec<DeviceKind>,
    /// How its runs are to fail there; nothing where they are to end well.
    pub expected: BTreeMap<DeviceKind, Reason>,
}

impl Suite {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, SuiteError> {
        let name = catalog::name_of(path)?;
        let document = Document::read(path)?;
        Ok(Self::from_document(name, path, &document)?)
    }

    /// Reads and checks a text; `path` stands in errors.
    pub fn from_text(path: &str, text: &str) -> Result<Self, SuiteError> {
        let name = catalog::name_of(Path::new(path))?;
        let document = Document::from_text(path, text)?;
        Ok(Self::from_document(name, Path::new(path), &document)?)
    }

    fn from_document(name: String, path: &Path, document: &Document) -> Result<Self, YamlError> {
        let file: file::SuiteFile = file::read(document)?;
        let digest = Sha256::digest(document.text().as_bytes());
        let scenarios = expand::scenarios(document, &file)?;
        Ok(Self {
            name,
            path: path.to_owned(),
            digest: format!("{digest:x}"),
            description: file.description.clone(),
            question: question::read(document, &file)?,
            blocks: file.defaults.blocks,
            claims: claims::read(document, &file.claims, &scenarios)?,
            scenarios,
        })
    }

    /// Variants of all scenarios that are for this device.
    #[must_use]
    pub fn cells(&self, device: DeviceKind) -> usize {
        self.scenarios
            .iter()
            .map(|scenario| scenario.variants_for(device).count())
            .sum()
    }
}

impl Scenario {
    /// The variants that are for this device.
    pub fn variants_for(&self, device: DeviceKind) -> impl Iterator<Item = &ScenarioVariant> {
        self.variants
            .iter()
            .filter(move |one| one.devices.contains(&device))
    }
}

/// The JSON Schema of suite files, as committed in `scenarios/suite.schema.json`.
///
/// # Panics
/// Never: a schema always serialises.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(file::SuiteFile);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

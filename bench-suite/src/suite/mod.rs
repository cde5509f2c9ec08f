//! Suites: what to measure, read from `scenarios/*.yaml`.
//!
//! A suite names scenarios; each is a model and a task with axes, whose Cartesian product are the
//! variants. Everything is checked when the suite is read, for every device that a scenario is
//! for, so that a suite that reads on one machine reads on all of them. A combination that means
//! nothing is an error with its place in the file; a suite says itself what it leaves out
//! (`exclude`, `devices`). The format is described in `scenarios/suites.md`.

mod axes;
mod catalog;
mod claims;
mod declared;
mod expand;
mod expect;
mod file;
mod limits;
mod program;
mod question;
mod ranks;
mod scenario;
mod thresholds;
pub(crate) mod units;
mod validity;
mod values;

use std::path::{Path, PathBuf};

use metrics::Rows;
use record::{Claim, DeclaredMetric, SuiteQuestion};
use sha2::{Digest, Sha256};
use strict_yaml::{Document, YamlError};

pub use catalog::Catalog;
pub use engine::{Ipc, Network, Ulimit};
pub use expand::MAX_CELLS;
pub use file::{MAX_BLOCKS, VERSION};
pub use limits::Limits;
pub use program::{Launcher, Program, ProgramFile, ProgramMount, Samples, is_variable, mount_of};
pub use ranks::RANKS_AXIS;
pub use scenario::{DeviceKind, Scenario, ScenarioVariant, Work};
pub use validity::ValidityKeys;

/// Stands for keys that are missing or wrong while further mistakes are looked for.
const STAND_INS: [(&str, &str); 6] = [
    ("version", "1"),
    ("description", "\"\""),
    ("name", "\"\""),
    ("command", "[\"true\"]"),
    ("warmup", "1"),
    ("measured", "1"),
];

/// Why a suite cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file is wrong; [`YamlError::render`] shows where.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error("{0}")]
    Refused(String),
}

impl SuiteError {
    /// The error as it is shown to people; see [`YamlError::render`].
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Yaml(error) => error.render(color),
            Self::Refused(why) => format!("{why}\n"),
        }
    }
}

/// A suite whose every cell is sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name: the file's, without `.yaml`.
    pub name: String,
    pub path: PathBuf,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// What it asks, where it says so.
    pub question: Option<SuiteQuestion>,
    /// How many blocks, by default.
    pub blocks: u32,
    /// The scenarios, in the file's order.
    pub scenarios: Vec<Scenario>,
    pub metrics: Vec<DeclaredMetric>,
    /// What somebody claimed, for a session to judge.
    pub claims: Vec<Claim>,
}

impl Suite {
    pub fn read(path: &Path) -> Result<Self, SuiteError> {
        let name = catalog::name_of(path)?;
        let document = Document::read(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self::from_document(&name, path, &document, Some(folder))?)
    }

    /// Reads and checks a text; `path` stands in errors. What it mounts may lie anywhere: the text
    /// is the user's own.
    pub fn from_text(path: &str, text: &str) -> Result<Self, SuiteError> {
        let name = catalog::name_of(Path::new(path))?;
        let document = Document::from_text(path, text)?;
        let path = Path::new(path);
        Ok(Self::from_document(&name, path, &document, None)?)
    }

    fn from_document(
        name: &str,
        path: &Path,
        document: &Document,
        folder: Option<&Path>,
    ) -> Result<Self, YamlError> {
        file::check_version(document)?;
        document.read_whole(&STAND_INS, |document| {
            let file: file::SuiteFile = file::read(document)?;
            let digest = Sha256::digest(document.text().as_bytes());
            let metrics = declared::read(document, &file.metrics)?;
            let rows = Rows::with(&metrics);
            let scenarios = expand::scenarios(document, &file, folder)?;
            let question = question::read(document, &file, &rows)?;
            let claims = claims::read(document, &file.claims, &scenarios, &rows)?;
            file::check_names(document, &file)?;
            Ok(Self {
                name: name.to_owned(),
                path: path.to_owned(),
                digest: format!("{digest:x}"),
                description: file.description.clone(),
                question,
                blocks: file.defaults.blocks,
                claims,
                metrics,
                scenarios,
            })
        })
    }

    /// Variants of all scenarios that are for this device.
    pub fn cells(&self, device: DeviceKind) -> usize {
        let scenarios = self.scenarios.iter();
        scenarios
            .map(|scenario| scenario.variants_for(device).count())
            .sum()
    }
}

/// The JSON Schema of suite files, as committed in `scenarios/suite.schema.json`.
pub fn schema() -> String {
    let schema = schemars::schema_for!(file::SuiteFile);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

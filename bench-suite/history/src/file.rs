//! The file of one session: what a history keeps of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use metrics::Rows;
use protocol::Axes;
use record::{DeclaredMetric, Labels, Method, Workload};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    SeriesFilter,
    disk::{file_name, folder_name},
};

/// The version of every file in a history; any other is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub(crate) struct Version;

const VERSION: u32 = 1;

impl TryFrom<u32> for Version {
    type Error = String;

    fn try_from(version: u32) -> Result<Self, String> {
        match version {
            VERSION => Ok(Self),
            _ => Err(format!(
                "version {version}, expected {VERSION}; use the Torchgauge that wrote the file"
            )),
        }
    }
}

impl From<Version> for u32 {
    fn from(_: Version) -> Self {
        VERSION
    }
}

/// What a point was measured with, by attribute: `image`, `image_id`, `libtorch`, `driver`, `engine`,
/// `kernel`, `gpu` (a UUID), `load` (of others: `low` or `high`). What is not known, or not used, is left out.
pub type Attributes = BTreeMap<String, String>;

/// A session with the values of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionFile {
    pub(crate) version: Version,
    pub(crate) session: String,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) complete: bool,
    pub(crate) tool: Tool,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
    pub(crate) machine: Machine,
    pub(crate) images: BTreeMap<String, Image>,
    /// Settings by fingerprint.
    pub(crate) methods: BTreeMap<String, Method>,
    /// What the metrics are that are not built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics: Vec<DeclaredMetric>,
    #[serde(skip_deserializing)]
    pub(crate) cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub(crate) version: String,
    pub(crate) revision: Option<String>,
}

/// What machines of one class have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) cpu: String,
    pub(crate) logical_cores: u32,
    pub(crate) gpus: Vec<String>,
    pub(crate) driver: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) track: String,
    pub(crate) attributes: Attributes,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub(crate) facts: Arc<CellFacts>,
    /// Runs that went well.
    pub(crate) runs: Vec<Run>,
    /// The values of these runs, in the same order; of a file that was read, those asked for.
    pub(crate) metrics: BTreeMap<String, Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<Failure>,
}

/// What a cell is, which is the same from session to session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CellFacts {
    pub(crate) image: String,
    pub(crate) suite: String,
    pub(crate) scenario: String,
    pub(crate) workload: Workload,
    pub(crate) axes: Axes,
    /// The axes as reports write them.
    #[serde(skip)]
    pub(crate) variant: String,
    pub(crate) device: String,
    /// The fingerprint; empty where nothing is known.
    pub(crate) method: String,
    /// Those that differ from cell to cell of an image.
    pub(crate) attributes: Attributes,
    /// The noise thresholds that the suite sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) thresholds: BTreeMap<String, f64>,
}

/// A file whose cells are still text, by key: they are read no further than is asked for.
#[derive(Deserialize)]
#[serde(expecting = "a map")]
struct FileText<'a> {
    #[serde(flatten)]
    file: SessionFile,
    #[serde(borrow)]
    cells: Option<Vec<BTreeMap<&'a str, &'a RawValue>>>,
}

/// The cells of the files that were read before, by their text.
#[derive(Debug, Default)]
pub(crate) struct KnownCells(Mutex<HashMap<String, Arc<CellFacts>>>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) attempt: u32,
    pub(crate) block: u32,
    pub(crate) started: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    #[serde(flatten)]
    pub(crate) run: Run,
    pub(crate) reason: String,
}

impl SessionFile {
    /// Where it lies below the results of a history.
    pub(crate) fn place(&self) -> PathBuf {
        let suites: BTreeSet<&str> = self.cells.iter().map(|cell| &*cell.facts.suite).collect();
        let tracks: BTreeSet<&str> = self.images.values().map(|image| &*image.track).collect();
        let folders = [
            folder_name([&*self.machine.name]),
            folder_name(suites),
            folder_name(tracks),
        ];
        let folder: PathBuf = folders.iter().collect();
        folder.join(file_name(&self.session))
    }

    /// What it was measured at: the label, else the commit of the tool.
    pub(crate) fn revision(&self) -> Option<&str> {
        let own = self.labels.revision.as_deref();
        own.or(self.tool.revision.as_deref())
    }

    /// Runs, failed ones too; how many of them failed; values.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let sum = |[runs, failed, points]: [usize; 3], cell: &Cell| {
            let values = cell.metrics.values().flatten().flatten().count();
            let all = cell.runs.len() + cell.failed.len();
            [runs + all, failed + cell.failed.len(), points + values]
        };
        self.cells.iter().fold([0; 3], sum)
    }

    /// Reads the file at `place`, below the results of a history, with the metrics that fit.
    pub(crate) fn parse(
        bytes: &[u8],
        place: &Path,
        filter: &SeriesFilter,
        known: &KnownCells,
    ) -> Result<Self, String> {
        let words = |error: serde_json::Error| error.to_string();
        let FileText { mut file, cells } = serde_json::from_slice(bytes).map_err(words)?;
        let rows = Rows::with(&file.metrics);
        let is_asked = |name: &str| filter.takes_metric(name, &rows);
        let cells = cells.ok_or("missing field `cells`")?.into_iter();
        // serde_json counts lines from where the part begins that is read.
        let told = |place: usize, why: String| {
            let (why, _) = why.split_once(" at line ").unwrap_or((&why, ""));
            format!("cells[{place}]: {why}")
        };
        let read = cells.enumerate().map(|(place, text)| {
            Cell::read(text, &is_asked, known).map_err(|why| told(place, why))
        });
        file.cells = read.collect::<Result<_, _>>()?;
        let unknown = |cell: &&Cell| !file.images.contains_key(&cell.facts.image);
        if let Some(cell) = file.cells.iter().find(unknown) {
            let image = &cell.facts.image;
            return Err(format!(
                "a cell is of image {image}, which `images` does not list"
            ));
        }
        let own = file.place();
        if own != place {
            let own = own.display();
            return Err(format!("it is the file of {own}; move or remove it"));
        }
        Ok(file)
    }
}

impl Cell {
    fn read(
        mut text: BTreeMap<&str, &RawValue>,
        is_asked: &impl Fn(&str) -> bool,
        known: &KnownCells,
    ) -> Result<Self, String> {
        fn value<'t, T: Deserialize<'t>>(key: &str, text: &'t RawValue) -> Result<T, String> {
            serde_json::from_str(text.get()).map_err(|error| format!("{key}: {error}"))
        }
        let missing = |key| format!("it lacks `{key}`");
        let runs = text.remove("runs").ok_or_else(|| missing("runs"))?;
        let all = text.remove("metrics").ok_or_else(|| missing("metrics"))?;
        let failed = text.remove("failed");
        let facts = known.facts(&text)?;
        let runs: Vec<Run> = value("runs", runs)?;
        let mut metrics = BTreeMap::new();
        for (name, text) in value::<BTreeMap<&str, &RawValue>>("metrics", all)? {
            if !is_asked(name) {
                continue;
            }
            let values: Vec<Option<f64>> = value(name, text)?;
            if values.len() != runs.len() {
                return Err(format!(
                    "{} {}: {name} has {} values, expected one for each of {} runs",
                    facts.scenario,
                    facts.variant,
                    values.len(),
                    runs.len()
                ));
            }
            metrics.insert(name.to_owned(), values);
        }
        Ok(Self {
            facts,
            runs,
            metrics,
            failed: failed.map_or_else(|| Ok(Vec::new()), |text| value("failed", text))?,
        })
    }
}

impl KnownCells {
    fn facts(&self, text: &BTreeMap<&str, &RawValue>) -> Result<Arc<CellFacts>, String> {
        let words = |error: serde_json::Error| error.to_string();
        let text = serde_json::to_string(text).map_err(words)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = known.get(&text) {
            return Ok(Arc::clone(facts));
        }
        let mut facts: CellFacts = serde_json::from_str(&text).map_err(words)?;
        if let Some(problem) = facts.axes.problem() {
            return Err(problem);
        }
        facts.variant = facts.axes.to_string();
        let facts = Arc::new(facts);
        known.insert(text, Arc::clone(&facts));
        Ok(facts)
    }
}

impl CellFacts {
    /// What identifies it within its session.
    pub(crate) fn key(&self) -> [&str; 6] {
        let Self {
            image,
            suite,
            scenario,
            variant,
            device,
            method,
            ..
        } = self;
        [image, suite, scenario, variant, device, method]
    }
}

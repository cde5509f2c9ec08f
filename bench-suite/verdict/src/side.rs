//! One side of a comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use metrics::Rows;
use protocol::{Axes, Variant};
use record::{CellPlan, ImageFacts, Look, Record, Session, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a side's runs come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub session: String,
    pub image: String,
    pub image_id: Option<String>,
    pub libtorch_version: Option<String>,
    pub machine: String,
    /// The GPU, or the CPU where no GPU was used.
    pub device: String,
    pub driver_version: Option<String>,
    /// The one value of an axis that the side is kept to, as `precision=fp32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

/// `SESSION:IMAGE`, with the value that it is kept to.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A session's file may be another's.
        write!(f, "{}:{}", printable(&self.session), printable(&self.image))?;
        match &self.choice {
            Some(choice) => write!(f, " with {choice}"),
            None => Ok(()),
        }
    }
}

/// All runs of one image in one session.
#[derive(Debug, Clone)]
pub struct Side<'a> {
    pub origin: Origin,
    session: &'a Session,
    runs: Vec<&'a Record>,
    /// The axis on which two sides of one image differ, and this side's value; cells are named
    /// without it.
    choice: Option<(String, String)>,
}

/// Why a side cannot be picked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SideError {
    #[error(
        "session {session} has several images; name one: {}",
        choices(session, images)
    )]
    Ambiguous {
        session: String,
        images: BTreeSet<String>,
    },
    #[error(
        "session {session} has no image `{image}`; it has: {}",
        choices(session, images)
    )]
    NoImage {
        session: String,
        image: String,
        images: BTreeSet<String>,
    },
    #[error("session {session} has no runs yet; let `bench` finish, or resume it")]
    Empty { session: String },
    #[error("no axis is named `{axis}`; there are: {}", Variant::AXES.join(", "))]
    NoAxis { axis: String },
    #[error(
        "no run of {session}:{image} has {axis}={value}; {}",
        if values.is_empty() {
            format!("none sets {axis}")
        } else {
            format!("there are: {}", values.iter().cloned().collect::<Vec<_>>().join(", "))
        }
    )]
    NoValue {
        session: String,
        image: String,
        axis: String,
        value: String,
        values: BTreeSet<String>,
    },
}

fn choices(session: &str, images: &BTreeSet<String>) -> String {
    let all: Vec<_> = images
        .iter()
        .map(|image| format!("{session}:{image}"))
        .collect();
    all.join(", ")
}

impl<'a> Side<'a> {
    /// The runs of `image`; of the session's only image where none is named.
    pub fn pick(
        session: &'a Session,
        records: &'a [Record],
        image: Option<&str>,
    ) -> Result<Self, SideError> {
        let images: BTreeSet<String> = records.iter().map(|run| run.image.clone()).collect();
        let name = session.session.clone();
        let image = match (image, images.len()) {
            (Some(image), _) if images.contains(image) => image.to_owned(),
            (Some(image), _) => {
                return Err(SideError::NoImage {
                    session: name,
                    image: image.to_owned(),
                    images,
                });
            }
            (None, 0) => return Err(SideError::Empty { session: name }),
            (None, 1) => images.into_iter().next().unwrap_or_default(),
            (None, _) => {
                return Err(SideError::Ambiguous {
                    session: name,
                    images,
                });
            }
        };
        let runs: Vec<&Record> = records.iter().filter(|run| run.image == image).collect();
        let facts = session.images.iter().find(|facts| facts.name == image);
        let machine = match runs.first() {
            Some(run) => session.machine_of(run),
            None => session.machine(),
        };
        let gpu = runs
            .iter()
            .find_map(|run| run.started.as_ref()?.cuda.as_ref())
            .map(|cuda| &cuda.device_name);
        Ok(Self {
            origin: Origin {
                session: name,
                image_id: facts.and_then(|facts| facts.id.clone()),
                libtorch_version: facts.map(|facts| facts.libtorch_version.clone()),
                machine: session.machine_names(),
                device: gpu.unwrap_or(&machine.cpu.model).clone(),
                driver_version: machine.driver_version.clone(),
                image,
                choice: None,
            },
            session,
            runs,
            choice: None,
        })
    }

    /// What the metrics mean where this is the base and `other` the head.
    pub(crate) fn rows(&self, other: &Self) -> Rows {
        // As with the suites' thresholds, the head's count.
        Rows::with(other.session.metrics.iter().chain(&self.session.metrics))
    }

    pub(crate) fn session(&self) -> &'a Session {
        self.session
    }

    /// The image, where the session tells of it.
    pub(crate) fn image(&self) -> Option<&'a ImageFacts> {
        let mut images = self.session.images.iter();
        images.find(|facts| facts.name == self.origin.image)
    }

    /// The looks after which the session decided whether to go on.
    pub(crate) fn looks(&self) -> &'a [Look] {
        let deciding = self.session.deciding.as_ref();
        deciding.map_or(&[], |deciding| &deciding.looks)
    }

    /// The runs with this value on `axis`. Cells are then named without the axis, so that two
    /// values of it can be compared with each other.
    pub fn along(&self, axis: &str, value: &str) -> Result<Self, SideError> {
        let is_known = |plan: &CellPlan| plan.axes.contains_key(axis);
        if !Variant::AXES.contains(&axis) && !self.session.cells.iter().any(is_known) {
            let axis = axis.to_owned();
            return Err(SideError::NoAxis { axis });
        }
        let mut side = self.clone();
        side.origin.choice = Some(format!("{axis}={value}"));
        side.choice = Some((axis.to_owned(), value.to_owned()));
        side.runs = self
            .runs
            .iter()
            .copied()
            .filter(|run| side.has(&run.axes))
            .collect();
        if side.runs.is_empty() {
            let runs = self.runs.iter();
            let values = runs.filter_map(|run| run.axes.get(axis).cloned());
            return Err(SideError::NoValue {
                session: self.origin.session.clone(),
                image: self.origin.image.clone(),
                axis: axis.to_owned(),
                value: value.to_owned(),
                values: values.collect(),
            });
        }
        Ok(side)
    }

    /// The noise thresholds that the suite sets for each of the side's cells, by metric.
    pub(crate) fn thresholds(&self) -> BTreeMap<Cell, &'a BTreeMap<String, f64>> {
        let own = self.session.cells.iter().filter(|plan| {
            plan.image == self.origin.image && !plan.thresholds.is_empty() && self.has(&plan.axes)
        });
        own.map(|plan| {
            let cell = self.cell(&plan.suite, &plan.scenario, &plan.axes);
            (cell, &plan.thresholds)
        })
        .collect()
    }

    /// Whether a variant is on the side, which may be kept to one value of an axis.
    fn has(&self, axes: &Axes) -> bool {
        let is_chosen = |(axis, value): &(String, String)| axes.get(axis) == Some(value);
        self.choice.as_ref().is_none_or(is_chosen)
    }

    fn cell(&self, suite: &str, scenario: &str, axes: &Axes) -> Cell {
        Cell {
            suite: suite.to_owned(),
            scenario: scenario.to_owned(),
            variant: match &self.choice {
                Some((chosen, _)) => axes.without(chosen),
                None => axes.to_string(),
            },
        }
    }

    /// Session, image and suites, for an error.
    pub(crate) fn contents(&self) -> String {
        let suites = self.runs.iter().map(|run| run.suite.as_str());
        let suites: BTreeSet<&str> = suites.collect();
        format!("{} has {}", self.origin, Vec::from_iter(suites).join(", "))
    }

    pub fn shares_a_cell(&self, other: &Side<'_>) -> bool {
        let (own, others) = (self.cells(), other.cells());
        own.keys().any(|cell| others.contains_key(cell))
    }

    /// Cell → block → the last run of it.
    pub(crate) fn cells(&self) -> BTreeMap<Cell, Runs<'a>> {
        let mut cells: BTreeMap<Cell, Runs<'a>> = BTreeMap::new();
        for run in &self.runs {
            let cell = self.cell(&run.suite, &run.scenario, &run.axes);
            let blocks = cells.entry(cell).or_default();
            let newest = blocks.entry(run.block).or_insert(run);
            if run.attempt >= newest.attempt {
                *newest = run;
            }
        }
        cells
    }
}

/// Block to the last record of the run.
pub(crate) type Runs<'a> = BTreeMap<u32, &'a Record>;

/// What two sides are compared on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) suite: String,
    pub(crate) scenario: String,
    pub(crate) variant: String,
}

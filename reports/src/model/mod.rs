//! What a report says, before it has a form: [`Report`] for programs, and [`View`], which adds
//! the order in which people read it.

mod again;
pub(crate) mod answers;
pub mod changes;
pub mod contaminated;
mod footprint;
mod group;
pub(crate) mod headline;
mod metrics;
pub(crate) mod run_peak;
mod sentences;
mod spread;
mod standings;
pub mod time;
pub mod versions;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use ::metrics::{Metric, catalogue};
use jiff::Timestamp;
use protocol::{Device, Model, Task, Variant};
use record::{
    Deciding, EngineFacts, FolderError, ImageFacts, Machine, Outcome, Reason, Record, Records,
    Session, SessionFolder, Stage, SuiteQuestion, Tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{ClaimFound, ScenarioPairs, Verdicts};

use crate::{Past, format};

pub use changes::Change;
pub use contaminated::Contaminated;
pub use footprint::Footprint;
pub use group::{Contender, Group, Row};
pub use headline::{Counts, GateOutcome, Headline};
pub use metrics::CellMetrics;
pub use spread::Spread;
pub use standings::{Standings, VariantVerdicts};
pub use time::TimeParts;

/// Version of `report.json`.
pub const VERSION: u32 = 4;

/// One session, as read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The plan and the facts.
    pub session: Session,
    /// The runs.
    pub records: Records,
}

impl Source {
    /// Reads a session's folder. Attempts that were cut off or failed by the engine, and came to
    /// something later, are left out.
    pub fn read(folder: &SessionFolder) -> Result<Self, FolderError> {
        let mut records = folder.read_records()?;
        let mut last = BTreeMap::new();
        for record in &records.records {
            last.insert(record.run.clone(), record.attempt);
        }
        records.records.retain(|record| {
            let is_open = matches!(
                record.outcome.reason(),
                Some(Reason::Interrupted | Reason::Engine | Reason::GpuLost)
            );
            !is_open || last.get(&record.run) == Some(&record.attempt)
        });
        Ok(Self {
            session: folder.read_session()?,
            records,
        })
    }
}

/// `report.json`: the metrics of one or more sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// What was asked, what was compared, and what it came to.
    #[serde(default)]
    pub headline: Headline,
    /// What was found, in plain sentences.
    pub summary: Vec<String>,
    /// What to know before believing the metrics.
    pub warnings: Vec<String>,
    /// The sessions, in the order given.
    pub sessions: Vec<SessionSummary>,
    /// The cells of all sessions: by session, in the order of the plan.
    pub cells: Vec<CellSummary>,
    /// Every run that failed, contaminated attempts included.
    pub failures: Vec<Failure>,
    /// Every try that something else on the machine contaminated.
    #[serde(default)]
    pub contaminated: Vec<Contaminated>,
}

impl Report {
    /// The failures that are neither expected nor contaminated attempts.
    pub fn own_failures(&self) -> impl Iterator<Item = &Failure> {
        let failures = self.failures.iter();
        failures.filter(|failure| failure.reason != Reason::Contaminated && !failure.expected)
    }
}

/// One session: how it was run, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// Its name.
    pub session: String,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// Whether every planned run has a record.
    pub complete: bool,
    /// What measured.
    pub tool: Tool,
    /// The machine.
    pub machine: Machine,
    /// Where runs executed.
    pub engine: EngineFacts,
    /// Where the work ran.
    pub device: Device,
    /// Every device that a run was sent to.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The suites, by name, with the SHA-256 of their text.
    pub suites: BTreeMap<String, String>,
    /// What the suites ask, by name, where they say it.
    #[serde(default)]
    pub questions: BTreeMap<String, SuiteQuestion>,
    /// The images.
    pub images: Vec<ImageFacts>,
    /// Blocks planned.
    pub blocks: u32,
    /// Seed of the order within blocks.
    pub order_seed: u64,
    /// Runs recorded.
    pub runs: usize,
    /// Runs that failed, and were not expected to.
    pub failed: usize,
    /// Notes on the session.
    pub notes: Vec<String>,
    /// How the session looked at its own metrics to know when to end; `None` where the number of
    /// blocks was fixed beforehand.
    #[serde(default)]
    pub deciding: Option<Deciding>,
    /// What the session compares: its images, the first one against each other one, or what it was
    /// to decide between.
    #[serde(default)]
    pub comparisons: Vec<Verdicts>,
    /// The variants of each scenario against its first one, where the session compares neither
    /// images nor two values of an axis.
    #[serde(default)]
    pub variants: Vec<VariantVerdicts>,
    /// What its suites claim, judged.
    #[serde(default)]
    pub claims: Vec<ClaimFound>,
}

/// One cell of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    /// The session's name.
    pub session: String,
    /// The image's name, or `local`.
    pub image: String,
    /// The suite's name.
    pub suite: String,
    /// The scenario's name.
    pub scenario: String,
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// The choice on every axis.
    pub variant: Variant,
    /// Scenario and variant as one line: what images are compared on.
    pub cell: String,
    /// Runs planned.
    pub planned: u32,
    /// Runs recorded.
    pub runs: usize,
    /// Runs that succeeded: those behind the metrics.
    pub ok: usize,
    /// Runs that failed, and were not expected to.
    pub failed: usize,
    /// Runs that failed as their suite expects.
    #[serde(default, skip_serializing_if = "is_none")]
    pub expected: usize,
    /// Every metric over the successful runs.
    pub metrics: CellMetrics,
    /// What made the peak of a whole run, where it lies above that of the measured steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_peak_made_by: Option<String>,
    /// Where the time of a run goes; `None` without a successful run.
    pub time: Option<TimeParts>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// One run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The session's name.
    pub session: String,
    /// The run's name.
    pub run: String,
    /// The image's name.
    pub image: String,
    /// Scenario and variant.
    pub cell: String,
    /// The block, from 0.
    pub block: u32,
    /// Which try it was, from 1.
    pub attempt: u32,
    /// Why, as a type.
    pub reason: Reason,
    /// Where.
    pub stage: Stage,
    /// Why, in words.
    pub message: String,
    /// Whether its suite expects it to fail so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
    /// The log, relative to the session folder.
    pub log: Option<String>,
}

/// A report with the runs behind it, in the order in which people read it.
#[derive(Debug)]
pub struct View<'a> {
    /// The metrics.
    pub report: Report,
    /// The images; with several sessions, the images of each.
    pub contenders: Vec<Contender>,
    /// The scenarios with their variants.
    pub groups: Vec<Group>,
    /// The runs of every cell of the report, in the order in which they ended.
    pub runs: Vec<Vec<&'a Record>>,
    /// The commands that run each cell of the report again.
    pub commands: Vec<String>,
    /// What the cells are against each other.
    pub standings: Standings,
    /// What a history knows of their metrics; empty where none was given.
    pub past: Vec<Past>,
}

impl<'a> View<'a> {
    /// Of one or more sessions.
    #[must_use]
    pub fn of(sources: &'a [Source]) -> Self {
        let mut cells = Vec::new();
        let mut runs = Vec::new();
        let mut commands = Vec::new();
        let mut failures = Vec::new();
        let mut contaminated = Vec::new();
        let mut unjudged = Vec::new();
        for source in sources {
            for (cell, of_cell) in group::cells(source) {
                commands.push(again::command(&source.session, &cell));
                cells.push(cell);
                runs.push(of_cell);
            }
            failures.extend(source.records.records.iter().filter_map(failure));
            contaminated.extend(contaminated::of(&source.records.records));
        }
        let mut sessions = Vec::new();
        let mut pairs = Vec::new();
        for source in sources {
            let (summary, of_session) = session(source, &mut unjudged);
            pairs.push((summary.session.clone(), of_session));
            sessions.push(summary);
        }
        let standings = Standings::of(pairs, &cells);
        let report = Report {
            version: VERSION,
            headline: Headline::default(),
            summary: Vec::new(),
            warnings: Vec::new(),
            sessions,
            cells,
            failures,
            contaminated,
        };
        let contenders = group::contenders(&report);
        let groups = group::groups(&report, &contenders);
        let mut view = Self {
            report,
            contenders,
            groups,
            runs,
            commands,
            standings,
            past: Vec::new(),
        };
        let clean = |lines: Vec<String>| lines.iter().map(|line| format::clean(line)).collect();
        view.report.headline = headline::of(&view, sources);
        view.report.summary = clean(sentences::of(&view));
        view.report.warnings = clean(warnings::of(&view, sources));
        view.report.warnings.extend(clean(unjudged));
        view
    }

    /// With what a history knows of the metrics.
    #[must_use]
    pub fn with_past(self, past: Vec<Past>) -> Self {
        Self { past, ..self }
    }

    /// The successful runs of a cell.
    #[must_use]
    pub fn good_runs(&self, cell: usize) -> Vec<&'a Record> {
        self.runs[cell]
            .iter()
            .copied()
            .filter(|run| run.outcome.is_ok())
            .collect()
    }

    /// Whether several images, or images of several sessions, stand side by side.
    #[must_use]
    pub fn has_several(&self) -> bool {
        self.contenders.len() > 1
    }

    /// Whether there are so many cells that a page shows less of each: its pictures are folded by
    /// scenario, and what only looks into single runs is left out.
    #[must_use]
    pub fn is_large(&self) -> bool {
        const LARGE: usize = 120;
        self.report.cells.len() > LARGE
    }

    /// The median throughput of a cell.
    #[must_use]
    pub fn throughput(&self, cell: usize) -> Option<f64> {
        self.report.cells[cell]
            .metrics
            .median(&catalogue::THROUGHPUT)
    }

    /// The label of the contender that a cell belongs to.
    #[must_use]
    pub fn label_of(&self, cell: usize) -> &str {
        &self.contenders[self.contender_of(cell)].label
    }

    /// What is said of a cell, and of which contender where there are several.
    #[must_use]
    pub fn name_in(&self, said: &str, cell: usize) -> String {
        if self.has_several() {
            format!("{said} in {}", self.label_of(cell))
        } else {
            said.to_owned()
        }
    }

    /// The contender that a cell belongs to.
    #[must_use]
    pub fn contender_of(&self, cell: usize) -> usize {
        let CellSummary { session, image, .. } = &self.report.cells[cell];
        self.contenders
            .iter()
            .position(|contender| contender.session == *session && contender.image == *image)
            .unwrap_or(0)
    }

    /// A cell in few words: its scenario, and what tells it from the scenario's other variants.
    #[must_use]
    pub fn short_name(&self, cell: usize) -> String {
        let mut lanes = self
            .groups
            .iter()
            .flat_map(|group| group.lanes().map(move |lane| (group, lane)));
        lanes.find(|(_, (_, other))| *other == cell).map_or_else(
            String::new,
            |(group, (row, _))| {
                if row.label == group.scenario {
                    row.label.clone()
                } else {
                    format!("{} {}", group.scenario, row.label)
                }
            },
        )
    }

    /// What the labels of the contenders are: the head of their column.
    #[must_use]
    pub fn contender_head(&self) -> &'static str {
        match self.contenders.first() {
            Some(first) if first.label == format::clean(&first.session) => "session",
            Some(first) if first.label != format::clean(&first.image) => "image @ session",
            _ => "image",
        }
    }

    /// Why a cell has no successful run, in few words.
    #[must_use]
    pub fn why_nothing(&self, cell: usize) -> String {
        let reasons = self.runs[cell]
            .iter()
            .filter_map(|run| run.outcome.reason());
        let reasons: BTreeSet<String> = reasons.map(Reason::word).collect();
        match (reasons.first(), reasons.len()) {
            (None, _) => "not run".to_owned(),
            (Some(only), 1) => format!("no successful run: {only}"),
            (Some(first), _) => format!("no successful run: {first} and other reasons"),
        }
    }
}

/// Sums a session up; what cannot be judged, and why, goes to `unjudged`.
fn session(source: &Source, unjudged: &mut Vec<String>) -> (SessionSummary, Vec<ScenarioPairs>) {
    let Records { records, .. } = &source.records;
    let options = verdict::Options::default();
    let comparisons =
        verdict::compare_session(&source.session, records, &options).unwrap_or_else(|error| {
            unjudged.push(format!("The images cannot be compared: {error}."));
            Vec::new()
        });
    let pairs = verdict::judge_pairs(
        &source.session,
        records,
        &comparisons,
        |suite| wanted(&source.session, suite),
        &options,
    );
    let pairs = pairs.unwrap_or_else(|error| {
        unjudged.push(format!("The variants cannot be compared: {error}."));
        Vec::new()
    });
    let variants = if comparisons.is_empty() {
        pairs.iter().filter_map(VariantVerdicts::of).collect()
    } else {
        Vec::new()
    };
    let claims = verdict::judge_claims(&source.session, records, &source.session.claims, &[])
        .unwrap_or_else(|error| {
            unjudged.push(format!("The claims cannot be judged: {error}."));
            Vec::new()
        });
    let Session {
        session,
        started_at,
        ended_at,
        complete,
        tool,
        machine,
        engine,
        device,
        suites,
        questions,
        images,
        blocks,
        order_seed,
        notes,
        deciding,
        ..
    } = source.session.clone();
    let devices: BTreeSet<String> = records.iter().map(|run| run.device.to_string()).collect();
    let devices = Vec::from_iter(devices);
    let summary = SessionSummary {
        session,
        started_at,
        ended_at,
        complete,
        tool,
        machine,
        engine,
        device,
        devices,
        suites,
        questions,
        images,
        blocks,
        order_seed,
        runs: records.len(),
        failed: records
            .iter()
            .filter(|record| !record.outcome.passes())
            .count(),
        notes,
        deciding,
        comparisons,
        variants,
        claims,
    };
    (summary, pairs)
}

/// The metrics that answer a suite's question.
fn wanted(session: &Session, suite: &str) -> Vec<&'static Metric> {
    let asked = session.questions.get(suite).into_iter();
    let names = asked.flat_map(|asked| &asked.answered_by);
    names.filter_map(|name| Metric::named(name)).collect()
}

fn failure(record: &Record) -> Option<Failure> {
    let (Outcome::Expected {
        reason,
        stage,
        message,
    }
    | Outcome::Failed {
        reason,
        stage,
        message,
    }) = &record.outcome
    else {
        return None;
    };
    Some(Failure {
        session: record.session.clone(),
        run: record.run.clone(),
        image: record.image.clone(),
        cell: record.cell(),
        block: record.block,
        attempt: record.attempt,
        reason: *reason,
        stage: *stage,
        message: message.clone(),
        expected: record.outcome.passes(),
        log: record.log.clone(),
    })
}

/// The word of a stage in records and reports.
#[must_use]
pub fn stage_word(stage: Stage) -> String {
    let word = serde_json::to_value(stage).unwrap_or_default();
    word.as_str().unwrap_or("unknown").to_owned()
}

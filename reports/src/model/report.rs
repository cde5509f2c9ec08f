//! `report.json`: what a report says, for programs.

use std::ops::Deref;

use ::metrics::catalogue;
use protocol::Axes;
use record::{Gpu, Reason, Session, Workload};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{CellVerdicts, ClaimFound, ScenarioPairs, Verdicts};

use super::{
    failure::{Contaminated, Failure},
    metrics::CellMetrics,
    time::TimeParts,
};

/// Version of `report.json`.
pub(crate) const VERSION: u32 = 6;

/// `report.json`: the metrics of one or more sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub version: u32,
    /// What was asked, what was compared, and what it came to.
    #[serde(default)]
    pub headline: Headline,
    /// What was found, in plain sentences.
    pub summary: Vec<String>,
    /// What to know before believing the metrics.
    pub warnings: Vec<String>,
    /// What else went on in runs, and in how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
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

/// One session: how it was run, on what, and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// The plan and the facts, as its folder has them but for what the command line asked for.
    #[serde(flatten)]
    pub facts: Session,
    /// Every device that a run was sent to.
    #[serde(default)]
    pub devices: Vec<String>,
    pub runs: usize,
    /// Runs that failed, and were not expected to.
    pub failed: usize,
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

impl Deref for SessionSummary {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.facts
    }
}

impl SessionSummary {
    /// What did the work, such as `NVIDIA H200`, and its GPU where it is one.
    pub(crate) fn device_name(&self) -> (&str, Option<&Gpu>) {
        let machine = self.machine();
        let gpu = machine.gpu(self.device).or_else(|| {
            let mut gpus = self.hosts.values().flat_map(|machine| &machine.gpus);
            gpus.find(|_| self.device.is_cuda())
        });
        (gpu.map_or(&machine.cpu.model, |gpu| &gpu.name), gpu)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    pub session: String,
    /// The image's name, or `local`.
    pub image: String,
    pub suite: String,
    pub scenario: String,
    pub workload: Workload,
    /// The choice on every axis.
    pub axes: Axes,
    /// Scenario and variant as one line: what images are compared on.
    pub cell: String,
    pub planned: u32,
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

impl CellSummary {
    /// CPU time over wall time while it was measured; 1 is one CPU.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let busy = self.metrics.median(&catalogue::CPU_SECONDS)?;
        Some(busy / self.metrics.median(&catalogue::MEASURED_SECONDS)?)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_none(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    pub suites: Vec<String>,
    /// What they ask.
    pub questions: Vec<String>,
    /// What was compared with what, or what was varied.
    pub compared: String,
    /// How many verdicts of each kind there are, on the metrics that the report is about; `None`
    /// where nothing was judged.
    pub counts: Option<Counts>,
    /// Runs that failed, and were not expected to.
    pub failed: usize,
    /// Whether the gate passes; `None` where no images or values of an axis are compared.
    pub gate: Option<GateOutcome>,
    /// What changed most for the worse, each a sentence without its end; a cell that works no more
    /// first.
    #[serde(default)]
    pub worst: Vec<String>,
    /// What changed most for the better.
    #[serde(default)]
    pub best: Vec<String>,
    /// What the session says to the question, in sentences.
    pub answers: Vec<String>,
}

/// How many verdicts of each kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Changed for the worse.
    pub regressed: usize,
    /// Changed for the better.
    pub improved: usize,
    /// Within the noise threshold.
    pub unchanged: usize,
    /// Neither shown.
    pub inconclusive: usize,
}

/// Whether a gate passes, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateOutcome {
    /// Whether nothing fails it.
    pub passed: bool,
    /// Whether it passes only because nothing that it looks at could be judged.
    #[serde(default)]
    pub is_empty: bool,
    pub why: String,
}

/// The variants of one scenario in one image, held against the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantVerdicts {
    pub suite: String,
    pub scenario: String,
    pub image: String,
    /// The first variant, which the others are held against.
    pub baseline: String,
    /// The other variants, judged against it.
    pub cells: Vec<CellVerdicts>,
}

impl VariantVerdicts {
    pub(super) fn of(pairs: &ScenarioPairs) -> Option<Self> {
        let first = pairs.cells.first()?;
        Some(Self {
            suite: pairs.suite.clone(),
            scenario: pairs.scenario.clone(),
            image: first.image.clone(),
            baseline: first.axes.to_string(),
            cells: pairs.against_first().cloned().collect(),
        })
    }
}

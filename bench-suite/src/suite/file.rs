//! A suite file as it is written.

use protocol::{Model, Steps, Task};
use record::{Claim, DeclaredMetric, YesWhen};
use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Document, Spot, YamlError};

use super::{
    axes::{Axes, Choice, Exclusion},
    claims::CellFile,
    expect::Expect,
    limits::LimitsFile,
    program::ProgramFile,
    ranks::RanksFile,
    scenario::DeviceKind,
    thresholds::ThresholdsFile,
    units::within,
    validity::ValidityFile,
    values::Reading,
};

pub const VERSION: u32 = 1;
pub const MAX_BLOCKS: u32 = 1000;

/// A suite: what to measure and how often.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Torchgauge suite")]
pub(super) struct SuiteFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub(super) version: u32,
    /// What the suite is for, in a sentence.
    pub(super) description: String,
    /// The question that the suite answers, for the head of its report.
    pub(super) question: Option<String>,
    /// The metrics that answer it, the first one first; by default those that are gated.
    #[serde(default)]
    pub(super) answered_by: Vec<String>,
    /// Of a question whether something is so, what makes the answer yes.
    pub(super) yes_when: Option<YesWhen>,
    /// Defaults for every scenario.
    #[serde(default)]
    pub(super) defaults: Defaults,
    /// What to measure.
    #[schemars(length(min = 1))]
    pub(super) scenarios: Vec<ScenarioFile>,
    /// Metrics that its workload yields beside the built-in ones.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub(super) metrics: Vec<DeclaredMetric>,
    /// What somebody claimed, for a session to judge.
    #[serde(default)]
    pub(super) claims: Vec<Claim<CellFile>>,
}

/// Defaults for every scenario.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    /// How often every cell runs: once in each block.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) blocks: u32,
    /// How many steps a run takes.
    pub(super) steps: Steps,
    /// Seed of parameters, data and dropout.
    pub(super) seed: u64,
    /// Threads for work on the CPU; by default as many as the run may use.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) threads: Option<u32>,
    /// What a run may use.
    pub(super) limits: LimitsFile,
    /// Relative changes that count as none, by metric.
    pub(super) thresholds: ThresholdsFile,
    /// From when on the machine is not fit to measure on.
    pub(super) validity: ValidityFile,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            blocks: 3,
            steps: Steps::new(3, 10),
            seed: 1,
            threads: None,
            limits: LimitsFile::default(),
            thresholds: ThresholdsFile::default(),
            validity: ValidityFile::default(),
        }
    }
}

/// A model and a task, or a program, with the axes whose combinations are measured.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    /// Its name, unique in the suite.
    #[schemars(regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"), length(max = 40))]
    pub(super) name: String,
    /// What it is for.
    pub(super) description: Option<String>,
    /// The model of the built-in workload; this, or a program.
    pub(super) model: Option<Model>,
    /// The model's task; training by default.
    pub(super) task: Option<Task>,
    /// A program of your own, in place of a model.
    pub(super) program: Option<ProgramFile>,
    /// Where it can run; `[cpu, cuda]` by default. On other devices it is left out.
    #[serde(default = "everywhere")]
    #[schemars(length(min = 1))]
    pub(super) devices: Vec<DeviceKind>,
    /// Values on each axis; all combinations are measured.
    #[serde(default)]
    pub(super) axes: Axes,
    /// Combinations that are left out: those that match every axis given here.
    #[serde(default)]
    pub(super) exclude: Vec<Exclusion>,
    /// Further variants, each given by the axes in which it differs from the first combination.
    #[serde(default)]
    pub(super) include: Vec<Choice>,
    /// Runs that are to fail, and how; all others are to end well.
    #[serde(default)]
    pub(super) expect: Expect,
    /// How many steps a run takes.
    pub(super) steps: Option<Steps>,
    /// Processes of a run, each on a GPU of its own; 1 by default. Several counts are an
    /// axis, of which those that a machine has no GPUs for are left out.
    #[serde(default)]
    pub(super) ranks: RanksFile,
    /// Seed of parameters, data and dropout.
    pub(super) seed: Option<u64>,
    /// A file below the suite's folder: with the requests that arrive by `arrivals: trace`, `SECONDS
    /// PROMPT_TOKENS ANSWER_TOKENS` a line, or with what the task allocation makes: `+ID BYTES` for a tensor
    /// that is made and `-ID` for one that goes, a line.
    pub(super) trace: Option<String>,
    /// Threads for work on the CPU.
    #[schemars(range(min = 1, max = 4096))]
    pub(super) threads: Option<u32>,
    /// What a run may use.
    #[serde(default)]
    pub(super) limits: LimitsFile,
    /// Relative changes that count as none, by metric.
    #[serde(default)]
    pub(super) thresholds: ThresholdsFile,
    /// From when on the machine is not fit to measure on.
    #[serde(default)]
    pub(super) validity: ValidityFile,
}

fn everywhere() -> Vec<DeviceKind> {
    vec![DeviceKind::Cpu, DeviceKind::Cuda]
}

/// Reads the form and checks everything but the axes.
pub(super) fn read(document: &Document) -> Result<SuiteFile, YamlError> {
    let file: SuiteFile = document.parse()?;
    let at = document.top().key("defaults");
    let defaults = &file.defaults;
    within(&at, "blocks", defaults.blocks, 1..=MAX_BLOCKS)?;
    check_steps(&at, defaults.steps)?;
    check_threads(&at, defaults.threads)?;
    defaults.limits.check(&at.key("limits"))?;
    defaults.thresholds.check(&at.key("thresholds"))?;
    defaults.validity.check(&at.key("validity"))?;
    let all = document.top().key("scenarios");
    if file.scenarios.is_empty() {
        return Err(all.expecting("no scenarios", "expected at least one", None));
    }
    let check = |(place, scenario): (usize, &ScenarioFile)| {
        let at = all.index(place);
        if scenario.devices.is_empty() {
            let at = at.key("devices");
            return Err(at.expecting("no device", "expected cpu, cuda", None));
        }
        if let Some(program) = &scenario.program {
            program.check(&at.key("program"))?;
        }
        if let Some(steps) = scenario.steps {
            check_steps(&at, steps)?;
        }
        check_threads(&at, scenario.threads)?;
        scenario.ranks.check(&at)?;
        scenario.limits.check(&at.key("limits"))?;
        scenario.thresholds.check(&at.key("thresholds"))?;
        scenario.validity.check(&at.key("validity"))
    };
    YamlError::all(file.scenarios.iter().enumerate().map(check))?;
    Ok(file)
}

/// Checks the scenarios' names, after all else: what has no sound name is still read.
pub(super) fn check_names(document: &Document, file: &SuiteFile) -> Result<(), YamlError> {
    let check = |(place, scenario): (usize, &ScenarioFile)| {
        let at = document.top().key("scenarios").index(place).key("name");
        let mut others = file.scenarios[..place].iter();
        let (message, expected) = if !at.is_sound() {
            return Ok(());
        } else if !is_name(&scenario.name) {
            (
                format!("`{}` is no name", scenario.name),
                "expected up to 40 of a-z, 0-9 and -, not at the ends",
            )
        } else if others.any(|other| other.name == scenario.name) {
            (
                format!("a second scenario with the name `{}`", scenario.name),
                "expected a name that no other scenario has",
            )
        } else {
            return Ok(());
        };
        Err(at.expecting(message, expected, None))
    };
    YamlError::all(file.scenarios.iter().enumerate().map(check)).map(drop)
}

/// The version first: a file of another version may have other keys, and that is the message.
pub(super) fn check_version(document: &Document) -> Result<(), YamlError> {
    match document.value().get("version") {
        Some(got) if got.is_u64() && *got != u64::from(VERSION) => {
            let message = format!("a suite of version {got}");
            let expected = format!("expected {VERSION}, the version that this Torchgauge reads");
            Err(document
                .top()
                .key("version")
                .expecting(message, expected, None))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum WorkFile<'a> {
    Builtin(Model, Task),
    Program(&'a ProgramFile),
}

impl<'a> WorkFile<'a> {
    /// How the values of its axes are read.
    pub(super) fn reading(self) -> Reading<'a> {
        match self {
            Self::Builtin(..) => Reading::Builtin,
            Self::Program(program) => Reading::Program(program),
        }
    }
}

/// What a scenario runs: a model or a program, and not both.
pub(super) fn work_of<'a>(
    at: &Spot<'_>,
    scenario: &'a ScenarioFile,
) -> Result<WorkFile<'a>, YamlError> {
    // One that was taken out for what it stands beside is still there.
    let program = at.key("program").mended();
    let has_program = scenario.program.is_some() || program.iter().any(Vec::is_empty);
    let (key, message) = match (scenario.model, &scenario.program, scenario.task) {
        (Some(model), None, task) if !has_program => {
            return Ok(WorkFile::Builtin(model, task.unwrap_or_default()));
        }
        (None, Some(program), None) => return Ok(WorkFile::Program(program)),
        // Its axes are read all the same.
        (None, None, task) if !at.key("model").is_sound() => {
            return Ok(WorkFile::Builtin(Model::ALL[0], task.unwrap_or_default()));
        }
        (None, None, _) => {
            let message = "nothing to run";
            let expected = "expected `model`, or `program` for one of your own";
            return Err(at.expecting(message, expected, None));
        }
        (Some(_), ..) => ("program", "a program beside a model"),
        (None, Some(_), Some(_)) => ("task", "a task without a model"),
    };
    let expected = "expected `model` and `task`, or `program` alone";
    Err(at.key(key).expecting(message, expected, None))
}

fn check_steps(at: &Spot<'_>, steps: Steps) -> Result<(), YamlError> {
    let at = at.key("steps");
    let mut bounds = steps.bounds().into_iter();
    bounds.try_for_each(|(key, got, range)| within(&at, key, got, range))
}

fn check_threads(at: &Spot<'_>, threads: Option<u32>) -> Result<(), YamlError> {
    let mut threads = threads.into_iter();
    threads.try_for_each(|threads| within(at, "threads", threads, 1..=4096))
}

/// Names become parts of file and container names.
pub(super) fn is_name(name: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = !name.starts_with('-') && !name.ends_with('-');
    name.bytes().all(is_fit) && ends && (1..=40).contains(&name.len())
}

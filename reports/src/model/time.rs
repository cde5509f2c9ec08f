//! Where the time of a run goes besides its measured steps.

use std::collections::BTreeMap;

use judge::median;
use protocol::Phase;
use record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Medians over a cell's successful runs, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeParts {
    /// Of each phase and each part of the harness that runs have; `other_seconds`: what no clock of its
    /// own covers.
    #[serde(flatten)]
    pub parts: BTreeMap<String, f64>,
    /// Wall time but for the CUDA start, the model build, the warm-up, the measured and the profiled
    /// steps and the calibration: the harness, and what loading and leaving cost.
    pub harness_caused: Option<Spread>,
}

const PHASES: [&str; 9] = [
    "process_start_seconds",
    "cuda_start_seconds",
    "model_build_seconds",
    "data_seconds",
    "warmup_seconds",
    "measure_seconds",
    "teardown_seconds",
    "calibrate_seconds",
    "wall_seconds",
];

impl TimeParts {
    /// Of successful runs; `None` where there are none.
    pub fn of(runs: &[&Record]) -> Option<Self> {
        let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for run in runs {
            let harness = &run.harness;
            let phases = PHASES.map(|name| (name, run.value(name)));
            let own = [
                ("create_seconds", harness.create_seconds),
                ("start_seconds", harness.start_seconds),
                ("notice_seconds", harness.notice_seconds),
                ("remove_seconds", harness.remove_seconds),
                ("other_seconds", other(run)),
            ];
            let own = own.map(|(name, seconds)| (name, Some(seconds)));
            for (name, seconds) in phases.into_iter().chain(own) {
                all.entry(name).or_default().extend(seconds);
            }
        }
        let parts = all.into_iter();
        let parts = parts.filter_map(|(name, seconds)| Some((name.to_owned(), median(seconds)?)));
        (!runs.is_empty()).then(|| Self {
            parts: parts.collect(),
            harness_caused: Spread::of(runs.iter().map(|run| harness_caused(run))),
        })
    }
}

/// Time of a phase; 0 where the run has none.
pub(crate) fn seconds(run: &Record, phase: Phase) -> f64 {
    run.phase_seconds.get(&phase).copied().unwrap_or(0.0)
}

fn other(run: &Record) -> f64 {
    let phases: f64 = run.phase_seconds.values().sum();
    (run.wall_seconds - phases - run.harness.total_seconds()).max(0.0)
}

fn harness_caused(run: &Record) -> f64 {
    let work = [
        Phase::CudaStart,
        Phase::ModelBuild,
        Phase::Warmup,
        Phase::Measure,
        Phase::Profile,
        Phase::Calibrate,
    ];
    let work: f64 = work.into_iter().map(|phase| seconds(run, phase)).sum();
    (run.wall_seconds - work).max(0.0)
}

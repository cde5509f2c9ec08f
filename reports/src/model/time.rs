//! Where the time of a run goes besides its measured steps.

use judge::median;
use protocol::Phase;
use record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spread::Spread;

/// Medians over a cell's successful runs, in seconds, in the order in which they pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeParts {
    /// Making the container or the process's folder.
    pub create_seconds: f64,
    /// From the order to start until the workload's process began.
    pub start_seconds: f64,
    /// From the start of the workload's process to the end of reading its run file.
    pub process_start_seconds: f64,
    /// Making the CUDA context.
    pub cuda_start_seconds: f64,
    /// Making the model and the optimizer state.
    pub model_build_seconds: f64,
    /// Making the synthetic data.
    pub data_seconds: f64,
    /// Steps before measuring.
    pub warmup_seconds: f64,
    /// The measured steps.
    pub measure_seconds: f64,
    /// Freeing everything.
    pub teardown_seconds: f64,
    /// Timing a large matrix product, for the utilisation.
    #[serde(default)]
    pub calibrate_seconds: f64,
    /// From the end of the workload until the harness knew.
    pub notice_seconds: f64,
    /// Removing the container.
    pub remove_seconds: f64,
    /// The rest of the run's wall time, which no clock of its own covers.
    pub other_seconds: f64,
    /// Wall time of the whole run.
    pub wall_seconds: f64,
    /// Wall time but for the CUDA start, the model build, the warm-up, the measured and the profiled
    /// steps and the calibration: the harness, and what loading and leaving cost.
    pub harness_caused: Option<Spread>,
}

impl TimeParts {
    /// Of successful runs; `None` where there are none.
    pub fn of(runs: &[&Record]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let over = |read: &dyn Fn(&Record) -> f64| median(runs.iter().map(|run| read(run)));
        let phase = |phase: Phase| over(&|run| seconds(run, phase)).unwrap_or(0.0);
        let harness = |read: fn(&Record) -> f64| over(&read).unwrap_or(0.0);
        Some(Self {
            create_seconds: harness(|run| run.harness.create_seconds),
            start_seconds: harness(|run| run.harness.start_seconds),
            process_start_seconds: phase(Phase::ProcessStart),
            cuda_start_seconds: phase(Phase::CudaStart),
            model_build_seconds: phase(Phase::ModelBuild),
            data_seconds: phase(Phase::Data),
            warmup_seconds: phase(Phase::Warmup),
            measure_seconds: phase(Phase::Measure),
            teardown_seconds: phase(Phase::Teardown),
            calibrate_seconds: phase(Phase::Calibrate),
            notice_seconds: harness(|run| run.harness.notice_seconds),
            remove_seconds: harness(|run| run.harness.remove_seconds),
            other_seconds: harness(other),
            wall_seconds: harness(|run| run.wall_seconds),
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

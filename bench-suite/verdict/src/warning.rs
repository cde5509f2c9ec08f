//! What the reader of a comparison must know.

use record::MethodDifference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ShortWindow;

/// What the reader of a comparison must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The sides ran one after the other and not in turn, so that drift counts as effect.
    NotInterleaved,
    /// Machine, GPU or driver differ; compared all the same, as asked.
    AcrossMachines { what: String },
    /// The method differs; compared all the same, as asked.
    MethodIgnored {
        #[serde(flatten)]
        difference: MethodDifference,
    },
    /// A cell that one side alone has.
    OneSided {
        cell: String,
        /// The session and image that has it.
        only_in: String,
    },
    /// The suites of the two sides set other noise thresholds; the head's are used.
    ThresholdsDiffer { cells: usize },
    /// Measured windows are too short for the noise of their steps.
    ShortWindow {
        /// The cell with the shortest for its noise.
        cell: String,
        cells: usize,
        window: ShortWindow,
    },
    /// Others used much of the host's CPUs meanwhile.
    BusyHost {
        base: usize,
        head: usize,
        /// Of how many runs of both.
        runs: usize,
        /// CPUs' worth of time that they used, in the run with the most.
        used: f64,
        cpus: u32,
    },
    /// Cells ran on another GPU of the same host in the head than in the base.
    OtherGpus {
        /// The first of them.
        cell: String,
        cells: usize,
    },
    /// Of several nodes one was slower, on both sides and in every cell.
    SlowNode {
        node: String,
        metric: String,
        /// By how much at least, relative to the others.
        share: f64,
        others: Vec<String>,
    },
}

//! Why two sides cannot be compared.

use judge::{family::FamilyError, sequential::SequentialError};
use metrics::Metric;
use record::MethodDifference;

/// Why two sides cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They were measured on different machines, GPUs or drivers.
    #[error(
        "{what} differ: `{base}` and `{head}`; a change may be theirs and not the image's. \
         Measure both images in one session, or pass --across-machines"
    )]
    EnvironmentsDiffer {
        /// What differs.
        what: &'static str,
        /// On the base side.
        base: String,
        /// On the head side.
        head: String,
    },
    /// They were measured by different methods.
    #[error(
        "the sides were measured by different methods:\n{}\nmeasure both by the same, or pass {}",
        differences.iter().map(|one| format!("  {one}")).collect::<Vec<_>>().join("\n"),
        MethodDifference::ignoring(differences)
    )]
    MethodsDiffer {
        /// By key.
        differences: Vec<MethodDifference>,
    },
    /// They have no cell in common.
    #[error(
        "no cell in common: {base}; {head}. Run the same suite for both, with the same scenarios \
         and variants"
    )]
    NothingInCommon {
        /// What the base has: session, image and suites.
        base: String,
        /// What the head has.
        head: String,
    },
    /// A noise threshold for a metric that there is not.
    #[error("no compared metric is named `{name}`; there are: {}", names())]
    UnknownMetric {
        /// The name.
        name: String,
    },
    /// The judge refused a value.
    #[error("{cell}, {metric}: {source}")]
    Judge {
        /// The cell.
        cell: String,
        /// The metric.
        metric: &'static str,
        /// Why.
        source: FamilyError,
    },
    /// The looks that the session names cannot have been taken.
    #[error("the looks under `deciding` in session.json: {source}")]
    Looks {
        /// Why not.
        source: SequentialError,
    },
}

fn names() -> String {
    let names: Vec<_> = Metric::compared().map(|metric| metric.name).collect();
    names.join(", ")
}

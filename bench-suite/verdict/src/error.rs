//! Why two sides cannot be compared.

use judge::{family::FamilyError, sequential::SequentialError};
use record::MethodDifference;

use crate::SideError;

/// Why two sides cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error(transparent)]
    Side(#[from] SideError),
    #[error(
        "{what} differ: `{base}` and `{head}`; a change may be theirs and not the image's. \
         Measure both images in one session, or pass --across-machines"
    )]
    EnvironmentsDiffer {
        what: &'static str,
        base: String,
        head: String,
    },
    #[error(
        "the sides were measured by different methods:\n{}\nmeasure both by the same, or pass {}",
        differences.iter().map(|one| format!("  {one}")).collect::<Vec<_>>().join("\n"),
        MethodDifference::ignoring(differences)
    )]
    MethodsDiffer { differences: Vec<MethodDifference> },
    #[error(
        "no cell in common: {base}; {head}. Run the same suite for both, with the same scenarios \
         and variants"
    )]
    NothingInCommon { base: String, head: String },
    #[error("no compared metric is named `{name}`; there are: {}", known.join(", "))]
    UnknownMetric {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{cell}, {metric}: {source}")]
    Judge {
        cell: String,
        metric: &'static str,
        source: FamilyError,
    },
    #[error("the looks under `deciding` in session.json: {source}")]
    Looks { source: SequentialError },
}

//! From records to verdicts.
//!
//! [`Side`] picks one image's runs out of a session, [`compare`] pairs two sides cell by cell and
//! block by block and lets the judge say of every metric whether it improved, regressed, is
//! unchanged, or whether the runs are inconclusive. The result is a plain value that reports draw
//! and gates read.

mod claims;
mod cold_start;
mod compare;
mod environment;
mod error;
mod failures;
mod gate;
mod inside;
mod nodes;
mod pairs;
mod question;
mod sessions;
mod short_window;
mod side;
mod warning;

pub use claims::{
    ClaimCell, ClaimFound, ClaimPair, ClaimProblem, ClaimVerdict, ClaimsError, OtherMethods,
    check_claim, judge_claims,
};
pub use compare::{
    Beside, CellMetric, CellVerdicts, MetricVerdict, Options, VERSION, Verdicts, compare, of_images,
};
pub use error::CompareError;
pub use failures::{FailedRuns, Failures};
pub use gate::{FailOn, Gate};
pub use inside::{
    Gradients, Inside, KERNEL_FLOOR, KernelChange, KernelChanged, KernelChanges, KernelCost,
    Losses, LossesDiffer,
};
pub use judge::compare::BaseOrHead;
pub use pairs::{Best, MOST_IN_PAIRS, PairedCell, ScenarioPairs, judge_pairs};
pub use record::MethodKey;
pub use sessions::{Sessions, compare_session, compare_sessions};
pub use short_window::ShortWindow;
pub use side::{Origin, Side, SideError};
pub use warning::Warning;

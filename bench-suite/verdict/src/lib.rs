//! From records to verdicts.
//!
//! [`Side`] picks one image's runs out of a session, [`compare`] pairs two sides cell by cell and
//! block by block and lets the judge say of every metric whether it improved, regressed, is
//! unchanged, or whether the runs are inconclusive. The result is a plain value that reports draw
//! and gates read.

mod claims;
mod compare;
mod environment;
mod failures;
mod gate;
mod question;
mod session;
mod side;

pub use claims::{
    ClaimCell, ClaimFound, ClaimPair, ClaimProblem, ClaimVerdict, ClaimsError, check_claim,
    judge_claims,
};
pub use compare::{
    CellVerdicts, CompareError, MetricVerdict, Options, VERSION, Verdicts, Warning, compare,
};
pub use failures::{FailedRuns, Failures};
pub use gate::{FailOn, Gate};
pub use judge::compare::BaseOrHead;
pub use session::{SessionError, compare_session};
pub use side::{Origin, Side, SideError};

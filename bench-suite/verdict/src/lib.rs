//! From records to verdicts.
//!
//! [`Side`] picks one image's runs out of a session, [`compare`] pairs two sides cell by cell and
//! block by block and lets the judge say of every quantity whether it is improved, regressed, unchanged,
//! or whether nobody can tell. The result is a plain value that reports draw and gates read.

mod claims;
mod compare;
mod failures;
mod gate;
mod place;
mod question;
mod session;
mod side;

pub use claims::{
    ClaimCell, ClaimFound, ClaimPair, ClaimProblem, ClaimsError, check_claim, judge_claims,
};
pub use compare::{
    CellVerdicts, CompareError, Options, QuantityVerdict, Role, VERSION, Verdicts, Warning, compare,
};
pub use failures::{FailedRuns, Failures};
pub use gate::{FailOn, Gate};
pub use session::{SessionError, compare_session};
pub use side::{Origin, Side, SideError};

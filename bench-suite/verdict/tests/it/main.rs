//! Sessions in, verdicts out.

mod claims;
mod compare;
mod failures;
mod looks;
mod place;
mod support;
mod thresholds;

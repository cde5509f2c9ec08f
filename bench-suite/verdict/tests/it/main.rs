//! Sessions in, verdicts out.

mod claims;
mod compare;
mod environment;
mod failures;
mod looks;
mod support;
mod thresholds;

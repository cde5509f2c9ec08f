//! Sessions in, verdicts out.

mod claims;
mod compare;
mod environment;
mod failures;
mod looks;
mod pairs;
mod support;
mod thresholds;

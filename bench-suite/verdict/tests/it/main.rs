//! Sessions in, verdicts out.

mod claims;
mod compare;
mod environment;
mod failures;
mod gallery;
mod inside;
mod looks;
mod pairs;
mod sessions;
mod support;
mod thresholds;

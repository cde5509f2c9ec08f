//! Sessions in, verdicts out.

mod claims;
mod compare;
mod failures;
mod looks;
mod margins;
mod place;
mod support;

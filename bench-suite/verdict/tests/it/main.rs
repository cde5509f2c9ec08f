//! Sessions in, verdicts out.

mod claims;
mod compare;
mod looks;
mod margins;
mod support;

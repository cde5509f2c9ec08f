//! The real command on sessions written for the test: neither libtorch nor an engine is needed.

mod bisect;
mod claims;
mod compare;
mod deciding;
mod drivers;
mod endings;
mod follow;
mod ledger;
mod support;
mod workflow;

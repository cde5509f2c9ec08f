//! bench-suite through its public face. One binary, so that everything is linked once.

mod claims;
mod common;
mod containers;
mod deciding;
mod faults;
mod kernel_cache;
mod processes;
mod sessions;
mod suites;

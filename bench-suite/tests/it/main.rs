//! bench-suite through its public face. One binary, so that everything is linked once.

mod common;
mod containers;
mod processes;
mod sessions;
mod suites;

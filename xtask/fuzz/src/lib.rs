//! Has every parser of outside input read real documents that libFuzzer mutates.
//!
//! A [`Target`] is one parser: documents to start from, and what must hold of every input.
//! libFuzzer runs them; `main.rs` starts it.

mod seeds;
mod targets;

pub use targets::{MAX_INPUT_BYTES, Target, all, named};

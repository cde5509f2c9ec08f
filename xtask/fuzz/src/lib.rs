//! Edits real documents and has every parser of outside input read them.
//!
//! A [`Target`] is one parser: documents of this repository to start from, edits that know their
//! form (a key is renamed, a number becomes the largest there is, a member of an archive lies about
//! its size), and what must hold of whatever comes out. [`Inputs`] makes input after input from a
//! seed, each of them on its own, so that a number is enough to see one again. [`check`] hands one
//! to its target and watches: no panic, no second lost, no gigabyte taken, errors that act on no
//! terminal, and what was read and written reads as the same.

pub mod edit;
mod inputs;
mod memory;
mod seeds;
mod targets;
mod watch;

pub use inputs::Inputs;
pub use targets::{Target, all, named};
pub use watch::{Finding, Scratch, check};

/// Longest that one input may take.
pub const MOST_TIME: std::time::Duration = std::time::Duration::from_secs(1);
/// Most memory that one input may take. The largest documents that are read whole are of 1 MiB.
pub const MOST_BYTES: usize = 256 << 20;

//! Edits real documents and has every parser of outside input read them.
//!
//! A [`Target`] is one parser: documents to start from, edits that know their form (a key is
//! renamed, a number becomes the largest there is), and what must hold of every input. libFuzzer runs them; `main.rs` starts it.

mod edit;
mod seeds;
mod targets;

pub use edit::{Dice, MAX_INPUT_BYTES, Pool};
pub use targets::{Target, all, named};

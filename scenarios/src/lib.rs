//! What is measured: reference models under policies of precision and memory, as a libtorch
//! workload.
//!
//! One execution reads a [`protocol::RunFile`] and writes [`protocol::Event`] lines.
//!
//! | module | what it holds |
//! |---|---|
//! | [`models`] | the architectures, one file a family |
//! | [`nn`] | parameters with the reference's names, their beginnings, shared layers |
//! | [`attribution`] | what each module takes of a step |
//! | [`data`] | synthetic data out of a seed |
//! | [`loader`] | worker processes that hand batches over through `/dev/shm` |
//! | [`training`] | one step: autocast, accumulation, loss scaler, optimizer |
//! | [`parallel`] | several ranks: how they meet and train one model |
//! | [`run`] | the phases of a run and its events |
//! | [`serving`] | requests that arrive by themselves: queue, batches, latencies |
//! | [`device`], [`memory`], [`stopwatch`], [`host`], [`nvml`] | what is asked of the machine |
//! | [`ceiling`] | how fast the device could be |
//! | [`summary`] | what a run yields, by name |
//! | [`results`], [`Error`] | how a run tells what came of it |

use std::{
    fmt,
    io::{self, Write as _},
};

pub mod attribution;
pub mod budget;
pub mod ceiling;
pub mod data;
mod deadline;
pub mod device;
mod error;
pub mod host;
pub mod loader;
pub mod memory;
pub mod models;
pub mod nn;
pub mod nvml;
pub mod parallel;
pub mod results;
pub mod run;
pub mod serving;
pub mod stopwatch;
pub mod summary;
pub mod training;

pub use error::Error;

/// Diagnostics go to stderr; nothing that a record needs.
pub fn log(line: fmt::Arguments<'_>) {
    // A closed stderr is no reason to fail a run.
    let _ = writeln!(io::stderr(), "scenario: {line}");
}

//! What happens to machines that measure, done to the real command: signals, kills, neighbours,
//! GPUs that get hot, shared or lost.
//!
//! Little is measured: runs are the mock engine's, but for those of Apptainer, and the GPUs
//! are those of a library that stands in for NVML (`bench-suite/tests/nvml/fake.c`). Everything in between is the real thing.

mod action;
mod api_server;
mod apptainer;
mod apptainer_ready;
mod driver;
mod fit;
mod gpus;
mod interruptions;
mod kubernetes;
mod links;
mod nodes;
mod oci;
mod pods;
#[path = "../common/python.rs"]
mod python_image;
mod pyxis;
mod refusals;
#[path = "../common/registry.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod registry;
mod slurm;
mod support;
mod table;

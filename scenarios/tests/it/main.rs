//! The workload as its users see it: architectures, data, steps, and the binary.

mod allocation;
mod architectures;
mod attribution;
mod binary;
mod checkpointing;
mod data;
mod decoder;
mod eight_bits;
mod failures;
mod lean;
mod loader;
mod older;
mod ranks;
mod steps;
mod support;
mod together;
mod volumes;

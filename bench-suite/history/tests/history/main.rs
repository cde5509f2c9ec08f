//! The history through its public face.

mod compatibility;
mod exports;
mod imports;
mod opening;
mod rebuild;
mod sessions;
mod support;
mod writers;

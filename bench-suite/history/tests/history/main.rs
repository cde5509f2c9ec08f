//! The history through its public face.

mod damage;
mod exports;
mod imports;
mod opening;
mod sessions;
mod support;
mod writers;

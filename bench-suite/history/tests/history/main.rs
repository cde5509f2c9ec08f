//! The history through its public face.

mod compatibility;
mod exports;
mod imports;
mod ledger;
mod ledger_file;
mod methods;
mod nights;
mod opening;
mod rebuild;
mod sessions;
mod support;
mod writers;

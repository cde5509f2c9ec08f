//! The history through its public face.

mod folder;
mod ledger;
mod ledger_file;
mod methods;
mod nights;
mod sessions;
mod support;

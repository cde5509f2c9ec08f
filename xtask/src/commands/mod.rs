//! One file a command.

pub(crate) mod attribution;
pub(crate) mod bench;
pub(crate) mod bisect;
pub(crate) mod claims;
pub(crate) mod codegen;
pub(crate) mod compare;
pub(crate) mod dist;
pub(crate) mod doctor;
pub(crate) mod driver;
pub(crate) mod fit;
pub(crate) mod history;
pub(crate) mod images;
pub(crate) mod ledger;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod scenarios;
pub(crate) mod session_ref;
pub(crate) mod shell;
pub(crate) mod site;
pub(crate) mod test;
pub(crate) mod trend;

use std::path::Path;

use crate::error::{Result, writing};

pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    regular_file::write(path, text).map_err(writing(path))
}

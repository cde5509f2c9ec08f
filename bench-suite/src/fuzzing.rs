//! What `xtask/fuzz` reads hostile input with.

use crate::results::{self, Results};

/// Reads the results of the run `run`, without a file around them.
#[must_use]
pub fn results(bytes: &[u8], run: &str) -> Results {
    results::parse(bytes, run)
}

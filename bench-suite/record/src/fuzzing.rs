//! What `xtask/fuzz` reads hostile input with.

use crate::Records;

/// Reads the content of `records.ndjson`, without a file around it.
pub fn records(bytes: &[u8]) -> Records {
    Records::of(bytes)
}

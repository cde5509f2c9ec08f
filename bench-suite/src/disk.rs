//! Whether the disk is full.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// A file system with less room takes no record, and has taken no workload's.
const LEAST_BYTES: usize = 16 << 10;

pub(crate) fn is_for_want_of_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// Whether the file system of this folder has no room left: by its own word, which counts what it
/// keeps for root as taken, and by trying, which meets quotas.
pub(crate) fn is_full(folder: &Path) -> bool {
    let room = rustix::fs::statvfs(folder).map(|about| about.f_bavail * about.f_frsize);
    let probe = folder.join("probe");
    let tried = fs::write(&probe, [0; LEAST_BYTES]);
    // Nothing to remove where it could not be made.
    let _ = fs::remove_file(&probe);
    room.is_ok_and(|room| room < LEAST_BYTES as u64)
        || tried.is_err_and(|error| is_for_want_of_room(&error))
}

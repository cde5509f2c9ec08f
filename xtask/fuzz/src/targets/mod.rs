//! What reads outside input, one target each.

mod binaries;
mod documents;
mod holds;
mod sessions;

use std::path::Path;

use crate::seeds;

/// The run that event lines and run files are of.
pub(crate) const RUN: &str = "0001-b0-torch";

/// Larger inputs are rare in use and slow here.
pub const MAX_INPUT_BYTES: usize = 1 << 18;

type Documents = fn() -> Vec<Vec<u8>>;
type Check = fn(&[u8], &Path) -> Result<bool, String>;

/// One parser of outside input.
pub struct Target {
    pub name: &'static str,
    documents: Documents,
    check: Check,
}

impl Target {
    /// The documents that mutations start from.
    pub fn documents(&self) -> Vec<Vec<u8>> {
        let mut all = seeds::committed(self.name);
        all.extend((self.documents)());
        all
    }

    /// Has the parser read an input; files are written to the folder `scratch`. Whether the input was
    /// accepted, or what does not hold.
    pub fn check(&self, input: &[u8], scratch: &Path) -> Result<bool, String> {
        (self.check)(input, scratch)
    }
}

pub fn all() -> &'static [Target] {
    TARGETS
}

pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const TARGETS: &[Target] = &[
    target("suite", seeds::suites, documents::suite),
    target("spec", seeds::specs, documents::spec),
    target("lock", seeds::locks, documents::lock),
    target("records", seeds::records, sessions::records),
    target("session", seeds::folders, sessions::session),
    target("report", seeds::folders, sessions::report),
    target("csv", Vec::new, sessions::csv),
    target("ledger", Vec::new, sessions::ledger),
    target("event", Vec::new, sessions::event),
    target("run-file", Vec::new, documents::run_file),
    target("wheel", Vec::new, binaries::wheel),
    target("archive", Vec::new, binaries::archive),
    target("image", Vec::new, binaries::archive),
    target("elf", Vec::new, binaries::elf),
];

const fn target(name: &'static str, documents: Documents, check: Check) -> Target {
    Target {
        name,
        documents,
        check,
    }
}

fn split(folder: &[u8]) -> (&[u8], &[u8]) {
    let middle = folder
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(folder.len());
    (
        &folder[..middle],
        folder.get(middle + 1..).unwrap_or_default(),
    )
}

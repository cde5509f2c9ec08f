//! What reads outside input, one target each.

mod binaries;
mod documents;
mod holds;
mod sessions;

use std::path::Path;

use crate::{
    edit::{self, Dice, Pool},
    seeds,
};

/// The run that event lines and run files are of.
pub(crate) const RUN: &str = "0001-b0-torch";

type Seeds = fn() -> Vec<Vec<u8>>;
type Edit = fn(&[u8], &Pool, &mut Dice) -> Vec<u8>;
type Check = fn(&[u8], &Path) -> Result<bool, String>;

/// One parser of outside input.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    seeds: Seeds,
    edit: Edit,
    check: Check,
}

impl Target {
    /// The documents that edits start from.
    #[must_use]
    pub fn pool(&self) -> Pool {
        let mut seeds = seeds::committed(self.name);
        seeds.extend((self.seeds)());
        Pool::new(seeds)
    }

    /// The document after one edit or several.
    #[must_use]
    pub fn edit(&self, document: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
        (self.edit)(document, pool, dice)
    }

    /// Has the parser read an input; files are written to the folder `scratch`. Whether the input was
    /// accepted, or what does not hold.
    pub fn check(&self, input: &[u8], scratch: &Path) -> Result<bool, String> {
        (self.check)(input, scratch)
    }
}

/// All targets.
#[must_use]
pub fn all() -> &'static [Target] {
    TARGETS
}

/// The target of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const TARGETS: &[Target] = &[
    target("suite", seeds::suites, edit::yaml::edit, documents::suite),
    target("spec", seeds::specs, edit::yaml::edit, documents::spec),
    target("lock", seeds::locks, edit_lock, documents::lock),
    target("records", seeds::records, edit_records, sessions::records),
    target("session", seeds::folders, edit_folder, sessions::session),
    target("report", seeds::folders, edit_folder, sessions::report),
    target("csv", Vec::new, edit::table::edit, sessions::csv),
    target("ledger", Vec::new, edit_text, sessions::ledger),
    target("event", Vec::new, edit_records, sessions::event),
    target("run-file", Vec::new, edit::json::edit, documents::run_file),
    target("wheel", Vec::new, edit_bytes, binaries::wheel),
    target("archive", Vec::new, edit_bytes, binaries::archive),
    target("image", Vec::new, edit_bytes, binaries::archive),
    target("elf", Vec::new, edit_bytes, binaries::elf),
];

const fn target(name: &'static str, seeds: Seeds, edit: Edit, check: Check) -> Target {
    Target {
        name,
        seeds,
        edit,
        check,
    }
}

fn edit_bytes(document: &[u8], _: &Pool, dice: &mut Dice) -> Vec<u8> {
    dice.mutated(document)
}

fn edit_text(document: &[u8], _: &Pool, dice: &mut Dice) -> Vec<u8> {
    edit::lines(document, dice, |line, dice| dice.mutated(line))
}

fn edit_lock(document: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    let edited = edit::json::edit(document, pool, dice);
    // With the old seal nothing behind the seal is reached.
    let value = serde_json::from_slice(&edited).ok();
    let value = value.filter(|_| !dice.one_in(5));
    let sealed = value.and_then(|value| images::fuzzing::sealed(&value));
    sealed.unwrap_or(edited)
}

fn edit_records(document: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    edit::lines(document, dice, |line, dice| {
        if dice.one_in(12) {
            pool.seed(dice).to_vec()
        } else {
            edit::json::edit(line, pool, dice)
        }
    })
}

fn edit_folder(folder: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    let (session, records) = split(folder);
    let (mut session, mut records) = (session.to_vec(), records.to_vec());
    let which = dice.below(3);
    if which > 0 {
        session = edit::json::edit(&session, pool, dice);
        // The NUL stands between the two files and in neither.
        session.retain(|byte| *byte != 0);
    }
    if which < 2 {
        records = edit_records(&records, pool, dice);
    }
    [session, records].join(&0)
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

//! How an image that was assembled stands to its lock.

use crate::{
    Image,
    lock::{Expected, Lock},
    sources::{LockUse, Sources},
};

/// How an assembled image stands to its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// It is the locked image, bit for bit.
    Matches,
    /// Base and libtorch are the locked ones; the scenario binary is another, or was not locked.
    OtherScenario,
    /// It differs, for this reason.
    Differs(String),
    /// There is no lock.
    Unlocked,
}

/// Compares what was built with what was locked.
pub(crate) fn compare(
    image: &Image,
    sources: &Sources,
    lock: Option<&Lock>,
    found: &Expected,
    base_note: Option<String>,
) -> LockState {
    let Some(lock) = lock else {
        return if image.lock.is_some() && sources.locks == LockUse::Ignored {
            LockState::Differs("the lock was not to be used".to_owned())
        } else {
            LockState::Unlocked
        };
    };
    if let Some(note) = base_note {
        return LockState::Differs(note);
    }
    let (locked, built) = (&lock.expected.layers, &found.layers);
    if let Some((a, b)) = locked.iter().zip(built).find(|(a, b)| a != b) {
        return LockState::Differs(format!(
            "layer {} has the digest {}, locked is {}",
            a.name, b.digest, a.digest
        ));
    }
    if locked.len() != built.len() {
        return LockState::Differs("it has another number of layers".to_owned());
    }
    match (&lock.expected.image, &found.image) {
        (Some(locked), Some(built)) if locked == built => LockState::Matches,
        (Some(locked), Some(built)) if locked.scenario == built.scenario => {
            LockState::Differs("the image's configuration differs".to_owned())
        }
        _ => LockState::OtherScenario,
    }
}

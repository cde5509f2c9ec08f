//! How an image that was assembled stands to its lock.

use std::collections::BTreeMap;

use crate::{
    Image,
    assembly::sources::{LockUse, Sources},
    lock::{Expected, ExpectedImage, InstalledLock, LibtorchLock, Lock, Toolchain},
};

/// How an assembled image stands to its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// It is the locked image, bit for bit.
    Matches,
    /// Base and libtorch are the locked ones. The scenario binary is another, as it must be, for
    /// this reason.
    OtherScenario(String),
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
    libtorch: &LibtorchLock,
    toolchain: &Toolchain,
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
        let why = match (&lock.libtorch, libtorch) {
            (LibtorchLock::Installed(locked), LibtorchLock::Installed(here)) => {
                other_libraries(locked, here).unwrap_or_default()
            }
            _ => String::new(),
        };
        return LockState::Differs(format!(
            "layer {} has the digest {}, locked is {}{why}",
            a.name, b.digest, a.digest
        ));
    }
    if locked.len() != built.len() {
        return LockState::Differs("it has another number of layers".to_owned());
    }
    let (Some(locked), Some(built)) = (&lock.expected.image, &found.image) else {
        return LockState::OtherScenario("none is locked".to_owned());
    };
    if locked == built
        || (locked.config_id, locked.manifest_id) == (built.config_id, built.manifest_id)
    {
        return LockState::Matches;
    }
    if locked.scenario == built.scenario {
        return LockState::Differs(
            "the image's configuration (variables, labels) differs".to_owned(),
        );
    }
    why_other(locked, built, &lock.toolchain, toolchain).map_or_else(
        || {
            LockState::Differs(format!(
                "the scenario binary is {}, and the lock's, by the same compilers out of the same \
                 sources, is {}; `cargo xtask images verify {}` says whether it comes out the same \
                 twice here",
                built.scenario, locked.scenario, image.name
            ))
        },
        LockState::OtherScenario,
    )
}

/// As many libraries are named as a line holds.
const NAMED_LIBRARIES: usize = 4;

/// Which libraries of an installed PyTorch are not the locked ones, in words that go on a sentence;
/// `None` where all are.
fn other_libraries(locked: &InstalledLock, here: &InstalledLock) -> Option<String> {
    let by_name = |lock: &InstalledLock| -> BTreeMap<String, _> {
        let libraries = lock.libraries.iter();
        libraries
            .map(|library| (library.name.clone(), (library.sha256, library.size_bytes)))
            .collect()
    };
    let (locked, here) = (by_name(locked), by_name(here));
    let mut differ: Vec<String> = locked
        .iter()
        .filter_map(|(name, (sha256, size_bytes))| match here.get(name) {
            None => Some(format!("{name} is missing")),
            Some((found, _)) if found == sha256 => None,
            Some((_, found)) => Some(format!("{name} has {found} bytes, locked {size_bytes}")),
        })
        .collect();
    let is_new = |name: &&String| !locked.contains_key(*name);
    differ.extend(
        here.keys()
            .filter(is_new)
            .map(|name| format!("{name} is new")),
    );
    if differ.is_empty() {
        return None;
    }
    let more = differ.len().saturating_sub(NAMED_LIBRARIES);
    differ.truncate(NAMED_LIBRARIES);
    let more = match more {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!(": {}{more}", differ.join("; ")))
}

/// Why the scenario binary must be another; `None` where nothing known says so.
fn why_other(
    locked: &ExpectedImage,
    built: &ExpectedImage,
    then: &Toolchain,
    now: &Toolchain,
) -> Option<String> {
    let (Some(old), Some(new)) = (locked.sources, built.sources) else {
        let which = if built.sources.is_none() {
            "this one was given, not compiled"
        } else {
            "the locked one was given, not compiled"
        };
        return Some(which.to_owned());
    };
    if old != new {
        return Some(format!(
            "the workload's sources changed since it was locked ({} then, {} now)",
            old.short(),
            new.short()
        ));
    }
    let change = then.changes_to(now).into_iter().next()?;
    let tool = |one: Option<String>| one.unwrap_or_default();
    Some(format!(
        "the {} is `{}`, and was `{}`",
        change.name,
        tool(change.second),
        tool(change.first)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digest, lock::ExpectedLayer};

    fn image(sources: Option<&[u8]>) -> ExpectedImage {
        ExpectedImage {
            scenario: Digest::of(b"binary"),
            sources: sources.map(Digest::of),
            layer: ExpectedLayer {
                name: "scenario".to_owned(),
                digest: Digest::of(b"layer"),
                size_bytes: 1,
            },
            config_id: Digest::of(b"configuration"),
            manifest_id: Digest::of(b"manifest"),
            push_digest: None,
        }
    }

    fn tools(rust: &str) -> Toolchain {
        Toolchain {
            rust: rust.to_owned(),
            cxx: "c++ 12".to_owned(),
            linker: "ld 2.40".to_owned(),
            libc: "glibc 2.36".to_owned(),
            tch: "0.24.0".to_owned(),
        }
    }

    #[test]
    fn an_installed_pytorch_that_is_another_says_which_libraries_are() {
        let lock = |libraries: &[(&str, u64)]| InstalledLock {
            version: "2.11.0".to_owned(),
            flavour: crate::Flavour::Cuda,
            name: "2.11.0+cu130".to_owned(),
            libraries: libraries
                .iter()
                .map(|(name, size_bytes)| crate::lock::InstalledLibrary {
                    name: (*name).to_owned(),
                    size_bytes: *size_bytes,
                    sha256: Digest::of(size_bytes.to_string().as_bytes()),
                })
                .collect(),
        };
        let locked = lock(&[("liba.so", 1), ("libb.so", 2), ("libc.so", 3)]);
        assert_eq!(other_libraries(&locked, &locked), None);
        let here = lock(&[("liba.so", 1), ("libb.so", 20), ("libd.so", 4)]);
        assert_eq!(
            other_libraries(&locked, &here).unwrap(),
            ": libb.so has 20 bytes, locked 2; libc.so is missing; libd.so is new"
        );
        let many: Vec<String> = (0..9).map(|n| format!("lib{n}.so")).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|name| (name.as_str(), 1)).collect();
        let said = other_libraries(&lock(&many), &lock(&[])).unwrap();
        assert!(said.ends_with("lib3.so is missing; and 5 more"), "{said}");
    }

    #[test]
    fn another_binary_has_a_reason_or_is_not_reproducible() {
        let check =
            |locked: Option<&[u8]>, built: Option<&[u8]>, rust: &str, expect: Option<&str>| {
                let found = why_other(
                    &image(locked),
                    &image(built),
                    &tools("rustc 1"),
                    &tools(rust),
                );
                match (&found, expect) {
                    (None, None) => {}
                    (Some(found), Some(expect)) => assert!(found.contains(expect), "{found}"),
                    _ => panic!("{found:?}, expected {expect:?}"),
                }
            };
        check(Some(b"a"), Some(b"a"), "rustc 1", None);
        check(Some(b"a"), Some(b"b"), "rustc 1", Some("sources changed"));
        check(
            Some(b"a"),
            Some(b"a"),
            "rustc 2",
            Some("Rust compiler is `rustc 2`, and was `rustc 1`"),
        );
        check(Some(b"a"), None, "rustc 1", Some("this one was given"));
        check(None, Some(b"a"), "rustc 1", Some("locked one was given"));
    }
}

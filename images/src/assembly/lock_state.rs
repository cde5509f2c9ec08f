//! How an image that was assembled stands to its lock.

use record::ImageLock;

use crate::{
    Image,
    assembly::sources::{LockUse, Sources},
    lock::{Expected, ExpectedImage, Lock, Toolchain},
};

/// Compares what was built with what was locked.
pub(crate) fn compare(
    image: &Image,
    sources: &Sources,
    lock: Option<&Lock>,
    found: &Expected,
    toolchain: &Toolchain,
    base_note: Option<String>,
) -> ImageLock {
    let Some(lock) = lock else {
        return if image.lock.is_some() && sources.locks == LockUse::Ignored {
            differs("the lock was not to be used")
        } else {
            ImageLock::Unlocked
        };
    };
    if let Some(note) = base_note {
        return differs(note);
    }
    let (locked, built) = (&lock.expected.layers, &found.layers);
    if let Some((a, b)) = locked.iter().zip(built).find(|(a, b)| a != b) {
        return differs(format!(
            "layer {} has the digest {}, locked is {}",
            a.name, b.digest, a.digest
        ));
    }
    if locked.len() != built.len() {
        return differs("it has another number of layers");
    }
    let (Some(locked), Some(built)) = (&lock.expected.image, &found.image) else {
        return other("none is locked");
    };
    if locked == built
        || (locked.config_id, locked.manifest_id) == (built.config_id, built.manifest_id)
    {
        return ImageLock::Matches;
    }
    if locked.scenario == built.scenario {
        return differs("the image's configuration (variables, labels) differs");
    }
    why_other(locked, built, &lock.toolchain, toolchain).map_or_else(
        || {
            differs(format!(
                "the scenario binary is {}, and the lock's, by the same compilers out of the same \
                 sources, is {}; build it in another checkout, with an empty cache \
                 (XDG_CACHE_HOME), to see whether it comes out the same twice here",
                built.scenario, locked.scenario
            ))
        },
        other,
    )
}

fn differs(cause: impl Into<String>) -> ImageLock {
    let cause = cause.into();
    ImageLock::Differs { cause }
}

/// Base and libtorch are the locked ones. The scenario binary is another, as it must be, for this reason.
pub(crate) fn other(cause: impl Into<String>) -> ImageLock {
    let cause = cause.into();
    ImageLock::OtherScenario { cause }
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
    let tools = [
        ("Rust compiler", &now.rust, &then.rust),
        ("C++ compiler", &now.cxx, &then.cxx),
        ("linker", &now.linker, &then.linker),
        ("C library", &now.libc, &then.libc),
        ("tch", &now.tch, &then.tch),
    ];
    let (name, new, old) = tools.into_iter().find(|(_, new, old)| new != old)?;
    Some(format!("the {name} is `{new}`, and was `{old}`"))
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

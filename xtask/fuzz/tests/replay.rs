//! Every finding again, and every document as it is: what a change of a parser or of a format breaks
//! at once is seen without libFuzzer, which `cargo xtask test` starts as well.

use std::{fs, path::Path};

use fuzz::{all, named};

#[test]
fn what_was_found_once_is_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("findings");
    let scratch = tempfile::tempdir().unwrap();
    let mut replayed = 0;
    for target in fs::read_dir(&folder).unwrap() {
        let target = target.unwrap().path();
        let name = target.file_name().unwrap().to_string_lossy().into_owned();
        let known = named(&name).unwrap_or_else(|| panic!("{name} is no target"));
        for finding in fs::read_dir(&target).unwrap() {
            let finding = finding.unwrap().path();
            let input = fs::read(&finding).unwrap();
            if let Err(found) = known.check(&input, scratch.path()) {
                panic!("{}: {found}", finding.display());
            }
            replayed += 1;
        }
    }
    assert!(replayed > 0, "no finding lies in {}", folder.display());
}

#[test]
fn documents_are_accepted_before_they_are_mutated() {
    let scratch = tempfile::tempdir().unwrap();
    for target in all() {
        let documents = target.documents();
        assert!(!documents.is_empty(), "{} has no documents", target.name);
        for (place, seed) in documents.iter().enumerate() {
            assert_eq!(
                target.check(seed, scratch.path()),
                Ok(true),
                "{}, document {place}: {}",
                target.name,
                String::from_utf8_lossy(&seed[..seed.len().min(200)]),
            );
        }
    }
}

//! Every finding again, and some fresh inputs of each target: what a change of a parser or of its
//! edits breaks at once is seen without libFuzzer, which `cargo xtask test` starts as well.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use fuzz::{Dice, all, named};

/// Inputs of each target. The seed is fixed: what a test finds, everybody finds.
const INPUTS: u64 = 300;

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
fn documents_are_accepted_before_they_are_edited() {
    let scratch = tempfile::tempdir().unwrap();
    for target in all() {
        let pool = target.pool();
        assert!(!pool.seeds().is_empty(), "{} has no documents", target.name);
        for (place, seed) in pool.seeds().iter().enumerate() {
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

/// A mutation in place of libFuzzer's: each call turns another byte.
fn turned(bytes: &[u8]) -> Vec<u8> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let place = 7919 * CALLS.fetch_add(1, Ordering::Relaxed);
    let mut turned = bytes.to_vec();
    match place.checked_rem(bytes.len()) {
        Some(place) => turned[place] ^= 1 << (place % 7),
        None => turned.extend(b"a"),
    }
    turned
}

#[test]
fn edits_let_some_inputs_through() {
    let scratch = tempfile::tempdir().unwrap();
    for target in all() {
        let pool = target.pool();
        let mut accepted = 0;
        for number in 0..INPUTS {
            let mut dice = Dice::new(number, turned);
            let seed = pool.seed(&mut dice);
            match target.check(&target.edit(seed, &pool, &mut dice), scratch.path()) {
                Ok(yes) => accepted += u64::from(yes),
                Err(found) => panic!("{}, input {number}: {found}", target.name),
            }
        }
        // Edits that let nothing through test the first check of a parser, and those that change
        // nothing test none.
        let share = accepted as f64 / INPUTS as f64;
        assert!(
            (0.02..0.98).contains(&share),
            "{}: {share} accepted",
            target.name
        );
    }
}

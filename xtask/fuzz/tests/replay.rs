//! Every finding again, and some thousand fresh inputs of each target: what a change of a parser or
//! of its edits breaks at once is seen without the long search, which `cargo xtask test` starts as
//! well.

use std::{fs, path::Path};

use fuzz::{Inputs, Scratch, all, check, named};

/// Inputs of each target. The seed is fixed: what a test finds, everybody finds.
const INPUTS: u64 = 2000;
const SEED: u64 = 13;

#[test]
fn what_was_found_once_is_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("findings");
    let scratch = Scratch::new().unwrap();
    let mut replayed = 0;
    for target in fs::read_dir(&folder).unwrap() {
        let target = target.unwrap().path();
        let name = target.file_name().unwrap().to_string_lossy().into_owned();
        let known = named(&name).unwrap_or_else(|| panic!("{name} is no target"));
        for finding in fs::read_dir(&target).unwrap() {
            let finding = finding.unwrap().path();
            let input = fs::read(&finding).unwrap();
            if let Err(found) = check(known, &input, &scratch) {
                panic!("{}: {found}", finding.display());
            }
            replayed += 1;
        }
    }
    assert!(replayed > 0, "no finding lies in {}", folder.display());
}

#[test]
fn documents_are_accepted_before_they_are_edited() {
    let scratch = Scratch::new().unwrap();
    for target in all() {
        let inputs = Inputs::new(target, SEED);
        assert!(
            !inputs.seeds().is_empty(),
            "{} has no documents",
            target.name
        );
        for (place, seed) in inputs.seeds().iter().enumerate() {
            assert_eq!(
                check(target, seed, &scratch),
                Ok(true),
                "{}, document {place}",
                target.name
            );
        }
    }
}

#[test]
fn an_input_is_told_by_its_seed_and_number() {
    let target = named("spec").unwrap();
    let [first, second] = [SEED, SEED].map(|seed| Inputs::new(target, seed));
    assert_eq!(first.input(7), second.input(7));
    assert_ne!(first.input(7), first.input(8));
    assert_ne!(first.input(7), Inputs::new(target, SEED + 1).input(7));
}

fn fresh(name: &str) {
    let target = named(name).unwrap();
    let inputs = Inputs::new(target, SEED);
    let scratch = Scratch::new().unwrap();
    let mut accepted = 0;
    for number in 0..INPUTS {
        match check(target, &inputs.input(number), &scratch) {
            Ok(yes) => accepted += u64::from(yes),
            Err(found) => panic!("{name}, input {number} of seed {SEED}: {found}"),
        }
    }
    // Edits that let nothing through test the first check of a parser, and those that change
    // nothing test none.
    let share = accepted as f64 / INPUTS as f64;
    assert!((0.02..0.98).contains(&share), "{name}: {share} accepted");
}

macro_rules! fresh {
    ($($test:ident: $name:literal),* $(,)?) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                fresh($name);
            }
        )*
    };
}

fresh! {
    fresh_suites: "suite",
    fresh_specs: "spec",
    fresh_locks: "lock",
    fresh_records: "records",
    fresh_sessions: "session",
    fresh_reports: "report",
    fresh_series: "csv",
    fresh_ledgers: "ledger",
    fresh_events: "event",
    fresh_run_files: "run-file",
    fresh_wheels: "wheel",
    fresh_archives: "archive",
    fresh_images: "image",
    fresh_libraries: "elf",
}

#[test]
fn every_target_has_its_test() {
    let targets: Vec<&str> = all().iter().map(|target| target.name).collect();
    assert_eq!(targets, NAMES);
}

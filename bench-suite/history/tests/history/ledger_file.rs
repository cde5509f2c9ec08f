//! The ledger's file: what is written reads as the same, and what is no ledger says why.

use std::{fs, thread};

use history::{Acceptance, Attributes, Ledger, LedgerError, LedgerFile};

use crate::nights::{Series, look, series};

/// With an entry for the drop of a cell.
fn ledger(cell: &str) -> Ledger {
    let mut ledger = Ledger::default();
    let level = |night| if night < 60 { 100.0 } else { 95.0 };
    look(&mut ledger, &[series(cell, 60, level)], 59);
    let drop = look(&mut ledger, &[series(cell, 61, level)], 60);
    assert_eq!(drop.opened.len(), 1, "{cell}");
    ledger
}

fn acceptance(by: &str) -> Acceptance {
    Acceptance {
        by: by.into(),
        why: "a \"trade\"\nover two lines".into(),
        until: Some("2027-01-31".parse().expect("a date")),
        cells: vec!["a*".into()],
        metrics: Vec::new(),
    }
}

fn text_of(ledger: &Ledger) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    let mut file = LedgerFile::open(&path).expect("a new file");
    file.ledger = ledger.clone();
    file.save().expect("written");
    fs::read_to_string(path).expect("a file")
}

fn read(text: &str) -> Result<Ledger, LedgerError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    fs::write(&path, text).expect("written");
    LedgerFile::open(path).map(|file| file.ledger)
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = read(text).expect_err(expected).to_string();
    assert!(error.contains(expected), "no `{expected}` in: {error}");
}

#[test]
fn what_is_written_reads_as_the_same() {
    let mut ledger = ledger("a");
    let id = ledger.entries()[0].id.clone();
    ledger.accept(&id, acceptance("ada")).expect("open");
    let text = text_of(&ledger);
    assert_eq!(read(&text).expect("a ledger"), ledger, "{text}");
    // One line a series and an acceptance.
    let line = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((line("    { "), line("[[regression]]")), (2, 1), "{text}");
    assert!(text.contains("until = \"2027-01-31\""), "{text}");
    let silent = {
        let mut silent = Ledger::default();
        let mut one = Series::new("a", "throughput", "gpu-1");
        one.add(0, 1.0, Attributes::new());
        look(&mut silent, &[one], 9);
        silent
    };
    assert_eq!(silent.entries().len(), 1);
    assert_eq!(read(&text_of(&silent)).expect("a ledger"), silent);
}

#[test]
fn comments_and_what_did_not_change_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    let first = ledger("a");
    let id = first.entries()[0].id.clone();
    let text =
        text_of(&first).replace("[[regression]]", "# ours, see #12\n[[regression]]") + "\n# end\n";
    fs::write(&path, &text).expect("written");
    let mut file = LedgerFile::open(&path).expect("a ledger");
    file.save().expect("nothing to write");
    assert_eq!(fs::read_to_string(&path).expect("a file"), text);
    file.ledger.accept(&id, acceptance("ada")).expect("open");
    file.save().expect("written");
    let changed = fs::read_to_string(&path).expect("a file");
    for kept in ["# ours, see #12\n[[regression]]", "# end", "# Regressions"] {
        assert!(changed.contains(kept), "no `{kept}` in {changed}");
    }
    let gone: Vec<&str> = text
        .lines()
        .filter(|line| !changed.contains(line))
        .collect();
    assert!(gone.is_empty(), "{gone:?} of {text} in {changed}");
}

#[test]
fn ledgers_of_two_branches_are_merged_or_refused() {
    let text = text_of(&ledger("a"));
    let (head, entry) = text.split_once("[[regression]]").expect("an entry");
    let entry = format!("[[regression]]{entry}");
    // Both found the same.
    let twice = format!("{head}{entry}\n{entry}");
    assert_eq!(read(&twice).expect("one"), read(&text).expect("one"));
    let other = entry.replace("r59", "r58");
    refused(&format!("{head}{entry}\n{other}"), "that differ, at lines");
    let markers = format!("{head}<<<<<<< ours\n{entry}=======\n{other}>>>>>>> theirs\n");
    let line = head.lines().count() + 1;
    refused(
        &markers,
        &format!("line {line}: git left a conflict marker"),
    );
    refused(&format!("{text}======="), "git left a conflict marker");
    let begun = "[[followed]]\nsince = \"2026-01-01T00:00:00Z\"\n";
    let merged = text.replacen("[[followed]]", &format!("{begun}\n[[followed]]"), 1);
    assert!(read(&merged).is_ok(), "the earlier one counts");
}

#[test]
fn what_is_no_ledger_says_why() {
    let mut whole = ledger("a");
    let id = whole.entries()[0].id.clone();
    whole.accept(&id, acceptance("ada")).expect("open");
    let text = text_of(&whole);
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "no {from} in {text}");
        text.replacen(from, to, 1)
    };
    assert!(read("").is_ok());
    assert!(read("\u{feff}version = 1\n").is_ok());
    refused("version 1", "line 1");
    refused("regression = []\n", "version");
    refused("version = 2\nnew = 1\n", "of version 2");
    refused(&with("what = \"regressed\"", "what = \"slower\""), "slower");
    refused(&with("failed = ", "faild = "), "faild");
    refused(
        &with("by = \"ada\"", "by = \" \""),
        "an acceptance needs `by` and `why`",
    );
    refused(&with("by = ", "who = "), "who");
    refused(&with("2027-01-31", "2027-02-31"), "`2027-02` is invalid");
    refused(
        &with("failed = \"", "failed = \"when "),
        "expected a time such as",
    );
    refused(
        &with(&format!("id = \"{id}\""), "id = \"\""),
        "needs an `id`",
    );
    refused(&with("before = ", "before = nan # "), "line ");
    refused(
        &with("first_bad", "# first_bad"),
        "needs `first_bad` and `series`",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let error = LedgerFile::open(folder.path()).expect_err("a folder");
    assert!(matches!(error, LedgerError::Read { .. }));
    let missing = LedgerFile::look_at(folder.path().join("none")).expect("empty");
    assert!(matches!(missing.existing(), Err(LedgerError::Missing(_))));
}

/// A ledger lies in a repository, where a pull request may put a link or any other file.
#[test]
fn a_file_that_is_no_ledger_is_not_quoted() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("repository");
    let secret = place.path().join("secret");
    fs::create_dir(&folder).expect("a folder");
    let error = |path: &std::path::Path| {
        let both = [LedgerFile::open(path), LedgerFile::look_at(path)];
        let both = both.map(|file| file.expect_err("no ledger").to_string());
        assert_eq!(both[0], both[1]);
        both[0].clone()
    };
    for content in ["user:topsecret-value:1\n", "# topsecret\ntopsecret\n", ""] {
        fs::write(&secret, content).expect("written");
        let link = folder.join("regressions.toml");
        std::os::unix::fs::symlink(&secret, &link).expect("a link");
        let told = error(&link);
        assert!(told.contains("leads out of its folder"), "{told}");
        assert!(!told.contains("topsecret"), "{told}");
        fs::remove_file(&link).expect("removed");
        if content.is_empty() {
            continue;
        }
        // A file that is no ledger at all is not quoted either; its line is named.
        fs::write(&link, content).expect("written");
        let told = error(&link);
        assert!(told.contains("is no ledger: line "), "{told}");
        assert!(told.contains(", column "), "{told}");
        assert!(!told.contains("topsecret"), "{told}");
        fs::remove_file(&link).expect("removed");
    }
    // As Kubernetes mounts files.
    fs::create_dir(folder.join("data")).expect("a folder");
    fs::write(folder.join("data/ledger.toml"), text_of(&ledger("a"))).expect("written");
    let link = folder.join("linked.toml");
    std::os::unix::fs::symlink("data/ledger.toml", &link).expect("a link");
    assert!(LedgerFile::open(&link).is_ok());
}

#[test]
fn what_people_decided_stands_in_the_ledger_that_was_named() {
    let mut found = ledger("a");
    let id = found.entries()[0].id.clone();
    let mut decided = found.clone();
    found.accept(&id, acceptance("an old copy")).expect("open");
    decided.accept(&id, acceptance("ada")).expect("open");
    let both = decided.clone().with_found(&found);
    assert_eq!(both.entries()[0].accepted, [acceptance("ada")]);
    let taken_back = Ledger::default().with_found(&found);
    assert!(taken_back.entries()[0].accepted.is_empty());
    assert_eq!(decided.clone().with_found(&Ledger::default()), decided);
}

#[test]
fn writers_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    let mut file = LedgerFile::open(&path).expect("a new file");
    file.ledger = ledger("a");
    let id = file.ledger.entries()[0].id.clone();
    file.save().expect("written");
    drop(file);
    thread::scope(|scope| {
        for writer in 0..8 {
            let (path, id) = (&path, &id);
            scope.spawn(move || {
                let mut file = LedgerFile::open(path).expect("a ledger");
                let by = acceptance(&format!("writer {writer}"));
                file.ledger.accept(id, by).expect("open");
                file.save().expect("written");
            });
        }
    });
    let file = LedgerFile::look_at(&path).expect("a ledger");
    assert_eq!(file.ledger.entries()[0].accepted.len(), 8);
}

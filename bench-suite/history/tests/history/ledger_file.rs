//! The ledger's file: what is written reads as the same, and what is no ledger says why.

use std::{fs, thread};

use history::{Acceptance, Attributes, Ledger, LedgerFile};

use crate::{
    nights::{Series, look, series},
    support::refusal,
};

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

fn read(text: &str) -> Result<Ledger, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    fs::write(&path, text).expect("written");
    LedgerFile::open(path)
        .map(|file| file.ledger)
        .map_err(|error| refusal(&error, folder.path()))
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
fn a_ledger_as_it_was_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("regressions.toml");
    let text = text_of(&ledger("a")) + "\n# ours\n";
    fs::write(&path, &text).expect("written");
    LedgerFile::open(&path)
        .and_then(|mut file| file.save())
        .expect("nothing to write");
    assert_eq!(fs::read_to_string(&path).expect("a file"), text);
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
    let (_, entry) = text.split_once("[[regression]]").expect("an entry");
    let refusals = [
        "version 1",
        "regression = []\n",
        "version = 2\nnew = 1\n",
        &with("what = \"regressed\"", "what = \"slower\""),
        &with("failed = ", "faild = "),
        &with("by = \"ada\"", "by = \" \""),
        &with("by = ", "who = "),
        &with("2027-01-31", "2027-02-31"),
        &with("failed = \"", "failed = \"when "),
        &with(&format!("id = \"{id}\""), "id = \"\""),
        &with("before = ", "before = nan # "),
        &with("first_bad", "# first_bad"),
        &format!("{text}\n[[regression]]{entry}"),
        &format!("{text}<<<<<<< ours\n"),
    ]
    .map(|text| read(text).expect_err("no ledger"));
    insta::assert_snapshot!(refusals.join("\n"), @r"
    /home/regressions.toml is no ledger: line 1, column 9: key with no value, expected `=`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 1, column 1: missing field `version`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: it is of version 2, and this Torchgauge reads version 1; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 10, column 8: unknown variant `slower`, expected `regressed` or `no-new-result`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 11, column 1: unknown field `faild`, expected one of `id`, `what`, `points`, `failed`, `machine`, `last_good`, `first_bad`, `series`, `accepted`, `fixed`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: R77398a6d: an acceptance needs `by` and `why`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 18, column 7: unknown field `who`, expected one of `by`, `why`, `until`, `cells`, `metrics`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 20, column 28: parsed date is not valid: parameter 'day' for `2027-02` is invalid, must be in range `1..=28`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 11, column 10: failed to parse four digit integer as year: invalid digit, expected 0-9 but got w; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: an entry needs an `id` that can be printed; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 16, column 1: invalid inline table element, expected `,`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: R77398a6d: `regressed` needs `first_bad` and `series`; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: it has two entries R77398a6d; keep one; fix the file, or name another with --ledger
    /home/regressions.toml is no ledger: line 22, column 9: key with no value, expected `=`; fix the file, or name another with --ledger
    ");
    let folder = tempfile::tempdir().expect("a folder");
    let error = LedgerFile::open(folder.path()).expect_err("a folder");
    insta::assert_snapshot!(refusal(&error, folder.path()), @"cannot read the ledger /home: it is a directory; expected a file; name another file with --ledger");
    let missing = LedgerFile::look_at(folder.path().join("none")).expect("empty");
    let missing = missing.existing().expect_err("none");
    insta::assert_snapshot!(refusal(&missing, folder.path()), @"there is no ledger at /home/none; `trend --gate` begins one, and --ledger FILE names another");
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
        let both = both.map(|file| refusal(&file.expect_err("no ledger"), place.path()));
        assert_eq!(both[0], both[1]);
        both[0].clone()
    };
    let mut refusals = Vec::new();
    for content in ["user:topsecret-value:1\n", "# topsecret\ntopsecret\n", ""] {
        fs::write(&secret, content).expect("written");
        let link = folder.join("regressions.toml");
        std::os::unix::fs::symlink(&secret, &link).expect("a link");
        let told = error(&link);
        assert!(!told.contains("topsecret"), "{told}");
        refusals.push(told);
        fs::remove_file(&link).expect("removed");
        if content.is_empty() {
            continue;
        }
        // A file that is no ledger at all is not quoted either; its line is named.
        fs::write(&link, content).expect("written");
        let told = error(&link);
        assert!(!told.contains("topsecret"), "{told}");
        refusals.push(told);
        fs::remove_file(&link).expect("removed");
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    cannot read the ledger /home/repository/regressions.toml: it is a link that leads out of its folder; give the file itself; name another file with --ledger
    /home/repository/regressions.toml is no ledger: line 1, column 23: key with no value, expected `=`; fix the file, or name another with --ledger
    cannot read the ledger /home/repository/regressions.toml: it is a link that leads out of its folder; give the file itself; name another file with --ledger
    /home/repository/regressions.toml is no ledger: line 2, column 10: key with no value, expected `=`; fix the file, or name another with --ledger
    cannot read the ledger /home/repository/regressions.toml: it is a link that leads out of its folder; give the file itself; name another file with --ledger
    ");
    // As Kubernetes mounts files.
    fs::create_dir(folder.join("data")).expect("a folder");
    fs::write(folder.join("data/ledger.toml"), text_of(&ledger("a"))).expect("written");
    let link = folder.join("linked.toml");
    std::os::unix::fs::symlink("data/ledger.toml", &link).expect("a link");
    assert!(LedgerFile::open(&link).is_ok());
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

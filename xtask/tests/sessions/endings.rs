//! What every command ends with: 0 fine, 1 a verdict says no, 2 what was given is wrong, 4 the
//! machine did not do its part. 3, some runs failed, is `bench`'s alone (`tests/runner`).

use std::fs;

use protocol::Precision;

use crate::support::{Home, records, session};

/// The command's words, its exit code, and what it says.
type Ending = (&'static str, i32, &'static str);

impl Home {
    /// With files and sessions that are wrong in some way.
    fn with_bad_input() -> Self {
        let home = Self::new();
        for folder in ["sessions/torn", "sessions/old"] {
            fs::create_dir_all(home.path(folder)).expect("a folder");
        }
        for (name, text) in [
            ("notes.txt", "a letter to a friend"),
            ("header.csv", "time,value\n1,2\n"),
            ("nan.csv", "timestamp,revision,value\n1,a,NaN\n"),
            ("good.csv", "timestamp,revision,value\n1,a,1\n2,b,2\n"),
            ("sessions/torn/session.json", "{\"version\": 1"),
            ("sessions/old/session.json", "{\"version\": 0}"),
        ] {
            fs::write(home.path(name), text).expect("a file");
        }
        let below = records("below", "img", Precision::Fp32, -1.0);
        home.write("below", &session("below"), &below);
        let mut namesake = session("base");
        namesake.started_at = "2026-03-03T03:04:05Z".parse().expect("a time");
        let runs = records("base", "img", Precision::Fp32, 1.0);
        home.write("namesake", &namesake, &runs);
        home
    }

    fn ends(&self, rows: &[Ending]) {
        for (words, code, expected) in rows {
            let words: Vec<&str> = words.split(' ').collect();
            self.check(&words, *code, expected);
        }
    }
}

#[test]
fn words_and_sides() {
    Home::with_bad_input().ends(&[
        ("no-such-command", 2, "no-such-command"),
        ("--help", 0, "4 environment"),
        ("bench --help", 0, "4 environment"),
        ("claims --help", 0, "4 environment"),
        ("compare --help", 0, "4 environment"),
        ("history --help", 0, "4 environment"),
        ("images --help", 0, "4 environment"),
        ("trend --help", 0, "4 environment"),
        (
            "compare sessions/renamed sessions/head:img",
            0,
            "1 unchanged",
        ),
        (
            "compare sessions/renamed sessions/head:other",
            1,
            "the gate failed",
        ),
        ("compare sessions/renamed", 2, "HEAD"),
        ("compare sessions/renamed sessions/none", 2, "sessions/none"),
        ("compare sessions/renamed sessions/torn", 2, "json, line 1"),
        ("compare sessions/renamed sessions/old", 2, "of version 0"),
        ("compare sessions/renamed sessions/below", 2, "at least 0"),
        ("compare sessions/renamed sessions/head:none", 2, "no image"),
        ("compare sessions/renamed x --threshold a=1", 2, "no share"),
        (
            "compare sessions/renamed sessions/head:img --junit no/x.xml",
            4,
            "cannot write no/x.xml",
        ),
        ("claims sessions/head", 2, "carries no claims"),
        ("claims sessions/none", 2, "sessions/none"),
        ("claims sessions/head:none", 2, "has no image `none`"),
        ("report sessions/none", 2, "sessions/none"),
        (
            "report sessions/renamed --out notes.txt/x",
            4,
            "cannot write",
        ),
    ]);
}

#[test]
fn series_and_files_that_are_no_history() {
    Home::with_bad_input().ends(&[
        ("trend --input good.csv", 0, "no change"),
        ("trend --input none.csv", 2, "none.csv"),
        ("trend --input header.csv", 2, "timestamp,revision,value"),
        ("trend --input nan.csv", 2, "line 2"),
        ("trend --input good.csv --branch main", 2, "cannot be used"),
        ("trend --input good.csv --metric value", 2, "cannot be used"),
        (
            "trend --input good.csv --out notes.txt/x",
            4,
            "cannot write",
        ),
        ("trend", 2, "there is no history"),
        ("history list", 2, "there is no history"),
        (
            "compare @release sessions/head:img",
            2,
            "there is no history",
        ),
        ("trend --history notes.txt", 2, "is no folder"),
        ("trend --history sessions", 2, "has no series yet"),
        (
            "history add sessions/head --history notes.txt",
            2,
            "is no folder",
        ),
    ]);
}

#[test]
fn what_a_history_takes() {
    Home::with_bad_input().ends(&[
        ("history add sessions/renamed", 0, "5 runs added"),
        ("history add sessions/none", 2, "sessions/none"),
        ("history add sessions/torn", 2, "json, line 1"),
        ("history add sessions/below", 2, "not negative"),
        ("history add sessions/namesake", 2, "different start"),
        ("history add sessions/renamed --branch=", 2, "it is empty"),
        ("history list --sessions --metric x", 2, "cannot be used"),
        ("history remove none", 2, "no session none"),
        ("history add sessions/head --branch a", 0, "runs added"),
        (
            "history add sessions/head --branch b",
            2,
            "branch a already",
        ),
        ("trend --metric none --gate", 2, "--metric none"),
        (
            "trend --machine here --gate --stale-after 1",
            1,
            "no result",
        ),
    ]);
}

#[test]
fn a_broken_file_is_a_warning_and_fails_no_gate() {
    let home = Home::new();
    home.ends(&[("history add sessions/renamed", 0, "5 runs added")]);
    let folder = home.path("history/results/here/smoke/img");
    fs::write(folder.join("half.json"), "{\"version\":1,\"sess").expect("a file");
    let warning = "half.json left out: EOF";
    home.ends(&[
        ("trend", 0, warning),
        ("trend --gate --stale-after 100000", 0, warning),
        ("history list", 0, warning),
        ("history list --sessions", 0, warning),
        ("compare branch=main sessions/head:img", 2, warning),
        ("site sessions --history history --out site", 0, warning),
    ]);
}

//! `trend` over sessions of many nights: what the gate looks at and what it does not.

use jiff::{SignedDuration, Timestamp};
use protocol::{Memory, Precision};
use record::Record;

use crate::support::{Home, records, session};

/// Adds a session a day, the newest `ago` days old; `of` says image and peak of each night.
fn nightly(home: &Home, count: i64, ago: i64, of: impl Fn(i64) -> (&'static str, u64)) {
    let mut words = vec!["history".to_owned(), "add".to_owned()];
    for night in 0..count {
        let name = format!("night-{night}");
        let (image, peak) = of(night);
        let age = SignedDuration::from_hours(24 * (ago + count - 1 - night) + 1);
        let mut this = session(&name);
        this.started_at = Timestamp::now() - age;
        let all = records(&name, image, Precision::Fp32, 100.0);
        let at = |record: Record| {
            let mut record = record;
            record.started_at = this.started_at;
            let metrics = record.metrics.as_mut().expect("figures");
            metrics.memory = Memory {
                peak_allocated_bytes: Some(peak),
                ..Memory::default()
            };
            record
        };
        let all: Vec<Record> = all.into_iter().map(at).collect();
        home.write(&name, &this, &all);
        words.push(format!("sessions/{name}"));
    }
    words.extend(["--branch".to_owned(), "main".to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    home.check(&words, 0, "night-0");
}

const GATE: [&str; 4] = ["trend", "--branch", "main", "--gate"];

#[test]
fn a_gate_over_nothing_is_bad_usage() {
    let home = Home::new();
    nightly(&home, 3, 0, |_| ("img", 4_500_000_000));
    home.check(&GATE, 0, "series");
    for (words, expected) in [
        (
            ["--branch", "nosuch"],
            "--branch nosuch; the history has branch main",
        ),
        (
            ["--metric", "nosuch"],
            "--metric nosuch; the history has metric ",
        ),
        (
            ["--image", "nosuch"],
            "--image nosuch; the history has image img",
        ),
    ] {
        let asked = ["trend", words[0], words[1]];
        home.check(&asked, 2, expected);
        home.check(&[&asked[..], &["--gate"]].concat(), 2, expected);
    }
    let explaining = ["trend", "--metric", "samples_*", "--gate"];
    home.check(&explaining, 2, "--metric samples_*");
    let empty = home.path("empty.csv");
    std::fs::write(&empty, "timestamp,revision,value\n").expect("a file");
    let empty = empty.to_str().expect("text");
    home.check(&["trend", "--input", empty], 0, "no change");
    home.check(&["trend", "--input", empty, "--gate"], 2, "has no points");
}

#[test]
fn a_change_within_the_margin_is_told_and_fails_nothing() {
    let grown = |by: u64| {
        let home = Home::new();
        nightly(&home, 30, 0, |night| {
            ("img", 4_500_000_000 + if night == 29 { by } else { 0 })
        });
        home
    };
    let told = grown(512).check(&GATE, 0, "worse within the margin, new");
    assert!(!told.contains("the gate says no"), "{told}");
    grown(45_000_000).check(
        &GATE,
        1,
        "1 made worse by the last run, 0 without a new result",
    );
}

#[test]
fn an_upgraded_image_leaves_no_alarm_behind() {
    let home = Home::new();
    nightly(&home, 20, 0, |night| {
        (if night < 10 { "old" } else { "new" }, 4_500_000_000)
    });
    let told = home.check(&GATE, 0, "superseded by another image or driver");
    assert!(!told.contains("no result for"), "{told}");

    let home = Home::new();
    nightly(&home, 10, 10, |_| ("old", 4_500_000_000));
    home.check(
        &GATE,
        1,
        "0 made worse by the last run, 2 without a new result",
    );
}

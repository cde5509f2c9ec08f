//! `trend` over sessions of many nights: what the gate looks at and what it does not.

use jiff::{SignedDuration, Timestamp};
use protocol::{Device, Memory, Precision};
use record::{Gpu, Record, Session};

use crate::support::{Home, cell, records, session};

/// Adds a session a day, the newest `ago` days old; `of` says image and peak of each night.
fn nightly(home: &Home, count: i64, ago: i64, of: impl Fn(i64) -> (&'static str, u64)) {
    nightly_in(home, count, ago, of, |_, _| ());
}

/// As [`nightly`]; `shape` has the last word on each night's session.
fn nightly_in(
    home: &Home,
    count: i64,
    ago: i64,
    of: impl Fn(i64) -> (&'static str, u64),
    shape: impl Fn(i64, &mut Session),
) {
    let mut words = vec!["history".to_owned(), "add".to_owned()];
    for night in 0..count {
        let name = format!("night-{night}");
        let (image, peak) = of(night);
        let age = SignedDuration::from_hours(24 * (ago + count - 1 - night) + 1);
        let mut this = session(&name);
        this.started_at = Timestamp::now() - age;
        shape(night, &mut this);
        let all = records(&name, image, Precision::Fp32, 100.0);
        let at = |record: Record| {
            let mut record = record;
            record.started_at = this.started_at;
            record.device = this.device;
            let metrics = record.metrics.as_mut().expect("metrics");
            metrics.summary.memory = Memory {
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
fn a_change_within_the_threshold_is_told_and_fails_nothing() {
    let grown = |by: u64| {
        let home = Home::new();
        nightly(&home, 30, 0, |night| {
            ("img", 4_500_000_000 + if night == 29 { by } else { 0 })
        });
        home
    };
    let told = grown(512).check(&GATE, 0, "regressed within the noise threshold, new");
    assert!(!told.contains("the gate says no"), "{told}");
    grown(45_000_000).check(
        &GATE,
        1,
        "1 made regressed by the last run, 0 without a new result",
    );
}

#[test]
fn an_upgraded_image_leaves_no_alarm_behind() {
    let home = Home::new();
    nightly(&home, 20, 0, |night| {
        (if night < 10 { "old" } else { "new" }, 4_500_000_000)
    });
    let told = home.check(&GATE, 0, "superseded by image new");
    assert!(!told.contains("no result for"), "{told}");

    let home = Home::new();
    nightly(&home, 10, 10, |_| ("old", 4_500_000_000));
    home.check(
        &GATE,
        1,
        "0 made regressed by the last run, 2 without a new result",
    );
}

/// A series of one result has no pace of its own.
#[test]
fn an_upgraded_image_that_stops_at_once_is_noticed() {
    let home = Home::new();
    nightly(&home, 11, 10, |night| {
        (if night < 10 { "old" } else { "new" }, 4_500_000_000)
    });
    for more in [&[][..], &["--image", "new"]] {
        let words = [&GATE[..], more].concat();
        let told = home.check(&words, 1, "2 without a new result");
        assert!(told.contains("usually every 1.0 days"), "{told}");
    }
    // One that stands for nothing before it may be the only one that there will be.
    let home = Home::new();
    nightly(&home, 1, 10, |_| ("img", 4_500_000_000));
    home.check(&GATE, 0, "series");
}

#[test]
fn the_threshold_of_the_newest_suite_reaches_the_gate() {
    // The last night brings 1 % more, twice the default noise threshold.
    let gate = |has_threshold: fn(i64) -> bool, code: i32, expected: &str| {
        let home = Home::new();
        let peak = |night| {
            (
                "img",
                if night == 29 {
                    4_545_000_000
                } else {
                    4_500_000_000
                },
            )
        };
        nightly_in(&home, 30, 0, peak, |night, session| {
            if has_threshold(night) {
                session.cells = vec![cell("img", "peak_allocated_bytes", 0.02)];
            }
        });
        home.check(&GATE, code, expected)
    };
    gate(|_| false, 1, "regressed, new");
    gate(|night| night < 29, 1, "regressed, new");
    gate(
        |night| night == 29,
        0,
        "regressed within the noise threshold, new",
    );
}

#[test]
fn an_image_asked_for_by_name_is_said_to_be_superseded() {
    let home = Home::new();
    nightly(&home, 20, 0, |night| {
        (if night < 10 { "old" } else { "new" }, 4_500_000_000)
    });
    let old = ["trend", "--branch", "main", "--image", "old"];
    let told = home.check(&old, 0, "superseded by image new");
    assert!(!told.contains("no result for"), "{told}");
    let json = [&old[..], &["--format", "json"]].concat();
    home.check(&json, 0, "\"superseded_by\": {");
    let gate = [&old[..], &["--gate"]].concat();
    let told = home.check(&gate, 2, "are superseded by image new");
    assert!(!told.contains("no result for"), "{told}");
    // With what took its place beside it, there is something to look at.
    home.check(&GATE, 0, "superseded by image new");
    home.check(&["trend", "--image", "new", "--gate"], 0, "series");
    // Nobody took the place of one that is not tried any more.
    let home = Home::new();
    nightly(&home, 10, 10, |_| ("old", 4_500_000_000));
    home.check(&gate, 1, "no result for");
}

#[test]
fn a_change_with_another_gpu_says_so() {
    let peak = |night| {
        (
            "img",
            if night < 20 {
                4_500_000_000
            } else {
                4_600_000_000
            },
        )
    };
    let follow = |replaced: i64| {
        let home = Home::new();
        nightly_in(&home, 30, 0, peak, |night, session| {
            let uuid = if night < replaced { "GPU-a1" } else { "GPU-b2" };
            session.device = Device::Cuda(0);
            session.machine.gpus = vec![Gpu {
                name: "NVIDIA H200".into(),
                uuid: uuid.into(),
                ..Gpu::default()
            }];
        });
        let words = ["trend", "--metric", "peak_allocated_bytes"];
        let text = home.check(&words, 0, "1 series");
        let json = home.check(&[&words[..], &["--format", "json"]].concat(), 0, "[");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(json[0]["newest"].is_f64(), "{}", json[0]["newest"]);
        (text, json[0]["gpu_changes"].clone())
    };
    let (text, json) = follow(20);
    assert!(text.contains("regressed, on another GPU"), "{text}");
    let gpu = "at point 20 the GPU changed from GPU-a1 to GPU-b2";
    assert!(text.contains(gpu), "{text}");
    let expect = serde_json::json!([{"index": 20, "before": "GPU-a1", "after": "GPU-b2"}]);
    assert_eq!(json, expect);
    // A GPU that was replaced on another night has nothing to do with it.
    let (text, json) = follow(10);
    assert!(!text.contains("GPU changed"), "{text}");
    assert_eq!(json, serde_json::json!([]));
}

#[test]
fn a_list_of_series_keeps_to_its_branch() {
    let home = Home::new();
    nightly(&home, 2, 0, |_| ("img", 4_500_000_000));
    home.check(&["history", "add", "sessions/renamed"], 0, "5 runs added");
    let list = |branch: &str| {
        let words = ["history", "list", "--format", "json", "--branch", branch];
        let json = home.check(&words, 0, "");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let mut all = json.as_array().expect("a list").clone();
        all.retain(|one| one["metric"] == "throughput_samples_per_second");
        all
    };
    let on_main = list("main");
    assert_eq!(on_main.len(), 1);
    assert_eq!(on_main[0]["points"], 10, "{}", on_main[0]);
    assert!(list("none").is_empty());
}

//! `trend` over sessions of many nights: what the gate looks at and what it does not.

use jiff::{SignedDuration, Timestamp};
use protocol::{Device, Precision};
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
    nightly_of(home, count, ago, of, shape, |_, _| ());
}

/// As [`nightly_in`]; `shape_run` has the last word on each run.
fn nightly_of(
    home: &Home,
    count: i64,
    ago: i64,
    of: impl Fn(i64) -> (&'static str, u64),
    shape: impl Fn(i64, &mut Session),
    shape_run: impl Fn(i64, &mut Record),
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
            let peak = peak as f64;
            record.values.insert("peak_allocated_bytes".into(), peak);
            shape_run(night, &mut record);
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

// As Markdown, which is not wrapped.
const GATE: [&str; 6] = [
    "trend", "--branch", "main", "--gate", "--format", "markdown",
];

#[test]
fn a_gate_over_nothing_is_bad_usage() {
    let home = Home::new();
    nightly(&home, 12, 0, |_| ("img", 4_500_000_000));
    home.check(&GATE, 0, "series");
    let young = Home::new();
    nightly(&young, 3, 0, |_| ("img", 4_500_000_000));
    young.check(&GATE[..3], 0, "9 too short to judge");
    young.check(&GATE, 0, "the gate judged 0 of 2 series");
    for (words, expected) in [
        (
            ["--branch", "nosuch"],
            "no series with a point fits --branch nosuch;",
        ),
        (
            ["--metric", "nosuch"],
            "no series with a point fits --metric nosuch;",
        ),
        (
            ["--image", "nosuch"],
            "no series with a point fits --image nosuch;",
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
    home.check(
        &["trend", "--input", empty, "--gate"],
        2,
        "has 0 of 10 points",
    );
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
        "regressed by +1.00 %, 4.191 GiB to 4.233 GiB; last good night-28, first bad night-29",
    );
}

/// A track goes on with its next image, and so does the wait for results.
#[test]
fn an_upgraded_image_continues_its_track() {
    let upgraded = |ago: i64, peak: fn(i64) -> u64| {
        let home = Home::new();
        nightly(&home, 20, ago, |night| {
            let image = if night < 19 {
                "torch-2.8.0-cu128"
            } else {
                "torch-2.11.0-cu130"
            };
            (image, peak(night))
        });
        home
    };
    let told = upgraded(0, |_| 4_500_000_000).check(&GATE, 0, "series");
    assert!(!told.contains("no result for"), "{told}");
    let stopped = upgraded(10, |_| 4_500_000_000);
    // One line for a runner, however many series it has, until results come or it is accepted.
    for _ in 0..2 {
        let told = stopped.check(&GATE, 1, "the gate failed: 1 failure");
        assert!(
            told.contains("here: no result for 10.0 days from any of its series"),
            "{told}"
        );
        assert_eq!(told.matches("no result for").count(), 2, "{told}");
    }
    let heavier = |night| {
        if night < 19 {
            4_500_000_000
        } else {
            4_700_000_000
        }
    };
    let told = upgraded(0, heavier).check(&GATE, 1, "the gate failed: 1 failure");
    let cause = "+4.44 % from image torch-2.8.0-cu128 to torch-2.11.0-cu130";
    assert!(told.contains(cause), "{told}");
}

#[test]
fn a_driver_that_made_it_slower_is_named() {
    let home = Home::new();
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
    nightly_in(&home, 30, 0, peak, |night, session| {
        let (driver, uuid) = if night < 20 {
            ("570.86", "GPU-a1")
        } else {
            ("580.12", "GPU-b2")
        };
        session.device = Device::Cuda(0);
        session.hosts.values_mut().next().unwrap().driver_version = Some(driver.into());
        session.hosts.values_mut().next().unwrap().gpus = vec![Gpu {
            name: "NVIDIA H200".into(),
            uuid: uuid.into(),
            ..Gpu::default()
        }];
        // What is upgraded on another night has nothing to do with it.
        session.hosts.values_mut().next().unwrap().kernel =
            if night < 10 { "6.1" } else { "6.8" }.into();
    });
    let words = ["trend", "--metric", "peak_allocated_bytes"];
    let text = home.check(&words, 0, "regressed, with another driver and GPU");
    let cause = "+2.22 % from driver 570.86 to 580.12, GPU GPU-a1 to GPU-b2";
    assert!(text.contains(cause), "{text}");
    let json = home.check(&[&words[..], &["--format", "json"]].concat(), 0, "[");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json[0]["newest"].is_f64(), "{}", json[0]["newest"]);
    let expect = serde_json::json!([
        {"index": 20, "attribute": "driver", "before": "570.86", "after": "580.12"},
        {"index": 20, "attribute": "gpu", "before": "GPU-a1", "after": "GPU-b2"},
    ]);
    assert_eq!(json[0]["attribute_changes"], expect);
    let under = [&words[..], &["--driver", "580*"]].concat();
    home.check(&under, 0, "1 series, 1 without a change");
    home.check(
        &[&words[..], &["--driver", "600"]].concat(),
        2,
        "no series with a point fits --metric peak_allocated_bytes --driver 600;",
    );
}

/// The commit stays the same over many nights: a level may begin with a driver all the same.
#[test]
fn a_driver_may_begin_a_level_within_a_revision() {
    let home = Home::new();
    let peak = |night| {
        (
            "img",
            if night < 29 {
                4_500_000_000
            } else {
                4_700_000_000
            },
        )
    };
    nightly_in(&home, 30, 0, peak, |night, session| {
        session.tool.revision = Some(format!("commit-{}", night / 10));
        session.device = Device::Cuda(0);
        let driver = if night < 29 { "570.86" } else { "580.12" };
        session.hosts.values_mut().next().unwrap().driver_version = Some(driver.into());
    });
    home.check(&GATE, 1, "from driver 570.86 to 580.12");
}

#[test]
fn two_images_of_one_session_are_two_tracks() {
    let home = Home::new();
    let add = |more: &[&str], code, expected: &str| {
        let words = [&["history", "add", "sessions/head"][..], more].concat();
        home.check(&words, code, expected)
    };
    add(
        &["--track", "main"],
        2,
        "track main is not that of one image",
    );
    add(&["--track", "img=main"], 0, "15 runs added");
    let words = ["trend", "--track", "main", "--metric", "throughput*"];
    home.check(&words, 0, "2 series");
    home.check(&["history", "list", "--track", "other"], 0, "other");
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
            let mut plan = cell("img", "peak_allocated_bytes", 0.02);
            if !has_threshold(night) {
                plan.thresholds.clear();
            }
            session.cells = vec![plan];
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

/// Twenty nights under 8 GiB, ten under 16 GiB, which take more.
fn two_methods(home: &Home) {
    let peak = |night| {
        (
            "img",
            if night < 20 {
                4_500_000_000
            } else {
                4_700_000_000
            },
        )
    };
    nightly_of(
        home,
        30,
        0,
        peak,
        |_, _| (),
        |night, run| {
            let memory = if night < 20 { "8.0 GiB" } else { "16.0 GiB" };
            run.method.set("limits.memory", memory);
            run.method.set("seed", 1);
        },
    );
}

#[test]
fn another_method_is_named_and_ignored_where_asked() {
    let home = Home::new();
    two_methods(&home);
    let series = ["--metric", "peak_allocated_bytes", "--format"];
    let call = |command: &[&str], format: &str, more: &[&str], expected: &str| {
        home.check(&[command, &series, &[format], more].concat(), 0, expected)
    };
    let (list, trend) = (["history", "list"], ["trend"]);
    let told = call(&list, "markdown", &[], "| method |");
    for row in ["| limits.memory 8.0 GiB |", "| limits.memory 16.0 GiB |"] {
        assert_eq!(told.matches(row).count(), 1, "{told}");
    }
    assert!(!told.contains("seed"), "{told}");
    let change = "1 series begin where another method ended; method: limits.memory 8.0 GiB → \
        16.0 GiB; --ignore method.limits.memory follows both as one";
    let change = change.replace("series begin", "series begins");
    let told = call(&trend, "markdown", &[], &change);
    assert!(told.contains("2 series, 2 without a change"), "{told}");
    let stale = "limits.memory 8.0 GiB: 20 points, no change; no result for";
    assert!(told.contains(stale), "{told}");
    assert!(
        told.contains("goes on as another series; method: limits.memory"),
        "{told}"
    );
    let json = call(&trend, "json", &[], "[");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let begins = json.as_array().expect("a list").iter();
    let begins: Vec<_> = begins
        .filter(|one| one["methods"]["before"].is_object())
        .collect();
    let [begins] = begins[..] else {
        panic!("{json}")
    };
    let difference = &begins["methods"]["before"]["differences"][0];
    assert_eq!(difference["key"], "limits.memory");
    assert_eq!(begins["method_settings"]["limits.memory"], "16.0 GiB");

    let ignore = ["--ignore", "method.limits.memory"];
    let one = call(&list, "markdown", &ignore, "1 series");
    assert!(
        one.contains("| 150 |") && !one.contains("| method |"),
        "{one}"
    );
    let one = call(&trend, "markdown", &ignore, "1 series, 0 without a change");
    let cause = "+4.44 % from method.limits.memory 8.0 GiB to 16.0 GiB";
    assert!(
        one.contains(cause) && !one.contains("another method ended"),
        "{one}"
    );
    let seed = ["--ignore", "method.seed"];
    call(&trend, "markdown", &seed, &change);
    let wrong = ["trend", "--ignore", "limits.memory"];
    home.check(&wrong, 2, "expected method, or one of method.engine");
}

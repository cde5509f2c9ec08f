//! `claims`, and what reports say of them.

use std::fs;

use protocol::Precision;
use record::{CellChoice, Claim, Expectation, ImageFacts, Range, Session};

use crate::support::{Home, records, session};

/// bf16 is 10 % slower; claimed is that it costs `from` to `to` of the throughput.
fn claiming(name: &str, from: f64, to: f64) -> Session {
    let choice = |value: &str| CellChoice {
        axes: [("precision".to_owned(), value.to_owned())].into(),
        ..CellChoice::default()
    };
    let mut session = session(name);
    session.claims = vec![Claim {
        statement: "bf16 costs throughput".into(),
        source: "an article".into(),
        metric: "throughput_samples_per_second".into(),
        scenarios: Vec::new(),
        models: Vec::new(),
        task: None,
        baseline: Some(choice("fp32")),
        treated: choice("amp-bf16"),
        expect: Expectation::Saving(Range {
            min: Some(from),
            max: Some(to),
        }),
    }];
    session
}

fn home() -> Home {
    let home = Home::new();
    let both = |name: &str| {
        let mut all = records(name, "img", Precision::Fp32, 100.0);
        all.extend(records(name, "img", Precision::AmpBf16, 90.0));
        all
    };
    home.write("sound", &claiming("sound", 0.05, 0.15), &both("sound"));
    home.write("wrong", &claiming("wrong", 0.3, 0.5), &both("wrong"));
    home.write("sharp", &claiming("sharp", 0.1, 0.2), &both("sharp"));
    home
}

#[test]
fn claims_hold_are_refuted_or_cannot_be_told() {
    let home = home();
    for (name, outcome, refuted, strict) in [
        ("sound", "holds: bf16 costs throughput", 0, 0),
        ("wrong", "refuted: bf16 costs throughput", 1, 1),
        ("sharp", "inconclusive: bf16 costs throughput", 0, 1),
    ] {
        let folder = format!("sessions/{name}");
        let words = ["claims", &folder];
        home.check(&words, 0, outcome);
        let gate = |fail_on| ["claims", folder.as_str(), "--fail-on", fail_on];
        home.check(&gate("refuted"), refuted, outcome);
        home.check(&gate("inconclusive"), strict, outcome);
    }
    let words = ["claims", "sessions/wrong", "--out", "page"];
    home.check(&words, 0, "drawn: page/claims.html");
    let page = fs::read_to_string(home.path("page/claims.html")).expect("the page is there");
    assert!(page.contains("<b>1</b> ✗ claim refuted") && page.contains("<svg"));
    let json = home.check(&["claims", "sessions/wrong", "--format", "json"], 0, "[");
    let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(found[0]["outcome"], "refuted");
    let interval = &found[0]["pairs"][0]["verdict"]["interval"];
    let lo = interval["lo"].as_f64().expect("an end");
    let hi = interval["hi"].as_f64().expect("an end");
    assert!(0.89 < lo && lo < 0.9 && 0.9 < hi && hi < 0.91, "{interval}");
}

#[test]
fn pairs_of_different_methods_are_counted_and_taken_where_asked() {
    let home = Home::new();
    let mut all = records("two", "img", Precision::Fp32, 100.0);
    all.extend(records("two", "img", Precision::AmpBf16, 90.0));
    for run in &mut all {
        let is_treated = run.axes.get("precision").is_some_and(|of| of == "amp-bf16");
        run.method.set("threads", if is_treated { 2 } else { 1 });
    }
    home.write("two", &claiming("two", 0.05, 0.15), &all);
    let told = "1 pair left out, measured by different methods: threads 1 without, 2 with; \
        --ignore method.threads takes them";
    let words = ["claims", "sessions/two", "--format", "markdown"];
    home.check(&words, 0, told);
    home.check(&words[..2], 0, "not measured: bf16 costs throughput");
    let gate = [&words[..2], &["--fail-on", "refuted"]].concat();
    home.check(&gate, 2, "a gate would pass with nothing judged");
    home.check(&[&words[..2], &["--out", "page"]].concat(), 0, "drawn");
    let page = fs::read_to_string(home.path("page/claims.html")).expect("the page is there");
    assert!(page.contains("threads 1 without, 2 with"));
    let told = home.check(
        &[&words[..2], &["--ignore", "method.threads"]].concat(),
        0,
        "holds: bf16 costs throughput",
    );
    let words: Vec<&str> = told.split_whitespace().collect();
    let taken = "1 pair taken although measured by different methods: threads 1 without, 2 with";
    assert!(words.join(" ").contains(taken), "{told}");
    let wrong = ["claims", "sessions/two", "--ignore", "method.nosuch"];
    home.check(&wrong, 2, "expected method, or one of method.engine");
}

#[test]
fn claims_of_a_suite_are_judged_by_a_session_without_any() {
    let home = home();
    home.check(&["claims", "sessions/head"], 2, "--of claims");
    let suite = "version: 1\ndescription: d\nscenarios:\n\
        - {name: other, model: resnet-tiny, axes: {batch: 2, precision: [fp32, amp-bf16]}}\nclaims:\n\
        - {statement: bf16 halves the speed, source: nobody, \
        metric: throughput_samples_per_second, baseline: {precision: fp32}, \
        treated: {precision: amp-bf16}, expect: {ratio: {max: 0.5}}}\n";
    fs::write(home.path("own.yaml"), suite).expect("the suite is written");
    let words = ["claims", "sessions/head:img", "--of", "./own.yaml"];
    home.check(&words, 0, "refuted: bf16 halves the speed");
    // `other` was not measured in that precision.
    let words = ["claims", "sessions/head:other", "--of", "./own.yaml"];
    home.check(&words, 0, "not measured here");
}

#[test]
fn a_report_judges_claims_and_images() {
    let home = home();
    home.check(&["report", "sessions/wrong"], 0, "report.html");
    let read = |name: &str| {
        let path = home.path("sessions/wrong").join(name);
        fs::read_to_string(path).expect("the report is there")
    };
    assert!(read("report.html").contains("id=\"claims\""));
    assert!(read("report.md").contains("### Claims"));
    let json: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    let summary = &json["sessions"][0];
    assert_eq!(summary["claims"][0]["outcome"], "refuted");
    assert_eq!(summary["comparisons"], serde_json::json!([]));

    let mut two = session("two");
    two.images = ["img", "slow"]
        .map(|name| ImageFacts {
            name: name.into(),
            ..ImageFacts::default()
        })
        .to_vec();
    let mut all = records("two", "img", Precision::Fp32, 100.0);
    all.extend(records("two", "slow", Precision::Fp32, 80.0));
    home.write("two", &two, &all);
    home.check(&["report", "sessions/two"], 0, "report.html");
    let text = fs::read_to_string(home.path("sessions/two/report.md")).expect("a report");
    assert!(text.contains("slow against img"), "{text}");
    let html = fs::read_to_string(home.path("sessions/two/report.html")).expect("a report");
    assert!(html.contains("id=\"comparison\"") && html.contains("✗ regressed"));
}

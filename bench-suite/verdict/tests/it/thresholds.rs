//! Noise thresholds that a suite sets reach the judge.

use std::collections::BTreeMap;

use judge::compare::Verdict;
use protocol::{Axes, Steps};
use record::{CellPlan, Session, Workload};
use verdict::{Options, Side, Verdicts, Warning, compare};

use crate::support::{records, runs, session};

const SPEED: &str = "throughput_samples_per_second";

fn cell(image: &str, axes: &Axes, threshold: f64) -> CellPlan {
    CellPlan {
        image: image.into(),
        suite: "smoke".into(),
        scenario: "tiny".into(),
        workload: Workload::builtin("resnet-tiny", "training"),
        axes: axes.clone(),
        steps: Steps::new(1, 1),
        ranks: 1,
        seed: 1,
        expected: None,
        thresholds: BTreeMap::from([(SPEED.to_owned(), threshold)]),
    }
}

fn planned(name: &str, threshold: f64) -> Session {
    let mut session = session(name, "m");
    session.cells = ["old", "new"]
        .map(|image| cell(image, Axes::usual(), threshold))
        .to_vec();
    session
}

#[track_caller]
fn check(verdicts: &Verdicts, threshold: f64, verdict: Verdict) {
    let (_, found) = verdicts
        .all()
        .find(|(_, found)| found.metric == SPEED)
        .expect("throughput is judged");
    assert!(
        (found.comparison.threshold - threshold).abs() < 1e-12,
        "{found:?}"
    );
    assert_eq!(found.comparison.verdict, verdict, "{found:?}");
}

#[test]
fn a_suites_threshold_decides_and_the_users_word_comes_first() {
    // Two per cent slower: within a noise threshold of 5 %, and not within the table's 0.5 %.
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "tiny", &runs(98.0, 1000)));
    let with = |session: &Session, options: &Options| {
        let base = Side::pick(session, &all, Some("old")).unwrap();
        let head = Side::pick(session, &all, Some("new")).unwrap();
        compare(&base, &head, options).unwrap()
    };
    let default = Options::default();
    check(
        &with(&session("s", "m"), &default),
        0.005,
        Verdict::Regressed,
    );
    check(
        &with(&planned("s", 0.05), &default),
        0.05,
        Verdict::Unchanged,
    );
    let asked = Options {
        thresholds: BTreeMap::from([(SPEED.to_owned(), 0.01)]),
        ..Options::default()
    };
    check(&with(&planned("s", 0.05), &asked), 0.01, Verdict::Regressed);
}

#[test]
fn the_heads_threshold_counts_and_a_difference_is_told() {
    let base = records("a", "old", 0, "tiny", &runs(100.0, 1000));
    let head = records("b", "old", 1, "tiny", &runs(98.0, 1000));
    let (first, second) = (planned("a", 0.001), planned("b", 0.05));
    let base = Side::pick(&first, &base, None).unwrap();
    let head = Side::pick(&second, &head, None).unwrap();
    let verdicts = compare(&base, &head, &Options::default()).unwrap();
    check(&verdicts, 0.05, Verdict::Unchanged);
    let told = Warning::ThresholdsDiffer { cells: 1 };
    assert!(verdicts.warnings.contains(&told), "{:?}", verdicts.warnings);
}

#[test]
fn two_values_of_an_axis_have_each_their_threshold() {
    let mut amp = Axes::usual().clone();
    amp.set("precision", "amp-bf16");
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut treated = records("s", "old", 1, "tiny", &runs(98.0, 1000));
    for run in &mut treated {
        run.axes = amp.clone();
    }
    all.extend(treated);
    let mut session = planned("s", 0.001);
    session.cells = vec![cell("old", Axes::usual(), 0.001), cell("old", &amp, 0.05)];
    let whole = Side::pick(&session, &all, None).unwrap();
    let base = whole.along("precision", "fp32").unwrap();
    let head = whole.along("precision", "amp-bf16").unwrap();
    check(
        &compare(&base, &head, &Options::default()).unwrap(),
        0.05,
        Verdict::Unchanged,
    );
}

//! The cells of a scenario against each other.

use judge::compare::Verdict;
use metrics::{Metric, catalogue};
use protocol::{Axes, Steps};
use record::{CellPlan, Deciding, Record, Session, SidesCompared};
use verdict::{Best, Options, ScenarioPairs, compare_session, judge_pairs};

use crate::support::{records, runs, session};

const PRECISIONS: [&str; 3] = ["fp32", "tf32", "amp-bf16"];

fn axes(precision: &str) -> Axes {
    let mut axes = Axes::usual().clone();
    axes.set("precision", precision);
    axes
}

/// One scenario in three precisions of these throughputs and peaks.
fn measured(cells: [(f64, u64); 3]) -> (Session, Vec<Record>) {
    let mut session = session("s", "m");
    let mut all = Vec::new();
    for (place, (precision, (throughput, peak))) in PRECISIONS.into_iter().zip(cells).enumerate() {
        let mut own = records("s", "old", place % 2, "tiny", &runs(throughput, peak));
        for record in &mut own {
            record.axes = axes(precision);
        }
        let first = &own[0];
        session.cells.push(CellPlan {
            image: "old".into(),
            suite: first.suite.clone(),
            scenario: first.scenario.clone(),
            workload: first.workload.clone(),
            axes: first.axes.clone(),
            steps: Steps::new(1, 1),
            ranks: 1,
            seed: 1,
            thresholds: std::collections::BTreeMap::new(),
            expected: None,
        });
        all.extend(own);
    }
    (session, all)
}

fn judged((session, records): &(Session, Vec<Record>)) -> ScenarioPairs {
    let comparisons = compare_session(session, records, &Options::default()).unwrap();
    let none = |_: &str| Vec::new();
    let mut all = judge_pairs(session, records, &comparisons, none, &Options::default()).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn best(pairs: &ScenarioPairs, metric: &Metric, medians: &[f64]) -> Best {
    let medians: Vec<(usize, f64)> = medians.iter().copied().enumerate().collect();
    let between = |one, other| pairs.between(one, other, metric);
    Best::of(metric.direction, &medians, between).unwrap()
}

#[test]
fn the_fastest_is_the_one_that_the_judge_finds_better_than_every_other() {
    let pairs = judged(&measured([(100.0, 10), (150.0, 10), (200.0, 10)]));
    let fastest = best(&pairs, &catalogue::THROUGHPUT, &[100.0, 150.0, 200.0]);
    assert_eq!((fastest.leader, fastest.beaten), (2, vec![0, 1]));
    let between = |base, head| {
        let found = pairs.between(base, head, &catalogue::THROUGHPUT);
        found.unwrap().comparison
    };
    let (forward, back) = (between(0, 2), between(2, 0));
    assert_eq!(
        (forward.verdict, back.verdict),
        (Verdict::Improved, Verdict::Regressed)
    );
    assert!((forward.ratio.unwrap() * back.ratio.unwrap() - 1.0).abs() < 1e-12);
    let (forward, back) = (forward.interval.unwrap(), back.interval.unwrap());
    assert!((forward.lo * back.hi - 1.0).abs() < 1e-12 && back.lo < back.hi);
}

#[test]
fn equal_bytes_and_noise_make_no_winner() {
    let pairs = judged(&measured([(100.0, 1000), (100.1, 1000), (100.2, 900)]));
    let fastest = best(&pairs, &catalogue::THROUGHPUT, &[100.0, 100.1, 100.2]);
    assert_eq!(fastest.beaten, Vec::<usize>::new());
    let peak = &catalogue::PEAK_ALLOCATED;
    let of_two = best(&pairs, peak, &[1000.0, 1000.0]);
    assert_eq!((of_two.leader, of_two.equal), (0, vec![1]));
    let of_three = best(&pairs, peak, &[1000.0, 1000.0, 900.0]);
    assert_eq!((of_three.leader, of_three.beaten), (2, vec![0, 1]));
}

#[test]
fn one_block_shows_nothing() {
    let (session, mut records) = measured([(100.0, 10), (150.0, 20), (200.0, 30)]);
    records.retain(|record| record.block == 0);
    let pairs = judged(&(session, records));
    let fastest = best(&pairs, &catalogue::THROUGHPUT, &[100.0, 150.0, 200.0]);
    assert_eq!(fastest.undecided, [0, 1]);
}

#[test]
fn two_cells_that_the_session_compares_have_that_verdict() {
    let (mut session, records) = measured([(100.0, 10), (101.0, 10), (200.0, 10)]);
    session.deciding = Some(Deciding {
        sides: SidesCompared::Axis {
            axis: "precision".into(),
            base: "tf32".into(),
            head: "fp32".into(),
        },
        time_budget_seconds: 60.0,
        most_blocks: 6,
        planned_blocks: Some(6),
        spent_seconds: 60.0,
        looks: Vec::new(),
        end: None,
        metric: None,
        ratio: None,
        error: None,
    });
    let comparisons = compare_session(&session, &records, &Options::default()).unwrap();
    let theirs = comparisons[0].all().next().unwrap().1.comparison.clone();
    let pairs = judged(&(session, records));
    // The base of the decision is the baseline, wherever it stands in the plan.
    assert_eq!(pairs.cells[0].axes, axes("tf32"));
    let own = pairs.between(0, 1, &catalogue::THROUGHPUT);
    let own = own.unwrap().comparison;
    assert_eq!((own.ratio, own.interval), (theirs.ratio, theirs.interval));
}

#[test]
fn a_variant_in_two_images_is_judged_by_every_headline_metric() {
    let mut session = session("s", "m");
    let mut all = Vec::new();
    let images = ["1.0", "2.0", "3.0"];
    session.images = Vec::new();
    for (place, image) in images.into_iter().enumerate() {
        session.images.push(record::ImageFacts {
            name: image.into(),
            ..record::ImageFacts::default()
        });
        for precision in ["fp32", "tf32"] {
            let mut own = records("s", image, place % 2, "tiny", &runs(100.0, 10));
            for record in &mut own {
                record.axes = axes(precision);
                let seconds = [1.0, 26.0, 10.0][place] * (1.0 + 0.002 * f64::from(record.block));
                record.values.insert("warmup_seconds".into(), seconds);
            }
            session.cells.push(CellPlan {
                image: image.into(),
                suite: own[0].suite.clone(),
                scenario: own[0].scenario.clone(),
                workload: own[0].workload.clone(),
                axes: axes(precision),
                steps: Steps::new(1, 1),
                ranks: 1,
                seed: 1,
                thresholds: std::collections::BTreeMap::new(),
                expected: None,
            });
            all.extend(own);
        }
    }
    let pairs = judged(&(session, all));
    let place = |image: &str, precision: &str| {
        let mut cells = pairs.cells.iter();
        let found = cells.position(|one| one.image == image && one.axes == axes(precision));
        found.unwrap()
    };
    let step = |base, head| pairs.between(base, head, &catalogue::WARMUP);
    let (second, third) = (place("2.0", "tf32"), place("3.0", "tf32"));
    let forward = step(second, third).unwrap();
    assert_eq!(forward.comparison.verdict, Verdict::Improved, "{forward:?}");
    assert!(
        forward.base > Some(26.0) && forward.head < Some(11.0),
        "{forward:?}"
    );
    let back = step(third, second).unwrap();
    assert_eq!((back.base, back.head), (forward.head, forward.base));
    assert_eq!(back.comparison.verdict, Verdict::Regressed);
    // Another variant of another image is no version of it.
    assert_eq!(step(second, place("3.0", "fp32")), None);
}

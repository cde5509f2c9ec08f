//! The cells of a scenario against each other.

use judge::compare::Verdict;
use metrics::catalogue;
use protocol::{Precision, Steps, Variant};
use record::{CellPlan, Deciding, Record, Session, SidesCompared};
use verdict::{Options, ScenarioPairs, compare_session, judge_pairs};

use crate::support::{records, runs, session};

const PRECISIONS: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::AmpBf16];

fn variant(precision: Precision) -> Variant {
    Variant {
        precision,
        ..Variant::default()
    }
}

/// One scenario in three precisions of these throughputs and peaks.
fn measured(cells: [(f64, u64); 3]) -> (Session, Vec<Record>) {
    let mut session = session("s", "m");
    let mut all = Vec::new();
    for (place, (precision, (throughput, peak))) in PRECISIONS.into_iter().zip(cells).enumerate() {
        let mut own = records("s", "old", place % 2, "tiny", &runs(throughput, peak));
        for record in &mut own {
            record.variant = variant(precision);
        }
        let first = &own[0];
        session.cells.push(CellPlan {
            image: "old".into(),
            suite: first.suite.clone(),
            scenario: first.scenario.clone(),
            model: first.model,
            task: first.task,
            variant: first.variant.clone(),
            steps: Steps::new(1, 1),
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

#[test]
fn the_fastest_is_the_one_that_the_judge_finds_better_than_every_other() {
    let pairs = judged(&measured([(100.0, 10), (150.0, 10), (200.0, 10)]));
    let medians = [100.0, 150.0, 200.0].map(Some);
    let best = pairs.best(&catalogue::THROUGHPUT, &medians).unwrap();
    assert_eq!((best.leader, best.beaten), (2, vec![0, 1]));
    let forward = pairs.between(0, 2, &catalogue::THROUGHPUT).unwrap();
    let back = pairs.between(2, 0, &catalogue::THROUGHPUT).unwrap();
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
    let best = pairs.best(&catalogue::THROUGHPUT, &[100.0, 100.1, 100.2].map(Some));
    assert_eq!(best.unwrap().beaten, Vec::<usize>::new());
    let peak = &catalogue::PEAK_ALLOCATED;
    let best = pairs
        .best(peak, &[Some(1000.0), Some(1000.0), None])
        .unwrap();
    assert_eq!((best.leader, best.equal), (0, vec![1]));
    let best = pairs
        .best(peak, &[1000.0, 1000.0, 900.0].map(Some))
        .unwrap();
    assert_eq!((best.leader, best.beaten), (2, vec![0, 1]));
}

#[test]
fn one_block_shows_nothing() {
    let (session, mut records) = measured([(100.0, 10), (150.0, 20), (200.0, 30)]);
    records.retain(|record| record.block == 0);
    let pairs = judged(&(session, records));
    let best = pairs.best(&catalogue::THROUGHPUT, &[100.0, 150.0, 200.0].map(Some));
    assert_eq!(best.unwrap().undecided, [0, 1]);
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
    assert_eq!(pairs.cells[0].variant, variant(Precision::Tf32));
    let own = pairs.between(0, 1, &catalogue::THROUGHPUT).unwrap();
    assert_eq!((own.ratio, own.interval), (theirs.ratio, theirs.interval));
}

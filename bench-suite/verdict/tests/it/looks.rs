//! Sessions that looked at themselves are judged with the price of looking.

use std::collections::BTreeSet;

use judge::compare::Verdict;
use record::{Deciding, ImageFacts, Look, Record, Session, SidesCompared};
use verdict::{CompareError, Options, Verdicts, compare_session};

use crate::support::{records, runs, session};

const SPEED: &str = "throughput_samples_per_second";

fn looked(looks: &[(u32, f64)]) -> Session {
    let mut session = session("s", "m");
    session.images = ["old", "new"]
        .map(|name| ImageFacts {
            name: name.into(),
            ..ImageFacts::default()
        })
        .to_vec();
    session.deciding = Some(Deciding {
        sides: SidesCompared::Images { base: "old".into() },
        time_budget_seconds: 60.0,
        most_blocks: 6,
        planned_blocks: Some(6),
        spent_seconds: 60.0,
        looks: looks
            .iter()
            .map(|&(blocks, fraction)| Look {
                blocks,
                fraction,
                decided: 0,
                undecided: Vec::new(),
                resting: BTreeSet::new(),
            })
            .collect(),
        end: None,
        metric: None,
        ratio: None,
        error: None,
    });
    session
}

fn both(head: f64) -> Vec<Record> {
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "tiny", &runs(head, 1000)));
    all
}

fn judged(looks: &[(u32, f64)], head: f64) -> Verdicts {
    let all = both(head);
    let mut found = compare_session(&looked(looks), &all, &Options::default()).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn speed(verdicts: &Verdicts) -> &judge::compare::Comparison {
    let found = verdicts.all().find(|(_, found)| found.metric == SPEED);
    &found.expect("throughput is judged").1.comparison
}

#[test]
fn looking_widens_the_interval() {
    let fixed = judged(&[], 99.0);
    let twice = judged(&[(3, 0.5), (6, 1.0)], 99.0);
    assert_eq!((fixed.looks, twice.looks), (0, 2));
    let width = |verdicts: &Verdicts| {
        let interval = speed(verdicts).interval.expect("six blocks");
        interval.hi - interval.lo
    };
    assert!(width(&twice) > 1.1 * width(&fixed));
    assert_eq!(speed(&twice).blocks_used, 6);
}

#[test]
fn a_decision_at_an_early_look_stays_with_the_blocks_it_had() {
    let early = judged(&[(3, 0.5), (6, 1.0)], 80.0);
    assert_eq!(speed(&early).verdict, Verdict::Regressed);
    assert_eq!(speed(&early).blocks_used, 3);
    assert_eq!(early.undecided(None).count(), 0);
}

#[test]
fn what_is_open_is_told_until_blocks_decide_it() {
    let open: Vec<_> = judged(&[(3, 0.5)], 99.8)
        .undecided(None)
        .map(|(_, found)| found.metric.clone())
        .collect();
    assert_eq!(open, [SPEED]);
    // A side without any metric cannot be decided by more blocks, and does not count as open.
    let mut all = both(99.0);
    for run in all.iter_mut().filter(|run| run.image == "new") {
        run.values.clear();
    }
    let found = compare_session(&looked(&[(3, 0.5)]), &all, &Options::default()).unwrap();
    assert_eq!(found[0].undecided(None).count(), 0);
    let mut all = found[0].all();
    assert!(all.all(|(_, one)| one.comparison.verdict == Verdict::Inconclusive));
}

#[test]
fn looks_that_cannot_have_been_are_refused() {
    let session = looked(&[(3, 0.5), (6, 0.5)]);
    let error = compare_session(&session, &both(99.0), &Options::default()).unwrap_err();
    assert!(matches!(error, CompareError::Looks { .. }), "{error}");
    insta::assert_snapshot!(error, @"the looks under `deciding` in session.json: a look at 0.5 of the budget, expected more than the last look's 0.5 and at most 1; the budget has to be fixed before the first look");
}

#[test]
fn every_other_image_is_compared_with_the_first_one_that_ran() {
    let mut session = looked(&[]);
    session.deciding = None;
    let names = |records: &[Record]| -> Vec<(String, String)> {
        compare_session(&session, records, &Options::default())
            .unwrap()
            .into_iter()
            .map(|found| (found.base.image, found.head.image))
            .collect()
    };
    assert_eq!(names(&both(99.0)), [("old".into(), "new".into())]);
    assert_eq!(names(&both(99.0)[..6]), []);
    assert_eq!(names(&[]), []);
}

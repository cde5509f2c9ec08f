//! Cells in which a side has no run that went well.

use judge::compare::Verdict;
use record::{Outcome, Reason, Record};
use verdict::{BaseOrHead, FailOn, Gate, Options, Side, Verdicts, compare};

use crate::support::{Runs, records, runs, session};

fn every() -> Runs {
    Runs {
        failed_blocks: (0..6).collect(),
        ..runs(100.0, 1000)
    }
}

fn judged(base: &Runs, head: &Runs, change: impl Fn(&mut Record)) -> Verdicts {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", base);
    let mut treated = records("s", "new", 1, "tiny", head);
    treated.iter_mut().for_each(change);
    all.extend(treated);
    // A second cell that is well on both sides, so that there is something to compare.
    all.extend(records("s", "old", 0, "well", &runs(100.0, 1000)));
    all.extend(records("s", "new", 1, "well", &runs(100.0, 1000)));
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    compare(&base, &head, &Options::default()).unwrap()
}

fn for_reason(reason: Reason) -> impl Fn(&mut Record) {
    move |run| {
        if let Outcome::Failed(failure) = &mut run.outcome {
            failure.reason = reason;
        }
    }
}

#[test]
fn a_cell_that_works_in_the_base_and_never_in_the_head_is_worse() {
    let verdicts = judged(
        &runs(100.0, 1000),
        &every(),
        for_reason(Reason::OutOfMemory),
    );
    let cell = &verdicts.cells[0];
    assert_eq!(cell.lost(), Some(Verdict::Regressed));
    let failures = cell.failures.as_ref().unwrap();
    assert_eq!(failures.head.to_string(), "6 of 6 (out-of-memory)");
    let gate = Gate::read(&verdicts, FailOn::Regressed);
    assert_eq!(
        (gate.lost.len(), gate.failing.len(), gate.passes()),
        (1, 0, false)
    );
    // Its metrics do not count again, though they are inconclusive; the other cell's throughput
    // is that with these blocks.
    assert_eq!(Gate::read(&verdicts, FailOn::Inconclusive).count(), 2);
    assert_eq!(verdicts.cells[1].failures, None);
}

#[test]
fn a_cell_that_fails_on_both_sides_or_in_the_base_alone_is_no_loss() {
    for head in [every(), runs(100.0, 1000)] {
        let verdicts = judged(&every(), &head, |_| ());
        assert_eq!(verdicts.cells[0].scenario, "tiny");
        assert_eq!(verdicts.cells[0].lost(), None);
        assert!(Gate::read(&verdicts, FailOn::Regressed).passes());
    }
    // It stands among the cells although it has no metric.
    let verdicts = judged(&every(), &every(), |_| ());
    assert_eq!(verdicts.cells[0].metrics, []);
}

#[test]
fn a_metric_of_one_side_alone_says_so_and_asks_for_no_more_blocks() {
    for (base, head, role) in [
        (runs(100.0, 1000), every(), BaseOrHead::Head),
        (every(), runs(100.0, 1000), BaseOrHead::Base),
    ] {
        let verdicts = judged(&base, &head, |_| ());
        let metrics = &verdicts.cells[0].metrics;
        assert!(!metrics.is_empty());
        for found in metrics {
            assert_eq!(found.not_measured_in, Some(role));
            assert_eq!(found.comparison.reason, format!("not measured in {role}"));
            assert_eq!(found.comparison.blocks_needed, None);
        }
        let well = &verdicts.cells[1].metrics;
        assert!(well.iter().all(|found| found.not_measured_in.is_none()));
    }
}

#[test]
fn what_the_machine_failed_is_not_held_against_the_image() {
    for reason in [Reason::Contaminated, Reason::GpuLost, Reason::Interrupted] {
        let verdicts = judged(&runs(100.0, 1000), &every(), for_reason(reason));
        assert_eq!(verdicts.cells[0].lost(), Some(Verdict::Inconclusive));
        assert!(Gate::read(&verdicts, FailOn::Regressed).passes());
        assert_eq!(Gate::read(&verdicts, FailOn::Inconclusive).lost.len(), 1);
    }
    // One run that the image failed is enough.
    let mixed = judged(&runs(100.0, 1000), &every(), |run| {
        let reason = if run.block == 0 {
            Reason::ImageBroken
        } else {
            Reason::Interrupted
        };
        for_reason(reason)(run);
    });
    assert_eq!(mixed.cells[0].lost(), Some(Verdict::Regressed));
    let told = mixed.cells[0].failures.as_ref().unwrap().head.to_string();
    assert_eq!(told, "6 of 6 (1 image-broken, 5 interrupted)");
}

/// Of twelve runs nine fail in the head and none in the base: 2 · 220 ÷ 1,307,504 by Fisher. Five
/// of them may be chance (p = 0.037), and what the machine failed is no fault of the image.
#[test]
fn a_cell_that_fails_far_more_often_is_worse() {
    for (failed, reason, expected) in [
        (5, Reason::OutOfMemory, None),
        (5, Reason::GpuLost, None),
        (9, Reason::OutOfMemory, Some(Verdict::Regressed)),
        (9, Reason::GpuLost, None),
    ] {
        let session = session("s", "m");
        let mut all = Vec::new();
        for (image, side) in [("old", 0), ("new", 1)] {
            let head = Runs {
                failed_blocks: (0..failed).collect(),
                ..runs(100.0, 1000)
            };
            for (scenario, runs) in [("tiny", &head), ("well", &runs(100.0, 1000))] {
                let runs = if side == 0 {
                    &self::runs(100.0, 1000)
                } else {
                    runs
                };
                for part in [0, 6] {
                    let shifted = Runs {
                        throughput: runs.throughput,
                        peak: runs.peak,
                        failed_blocks: runs
                            .failed_blocks
                            .iter()
                            .filter_map(|block| block.checked_sub(part))
                            .collect(),
                    };
                    for mut run in records("s", image, side, scenario, &shifted) {
                        run.block += part;
                        for_reason(reason)(&mut run);
                        all.push(run);
                    }
                }
            }
        }
        let base = Side::pick(&session, &all, Some("old")).unwrap();
        let head = Side::pick(&session, &all, Some("new")).unwrap();
        let verdicts = compare(&base, &head, &Options::default()).unwrap();
        assert_eq!(verdicts.cells[0].lost(), expected, "{failed} {reason:?}");
        assert_eq!(verdicts.cells[1].lost(), None);
    }
}

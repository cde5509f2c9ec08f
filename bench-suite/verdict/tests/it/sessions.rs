//! Groups of sessions, each of which is one block.

use judge::compare::Verdict;
use record::{Outcome, Reason, Record, Session, Stage};
use verdict::{CompareError, MetricVerdict, Options, Sessions, compare_sessions};

use crate::support::{records, runs, session};

/// Sessions at these levels of throughput, on one driver.
fn group(driver: &str, levels: &[f64]) -> Vec<(Session, Vec<Record>)> {
    let of = |level: &f64| {
        let name = format!("{driver}-{level}");
        let mut session = session(&name, "m");
        for machine in session.hosts.values_mut() {
            machine.driver_version = Some(driver.to_owned());
        }
        (
            session,
            records(&name, "old", 0, "tiny", &runs(*level, 1_000)),
        )
    };
    levels.iter().map(of).collect()
}

fn judged(base: &[f64], head: &[f64]) -> Vec<MetricVerdict> {
    let (base, head) = (group("570", base), group("580", head));
    let side = |name, sessions| Sessions { name, sessions };
    let (base, head) = (side("before", &*base), side("after", &*head));
    let verdicts = compare_sessions(base, head, "old", &Options::default()).unwrap();
    assert_eq!(verdicts.warnings, []);
    assert_eq!(verdicts.base.session, "before");
    verdicts.cells.into_iter().next().unwrap().metrics
}

fn named<'a>(all: &'a [MetricVerdict], metric: &str) -> &'a MetricVerdict {
    all.iter().find(|found| found.metric == metric).unwrap()
}

#[test]
fn what_lies_between_sessions_is_the_noise() {
    const NAME: &str = "throughput_samples_per_second";
    // Blocks of a session scatter by half a percent, sessions by three.
    let noise = judged(
        &[100.0, 103.0, 97.0, 102.0, 98.0],
        &[102.0, 98.0, 100.0, 97.0, 103.0],
    );
    let found = named(&noise, NAME);
    assert_eq!(found.comparison.blocks_used, 5);
    assert_eq!(found.comparison.verdict, Verdict::Inconclusive);
    assert!(found.comparison.minimum_detectable_change.unwrap() > 0.03);
    let calm = [100.0, 100.1, 99.9, 100.0, 100.05];
    let lower = calm.map(|level| 0.95 * level);
    assert_eq!(
        named(&judged(&calm, &lower), NAME).comparison.verdict,
        Verdict::Regressed
    );
    // What is the same to the byte in every session is exact.
    let peak = named(&noise, "peak_allocated_bytes");
    assert_eq!(peak.comparison.verdict, Verdict::Unchanged);
    assert_eq!(peak.comparison.noise, Some(0.0));
}

#[test]
fn a_cell_that_fails_in_most_blocks_has_failed() {
    let levels = [100.0, 100.1, 99.9, 100.2, 99.8];
    let (base, mut head) = (group("570", &levels), group("580", &levels));
    for (_, runs) in &mut head {
        let last = runs.len() - 1;
        for run in &mut runs[..last] {
            run.outcome = Outcome::failed(Reason::Crash, Stage::Start, String::new());
        }
    }
    let side = |name, sessions| Sessions { name, sessions };
    let (base, head) = (side("before", &*base), side("after", &*head));
    let verdicts = compare_sessions(base, head, "old", &Options::default()).unwrap();
    let failures = verdicts.cells[0].failures.as_ref().unwrap();
    assert_eq!((failures.base.failed, failures.head.failed), (0, 5));
}

#[test]
fn another_machine_is_refused_though_drivers_may_differ() {
    let base = group("570", &[100.0, 100.1]);
    let mut head = group("580", &[100.0, 100.1]);
    for (session, _) in &mut head {
        let mut machine = session.machine().clone();
        machine.name = "other".to_owned();
        session.hosts = [("other".to_owned(), machine)].into();
    }
    let side = |name, sessions| Sessions { name, sessions };
    let (base, head) = (side("before", &*base), side("after", &*head));
    let refused = compare_sessions(base, head, "old", &Options::default()).unwrap_err();
    let CompareError::EnvironmentsDiffer { what, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(what, "machines");
}

//! Claims in, outcomes out.

use judge::claims::Outcome;
use record::{CellChoice, Claim, Expectation, ImageFacts, MethodKey, Range, Record, Session};
use verdict::{ClaimFound, ClaimProblem, ClaimsError};

use crate::support::{records, runs, session};

const PEAK: &str = "peak_allocated_bytes";
const SPEED: &str = "throughput_samples_per_second";

fn range(min: impl Into<Option<f64>>, max: impl Into<Option<f64>>) -> Range {
    Range {
        min: min.into(),
        max: max.into(),
    }
}

fn choice(axes: &[(&str, &str)]) -> CellChoice {
    CellChoice {
        axes: axes
            .iter()
            .map(|&(axis, value)| (axis.to_owned(), value.to_owned()))
            .collect(),
        ..CellChoice::default()
    }
}

/// A claim on what AMP does.
fn claim(metric: &str, expect: Expectation) -> Claim {
    Claim {
        statement: "AMP saves memory".into(),
        source: "an article".into(),
        metric: metric.into(),
        scenarios: vec!["tiny".into()],
        models: Vec::new(),
        task: None,
        baseline: Some(choice(&[("precision", "fp32")])),
        treated: choice(&[("precision", "amp-bf16")]),
        expect,
    }
}

/// fp32 and amp-bf16, the latter 30 % faster and with 40 % less memory, and what is none of the
/// claim's business.
fn both() -> Vec<Record> {
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut treated = records("s", "old", 1, "tiny", &runs(130.0, 600));
    for run in &mut treated {
        run.axes.set("precision", "amp-bf16");
    }
    // Another batch has no partner.
    let mut alone = treated.clone();
    for run in &mut alone {
        run.axes.set("batch", 4);
    }
    all.extend(records("s", "old", 0, "other", &runs(100.0, 1000)));
    all.extend(treated.into_iter().chain(alone));
    all
}

fn judge_claims(
    session: &Session,
    records: &[Record],
    claims: &[Claim],
) -> Result<Vec<ClaimFound>, ClaimsError> {
    verdict::judge_claims(session, records, claims, &[])
}

#[test]
fn cells_measured_by_different_methods_are_no_pair() {
    let claim = claim(PEAK, Expectation::Saving(range(0.3, 0.5)));
    let mut all = both();
    let judged = |all: &[Record], ignore: &[&str]| {
        let keys = ignore.iter().map(|key| key.parse().unwrap());
        let keys: Vec<MethodKey> = keys.collect();
        let claims = std::slice::from_ref(&claim);
        let found = verdict::judge_claims(&session("s", "m"), all, claims, &keys);
        found.unwrap().remove(0)
    };
    for run in &mut all {
        run.method.set("threads", 1);
        run.method.set("seed", 1);
    }
    let alike = judged(&all, &["method"]);
    assert_eq!(alike.pairs.len(), 1);
    assert!(alike.left_out.is_empty() && alike.method_ignored.is_empty());
    let treated = all
        .iter_mut()
        .filter(|run| run.axes["precision"] == "amp-bf16");
    treated.for_each(|run| run.method.set("threads", 2));
    for ignore in [&[][..], &["method.seed"]] {
        let found = judged(&all, ignore);
        assert_eq!((found.pairs.len(), found.left_out.pairs), (0, 1));
        assert_eq!(found.outcome, Outcome::Inconclusive);
        let [difference] = &found.left_out.differences[..] else {
            panic!("{found:?}");
        };
        let told = [&difference.key, &difference.base, &difference.head];
        assert_eq!(told, ["threads", "1", "2"]);
    }
    for ignore in ["method.threads", "method"] {
        let found = judged(&all, &[ignore]);
        assert_eq!((found.pairs.len(), found.outcome), (1, Outcome::Holds));
        assert!(found.left_out.is_empty());
        assert_eq!(found.method_ignored.differences[0].key, "threads");
    }
}

/// A workload of ours beside a program of a user's: other axes, and other methods.
#[test]
fn two_scenarios_are_one_claim_where_it_names_both() {
    let named = |name: &str| CellChoice {
        scenario: Some(name.into()),
        ..CellChoice::default()
    };
    let claim = Claim {
        scenarios: Vec::new(),
        baseline: Some(named("python")),
        treated: named("ours"),
        ..claim(SPEED, Expectation::Ratio(range(0.98, None)))
    };
    let mut all = records("s", "old", 0, "python", &runs(100.0, 1000));
    for run in &mut all {
        run.axes.set("compile", "none");
        run.axes.set("batch", 8);
        run.method.set("threads", 1);
    }
    for batch in [8, 16] {
        let mut ours = records("s", "old", 1, "ours", &runs(101.0, 1000));
        for run in &mut ours {
            run.axes.set("batch", batch);
            run.method.set("threads", 2);
        }
        all.extend(ours);
    }
    all.extend(records("s", "old", 1, "other", &runs(1.0, 1000)));
    let found = judge_claims(&session("s", "m"), &all, &[claim]).unwrap();
    let [pair] = &found[0].pairs[..] else {
        panic!("one batch is in both: {:?}", found[0]);
    };
    assert_eq!(
        (pair.verdict.outcome, found[0].method_ignored.pairs),
        (Outcome::Holds, 1)
    );
    let baseline = pair.baseline.as_ref().unwrap();
    let scenarios = [&baseline.scenario, &pair.treated.scenario];
    assert_eq!(
        scenarios.map(|name| name.as_deref()),
        [Some("python"), Some("ours")]
    );
}

/// What measured nothing of the metric is no pair that a method keeps out.
#[test]
fn only_measured_pairs_are_left_out() {
    let mut all = both();
    let claim = claim("context_bytes", Expectation::Saving(range(0.3, 0.5)));
    for run in &mut all {
        let threads = if run.axes["precision"] == "fp32" {
            1
        } else {
            2
        };
        run.method.set("threads", threads);
    }
    let found = judge_claims(&session("s", "m"), &all, &[claim]).unwrap();
    assert!(found[0].left_out.is_empty());
}

#[test]
fn claims_are_judged_on_every_pair_that_fits() {
    let check = |metric: &str, expect: Expectation, outcome: Outcome| {
        let session = session("s", "m");
        let found = judge_claims(&session, &both(), &[claim(metric, expect)]).unwrap();
        let [pair] = &found[0].pairs[..] else {
            panic!("{found:?}");
        };
        assert_eq!(pair.verdict.outcome, outcome, "{}", pair.verdict.reason);
        assert_eq!(found[0].outcome, outcome);
        let baseline = pair.baseline.as_ref().map(|cell| cell.variant.as_str());
        assert_eq!(baseline, Some("fp32 bs1"));
        assert_eq!(pair.treated.variant, "amp-bf16 bs1");
    };
    check(PEAK, Expectation::Saving(range(0.3, 0.5)), Outcome::Holds);
    check(PEAK, Expectation::Saving(range(0.5, 0.6)), Outcome::Refuted);
    check(
        SPEED,
        Expectation::Increase(range(0.2, 0.4)),
        Outcome::Holds,
    );
    check(
        SPEED,
        Expectation::Increase(range(0.3, 0.4)),
        Outcome::Inconclusive,
    );
}

#[test]
fn one_pair_refutes_and_every_pair_must_bear_it_out() {
    let mut all = both();
    // The same again in a larger batch, where hardly anything is saved.
    for (side, precision, peak) in [(0, "fp32", 2000), (1, "amp-bf16", 1900)] {
        let mut larger = records("s", "old", side, "tiny", &runs(100.0, peak));
        for run in &mut larger {
            run.axes.set("precision", precision);
            run.axes.set("batch", 8);
        }
        all.extend(larger);
    }
    let outcome = |expect| {
        let found = judge_claims(&session("s", "m"), &all, &[claim(PEAK, expect)]).unwrap();
        assert_eq!(found[0].pairs.len(), 2);
        found[0].outcome
    };
    assert_eq!(
        outcome(Expectation::Saving(range(0.3, 0.5))),
        Outcome::Refuted
    );
    assert_eq!(
        outcome(Expectation::Saving(range(0.01, 0.5))),
        Outcome::Holds
    );
}

#[test]
fn more_pairs_ask_for_wider_intervals() {
    let width = |records: &[Record]| {
        let claim = claim(SPEED, Expectation::Ratio(range(1.0, 2.0)));
        let found = judge_claims(&session("s", "m"), records, &[claim]).unwrap();
        let interval = found[0].pairs[0].verdict.interval.unwrap();
        interval.hi - interval.lo
    };
    let one = both();
    let mut two = both();
    let mut more = both();
    for run in &mut more {
        run.image = "second".into();
    }
    two.extend(more);
    assert!(width(&two) > 1.1 * width(&one));
}

#[test]
fn what_was_not_measured_is_inconclusive() {
    let session = session("s", "m");
    let unmeasured = &both()[..6];
    let claims = [claim(PEAK, Expectation::Ratio(range(0.0, 1.0)))];
    let found = judge_claims(&session, unmeasured, &claims).unwrap();
    assert_eq!(
        (found[0].pairs.len(), found[0].outcome),
        (0, Outcome::Inconclusive)
    );
    let other_model = Claim {
        models: vec!["bert-large".into()],
        ..claims[0].clone()
    };
    let other_task = Claim {
        task: Some("inference".into()),
        ..claims[0].clone()
    };
    for found in judge_claims(&session, &both(), &[other_model, other_task]).unwrap() {
        assert_eq!(found.pairs, []);
    }
}

#[test]
fn images_are_compared_by_their_libtorch() {
    let mut session = session("s", "m");
    session.images = [("old", "2.5.1"), ("new", "2.6.0")]
        .map(|(name, version)| ImageFacts {
            name: name.into(),
            libtorch_version: version.into(),
            ..ImageFacts::default()
        })
        .to_vec();
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "tiny", &runs(100.0, 850)));
    let version = |version: &str| CellChoice {
        libtorch: Some(version.into()),
        ..CellChoice::default()
    };
    let of_versions = |base: &str, head: &str| {
        let claim = Claim {
            baseline: Some(version(base)),
            treated: version(head),
            ..claim(PEAK, Expectation::Saving(range(0.12, 0.18)))
        };
        judge_claims(&session, &all, &[claim]).unwrap().remove(0)
    };
    let found = of_versions("2.5", "2.6");
    assert_eq!(found.outcome, Outcome::Holds);
    assert_eq!(found.pairs[0].treated.image, "new");
    assert_eq!(of_versions("2.6", "2.5").outcome, Outcome::Refuted);
    assert_eq!(of_versions("2.4", "2.6").pairs, []);
}

#[test]
fn a_value_is_claimed_of_one_cell() {
    let all = records("s", "old", 0, "tiny", &runs(100.0, 800));
    let of_value = |expect| {
        let claim = Claim {
            baseline: None,
            treated: CellChoice::default(),
            ..claim(PEAK, Expectation::Value(expect))
        };
        judge_claims(&session("s", "m"), &all, &[claim]).unwrap()[0].outcome
    };
    assert_eq!(of_value(range(790.0, 810.0)), Outcome::Holds);
    assert_eq!(of_value(range(None, 700.0)), Outcome::Refuted);

    // What no run yields was not measured, whatever cells there are.
    let claim = Claim {
        metric: "context_bytes".into(),
        baseline: None,
        treated: CellChoice::default(),
        ..claim(PEAK, Expectation::Value(range(1.0, None)))
    };
    let found = judge_claims(&session("s", "m"), &all, &[claim]).unwrap();
    assert_eq!(
        (found[0].pairs.len(), found[0].outcome),
        (0, Outcome::Inconclusive)
    );
}

#[test]
fn claims_that_mean_nothing_are_errors() {
    use ClaimProblem as P;
    let saving = |min: f64| Expectation::Saving(range(min, None));
    let problem = |claim: Claim| {
        let error = judge_claims(&session("s", "m"), &[], &[claim]).unwrap_err();
        assert_eq!(error.statement, "AMP saves memory");
        error.problem
    };
    let no_metric = problem(claim("memory", saving(0.3)));
    assert!(matches!(no_metric, P::NoMetric { metric, .. } if metric == "memory"));
    let percent = problem(claim(PEAK, saving(30.0)));
    assert!(matches!(percent, P::Range(_)));
    let treated = |treated| {
        problem(Claim {
            treated,
            ..claim(PEAK, saving(0.3))
        })
    };
    let same = treated(choice(&[("precision", "fp32")]));
    assert!(matches!(same, P::NoTreatment));
    let one_image = treated(CellChoice {
        image: Some("new".into()),
        ..CellChoice::default()
    });
    assert!(matches!(one_image, P::OneSided("image")));
    let one_scenario = treated(CellChoice {
        scenario: Some("tiny".into()),
        ..CellChoice::default()
    });
    assert!(matches!(one_scenario, P::OneSided("scenario")));
    let alone = Claim {
        baseline: None,
        ..claim(PEAK, saving(0.3))
    };
    assert!(matches!(problem(alone), P::Baseline));
}

//! Sessions in, verdicts out.

use std::collections::BTreeMap;

use judge::{
    claims::{Effect, Outcome as ClaimOutcome, Range},
    compare::Verdict,
};
use protocol::{Device, Memory, Model, Positive, Precision, Step, Task, Variant};
use record::{
    EngineFacts, HarnessCost, ImageFacts, Isolation, Machine, Metrics, Monitor, Outcome, Reason,
    Record, Session, Stage, StepTimes, Tool,
};
use verdict::{
    CellChoice, Claim, CompareError, FailOn, Gate, Options, Side, SideError, Verdicts, Warning,
    compare, judge_claims,
};

/// Run-to-run scatter of about half a percent, different on either side.
const SCATTER: [[f64; 6]; 2] = [
    [0.003, -0.004, 0.001, -0.002, 0.005, -0.003],
    [-0.002, 0.001, 0.004, -0.005, 0.002, 0.000],
];

struct Runs {
    throughput: f64,
    peak: u64,
    failed_blocks: Vec<u32>,
}

fn runs(throughput: f64, peak: u64) -> Runs {
    Runs {
        throughput,
        peak,
        failed_blocks: Vec::new(),
    }
}

fn session(name: &str, machine: &str) -> Session {
    Session {
        version: record::VERSION,
        session: name.into(),
        started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        ended_at: None,
        complete: true,
        tool: Tool::default(),
        machine: Machine {
            name: machine.into(),
            ..Machine::default()
        },
        engine: EngineFacts::default(),
        device: Device::Cpu,
        suites: BTreeMap::new(),
        images: vec![ImageFacts {
            name: "old".into(),
            id: Some("sha256:1".into()),
            ..Default::default()
        }],
        cells: Vec::new(),
        blocks: 6,
        order_seed: 1,
        notes: Vec::new(),
    }
}

fn records(session: &str, image: &str, side: usize, scenario: &str, runs: &Runs) -> Vec<Record> {
    (0_u32..6)
        .zip(SCATTER[side])
        .map(|(block, scatter)| {
            let throughput = runs.throughput * (1.0 + scatter);
            let steps = [Step {
                index: 0,
                seconds: 8.0 / throughput,
                loss: None,
                skipped: false,
            }];
            let failed = runs.failed_blocks.contains(&block);
            Record {
                version: record::VERSION,
                run: format!("{image}-{scenario}-{block}"),
                session: session.into(),
                image: image.into(),
                image_id: None,
                suite: "smoke".into(),
                scenario: scenario.into(),
                model: Model::ResnetTiny,
                task: Task::Training,
                variant: Variant::default(),
                device: Device::Cpu,
                block,
                order: block,
                attempt: 1,
                started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
                wall_seconds: 1.0,
                isolation: Isolation::Container {
                    id: None,
                    gpu_path: None,
                },
                outcome: if failed {
                    Outcome::Failed {
                        reason: Reason::Crash,
                        stage: Stage::Exit,
                        message: "SIGSEGV".into(),
                    }
                } else {
                    Outcome::Ok
                },
                workload: None,
                metrics: Some(Metrics {
                    throughput_samples_per_second: throughput,
                    samples: 8,
                    measured_seconds: 8.0 / throughput,
                    step_seconds: StepTimes::of(&steps).unwrap(),
                    micro_batch: 8,
                    effective_batch: 8,
                    parameters: 1,
                    first_loss: None,
                    last_loss: None,
                    scaler: None,
                    memory: Memory {
                        peak_allocated_bytes: Some(runs.peak),
                        ..Memory::default()
                    },
                    process_peak_bytes: None,
                    container_peak_bytes: None,
                }),
                steps: steps.to_vec(),
                phase_seconds: BTreeMap::new(),
                harness: HarnessCost::default(),
                monitor: Monitor::default(),
                log: None,
                notes: Vec::new(),
            }
        })
        .collect()
}

fn judged(base: &Runs, head: &Runs) -> Verdicts {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", base);
    all.extend(records("s", "new", 1, "tiny", head));
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    compare(&base, &head, &Options::default()).unwrap()
}

fn check(verdicts: &Verdicts, quantity: &str, expected: Verdict) {
    let (_, found) = verdicts
        .all()
        .find(|(_, found)| found.quantity == quantity)
        .unwrap();
    assert_eq!(
        found.comparison.verdict, expected,
        "{quantity}: {}",
        found.comparison.reason
    );
}

#[test]
fn a_slower_image_is_worse_and_fails_the_gate() {
    let verdicts = judged(&runs(100.0, 1000), &runs(90.0, 1000));
    check(&verdicts, "throughput_samples_per_second", Verdict::Worse);
    check(&verdicts, "step_median_seconds", Verdict::Worse);
    check(&verdicts, "peak_allocated_bytes", Verdict::Same);
    let gate = Gate::read(&verdicts, FailOn::Worse);
    let failing: Vec<_> = gate
        .failing
        .iter()
        .map(|(_, found)| found.quantity.as_str())
        .collect();
    assert_eq!(failing, ["throughput_samples_per_second"]);
}

#[test]
fn a_faster_image_is_better_and_passes() {
    let verdicts = judged(&runs(100.0, 1000), &runs(112.0, 1000));
    check(&verdicts, "throughput_samples_per_second", Verdict::Better);
    assert!(Gate::read(&verdicts, FailOn::Worse).passes());
}

#[test]
fn memory_that_repeats_to_the_byte_is_judged_to_the_byte() {
    let verdicts = judged(&runs(100.0, 1_000_000), &runs(100.0, 1_006_000));
    check(&verdicts, "peak_allocated_bytes", Verdict::Worse);
    let verdicts = judged(&runs(100.0, 1_000_000), &runs(100.0, 1_004_000));
    check(&verdicts, "peak_allocated_bytes", Verdict::Same);
}

#[test]
fn failed_runs_are_left_out_and_named() {
    let head = Runs {
        failed_blocks: vec![1, 4],
        ..runs(100.0, 1000)
    };
    let verdicts = judged(&runs(100.0, 1000), &head);
    assert!(verdicts.warnings.contains(&Warning::FailedRuns {
        cell: "tiny · fp32 bs1".into(),
        base: 0,
        head: 2
    }));
    let (_, found) = verdicts.all().next().unwrap();
    assert_eq!(
        (
            found.comparison.blocks_used,
            found.comparison.blocks_dropped
        ),
        (4, 2)
    );
}

#[test]
fn other_machines_are_compared_on_request_alone() {
    let (here, there) = (session("a", "here"), session("b", "there"));
    let left = records("a", "old", 0, "tiny", &runs(100.0, 1000));
    let right = records("b", "old", 1, "tiny", &runs(100.0, 1000));
    let base = Side::pick(&here, &left, None).unwrap();
    let head = Side::pick(&there, &right, None).unwrap();
    let refused = compare(&base, &head, &Options::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            CompareError::Elsewhere {
                what: "machines",
                ..
            }
        ),
        "{refused}"
    );
    let options = Options {
        across_machines: true,
        ..Options::default()
    };
    let verdicts = compare(&base, &head, &options).unwrap();
    assert!(matches!(
        verdicts.warnings[0],
        Warning::AcrossMachines { .. }
    ));
    assert!(verdicts.warnings.contains(&Warning::NotInterleaved));
}

#[test]
fn sides_that_share_nothing_and_names_that_do_not_exist_are_errors() {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "other", &runs(100.0, 1000)));
    let ambiguous = Side::pick(&session, &all, None).unwrap_err();
    assert_eq!(
        ambiguous.to_string(),
        "session s has several images; name one: s:new, s:old"
    );
    let missing = Side::pick(&session, &all, Some("newer")).unwrap_err();
    assert!(matches!(missing, SideError::NoImage { .. }));
    assert!(matches!(
        Side::pick(&session, &[], None),
        Err(SideError::Empty { .. })
    ));
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    let nothing = compare(&base, &head, &Options::default()).unwrap_err();
    assert!(matches!(nothing, CompareError::NothingInCommon));
    let margins = [("speed".to_owned(), 0.1)].into();
    let unknown = compare(
        &base,
        &head,
        &Options {
            margins,
            ..Options::default()
        },
    )
    .unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("throughput_samples_per_second")
    );
}

#[test]
fn two_values_of_an_axis_are_compared_within_one_image() {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut treated = records("s", "old", 1, "tiny", &runs(100.0, 600));
    for run in &mut treated {
        run.variant.precision = Precision::AmpBf16;
    }
    all.extend(treated);
    let side = Side::pick(&session, &all, None).unwrap();
    let base = side.along("precision", "fp32").unwrap();
    let head = side.along("precision", "amp-bf16").unwrap();
    let verdicts = compare(&base, &head, &Options::default()).unwrap();
    assert_eq!(verdicts.cells[0].variant, "bs1");
    assert_eq!(verdicts.warnings, []);
    assert_eq!(verdicts.head.choice.as_deref(), Some("precision=amp-bf16"));
    check(&verdicts, "peak_allocated_bytes", Verdict::Better);
    check(&verdicts, "throughput_samples_per_second", Verdict::Same);

    let axis = side.along("speed", "high").unwrap_err().to_string();
    assert!(axis.contains("precision, checkpointing"), "{axis}");
    let value = side.along("precision", "fp8").unwrap_err().to_string();
    assert_eq!(
        value,
        "no run of s:old has precision=fp8; there are: amp-bf16, fp32"
    );
    let unset = side.along("image_size", "64").unwrap_err().to_string();
    assert!(unset.ends_with("none sets image_size"), "{unset}");
}

#[test]
fn the_last_record_of_a_run_counts() {
    let session = session("s", "m");
    let base = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut all = base.clone();
    for (failed, attempt) in [(true, 1), (false, 2)] {
        let head = Runs {
            failed_blocks: if failed { vec![0, 3] } else { Vec::new() },
            ..runs(90.0, 1000)
        };
        for mut record in records("s", "new", 1, "tiny", &head) {
            record.attempt = attempt;
            if failed || record.block % 3 == 0 {
                all.push(record);
            }
        }
    }
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    let verdicts = compare(&base, &head, &Options::default()).unwrap();
    assert_eq!(verdicts.warnings, []);
    let (_, found) = verdicts.all().next().unwrap();
    assert_eq!(found.comparison.blocks_used, 6);
    check(&verdicts, "throughput_samples_per_second", Verdict::Worse);
}

/// A claim on memory under AMP, and the outcome for two halves of a session.
fn claim(metric: &str, axis: &str, expect: Effect) -> Claim {
    let cell = |value: &str| CellChoice {
        scenario: "tiny".into(),
        variant: [(axis.to_owned(), value.to_owned())].into(),
    };
    Claim {
        statement: "AMP saves memory".into(),
        source: "an article".into(),
        metric: metric.into(),
        baseline: cell("fp32"),
        treated: cell("amp-bf16"),
        expect,
    }
}

#[test]
fn claims_are_judged_on_every_pair_that_fits() {
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut treated = records("s", "old", 1, "tiny", &runs(130.0, 600));
    for run in &mut treated {
        run.variant.precision = Precision::AmpBf16;
    }
    // Another batch has no partner, and other scenarios are none of the claim's business.
    let mut alone = treated.clone();
    for run in &mut alone {
        run.variant.batch = Positive::new(4).unwrap();
    }
    all.extend(records("s", "old", 0, "other", &runs(100.0, 1000)));
    all.extend(treated.into_iter().chain(alone));
    let range = |min, max| Range {
        min: Some(min),
        max: Some(max),
    };
    let check = |metric: &str, expect: Effect, outcome: ClaimOutcome| {
        let found = judge_claims(&all, &[claim(metric, "precision", expect)]).unwrap();
        let [pair] = &found[0].pairs[..] else {
            panic!("{found:?}");
        };
        assert_eq!(pair.verdict.outcome, outcome, "{}", pair.verdict.reason);
        assert_eq!(pair.baseline, "tiny · fp32 bs1");
        assert_eq!(pair.treated, "tiny · amp-bf16 bs1");
    };
    let peak = "peak_allocated_bytes";
    check(peak, Effect::Saving(range(0.3, 0.5)), ClaimOutcome::Holds);
    check(peak, Effect::Saving(range(0.5, 0.6)), ClaimOutcome::Refuted);
    let speed = "throughput_samples_per_second";
    check(
        speed,
        Effect::Increase(range(0.2, 0.4)),
        ClaimOutcome::Holds,
    );
    check(
        speed,
        Effect::Increase(range(0.3, 0.4)),
        ClaimOutcome::CannotTell,
    );

    let unmeasured = judge_claims(
        &all[..6],
        &[claim(peak, "precision", Effect::Ratio(range(0.0, 1.0)))],
    );
    assert_eq!(unmeasured.unwrap()[0].pairs, []);
}

#[test]
fn claims_that_mean_nothing_are_errors() {
    let check = |metric: &str, axis: &str, min: f64, expected: &str| {
        let expect = Effect::Saving(Range {
            min: Some(min),
            max: None,
        });
        let error = judge_claims(&[], &[claim(metric, axis, expect)]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(
        "memory",
        "precision",
        0.3,
        "there are: throughput_samples_per_second",
    );
    check(
        "peak_allocated_bytes",
        "speed",
        0.3,
        "there is no axis `speed`",
    );
    check(
        "peak_allocated_bytes",
        "precision",
        30.0,
        "30 % is written 0.3",
    );
}

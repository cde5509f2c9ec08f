//! Sessions in, verdicts out.

use judge::{compare::Verdict, sessions::BetweenSessions};
use record::{Part, PartValue};
use verdict::{
    CellMetric, CompareError, FailOn, Gate, Options, Side, SideError, Verdicts, Warning, compare,
};

use crate::support::{Runs, SCATTER, records, runs, session};

fn judged(base: &Runs, head: &Runs) -> Verdicts {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", base);
    all.extend(records("s", "new", 1, "tiny", head));
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    compare(&base, &head, &Options::default()).unwrap()
}

fn check(verdicts: &Verdicts, metric: &str, expected: Verdict) {
    let (_, found) = verdicts
        .all()
        .find(|(_, found)| found.metric == metric)
        .unwrap();
    assert_eq!(
        found.comparison.verdict, expected,
        "{metric}: {}",
        found.comparison.reason
    );
}

#[test]
fn a_slower_image_is_worse_and_fails_the_gate() {
    let verdicts = judged(&runs(100.0, 1000), &runs(90.0, 1000));
    check(
        &verdicts,
        "throughput_samples_per_second",
        Verdict::Regressed,
    );
    check(&verdicts, "step_median_seconds", Verdict::Regressed);
    check(&verdicts, "peak_allocated_bytes", Verdict::Unchanged);
    let gate = Gate::read(&verdicts, FailOn::Regressed);
    let failing: Vec<_> = gate
        .failing
        .iter()
        .map(|(_, found)| found.metric.as_str())
        .collect();
    assert_eq!(failing, ["throughput_samples_per_second"]);
}

/// What explains a change takes no power from what fails a gate.
#[test]
fn gated_metrics_are_a_family_of_their_own() {
    let verdicts = judged(&runs(100.0, 1000), &runs(99.5, 1000));
    let of = |gated: bool| -> Vec<(f64, f64)> {
        let all = verdicts.all().filter(|(_, found)| found.gated == gated);
        all.filter_map(|(_, found)| found.comparison.p_value.zip(found.comparison.q_value))
            .collect()
    };
    // Memory repeats to the byte, which leaves throughput.
    let [(p, q)] = of(true)[..] else {
        panic!("{:?}", of(true))
    };
    assert!(of(false).len() > 1, "others vary too");
    assert!((p - q).abs() < 1e-15, "p {p}, q {q}");
}

/// Half a percent of every other night: known of the sessions, it is no change between two of them,
/// and counts for two sides of one session not at all.
#[test]
fn what_is_known_between_sessions_counts_for_two_sessions() {
    let names = ["monday", "tuesday"];
    let sessions = names.map(|name| session(name, "m"));
    let all = [(0, 100.0), (1, 99.0)]
        .map(|(i, throughput)| records(names[i], "old", 0, "tiny", &runs(throughput, 1000)));
    let [base, head] = [0, 1].map(|i| Side::pick(&sessions[i], &all[i], None).unwrap());
    let known = BetweenSessions {
        deviation: 0.005,
        degrees_of_freedom: 9.0,
    };
    let key = CellMetric {
        suite: "smoke".into(),
        scenario: "tiny".into(),
        variant: all[0][0].axes.to_string(),
        metric: "throughput_samples_per_second".into(),
    };
    let options = Options {
        between_sessions: [(key, known)].into(),
        ..Options::default()
    };
    let speed = "throughput_samples_per_second";
    let alone = compare(&base, &head, &Options::default()).unwrap();
    check(&alone, speed, Verdict::Regressed);
    check(
        &compare(&base, &head, &options).unwrap(),
        speed,
        Verdict::Inconclusive,
    );

    let mut both = records("monday", "old", 0, "tiny", &runs(100.0, 1000));
    both.extend(records("monday", "new", 0, "tiny", &runs(99.0, 1000)));
    let side = |image| Side::pick(&sessions[0], &both, Some(image)).unwrap();
    let one = compare(&side("old"), &side("new"), &options).unwrap();
    check(&one, speed, Verdict::Regressed);
}

#[test]
fn what_the_images_differ_in_stands_beside_what_their_metrics_differ_in() {
    let mut session = session("s", "m");
    let mut newer = session.images[0].clone();
    newer.name = "new".to_owned();
    newer.libtorch_version = "2.12.1".to_owned();
    session.images.push(newer);
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "tiny", &runs(100.0, 1000)));
    let base = Side::pick(&session, &all, Some("old")).unwrap();
    let head = Side::pick(&session, &all, Some("new")).unwrap();
    let verdicts = compare(&base, &head, &Options::default()).unwrap();
    let [change] = verdicts.image_changes.as_slice() else {
        panic!("{:?}", verdicts.image_changes)
    };
    assert_eq!(
        (change.part, change.name.as_str()),
        (Part::Version, "torch")
    );
    assert_eq!(change.head, Some(PartValue::Text("2.12.1".to_owned())));
    let same = compare(&base, &base, &Options::default()).unwrap();
    assert_eq!(same.image_changes, []);
}

#[test]
fn a_faster_image_is_better_and_passes() {
    let verdicts = judged(&runs(100.0, 1000), &runs(112.0, 1000));
    check(
        &verdicts,
        "throughput_samples_per_second",
        Verdict::Improved,
    );
    assert!(Gate::read(&verdicts, FailOn::Regressed).passes());
}

#[test]
fn memory_that_repeats_to_the_byte_is_judged_to_the_byte() {
    let verdicts = judged(&runs(100.0, 1_000_000), &runs(100.0, 1_006_000));
    check(&verdicts, "peak_allocated_bytes", Verdict::Regressed);
    let verdicts = judged(&runs(100.0, 1_000_000), &runs(100.0, 1_004_000));
    check(&verdicts, "peak_allocated_bytes", Verdict::Unchanged);
}

#[test]
fn failed_runs_are_left_out_and_named() {
    let head = Runs {
        failed_blocks: vec![1, 4],
        ..runs(100.0, 1000)
    };
    let verdicts = judged(&runs(100.0, 1000), &head);
    let failures = verdicts.cells[0].failures.clone().unwrap();
    assert_eq!(failures.base.to_string(), "0 of 6");
    assert_eq!(failures.head.to_string(), "2 of 6 (crash)");
    assert_eq!(verdicts.cells[0].lost(), None);
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
            CompareError::EnvironmentsDiffer {
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
    assert!(
        matches!(nothing, CompareError::NothingInCommon { .. }),
        "{nothing:?}"
    );
    insta::assert_snapshot!(nothing, @"no cell in common: s:old has smoke; s:new has smoke. Run the same suite for both, with the same scenarios and variants");
    let thresholds = [("speed".to_owned(), 0.1)].into();
    let unknown = compare(
        &base,
        &head,
        &Options {
            thresholds,
            ..Options::default()
        },
    )
    .unwrap_err();
    let CompareError::UnknownMetric { known, .. } = &unknown else {
        panic!("{unknown:?}")
    };
    assert!(
        known.contains(&"throughput_samples_per_second"),
        "{unknown}"
    );
    assert_eq!(
        unknown.to_string(),
        format!(
            "no compared metric is named `speed`; there are: {}",
            known.join(", ")
        )
    );
}

#[test]
fn two_values_of_an_axis_are_compared_within_one_image() {
    let session = session("s", "m");
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    let mut treated = records("s", "old", 1, "tiny", &runs(98.0, 600));
    for run in &mut treated {
        run.axes.set("precision", "amp-bf16");
    }
    all.extend(treated);
    let side = Side::pick(&session, &all, None).unwrap();
    let base = side.along("precision", "fp32").unwrap();
    let head = side.along("precision", "amp-bf16").unwrap();
    let verdicts = compare(&base, &head, &Options::default()).unwrap();
    assert_eq!(verdicts.cells[0].variant, "bs1");
    assert_eq!(verdicts.warnings, []);
    assert_eq!(verdicts.head.choice.as_deref(), Some("precision=amp-bf16"));
    check(&verdicts, "peak_allocated_bytes", Verdict::Improved);
    check(
        &verdicts,
        "throughput_samples_per_second",
        Verdict::Regressed,
    );

    let axis = side.along("speed", "high").unwrap_err().to_string();
    assert!(
        axis.contains("precision, fp8, int8, qat, checkpointing"),
        "{axis}"
    );
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
    check(
        &verdicts,
        "throughput_samples_per_second",
        Verdict::Regressed,
    );
}

#[test]
fn the_sizes_of_two_images_are_judged_once_and_fail_no_gate() {
    let image = |bytes| record::ImageFacts {
        size_bytes: bytes,
        ..record::ImageFacts::default()
    };
    let size = |base, head| verdict::of_images(&image(base), &image(head), &Options::default());
    let check = |base, head, expect| {
        let found = &size(Some(base), Some(head))[0];
        assert_eq!((found.comparison.verdict, found.gated), (expect, false));
    };
    check(2_000, 1_900, Verdict::Improved);
    check(2_000, 2_100, Verdict::Regressed);
    check(2_000, 2_001, Verdict::Unchanged);
    assert_eq!(size(Some(2_000), None), []);
}

#[test]
fn loads_are_compared_where_both_images_were_loaded_nearly_whole() {
    let image = |seconds, loaded| record::ImageFacts {
        size_bytes: Some(1_000),
        load_seconds: seconds,
        loaded_bytes: loaded,
        ..record::ImageFacts::default()
    };
    let load = |head: record::ImageFacts| {
        let base = image(Some(10.0), Some(1_000));
        let judged = verdict::of_images(&base, &head, &Options::default());
        let mut judged = judged.into_iter();
        judged.find(|found| found.metric == "image_load_seconds")
    };
    let found = load(image(Some(14.0), Some(950))).unwrap();
    assert_eq!((found.base, found.head), (Some(10.0), Some(14.0)));
    // One load each: how much two loads of one image differ is not known.
    assert_eq!(found.comparison.verdict, Verdict::Inconclusive);
    assert_eq!((found.comparison.interval, found.gated), (None, false));
    // The engine had it, or most of its layers; a registry's share of a pull is unknown.
    assert_eq!(load(image(None, None)), None);
    assert_eq!(load(image(Some(1.0), Some(300))), None);
    assert_eq!(load(image(Some(30.0), None)), None);
}

#[test]
fn the_way_to_the_first_step_gets_one_verdict_over_all_cells() {
    let of = |session: &str, factor: f64, of_block: &dyn Fn(u32) -> bool| -> Vec<record::Record> {
        let cells = [("tiny", 1.0), ("large", 20.0)].into_iter();
        let cells = cells.flat_map(|(scenario, size)| {
            let mut runs = records(session, "img", 0, scenario, &runs(100.0, 1_000));
            runs.retain(|run| scenario == "tiny" || of_block(run.block));
            for (run, scatter) in runs.iter_mut().zip(SCATTER[0]) {
                let start = factor * size * (1.0 + scatter);
                run.values.insert("process_start_seconds".into(), start);
            }
            runs
        });
        cells.collect()
    };
    let judged = |factor, of_block: &dyn Fn(u32) -> bool| {
        let (base, head) = (session("base", "m"), session("head", "m"));
        let of_base = of("base", 1.0, of_block);
        let of_head = of("head", factor, of_block);
        let base = Side::pick(&base, &of_base, None).unwrap();
        let head = Side::pick(&head, &of_head, None).unwrap();
        compare(&base, &head, &Options::default())
            .unwrap()
            .cold_start
    };
    let slower = judged(1.2, &|_| true);
    let [found] = slower.as_slice() else {
        panic!("{slower:?}");
    };
    assert_eq!(found.metric, "process_start_seconds");
    assert_eq!(found.comparison.verdict, Verdict::Regressed);
    assert!(!found.gated);
    let (base, head) = (found.base.unwrap(), found.head.unwrap());
    // The geometric mean of 1 s and 20 s.
    assert!((head / base - 1.2).abs() < 0.01 && (4.4..5.5).contains(&base));
    // Blocks without the large cell are on the same level.
    let partly = &judged(1.0, &|block| block < 3)[0];
    assert_eq!(partly.comparison.verdict, Verdict::Unchanged);
    assert!(partly.comparison.noise.unwrap() < 0.01, "{partly:?}");
}

//! The examples of `docs/statistics.md`, digit for digit.

use judge::claims::Outcome;
use judge::compare::{Block, Direction, Kind, Measurement, Options, Verdict, compare};
use judge::dist::t_two_sided;
use judge::family::{judge_all, q_values};
use judge::moderation::Variance;
use judge::sequential::spent;
use judge::trend::{Point, TrendOptions, change_points, staleness};

#[track_caller]
fn check(got: f64, expect: f64) {
    let digits = 5e-4 * expect.abs();
    assert!(
        (got - expect).abs() <= digits,
        "got {got}, the page says {expect}"
    );
}

fn step_seconds() -> Measurement {
    let pairs = [
        (100.0, 103.0),
        (102.0, 104.0),
        (101.0, 104.5),
        (99.0, 101.0),
        (103.0, 106.0),
    ];
    Measurement {
        blocks: pairs.map(|(base, head)| Block::pair(base, head)).to_vec(),
        direction: Direction::LowerIsBetter,
        kind: Kind::TimeLike,
        threshold: 0.005,
        between: None,
        metric: 0,
        past: None,
    }
}

#[test]
fn a_comparison_by_hand() {
    let judged = compare(&step_seconds(), &Options::default()).unwrap();
    check(judged.ratio.unwrap(), 1.026_94);
    let interval = judged.interval.unwrap();
    check(interval.lo, 1.012_83);
    check(interval.hi, 1.040_73);
    let half = (interval.hi.ln() - interval.lo.ln()) / 2.0;
    check(half, 0.013_585);
    check(judged.p_value.unwrap(), 0.003_885);
    check(judged.noise.unwrap(), 0.004_525);
    check(judged.minimum_detectable_change.unwrap(), 0.024_565);
    assert_eq!(judged.blocks_needed, Some(40));
    let (df, t) = (5.9269_f64, 3.1555_f64);
    check(t_two_sided(t, df), 0.02);
    let spread = (t.powi(-2) + 1.0 / (2.0 * df)).sqrt();
    let margin = (1.0 + 1.0 / (4.0 * df)) * (1.0 + 0.8416 * spread);
    check(margin, 1.419_3);
    check((1.005_f64.ln() + half * margin).exp_m1(), 0.024_565);
    assert_eq!(judged.verdict, Verdict::Regressed);
}

/// The page's three one-sided p, put together as it says.
#[test]
fn three_tests_by_hand() {
    let cot = |p: f64| (std::f64::consts::PI * p).tan().recip();
    let one_sided = |t: f64, df: f64| t_two_sided(t, df) / 2.0;
    let paired = one_sided(7.4655, 4.0);
    check(paired, 0.000_860_30);
    let welch = one_sided(2.0048, 7.8538);
    check(welch, 0.040_290);
    let ranks = 12.0 / 252.0;
    let sum = 0.5 * cot(paired) + 0.1 * cot(welch) + 0.4 * cot(ranks);
    check(sum, 188.44);
    let p = 2.0 * 1.15 * sum.recip().atan() / std::f64::consts::PI;
    let judged = compare(&step_seconds(), &Options::default()).unwrap();
    check(p, judged.p_value.unwrap());
    // At the ends of the interval p is 0.02.
    check(cot(0.01 / 1.15), 36.597);
}

#[test]
fn false_discoveries_by_hand() {
    let q = q_values(&[0.001, 0.03, 0.012, 0.4]);
    for (got, expect) in q.into_iter().zip([0.004, 0.04, 0.024, 0.4]) {
        check(got, expect);
    }
}

#[test]
fn spending_by_hand() {
    check(spent(0.02, 0.25), 0.007_147);
    check(spent(0.02, 0.5), 0.012_402);
}

#[test]
fn a_claim_by_hand() {
    let metric = Measurement {
        blocks: vec![Block::pair(5736.0, 3178.0); 5],
        direction: Direction::LowerIsBetter,
        kind: Kind::MemoryLike,
        threshold: 0.01,
        between: None,
        metric: 0,
        past: None,
    };
    let measured = compare(&metric, &Options::default()).unwrap();
    check(measured.ratio.unwrap(), 0.554_04);
    // Savings of 30 to 50 % and of 50 to 60 %, as ratios.
    let judge = |min, max| Outcome::of(measured.interval, Some(min), Some(max));
    assert_eq!(judge(0.5, 0.7), Outcome::Holds);
    assert_eq!(judge(0.4, 0.5), Outcome::Refuted);
}

const TEN_DAYS: [f64; 10] = [
    100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 101.0, 99.0, 100.0,
];

#[test]
fn one_new_point_by_hand() {
    let values = TEN_DAYS.iter().chain(&[90.0]);
    let points: Vec<Point> = values
        .map(|&value| Point {
            timestamp: 0.0,
            revision: "same".to_owned(),
            value,
        })
        .collect();
    let trend = change_points(&points, &TrendOptions::default()).unwrap();
    let [change] = &trend.change_points[..] else {
        unreachable!("one change: {trend:?}")
    };
    assert_eq!(change.index, 10);
    let level = change.before.ln();
    check(level, 4.605_110);
    check(level - 90_f64.ln(), 0.105_300);
    check(level - 98_f64.ln(), 0.020_143);
    let by_rank = 2.0 / 11.0 * (0.020_143_f64 / 0.105_300).powi(3);
    check(by_rank, 0.001_273);
    check(change.p, 1.3 * by_rank);
}

#[test]
fn a_change_point_by_hand() {
    let before = TEN_DAYS;
    let after = before.map(|value| 0.9 * value);
    let values = before.iter().chain(&after);
    let points: Vec<Point> = values
        .enumerate()
        .map(|(i, &value)| Point {
            timestamp: 86_400.0 * i as f64,
            revision: format!("r{i}"),
            value,
        })
        .collect();
    let trend = change_points(&points, &TrendOptions::default()).unwrap();
    assert_eq!(trend.change_points.len(), 1);
    let change = &trend.change_points[0];
    assert_eq!((change.index, change.revision.as_str()), (10, "r10"));
    check(change.ratio.unwrap(), 0.9);
    check(change.before, 99.9940);
    let logarithms = before.map(f64::ln);
    let mean = logarithms.iter().sum::<f64>() / 10.0;
    check(mean, 4.605_110);
    let squares: f64 = logarithms.iter().map(|y| (y - mean).powi(2)).sum();
    let s = (squares / 9.0).sqrt();
    check(s, 0.011_548_4);
    let error = (2.0 * s * s / 10.0).sqrt();
    check(error, 0.005_164_6);
    check(0.9_f64.ln() / error, -20.400);
    check(change.p, 19.0 * 6.8385e-14);
    let [low, high] = change.interval.unwrap();
    check(low, 0.9 * (-2.1009 * error).exp());
    check(low, 0.890_29);
    check(high, 0.909_82);

    let times: Vec<f64> = points.iter().map(|point| point.timestamp).collect();
    let is_overdue = |day: f64| staleness(&times, 86_400.0 * day, None).unwrap().overdue;
    assert!(!is_overdue(22.0) && is_overdue(22.1));
}

#[test]
fn a_slow_change_by_hand() {
    let value = |i: u32| -0.05 * f64::from(i) + if i.is_multiple_of(2) { 0.5 } else { -0.5 };
    let points: Vec<Point> = (0..40)
        .map(|i| Point {
            timestamp: f64::from(i),
            revision: i.to_string(),
            value: value(i),
        })
        .collect();
    let found = change_points(&points, &TrendOptions::default()).unwrap();
    let [change] = &found.change_points[..] else {
        panic!("{found:?}")
    };
    assert!(change.gradual);
    assert_eq!(change.range, [1, 39]);
    check(change.before, 0.036_585);
    check(change.after, -1.986_585);
    check(t_two_sided(2.023_17 / 0.270_253, 38.0), 5.457e-9);
    check(change.p, 5.457e-9);
}

fn three_blocks(pairs: [(f64, f64); 3], kind: Kind, threshold: f64) -> Measurement {
    Measurement {
        blocks: pairs.map(|(base, head)| Block::pair(base, head)).to_vec(),
        direction: Direction::HigherIsBetter,
        kind,
        threshold,
        between: None,
        metric: 0,
        past: None,
    }
}

/// BERT-large on an H100: three blocks are enough for a change ten times the noise.
const BERT_LARGE: [(f64, f64); 3] = [(201.4, 206.3), (200.7, 206.7), (201.6, 205.1)];

#[test]
fn three_blocks_by_hand() {
    let metric = three_blocks(BERT_LARGE, Kind::TimeLike, 0.005);
    let judged = compare(&metric, &Options::default()).unwrap();
    assert_eq!(judged.verdict, Verdict::Improved, "{judged:?}");
    check(judged.ratio.unwrap(), 1.023_85);
    let interval = judged.interval.unwrap();
    check(interval.lo, 1.009_00);
    check(interval.hi, 1.038_92);
    let one_sided = |t: f64, df: f64| t_two_sided(t, df) / 2.0;
    let cot = |p: f64| (std::f64::consts::PI * p).tan().recip();
    let (paired, welch) = (one_sided(5.2452, 2.0), one_sided(6.8801, 3.2118));
    check(paired, 0.017_240);
    check(welch, 0.002_516);
    let sum = 0.5 * cot(paired) + 0.5 * cot(welch);
    check(sum, 72.47);
    let p = 2.0 * 1.15 * sum.recip().atan() / std::f64::consts::PI;
    check(judged.p_value.unwrap(), p);
    check(p, 0.010_10);
}

/// The same beside four cells that do not change: known better, and held to more.
#[test]
fn cells_share_their_noise_by_hand() {
    let cells = [
        BERT_LARGE,
        [(50.02, 50.05), (49.90, 50.12), (50.11, 49.96)],
        [(75.3, 75.0), (74.9, 75.1), (75.2, 75.4)],
        [(120.5, 120.6), (119.8, 120.3), (120.1, 119.9)],
        [(301.0, 299.5), (299.2, 300.1), (300.4, 300.6)],
    ];
    let cells = cells.map(|pairs| three_blocks(pairs, Kind::TimeLike, 0.005));
    let judged = judge::family::judge_all(&cells, &Options::default()).unwrap();
    let ends = judged.iter().map(|one| one.interval.unwrap());
    for (found, (lo, hi)) in ends.zip([
        (1.015_25, 1.032_53),
        (0.993_34, 1.008_05),
        (0.992_49, 1.008_46),
        (0.993_03, 1.009_25),
        (0.991_81, 1.007_37),
    ]) {
        assert!((found.lo - lo).abs() < 1e-5, "{found:?}, not {lo}");
        assert!((found.hi - hi).abs() < 1e-5, "{found:?}, not {hi}");
    }
    assert_eq!(judged[0].verdict, Verdict::Improved);
    for one in &judged[1..] {
        assert_eq!(one.verdict, Verdict::Inconclusive);
    }
    check(judged[0].p_value.unwrap(), 2.796e-6);
    check(judged[1].p_value.unwrap(), 0.062_37);
    assert_eq!(judged[0].level, Some(0.004));
    check(t_two_sided(3.4506, 13.7336), 0.004);
}

/// Reserved memory of 7.7 or 8.0 GiB is not noise of 2 %.
/// Ten cells whose history knows the noise: one run of the first is 12 % off, and its change of
/// 10 % shows all the same. Without a history that run hides it.
#[test]
fn a_wild_run_hides_no_change_where_the_noise_is_known() {
    let earlier = vec![
        99.0, 100.0, 101.0, 99.4, 100.6, 98.8, 101.2, 99.7, 100.3, 100.1,
    ];
    let verdict = |is_known: bool| {
        let cells: Vec<Measurement> = (0..10)
            .map(|cell| {
                let head = if cell == 0 {
                    [110.0, 111.0, 97.0]
                } else {
                    [100.9, 100.1, 99.9]
                };
                let pairs = [(100.0, head[0]), (101.0, head[1]), (99.2, head[2])];
                let past = Variance::of_earlier(std::slice::from_ref(&earlier));
                Measurement {
                    past: past.filter(|_| is_known),
                    ..three_blocks(pairs, Kind::TimeLike, 0.005)
                }
            })
            .collect();
        judge_all(&cells, &Options::default()).unwrap()[0].verdict
    };
    assert_eq!(verdict(true), Verdict::Improved);
    assert_eq!(verdict(false), Verdict::Inconclusive);
}

#[test]
fn two_values_by_hand() {
    let pairs = [(7.7, 8.0), (8.0, 7.7), (7.7, 8.0)];
    let judged = |threshold| {
        let metric = three_blocks(pairs, Kind::MemoryLike, threshold);
        compare(&metric, &Options::default()).unwrap()
    };
    let narrow = judged(0.01);
    check(narrow.ratio.unwrap(), 7.9 / 7.8);
    // The upper value in 1 of 3 runs: a share from 0.0017 to 0.9586, for 1 - (1 - p)³ and
    // 1 - p³ - 3 p² (1 - p) are 0.005 there.
    let [least, most] = [0.001_669, 0.958_61];
    let interval = narrow.interval.unwrap();
    check(interval.lo, (7.7 + 0.3 * (1.0 - most)) / (7.7 + 0.3 * most));
    check(
        interval.hi,
        (7.7 + 0.3 * (1.0 - least)) / (7.7 + 0.3 * least),
    );
    assert_eq!(narrow.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(narrow.reason, @"one of two values 3.9 % apart: the upper one in 1 of 3 runs of the base and 2 of 3 of the head");
    // The two values are no further apart than that.
    assert_eq!(judged(0.04).verdict, Verdict::Unchanged);
}

/// A time jumps in one cell of five: what may be such a jump elsewhere is no change, what is larger is.
#[test]
fn cells_jump_with_others() {
    let jumps = [(100.0, 101.0), (101.0, 100.0), (100.0, 101.0)];
    let apart = |by: f64| [(100.0, by), (100.01, by + 0.01), (100.0, by)];
    let verdict = |first, other| {
        let cells = [first, other, other, other, other];
        let cells = cells.map(|pairs| three_blocks(pairs, Kind::TimeLike, 0.005));
        let judged = judge_all(&cells, &Options::default()).unwrap();
        assert!(judged[1..].iter().all(|one| *one == judged[1]));
        judged[1].verdict
    };
    assert_eq!(verdict(jumps, apart(101.0)), Verdict::Inconclusive);
    assert_eq!(verdict(apart(101.0), apart(101.0)), Verdict::Improved);
    assert_eq!(verdict(jumps, apart(103.0)), Verdict::Improved);
}

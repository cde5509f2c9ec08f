//! The examples of `docs/statistics.md`, digit for digit.

use judge::claims::Outcome;
use judge::compare::{Block, Direction, Kind, Measurement, Options, Verdict, compare};
use judge::dist::t_two_sided;
use judge::family::q_values;
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
    }
}

#[test]
fn a_comparison_by_hand() {
    let judged = compare(&step_seconds(), &Options::default()).unwrap();
    check(judged.ratio.unwrap(), 1.026_94);
    let interval = judged.interval.unwrap();
    check(interval.lo, 1.016_19);
    check(interval.hi, 1.037_37);
    let log_interval = [interval.lo.ln(), interval.hi.ln()];
    check(log_interval[0], 0.016_056);
    check(log_interval[1], 0.036_684);
    check(judged.p_value.unwrap(), 0.001_759);
    check(judged.noise.unwrap(), 0.004_525);
    check(judged.minimum_detectable_change.unwrap(), 0.019_45);
    assert_eq!(judged.blocks_needed, Some(41));
    assert_eq!(judged.verdict, Verdict::Regressed);
}

/// The page's three one-sided p, put together as it says.
#[test]
fn three_tests_by_hand() {
    let cot = |p: f64| (std::f64::consts::PI * p).tan().recip();
    let one_sided = |t: f64, df: f64| t_two_sided(t, df) / 2.0;
    let paired = one_sided(9.2084, 4.0);
    check(paired, 0.000_386_36);
    let welch = one_sided(2.4729, 7.8538);
    check(welch, 0.019_534);
    let ranks = 12.0 / 252.0;
    let sum = 0.5 * cot(paired) + 0.1 * cot(welch) + 0.4 * cot(ranks);
    check(sum, 416.21);
    let p = 2.0 * 1.15 * sum.recip().atan() / std::f64::consts::PI;
    check(
        p,
        compare(&step_seconds(), &Options::default())
            .unwrap()
            .p_value
            .unwrap(),
    );
    // At the lower end of the interval p is 0.05.
    check(cot(0.025 / 1.15), 14.619);
    let margin = (1.0 + 1.0 / 24.0) * (1.0 + 0.8416 * (3.1427_f64.powi(-2) + 1.0 / 12.0).sqrt());
    check(margin, 1.418_3);
    check((0.013_585 * margin).exp_m1(), 0.019_45);
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

//! Series that a history really holds, and ones that it should not.

use judge::compare::{Direction, Verdict};
use judge::trend::{Point, Trend, TrendOptions, change_points, csv, news};
use proptest::prelude::*;
use rand::Rng as _;

use crate::noise::{Shape, autocorrelated, gauss, nightly, rng, series, stationary};

fn trend(points: &[Point]) -> Trend {
    change_points(points, &TrendOptions::default()).unwrap()
}

#[track_caller]
fn check(values: &[f64], expect: &[usize]) {
    let trend = trend(&series(values));
    let places: Vec<usize> = trend
        .change_points
        .iter()
        .map(|change| change.index)
        .collect();
    assert_eq!(places, expect, "{trend:#?}");
}

fn noisy(seed: u64, n: usize) -> Vec<f64> {
    stationary(&mut rng(200, seed), n, 0.01, Shape::Gauss)
}

fn scaled(mut values: Vec<f64>, from: usize, to: usize, factor: f64) -> Vec<f64> {
    for value in &mut values[from..to] {
        *value *= factor;
    }
    values
}

#[test]
fn constant_levels_are_told_as_they_are() {
    for (before, after) in [(5.0, 10.0), (0.1, 0.3), (6.0e9, 7.0e9), (-5.0, -3.0)] {
        let mut values = vec![before; 20];
        values.extend([after; 20]);
        let found = trend(&series(&values)).change_points;
        let [change] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((change.before, change.after), (before, after));
        assert_eq!(change.index, 20);
    }
}

#[test]
fn tiny_and_constant_series_have_no_change() {
    for n in 0..=9 {
        check(&noisy(1, n), &[]);
    }
    check(&[0.0; 50], &[]);
    check(&[-3.5; 50], &[]);
    check(&[1e300; 50], &[]);
}

#[test]
fn steps_are_placed() {
    check(&scaled(noisy(2, 100), 60, 100, 0.95), &[60]);
    check(&scaled(noisy(3, 100), 30, 70, 1.06), &[30, 70]);
    check(
        &scaled(scaled(noisy(4, 90), 30, 90, 1.1), 60, 90, 1.1),
        &[30, 60],
    );
    check(&scaled(noisy(5, 100), 97, 100, 0.9), &[97]);
    check(&scaled(noisy(6, 100), 99, 100, 0.9), &[99]);
}

#[test]
fn a_ramp_is_a_drift_and_louder_noise_is_no_change() {
    let ramp = noisy(18, 100).into_iter().enumerate();
    let ramp: Vec<f64> = ramp
        .map(|(i, value)| value * (1.0 + 0.0005 * i as f64))
        .collect();
    let found = trend(&series(&ramp));
    let [drift] = &found.change_points[..] else {
        panic!("{found:?}")
    };
    assert!(drift.gradual, "{found:?}");
    assert_eq!((drift.range, drift.index), ([1, 99], 99));
    assert!(
        (drift.after / drift.before - 1.05).abs() < 0.01,
        "{drift:?}"
    );

    let mut loud = noisy(19, 100);
    for value in &mut loud[70..] {
        *value = 100.0 * (*value / 100.0).powi(5);
    }
    let found = trend(&series(&loud));
    assert!(found.change_points.is_empty(), "{found:?}");
    assert_eq!(trend(&series(&noisy(20, 100))), Trend::default());
}

#[test]
fn a_place_comes_with_the_range_it_may_be_in() {
    let sharp = &trend(&series(&scaled(noisy(21, 100), 60, 100, 0.9))).change_points[0];
    assert_eq!(sharp.range, [60, 60]);
    let covered = (0..300).filter(|&i| {
        let values = stationary(&mut rng(206, i), 100, 0.02, Shape::Gauss);
        let found = trend(&series(&scaled(values, 50, 100, 0.97)));
        let ranges = found.change_points.iter().map(|change| change.range);
        ranges
            .into_iter()
            .all(|[low, high]| (low..=high).contains(&50))
    });
    let covered = covered.count();
    assert!(covered >= 276, "{covered} of 300");
}

#[test]
fn steps_of_exact_values_are_placed() {
    let step = |n: usize, at: usize| -> Vec<f64> {
        (0..n)
            .map(|i| if i < at { 1_000_000.0 } else { 1_000_004.0 })
            .collect()
    };
    check(&step(40, 20), &[20]);
    check(&step(60, 57), &[57]);
    check(&step(20, 19), &[19]);
}

#[test]
fn spikes_are_no_change() {
    for width in 1..=3 {
        let spiked = scaled(noisy(7, 100), 50, 50 + width, 1.5);
        check(&spiked, &[]);
    }
    // The second to last run was off, the last one is fine again.
    check(&scaled(noisy(8, 100), 98, 99, 1.5), &[]);
    // Where every twentieth run is off by as much, one more at the end is no news.
    let mut usual = noisy(9, 101);
    for i in (0..101).step_by(20) {
        usual[i] *= 1.3;
    }
    check(&usual, &[]);
}

#[test]
fn a_step_stands_out_of_spikes() {
    let mut values = scaled(noisy(10, 120), 70, 120, 0.94);
    for i in [5, 33, 68, 90, 111] {
        values[i] *= 1.4;
    }
    check(&values, &[70]);
}

#[test]
fn values_of_either_sign_are_judged_on_their_own_scale() {
    let mut rng = rng(201, 0);
    let values: Vec<f64> = (0..80)
        .map(|i| gauss(&mut rng) + if i < 40 { -5.0 } else { 5.0 })
        .collect();
    let found = trend(&series(&values));
    assert_eq!(found.change_points.len(), 1, "{found:?}");
    let change = &found.change_points[0];
    assert_eq!(
        (change.index, change.ratio, change.interval),
        (40, None, None)
    );
    assert!(change.before < -4.0 && change.after > 4.0);

    // −25 to −15 is no ratio, and better where higher is.
    let negative: Vec<f64> = values.iter().map(|v| v - 20.0).collect();
    let change = &trend(&series(&negative)).change_points[0];
    assert_eq!((change.ratio, change.interval), (None, None));
    let verdicts = [Direction::HigherIsBetter, Direction::LowerIsBetter].map(|d| change.verdict(d));
    assert_eq!(verdicts, [Verdict::Improved, Verdict::Regressed]);
}

#[test]
fn a_step_from_zero_has_no_ratio_but_is_found() {
    let values: Vec<f64> = (0..40).map(|i| if i < 20 { 0.0 } else { 3.0 }).collect();
    let found = trend(&series(&values));
    assert_eq!(found.change_points[0].index, 20);
    assert_eq!(found.change_points[0].ratio, None);
}

#[test]
fn quantized_values_do_not_alarm() {
    let alarms = (0..300)
        .filter(|&i| {
            let values: Vec<f64> = stationary(&mut rng(202, i), 100, 0.03, Shape::Gauss)
                .iter()
                .map(|v| (v / 10.0).round())
                .collect();
            !trend(&series(&values)).change_points.is_empty()
        })
        .count();
    assert!(alarms <= 12, "{alarms} of 300");
}

#[test]
fn more_noise_is_not_another_level() {
    let alarms = (0..300)
        .filter(|&i| {
            let mut rng = rng(203, i);
            let quiet = stationary(&mut rng, 60, 0.005, Shape::Gauss);
            let loud = stationary(&mut rng, 60, 0.03, Shape::Gauss);
            let values = [quiet, loud].concat();
            !trend(&series(&values)).change_points.is_empty()
        })
        .count();
    assert!(alarms <= 12, "{alarms} of 300");
}

#[test]
fn repeated_revisions_say_where_a_change_can_be() {
    let mut points = series(&scaled(noisy(11, 100), 50, 100, 1.05));
    for (i, point) in points.iter_mut().enumerate() {
        point.revision = format!("commit {}", i / 12);
    }
    let change = &trend(&points).change_points[0];
    assert_eq!(change.index, 48, "the boundary next to 50");
    assert_eq!(change.revision, "commit 4");

    // One revision throughout: something else changed, and may have anywhere.
    for point in &mut points {
        point.revision = "same".to_owned();
    }
    assert_eq!(trend(&points).change_points[0].index, 50);
}

#[test]
fn a_drifting_machine_is_not_a_change_of_revision() {
    let alarms = (0..200)
        .filter(|&i| {
            let mut points = series(&autocorrelated(&mut rng(204, i), 99, 0.9));
            for (j, point) in points.iter_mut().enumerate() {
                point.revision = format!("commit {}", j / 9);
            }
            !trend(&points).change_points.is_empty()
        })
        .count();
    assert!(alarms <= 10, "{alarms} of 200");
}

/// A week's pattern or slower waves of 0.3 %, and a little noise.
fn waves(seed: u64, n: usize, wave: impl Fn(usize) -> f64) -> Vec<f64> {
    let noise = stationary(&mut rng(205, seed), n, 0.0002, Shape::Gauss);
    let waved = noise.iter().enumerate();
    waved
        .map(|(i, value)| value * (1.0 + 0.003 * wave(i)))
        .collect()
}

#[test]
fn a_drop_stands_out_of_waves_and_waves_are_no_change() {
    let sine = |i: usize, period: f64| (i as f64 / period * std::f64::consts::TAU).sin();
    let wave_forms: [(&str, &dyn Fn(usize) -> f64); 4] = [
        ("sine of 7", &|i| sine(i, 7.0)),
        ("sine of 30", &|i| sine(i, 30.0)),
        ("sawtooth of 7", &|i| (i % 7) as f64 / 3.0 - 1.0),
        ("weekends", &|i| if i % 7 < 5 { 0.0 } else { -10.0 }),
    ];
    for (name, wave) in wave_forms {
        let (mut found, mut false_ones) = (0, 0);
        for seed in 0..50 {
            let calm = waves(seed, 60, wave);
            false_ones += usize::from(!trend(&nightly(&calm)).change_points.is_empty());
            let dropped = trend(&nightly(&scaled(calm, 40, 60, 0.95))).change_points;
            found += usize::from(dropped.iter().any(|change| change.index.abs_diff(40) <= 2));
        }
        assert!(found >= 45, "{name}: found {found} of 50");
        assert!(false_ones <= 3, "{name}: {false_ones} of 50");
    }
}

/// Weekends 3 σ lower hide no drop of 5 σ, and in noise alone no day of the week is taken for another.
#[test]
fn weekends_hide_no_drop() {
    for (fresh, least) in [(1, 85), (3, 95)] {
        let found = (0..100).filter(|&seed| {
            let values = stationary(&mut rng(134, seed), 60 + fresh, 0.005, Shape::Gauss);
            let value = |(night, value): (usize, f64)| {
                let weekend = if night % 7 < 2 { 3.0 } else { 0.0 };
                let drop = if night < 60 { 0.0 } else { 5.0 };
                value * (-0.005_f64 * (weekend + drop)).exp()
            };
            let values: Vec<f64> = values.into_iter().enumerate().map(value).collect();
            let found = trend(&nightly(&values)).change_points;
            found.iter().any(|change| change.index.abs_diff(60) <= 2)
        });
        let found = found.count();
        assert!(found >= least, "{found} of 100 after {fresh}");
    }
    let alarms = (0..300).filter(|&seed| {
        let values = stationary(&mut rng(135, seed), 70, 0.005, Shape::of(seed));
        !trend(&nightly(&values)).change_points.is_empty()
    });
    let alarms = alarms.count();
    assert!(alarms <= 12, "{alarms} of 300");
}

#[test]
fn output_has_the_fields_that_were_promised() {
    let found = trend(&series(&scaled(noisy(12, 60), 30, 60, 1.1)));
    let json = serde_json::to_value(&found).unwrap();
    let change = json["change_points"][0].as_object().unwrap();
    let fields: Vec<&str> = change.keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "after",
            "before",
            "index",
            "interval",
            "p",
            "range",
            "ratio",
            "revision",
            "timestamp"
        ]
    );
    assert_eq!(change["index"], 30);
    assert_eq!(change["timestamp"].to_string(), "1700108000");
    assert_eq!(change["revision"], "r30");
    assert_eq!(change["interval"].as_array().unwrap().len(), 2);
    assert_eq!(serde_json::from_value::<Trend>(json).unwrap(), found);
    let empty = serde_json::to_string(&trend(&[])).unwrap();
    assert_eq!(empty, r#"{"change_points":[],"too_short":true}"#);
}

/// As runs come in one by one, a change is news once: with its first run where it is plain, a few
/// runs later where it drowns in noise at first.
#[test]
fn a_change_is_news_once() {
    for (factor, latest) in [(0.9, 60), (0.965, 68)] {
        let points = series(&scaled(noisy(15, 80), 60, 80, factor));
        let told: Vec<usize> = (40..=80)
            .filter(|&n| {
                let so_far = &points[..n];
                let found = trend(so_far);
                let place = news(so_far, &found, &TrendOptions::default()).unwrap();
                place.is_some_and(|place| found.change_points[place].index.abs_diff(60) <= 2)
            })
            .map(|n| n - 1)
            .collect();
        assert_eq!(told.len(), 1, "{factor}: {told:?}");
        assert!((60..=latest).contains(&told[0]), "{factor}: {told:?}");
    }
    assert_eq!(news(&[], &trend(&[]), &TrendOptions::default()), Ok(None));
}

/// A series whose largest values swallow the steps between the others: a start was moved to
/// and fro between two places for ever.
#[test]
fn values_of_all_magnitudes_come_to_an_end() {
    let eighteen = [
        9.738_908_892_589_25e87,
        -1.046_424_898_478_457_5e-120,
        -1.539_417_327_851_209e-247,
        3.552_286_534_879_670_4e-265,
        -2.689_533_068_817_270_3e120,
        4.846_693_139_681_66e-130,
        9.971_460_134_104_608e-44,
        1.161_434_929_113_347_6e-186,
        1.025_015_106_144_507e152,
        -1.782_789_477_317_442_7e28,
        1.965_354_552_760_048_3e-127,
        7.800_778_213_490_435e197,
        2.637_153_641_446_806e276,
        1.012_364_742_996_297_8e-92,
        1.336_557_727_743_455e255,
        -2.748_184_645_188_339_8e-183,
        6.883_760_512_304_376e182,
        5.209_216_481_406_575e-250,
    ];
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(trend(&series(&eighteen))));
    let minute = std::time::Duration::from_mins(1);
    let found = answer.recv_timeout(minute).expect("an answer in a minute");
    assert_eq!(found.change_points, []);
}

#[test]
fn nonsense_is_refused_by_name() {
    let mut points = series(&noisy(14, 20));
    points[7].value = f64::NAN;
    let error = change_points(&points, &TrendOptions::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("point 7: the value is NaN"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_finite_series_gets_an_answer(values in prop::collection::vec(
        any::<f64>().prop_filter("finite", |v| v.is_finite()), 0..80)) {
        for change in trend(&series(&values)).change_points {
            prop_assert!(change.index > 0 && change.index < values.len());
            prop_assert!((0.0..=1.0).contains(&change.p));
        }
    }

    #[test]
    fn few_distinct_values_get_an_answer(values in prop::collection::vec(0..3_i32, 0..120)) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let found = trend(&series(&values)).change_points;
        prop_assert!(found.windows(2).all(|pair| pair[0].index < pair[1].index));
    }

    #[test]
    fn units_do_not_move_change_points(seed in 0..500_u64, exponent in -30..30_i32) {
        let values = scaled(noisy(1000 + seed, 60), 30, 60, 1.04);
        let factor = 2f64.powi(exponent);
        let other: Vec<f64> = values.iter().map(|v| v * factor).collect();
        let places = |values: &[f64]| -> Vec<usize> {
            let found = trend(&series(values)).change_points;
            found.iter().map(|change| change.index).collect()
        };
        prop_assert_eq!(places(&values), places(&other));
    }

    #[test]
    fn any_text_is_a_series_or_an_error(text in ".{0,200}") {
        if let Ok(points) = csv::parse(&text) {
            prop_assert!(points.iter().all(|point| point.value.is_finite()));
        }
        if let Ok(points) = csv::parse(&format!("timestamp,revision,value\n{text}")) {
            prop_assert!(trend(&points).change_points.len() <= points.len());
        }
    }
}

/// How many of `seeds` series of normal noise at these levels have a change at `at`, within a point.
#[track_caller]
fn check_found(levels: &[(usize, f64)], noise: f64, at: &[usize], least: usize) {
    let mut found = 0;
    for seed in 0..100 {
        let mut rng = rng(130, seed);
        let values: Vec<f64> = levels
            .iter()
            .flat_map(|&(points, level)| {
                let values = stationary(&mut rng, points, noise, Shape::Gauss);
                values.into_iter().map(move |value| level * value)
            })
            .collect();
        let trend = change_points(&series(&values), &TrendOptions::default()).unwrap();
        let is_near = |at: &usize| {
            let mut changes = trend.change_points.iter();
            changes.any(|change| change.index.abs_diff(*at) <= 1)
        };
        found += usize::from(at.iter().all(is_near));
    }
    assert!(found >= least, "{found} of 100: {levels:?}");
}

/// No night after the first forgets a drop of 30 σ, though few nights are known before it.
#[test]
fn a_plain_drop_stays_found_in_a_young_series() {
    for fresh in 1..=5 {
        check_found(&[(12, 1.0), (fresh, 0.91)], 0.003, &[12], 99);
    }
}

/// Nor where each night is like the one before.
#[test]
fn a_drop_stays_found_among_nights_alike() {
    for fresh in 1..=5 {
        let found = (0..100).filter(|&seed| {
            let mut values = autocorrelated(&mut rng(132, seed), 40 + fresh, 0.5);
            for value in &mut values[40..] {
                *value *= 0.9;
            }
            let found = trend(&series(&values)).change_points;
            found.iter().any(|change| change.index.abs_diff(40) <= 1)
        });
        let found = found.count();
        assert!(found >= 95, "{found} of 100 after {fresh}");
    }
}

/// 4 % lost over 40 nights: while it goes on, when it is over, and a month later.
#[test]
fn a_slow_loss_is_found_whole() {
    for (noise, nights) in [0.001, 0.002]
        .into_iter()
        .flat_map(|noise| [20_usize, 40, 50, 70].map(|nights| (noise, nights)))
    {
        let lost = |night: usize| 1.0 - 0.04 * (night as f64 / 40.0).min(1.0);
        let found = (0..100).filter(|&seed| {
            let values = stationary(&mut rng(133, seed), 100 + nights, noise, Shape::Gauss);
            let value =
                |(night, value): (usize, f64)| value * lost((night + 1).saturating_sub(100));
            let values: Vec<f64> = values.into_iter().enumerate().map(value).collect();
            let found = trend(&series(&values)).change_points;
            let told: f64 = found.iter().filter_map(|change| change.ratio).product();
            (told / lost(nights) - 1.0).abs() < 0.01 && found.iter().any(|change| change.gradual)
        });
        let found = found.count();
        assert!(
            found >= 90,
            "{found} of 100 after {nights} nights in {noise}"
        );
    }
}

/// A week at one level and two nights at another are two changes.
#[test]
fn a_step_past_the_old_level_erases_none() {
    for fresh in 1..=3 {
        check_found(&[(60, 1.0), (7, 1.05), (fresh, 0.95)], 0.005, &[60, 67], 95);
    }
}

/// Values that are mostly equal do not drift, whatever the others do.
#[test]
fn quantized_values_do_not_drift() {
    let mut drifting = 0;
    for seed in 0..200 {
        let mut rng = rng(131, seed);
        let value = |share: f64| match share {
            low if low < 0.1 => 99.0,
            high if high < 0.2 => 101.0,
            _ => 100.0,
        };
        let values: Vec<f64> = (0..60).map(|_| value(rng.random())).collect();
        let trend = change_points(&series(&values), &TrendOptions::default()).unwrap();
        drifting += usize::from(trend.change_points.iter().any(|change| change.gradual));
    }
    assert_eq!(drifting, 0);
}

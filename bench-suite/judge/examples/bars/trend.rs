//! The bars of change points: 100-point series, and real ones.

use std::time::Instant;

use judge::trend::{Point, TrendOptions, change_points, change_points_of_many};

use crate::noise::{Shape, autocorrelated, gpu_noise, rng, series, stationary, with_outliers};
use crate::{asv, edivisive, percent, pools};

const N: usize = 100;
/// A change counts as found if it is placed this close.
const NEAR: usize = 2;

type Draw<'a> = Box<dyn Fn(u64) -> Vec<f64> + Sync + 'a>;
type Detector = fn(&[f64]) -> Vec<usize>;

fn found(points: &[Point], options: &TrendOptions) -> Vec<usize> {
    let trend = change_points(points, options)
        .unwrap_or_else(|error| panic!("a simulated series: {error}"));
    trend
        .change_points
        .iter()
        .map(|change| change.index)
        .collect()
}

fn ours(values: &[f64]) -> Vec<usize> {
    found(&series(values), &TrendOptions::default())
}

const DETECTORS: [(&str, Detector); 3] = [
    ("judge", ours),
    ("asv", asv::change_points),
    ("E-divisive + t", edivisive::change_points),
];

pub(crate) fn bars(repeats: u64, files: &[(String, Vec<Point>)], runs: &[Vec<f64>]) {
    let residuals: Vec<Vec<f64>> = files
        .iter()
        .filter(|(_, points)| points.iter().all(|point| point.value > 0.0))
        .map(|(_, points)| pools::residuals(points))
        .collect();
    let noises = stationary_series(&residuals, runs);
    false_alarms(repeats, &noises);
    recall(repeats, &residuals, runs);
    curve(repeats, &noises);
    real(files);
    speed();
}

fn stationary_series<'a>(
    residuals: &'a [Vec<f64>],
    runs: &'a [Vec<f64>],
) -> Vec<(String, f64, Draw<'a>)> {
    let mut all: Vec<(String, f64, Draw)> = Vec::new();
    for shape in Shape::ALL {
        let draw = move |i| stationary(&mut rng(10, i), N, 0.01, shape);
        all.push((format!("{shape:?}"), 4.0, Box::new(draw)));
    }
    for (name, pools) in [
        ("pools from the series of DIR", residuals),
        ("pools from FILE", runs),
    ] {
        if !pools.is_empty() {
            let draw = |i| pools::draw(&mut rng(11, i), pools::pick(pools, i), N);
            all.push((name.to_owned(), 4.0, Box::new(draw)));
        }
    }
    all.push((
        "normal, 1 % outliers of 10 σ".to_owned(),
        4.0,
        Box::new(|i| with_outliers(&mut rng(12, i), N)),
    ));
    for rho in [0.3, 0.5, 0.7, 0.9] {
        all.push((
            format!("AR(1), ρ = {rho}"),
            5.0,
            Box::new(move |i| autocorrelated(&mut rng(13, i), N, rho)),
        ));
    }
    all
}

fn false_alarms(repeats: u64, noises: &[(String, f64, Draw)]) {
    println!("\n## Trend: stationary series of {N} points with any change point, percent\n");
    println!("| noise | bar | judge | asv | E-divisive + t |");
    println!("|---|---|---|---|---|");
    for (name, bar, draw) in noises {
        print!("| {name} | ≤ {bar} |");
        for (detector, detect) in DETECTORS {
            // The yardsticks are slower and need fewer repeats to make their point.
            let repeats = if detector == "judge" {
                repeats
            } else {
                repeats.min(400)
            };
            print!(
                " {:.1} |",
                percent(repeats, |i| !detect(&draw(i)).is_empty())
            );
        }
        println!();
    }
}

/// A series whose last `fresh` values are 5 % lower.
fn dropped(mut values: Vec<f64>, fresh: usize) -> Vec<f64> {
    let start = values.len() - fresh;
    for value in &mut values[start..] {
        *value *= 0.95;
    }
    values
}

fn recall_draws<'a>(
    residuals: &'a [Vec<f64>],
    runs: &'a [Vec<f64>],
) -> Vec<(&'static str, Draw<'a>)> {
    let mut all: Vec<(&'static str, Draw)> = vec![(
        "all shapes, 0.03 to 3 %",
        Box::new(|i| {
            let mut rng = rng(14, i);
            let noise = gpu_noise(&mut rng);
            stationary(&mut rng, N, noise, Shape::of(i))
        }),
    )];
    for (name, pools) in [
        ("pools from FILE", runs),
        ("pools from the series of DIR", residuals),
    ] {
        if !pools.is_empty() {
            let draw = |i| pools::draw(&mut rng(15, i), pools::pick(pools, i), N);
            all.push((name, Box::new(draw)));
        }
    }
    all
}

fn recall(repeats: u64, residuals: &[Vec<f64>], runs: &[Vec<f64>]) {
    println!("\n## Trend: a drop of 5 % found within {NEAR} points, percent\n");
    println!("| noise | detector | 1 new point | 2 | 3 | 5 | 10 | 50 |");
    println!("|---|---|---|---|---|---|---|---|");
    println!("| *bar* | | ≥ 71 | | ≥ 86 | ≥ 89 | | |");
    for (name, draw) in recall_draws(residuals, runs) {
        for (detector, detect) in DETECTORS {
            let repeats = if detector == "judge" {
                repeats
            } else {
                repeats.min(400)
            };
            print!("| {name} | {detector} |");
            for fresh in [1, 2, 3, 5, 10, 50] {
                let hit = |i| {
                    let values = dropped(draw(i), fresh);
                    detect(&values)
                        .iter()
                        .any(|at| at.abs_diff(N - fresh) <= NEAR)
                };
                print!(" {:.1} |", percent(repeats, hit));
            }
            println!();
        }
    }
}

fn curve(repeats: u64, noises: &[(String, f64, Draw)]) {
    println!("\nTrade-off: both thresholds times a factor. False alarms: the worst of the");
    println!("noises without and with autocorrelation; recall: all shapes.\n\n```csv");
    println!("factor,false_worst_percent,false_worst_ar_percent,recall_1,recall_3,recall_5");
    for factor in [0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0] {
        let usual = TrendOptions::default();
        let options = TrendOptions {
            alpha_history: factor * usual.alpha_history,
            alpha_newest: factor * usual.alpha_newest,
            ..usual
        };
        let worst = |correlated: bool| {
            noises
                .iter()
                .filter(|(name, ..)| name.starts_with("AR") == correlated)
                .map(|(_, _, draw)| {
                    percent(repeats, |i| !found(&series(&draw(i)), &options).is_empty())
                })
                .fold(0.0, f64::max)
        };
        let recalled = |fresh: usize| {
            percent(repeats, |i| {
                let mut rng = rng(14, i);
                let noise = gpu_noise(&mut rng);
                let values = dropped(stationary(&mut rng, N, noise, Shape::of(i)), fresh);
                found(&series(&values), &options)
                    .iter()
                    .any(|at| at.abs_diff(N - fresh) <= NEAR)
            })
        };
        println!(
            "{factor},{:.2},{:.2},{:.1},{:.1},{:.1}",
            worst(false),
            worst(true),
            recalled(1),
            recalled(3),
            recalled(5)
        );
    }
    println!("```");
}

/// Real series: what is found, and how far from a change of revision.
fn real(files: &[(String, Vec<Point>)]) {
    if files.is_empty() {
        return;
    }
    println!("\n## Trend: real series\n");
    println!("Revisions repeat in the first group: a change counts as true within {NEAR} points");
    println!("of a new revision. Where every point is a revision of its own, all can be true.\n");
    println!("| series | detector | change points | true | false |");
    println!("|---|---|---|---|---|");
    for (name, points) in files {
        let new_revision: Vec<usize> = (1..points.len())
            .filter(|&i| points[i].revision != points[i - 1].revision)
            .collect();
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        let with_revisions = found(points, &TrendOptions::default());
        let all = [
            ("judge", with_revisions),
            ("judge, revisions hidden", ours(&values)),
            ("asv", asv::change_points(&values)),
            ("E-divisive + t", edivisive::change_points(&values)),
        ];
        for (detector, indices) in all {
            let near = |at: &&usize| new_revision.iter().any(|b| b.abs_diff(**at) <= NEAR);
            let hits = indices.iter().filter(near).count();
            let misses = indices.len() - hits;
            println!("| {name} | {detector} | {indices:?} | {hits} | {misses} |");
        }
    }
}

fn speed() {
    let many: Vec<Vec<Point>> = (0..1000)
        .map(|i| {
            let mut values = autocorrelated(&mut rng(16, i), 1000, 0.5);
            for (j, value) in values.iter_mut().enumerate() {
                *value *= 1.0 + 0.03 * ((j / 100) % 2) as f64;
            }
            series(&values)
        })
        .collect();
    let started = Instant::now();
    let trends = change_points_of_many(&many, &TrendOptions::default());
    let seconds = started.elapsed().as_secs_f64();
    let changes: usize = trends.iter().flatten().map(|t| t.change_points.len()).sum();
    println!("\n## Speed\n");
    println!(
        "1,000 series of 1,000 points, nine steps of 3 % in AR(1) noise of 1 %: {seconds:.1} s"
    );
    println!(
        "on {} cores (bar: 30 s on 2), {changes} change points.",
        rayon::current_num_threads()
    );
}

//! The bars of a comparison: five blocks, noise as on GPUs.

use judge::compare::{Block, Comparison, Measurement, Options, Verdict, compare};
use judge::dist::t_two_sided;
use judge::sequential::{FIRST_LOOK, Sequential, is_look};

use crate::noise::{Shape, blocks, rng};
use crate::summary::Summary;
use crate::{percent, pools};

type Draw<'a> = dyn Fn(u64, f64) -> Measurement + Sync + 'a;

fn judge(metric: &Measurement, options: &Options) -> Comparison {
    compare(metric, options).unwrap_or_else(|error| panic!("a simulated metric: {error}"))
}

fn changed(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Improved | Verdict::Regressed)
}

/// Welch's t on the raw values at 0.05, the rule to beat.
fn welch(metric: &Measurement) -> bool {
    let moments = |pick: fn(&Block) -> Option<f64>| {
        let values: Vec<f64> = metric.blocks.iter().filter_map(pick).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (mean, squares / (n - 1.0) / n, n)
    };
    let (base, base_variance, n) = moments(|block| block.base);
    let (head, head_variance, _) = moments(|block| block.head);
    let sum = base_variance + head_variance;
    let df = (n - 1.0) * sum * sum / (base_variance.powi(2) + head_variance.powi(2));
    t_two_sided((head - base) / sum.sqrt(), df) <= 0.05
}

pub(crate) fn bars(repeats: u64, runs: &[Vec<f64>], summary: &mut Summary) {
    println!("## Compare, five blocks\n");
    println!("Noise: relative standard deviation log-uniform from 0.03 to 3 %.\n");
    println!("| noise | rule | false, no change | 1 % | 2 % | 5 % | coverage of 95 % |");
    println!("|---|---|---|---|---|---|---|");
    println!("| *bar* | | ≤ 2.5 | ≥ 56 | ≥ 71 | ≥ 90 | 93–97 |");
    for shape in Shape::ALL {
        let draw = move |i: u64, ratio: f64| blocks(&mut rng(1, i), 5, ratio, shape, 0.0);
        // The bars are about all of them together; each alone is shown.
        let mut alone = Summary::default();
        row(&format!("{shape:?}"), repeats, &draw, &mut alone);
    }
    let pooled = |i: u64, ratio: f64| blocks(&mut rng(2, i), 5, ratio, Shape::of(i), 0.0);
    row("all shapes", repeats, &pooled, summary);
    let drifting = |i: u64, ratio: f64| blocks(&mut rng(3, i), 5, ratio, Shape::of(i), 3.0);
    row("all shapes, drift 3 σ", repeats, &drifting, summary);
    let real = |i: u64, ratio: f64| {
        let mut rng = rng(4, i);
        let values = pools::draw(&mut rng, pools::pick(runs, i), 10);
        let mut metric = blocks(&mut rng, 5, ratio, Shape::Gauss, 0.0);
        metric.blocks = values
            .chunks(2)
            .map(|pair| Block::pair(pair[0], ratio * pair[1]))
            .collect();
        metric
    };
    row("repeated runs on one H200", repeats, &real, summary);
    curve(repeats, &pooled);
}

fn row(noise: &str, repeats: u64, draw: &Draw, summary: &mut Summary) {
    let options = Options::default();
    for threshold in [0.0, 0.005] {
        let judged = |i: u64, ratio: f64| {
            let metric = Measurement {
                threshold,
                ..draw(i, ratio)
            };
            judge(&metric, &options)
        };
        let share = |ratio: f64| percent(repeats, |i| changed(judged(i, ratio).verdict));
        let what = |words: &str| {
            format!(
                "compare, {noise}, noise threshold {} %: {words}",
                100.0 * threshold
            )
        };
        let wrong = summary.at_most(what("false"), 2.5, share(1.0));
        let [one, two, five] = [(1.01, 56.0), (1.02, 71.0), (1.05, 90.0)].map(|(ratio, bar)| {
            let size = format!("detected of {:.0} %", 100.0 * (ratio - 1.0));
            summary.at_least(what(&size), bar, share(ratio))
        });
        let coverage = percent(repeats, |i| {
            judged(i, 1.0)
                .interval
                .is_some_and(|interval| interval.contains(1.0))
        });
        summary.at_least(what("coverage"), 93.0, coverage);
        summary.at_most(what("coverage"), 97.0, coverage);
        println!(
            "| {noise} | paired t, noise threshold {} % | {wrong:.1} | {one:.1} | {two:.1} | {five:.1} | \
             {coverage:.1} |",
            100.0 * threshold,
        );
    }
    let share = |ratio: f64| percent(repeats, |i| welch(&draw(i, ratio)));
    println!(
        "| {noise} | Welch's t, 0.05 | {:.1} | {:.1} | {:.1} | {:.1} | |",
        share(1.0),
        share(1.01),
        share(1.02),
        share(1.05)
    );
}

fn curve(repeats: u64, draw: &Draw) {
    println!("\nTrade-off, all shapes, noise threshold 0:\n\n```csv");
    println!("alpha,false_percent,detected_1_percent,detected_2_percent,detected_5_percent");
    for alpha in [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1] {
        let options = Options {
            alpha,
            ..Options::default()
        };
        let share = |ratio: f64| {
            percent(repeats, |i| {
                let metric = Measurement {
                    threshold: 0.0,
                    ..draw(i, ratio)
                };
                changed(judge(&metric, &options).verdict)
            })
        };
        println!(
            "{alpha},{:.2},{:.1},{:.1},{:.1}",
            share(1.0),
            share(1.01),
            share(1.02),
            share(1.05)
        );
    }
    println!("```");
}

/// Looks from the third block on: after every one, or as [`is_look`] spaces them.
pub(crate) fn looks(repeats: u64) {
    println!("\n## Looking again, from 3 blocks on, noise threshold 0.5 %\n");
    println!(
        "| most blocks | looks | change | improved or regressed | unchanged | undecided | mean blocks |"
    );
    println!("|---|---|---|---|---|---|---|");
    for most in [20, 60] {
        for (looks, spaced) in [("after every block", false), ("spaced", true)] {
            for ratio in [1.0, 1.01, 1.02, 1.05] {
                let outcome = |i| looked(most, spaced, i, ratio);
                let share =
                    |wanted: fn(Verdict) -> bool| percent(repeats, |i| wanted(outcome(i).0));
                let total: u32 = (0..repeats).map(|i| outcome(i).1).sum();
                println!(
                    "| {most} | {looks} | {ratio} | {:.1} | {:.1} | {:.1} | {:.1} |",
                    share(changed),
                    share(|verdict| verdict == Verdict::Unchanged),
                    share(|verdict| verdict == Verdict::Inconclusive),
                    f64::from(total) / repeats as f64,
                );
            }
        }
    }
}

/// What a session of at most so many blocks comes to, and after how many.
fn looked(most: u32, spaced: bool, seed: u64, ratio: f64) -> (Verdict, u32) {
    let mut rng = rng(5, seed);
    let metric = blocks(&mut rng, most as usize, ratio, Shape::of(seed), 0.0);
    let mut looks = Sequential::new(1, Options::default());
    for n in (FIRST_LOOK..=most).filter(|&n| !spaced || is_look(n) || n == most) {
        let mut so_far = metric.clone();
        so_far.blocks.truncate(n as usize);
        let judged = looks
            .look(f64::from(n) / f64::from(most), &[so_far])
            .unwrap_or_else(|error| panic!("a simulated look: {error}"));
        if judged[0].verdict != Verdict::Inconclusive {
            return (judged[0].verdict, n);
        }
    }
    (Verdict::Inconclusive, most)
}

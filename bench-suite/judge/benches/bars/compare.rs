//! The bars of a comparison: noise as on GPUs.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use judge::compare::{Block, Comparison, Direction, Kind, Measurement, Options, Verdict, compare};
use judge::dist::t_two_sided;
use judge::family::judge_all;
use judge::median;
use judge::sequential::{FIRST_LOOK, Sequential, is_look};
use judge::sessions::BetweenSessions;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::noise::{Shape, blocks, gauss, rng, series};
use crate::summary::Summary;
use crate::{percent, pools};

type Draw<'a> = dyn Fn(u64, f64) -> Measurement + Sync + 'a;

/// Most of 100 comparisons without a change that may be called one.
const FALSE: f64 = 2.0;

fn judge(metric: &Measurement) -> Comparison {
    compare(metric, &Options::default()).unwrap_or_else(|error| panic!("simulated: {error}"))
}

fn changed(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Improved | Verdict::Regressed)
}

/// t of a mean with its standard error, two-sided, at 0.02.
fn t_rejects(mean: f64, error: f64, df: f64) -> bool {
    t_two_sided(mean / error, df) <= 0.02
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, squares / (n - 1.0))
}

fn logs(metric: &Measurement) -> (Vec<f64>, Vec<f64>) {
    let pairs = metric.blocks.iter().filter_map(|b| b.base.zip(b.head));
    pairs.map(|(base, head)| (base.ln(), head.ln())).unzip()
}

/// Pairing alone at 0.02, a rule to beat.
fn paired(metric: &Measurement) -> bool {
    let (base, head) = logs(metric);
    let ratios: Vec<f64> = base.iter().zip(&head).map(|(b, h)| h - b).collect();
    let ((mean, variance), n) = (moments(&ratios), ratios.len() as f64);
    t_rejects(mean, (variance / n).sqrt(), n - 1.0)
}

/// Welch's t alone at 0.02, another.
fn welch(metric: &Measurement) -> bool {
    let (base, head) = logs(metric);
    let n = base.len() as f64;
    let ((low, one), (high, other)) = (moments(&base), moments(&head));
    let both = one + other;
    let df = (n - 1.0) * both * both / (one * one + other * other);
    t_rejects(high - low, (both / n).sqrt(), df)
}

/// The metric of a seed, with so many blocks and such a change.
type Noise<'a> = Box<dyn Fn(u64, usize, f64) -> Measurement + Sync + 'a>;

/// The noises, with the name of each.
fn noises(runs: &[Vec<f64>]) -> Vec<(String, Noise<'_>)> {
    let mut all: Vec<(String, Noise<'_>)> = Vec::new();
    for shape in Shape::ALL {
        all.push((
            format!("{shape:?}"),
            Box::new(move |i, n, ratio| blocks(&mut rng(1, i), n, ratio, shape, 0.0)),
        ));
    }
    all.push((
        "all shapes".to_owned(),
        Box::new(|i, n, ratio| blocks(&mut rng(2, i), n, ratio, Shape::of(i), 0.0)),
    ));
    all.push((
        "all shapes, drift 3 σ".to_owned(),
        Box::new(|i, n, ratio| blocks(&mut rng(3, i), n, ratio, Shape::of(i), 3.0)),
    ));
    all.push(("Gauss, 5 % of runs 20 % off".to_owned(), Box::new(outliers)));
    all.push((
        "repeated runs on one H200".to_owned(),
        Box::new(|i, n, ratio| {
            let mut rng = rng(4, i);
            let values = pools::draw(&mut rng, pools::pick(runs, i), 2 * n);
            let pairs = values.chunks(2);
            let mut metric = blocks(&mut rng, 1, ratio, Shape::Gauss, 0.0);
            metric.blocks = pairs
                .map(|pair| Block::pair(pair[0], ratio * pair[1]))
                .collect();
            metric
        }),
    ));
    all
}

/// One run in twenty takes a fifth longer, however small the noise of the others.
fn outliers(i: u64, n: usize, ratio: f64) -> Measurement {
    let mut rng = rng(6, i);
    let mut metric = blocks(&mut rng, n, ratio, Shape::Gauss, 0.0);
    for value in metric
        .blocks
        .iter_mut()
        .flat_map(|b| [&mut b.base, &mut b.head])
    {
        if rng.random::<f64>() < 0.05 {
            *value = value.map(|value| 1.2 * value);
        }
    }
    metric
}

/// Writes comparisons of the bars, with what the judge says of each, for `peers/peers.py`.
pub(crate) fn export(repeats: u64, runs: &[Vec<f64>], to: &Path) -> io::Result<()> {
    let mut lines = BufWriter::new(File::create(to)?);
    for (row, draw) in noises(runs) {
        for n in [3, 5, 10] {
            for ratio in [1.0, 1.01, 1.02, 1.05] {
                for i in 0..repeats {
                    let metric = Measurement {
                        threshold: 0.0,
                        ..draw(i, n, ratio)
                    };
                    let runs = metric.blocks.iter().filter_map(|b| b.base.zip(b.head));
                    let (base, head): (Vec<f64>, Vec<f64>) = runs.unzip();
                    let called = changed(judge(&metric).verdict);
                    let line = serde_json::json!({
                        "row": row, "blocks": n, "ratio": ratio, "base": base, "head": head,
                        "judge": called,
                    });
                    writeln!(lines, "{line}")?;
                }
            }
        }
    }
    lines.flush()
}

pub(crate) fn bars(repeats: u64, runs: &[Vec<f64>], summary: &mut Summary) {
    println!("## Compare: percent called improved or regressed\n");
    println!(
        "Noise: relative standard deviation log-uniform from 0.03 to 3 %; noise threshold 0. Beside \
         it what Student's paired t and Welch's t alone call a change at 0.02.\n"
    );
    println!("| noise | blocks | no change | 1 % | 2 % | 5 % | paired t alone | Welch's t alone |");
    println!("|---|---|---|---|---|---|---|---|");
    for (noise, draw) in noises(runs) {
        for n in [3, 5, 10, 20] {
            let bar = match (noise.as_str(), n) {
                ("Gauss", 5) => Some([60.0, 75.0, 94.0]),
                ("Gauss, 5 % of runs 20 % off", 10) => Some([60.0, 75.0, 88.0]),
                ("repeated runs on one H200", 10) => Some([88.0, 94.0, 99.0]),
                ("all shapes" | "all shapes, drift 3 σ", 5) => Some([56.0, 71.0, 90.0]),
                _ => None,
            };
            let what = format!("{noise}, {n} blocks");
            row(
                &noise,
                n,
                repeats,
                &|i, ratio| draw(i, n, ratio),
                (&what, bar, summary),
            );
        }
    }
    family(repeats, summary);
    nights(repeats, summary);
    unlike(repeats);
    let pooled = |i: u64, ratio: f64| blocks(&mut rng(2, i), 5, ratio, Shape::of(i), 0.0);
    curve(repeats, &pooled);
}

fn row(
    noise: &str,
    n: usize,
    repeats: u64,
    draw: &Draw,
    (what, bar, summary): (&str, Option<[f64; 3]>, &mut Summary),
) {
    let without_threshold = |i, ratio| Measurement {
        threshold: 0.0,
        ..draw(i, ratio)
    };
    // Rates of one in fifty need more draws.
    let wrong = percent(5 * repeats, |i| {
        changed(judge(&without_threshold(i, 1.0)).verdict)
    });
    summary.at_most(format!("compare, {what}: false"), FALSE, wrong);
    let detected = [1.01, 1.02, 1.05].map(|ratio| {
        percent(repeats, |i| {
            changed(judge(&without_threshold(i, ratio)).verdict)
        })
    });
    for ((size, bar), detected) in [1, 2, 5]
        .into_iter()
        .zip(bar.into_iter().flatten())
        .zip(detected)
    {
        summary.at_least(
            format!("compare, {what}: detected of {size} %"),
            bar,
            detected,
        );
    }
    let alone = |rule: fn(&Measurement) -> bool| {
        let all = [1.0, 1.01, 1.02, 1.05]
            .map(|ratio| format!("{:.1}", percent(repeats, |i| rule(&draw(i, ratio)))));
        all.join(" / ")
    };
    let [one, two, five] = detected;
    println!(
        "| {noise} | {n} | {wrong:.2} | {one:.1} | {two:.1} | {five:.1} | {} | {} |",
        alone(paired),
        alone(welch)
    );
}

/// A run of noise with standard deviation 1.
type Run = fn(&mut ChaCha8Rng) -> f64;

/// One run in twenty lies 10 σ off.
fn with_wild_runs(rng: &mut ChaCha8Rng) -> f64 {
    let wild = rng.random::<f64>() < 0.05;
    gauss(rng) + if wild { 10.0 } else { 0.0 }
}

/// Lognormal with a shape of 1: median 0, and a long tail above.
fn lognormal(rng: &mut ChaCha8Rng) -> f64 {
    (gauss(rng).exp() - 1.0) / 2.161
}

/// Whether a change as large as is printed to be detectable is called one in four of five
/// sessions: by itself, and beside nine cells or 39 that do not change.
fn family(repeats: u64, summary: &mut Summary) {
    println!("\n## Compare: the printed minimum detectable change, percent detected\n");
    println!("Noise of 1 %. The change is the median of what sessions without one print.\n");
    println!("| noise | blocks | drift | cells | change % | detected |");
    println!("|---|---|---|---|---|---|");
    let repeats = (repeats / 2).max(1);
    let noises: [(&str, f64, Run); 4] = [
        ("normal", 0.0, gauss),
        ("normal", 3.0, gauss),
        ("lognormal", 0.0, lognormal),
        ("5 % of runs 10 σ off", 0.0, with_wild_runs),
    ];
    for n in [3, 5, 10] {
        for (name, drift, run) in noises {
            for metrics in [1, 10, 40] {
                let first = |seed: u64, i: u64, ratio: f64| {
                    let mut rng = rng(seed, i);
                    let all: Vec<Measurement> = (0..metrics)
                        .map(|m| {
                            let ratio = if m == 0 { ratio } else { 1.0 };
                            of_one_percent(&mut rng, n, ratio, drift, run)
                        })
                        .collect();
                    let judged = judge_all(&all, &Options::default());
                    judged
                        .unwrap_or_else(|error| panic!("simulated: {error}"))
                        .swap_remove(0)
                };
                let printed =
                    (0..repeats).filter_map(|i| first(7, i, 1.0).minimum_detectable_change);
                let change = median(printed).unwrap_or(f64::INFINITY);
                let detected = percent(repeats, |i| changed(first(8, i, 1.0 + change).verdict));
                println!(
                    "| {name} | {n} | {drift} σ | {metrics} | {:.2} | {detected:.1} |",
                    100.0 * change
                );
                if name == "normal" {
                    let what = format!(
                        "minimum detectable change, {n} blocks, drift {drift} σ, one of {metrics}: \
                         detected"
                    );
                    summary.at_least(&what, 75.0, detected);
                    summary.at_most(&what, 85.0, detected);
                }
            }
        }
    }
}

fn of_one_percent(
    rng: &mut ChaCha8Rng,
    n: usize,
    ratio: f64,
    drift: f64,
    noise: Run,
) -> Measurement {
    let mut metric = blocks(rng, n, ratio, Shape::Gauss, 0.0);
    metric.threshold = 0.0;
    for block in &mut metric.blocks {
        let common = drift * gauss(rng);
        let mut run = |level: f64| Some(level * (0.01 * (common + noise(rng))).exp());
        *block = Block {
            base: run(1.0),
            head: run(ratio),
        };
    }
    metric
}

/// Sides that scatter unlike, which the rank test takes for alike up to a point. Shown, no bar.
fn unlike(repeats: u64) {
    println!("\n## Compare: the head scatters more than the base, percent called, no change\n");
    println!("| times as much | 3 blocks | 5 | 10 | 20 |");
    println!("|---|---|---|---|---|");
    for times in [1.0, 2.0, 3.0, 5.0, 10.0, 100.0] {
        let called = [3, 5, 10, 20].map(|n| {
            let wrong = percent(2 * repeats, |i| {
                let mut rng = rng(10, i);
                let mut metric = of_one_percent(&mut rng, n, 1.0, 0.0, gauss);
                for block in &mut metric.blocks {
                    block.head = block.head.map(|head| head.powf(times));
                }
                changed(judge(&metric).verdict)
            });
            format!("{wrong:.1}")
        });
        println!("| {times} | {} |", called.join(" | "));
    }
}

/// A night against the night before, by the variance between sessions of the nights before.
fn nights(repeats: u64, summary: &mut Summary) {
    println!("\n## Compare: a session against the one of the night before, percent called\n");
    println!("Days differ by 0.4 %, the five runs of a night by 0.3 %.\n");
    println!("| nights in the history | change | called improved or regressed | as one session |");
    println!("|---|---|---|---|");
    for earlier in [3, 5, 10, 30] {
        for ratio in [1.0, 1.01, 1.02, 1.05] {
            let called = |known: bool| {
                percent(repeats, |i| {
                    let mut metric = night(&mut rng(9, i), earlier, ratio);
                    metric.between = metric.between.filter(|_| known);
                    changed(judge(&metric).verdict)
                })
            };
            let (by_nights, as_one) = (called(true), called(false));
            println!("| {earlier} | {ratio} | {by_nights:.1} | {as_one:.1} |");
            if ratio < 1.005 {
                let what = format!("compare, the night before, {earlier} nights known: false");
                summary.at_most(what, FALSE, by_nights);
            }
        }
    }
}

/// Two nights, with what so many earlier ones say of their days.
fn night(rng: &mut impl Rng, earlier: usize, ratio: f64) -> Measurement {
    let mut runs = |level: f64| {
        let day = 0.004 * gauss(rng);
        [(); 5].map(|()| level * (day + 0.003 * gauss(rng)).exp())
    };
    let medians: Vec<f64> = (0..earlier).filter_map(|_| median(runs(1.0))).collect();
    let pairs = runs(1.0).into_iter().zip(runs(ratio));
    let blocks = pairs.map(|(base, head)| Block::pair(base, head)).collect();
    Measurement {
        blocks,
        direction: Direction::LowerIsBetter,
        kind: Kind::TimeLike,
        threshold: 0.0,
        between: BetweenSessions::of(&series(&medians)),
        metric: 0,
        past: None,
    }
}

fn curve(repeats: u64, draw: &Draw) {
    println!("\nTrade-off, all shapes, five blocks, noise threshold 0:\n\n```csv");
    println!("alpha,false_percent,detected_1_percent,detected_2_percent,detected_5_percent");
    // One judgement serves every alpha.
    let p = |ratio: f64| -> Vec<f64> {
        (0..repeats)
            .filter_map(|i| {
                let threshold = 0.0;
                judge(&Measurement {
                    threshold,
                    ..draw(i, ratio)
                })
                .p_value
            })
            .collect()
    };
    let of_ratios = [1.0, 1.01, 1.02, 1.05].map(p);
    for alpha in [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1] {
        let shares = of_ratios.each_ref().map(|all| {
            let found = all.iter().filter(|p| **p <= alpha).count();
            format!("{:.2}", 100.0 * found as f64 / repeats as f64)
        });
        println!("{alpha},{}", shares.join(","));
    }
    println!("```");
}

/// Looks from the third block on: after every one, or as [`is_look`] spaces them.
pub(crate) fn looks(repeats: u64, summary: &mut Summary) {
    println!("\n## Looking again, from 3 blocks on, noise threshold 0.5 %\n");
    println!(
        "| most blocks | looks | change | improved or regressed | unchanged | undecided | mean blocks |"
    );
    println!("|---|---|---|---|---|---|---|");
    for most in [20, 60] {
        for (looks, spaced) in [("after every block", false), ("spaced", true)] {
            for ratio in [1.0, 1.01, 1.02, 1.05] {
                let outcomes = looked_all(repeats, most, spaced, ratio);
                let share = |wanted: fn(Verdict) -> bool| {
                    let count = outcomes.iter().filter(|one| wanted(one.0)).count();
                    100.0 * count as f64 / repeats as f64
                };
                let total: u32 = outcomes.iter().map(|one| one.1).sum();
                let called = share(changed);
                println!(
                    "| {most} | {looks} | {ratio} | {called:.1} | {:.1} | {:.1} | {:.1} |",
                    share(|verdict| verdict == Verdict::Unchanged),
                    share(|verdict| verdict == Verdict::Inconclusive),
                    f64::from(total) / repeats as f64,
                );
                let what = format!("looks {looks}, at most {most} blocks");
                if ratio < 1.005 {
                    summary.at_most(format!("{what}: false"), FALSE, called);
                } else if ratio > 1.04 {
                    summary.at_least(format!("{what}: detected of 5 %"), 99.0, called);
                }
            }
        }
    }
}

fn looked_all(repeats: u64, most: u32, spaced: bool, ratio: f64) -> Vec<(Verdict, u32)> {
    use rayon::prelude::*;
    let seeds = (0..repeats).into_par_iter();
    seeds.map(|i| looked(most, spaced, i, ratio)).collect()
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

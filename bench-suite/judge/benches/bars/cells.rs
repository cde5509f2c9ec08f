//! The bars of a family: cells of one metric that know each other's noise.

use judge::compare::{Block, Measurement, Options, Verdict};
use judge::dist::normal_two_sided;
use judge::family::{judge_all, q_values};
use judge::moderation::Variance;
use rand::Rng;

use crate::noise::{Shape, blocks, gauss, rng};
use crate::pools;
use crate::summary::Summary;

/// Most of 100 comparisons without a change that may be called one.
const FALSE: f64 = 2.0;

/// The cells of a seed, each with its noise, without a change.
type Draw<'a> = dyn Fn(u64, usize, usize) -> Vec<Measurement> + Sync + 'a;

/// How many of 100 cells with a change are called, and of those without one.
fn called(
    repeats: u64,
    ratio: f64,
    changes: usize,
    draw: impl Fn(u64) -> Vec<Measurement> + Sync,
) -> [f64; 2] {
    use rayon::prelude::*;
    let count = |i: u64| {
        let mut cells = draw(i);
        // Which cells change depends on the seed, so that every workload has its turn.
        let all = cells.len();
        let start = usize::try_from(i).unwrap_or(0);
        let is_changed = |cell: usize| (cell + start) % all < changes;
        for (cell, metric) in cells.iter_mut().enumerate() {
            for block in metric.blocks.iter_mut().filter(|_| is_changed(cell)) {
                block.head = block.head.map(|head| ratio * head);
            }
        }
        let judged = judge_all(&cells, &Options::default());
        let judged = judged.unwrap_or_else(|error| panic!("simulated: {error}"));
        let mut counts = [0_u64; 4];
        for (cell, one) in judged.iter().enumerate() {
            let place = if is_changed(cell) { 0 } else { 2 };
            counts[place] += 1;
            let found = matches!(one.verdict, Verdict::Improved | Verdict::Regressed);
            counts[place + 1] += u64::from(found);
        }
        counts
    };
    let sum = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|i| a[i] + b[i]);
    let [of_changed, found, of_others, wrong] = (0..repeats)
        .into_par_iter()
        .map(count)
        .reduce(|| [0; 4], sum);
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    [percent(found, of_changed), percent(wrong, of_others)]
}

/// Cells of the workloads that were repeated on an H200, in turn; with `runs` earlier runs of each.
pub(crate) fn on_gpu(
    pools: &[Vec<f64>],
    seed: u64,
    cells: usize,
    n: usize,
    runs: usize,
) -> Vec<Measurement> {
    let mut rng = rng(30, seed);
    (0..cells)
        .map(|cell| {
            let pool = pools::pick(pools, cell as u64);
            let values = pools::draw(&mut rng, pool, 2 * n);
            let earlier = pools::draw(&mut rng, pool, runs);
            let mut metric = blocks(&mut rng, 1, 1.0, Shape::Gauss, 0.0);
            let pairs = values.chunks(2);
            metric.blocks = pairs.map(|pair| Block::pair(pair[0], pair[1])).collect();
            metric.threshold = 0.0;
            metric.past = Variance::of_earlier(&[earlier]);
            metric
        })
        .collect()
}

/// Cells whose noise is 1 % times `scale` of the cell, with drift of so many of a cell's σ, of its
/// own or one for all.
fn scaled(
    rng: &mut impl Rng,
    (cells, n): (usize, usize),
    shape: Shape,
    scale: impl Fn(usize) -> f64,
    (own, common): (f64, f64),
) -> Vec<Measurement> {
    let days: Vec<f64> = (0..n).map(|_| 0.01 * common * gauss(rng)).collect();
    (0..cells)
        .map(|cell| {
            let mut metric = blocks(rng, 1, 1.0, Shape::Gauss, 0.0);
            let cv = 0.01 * scale(cell);
            metric.threshold = 0.0;
            metric.blocks = days
                .iter()
                .map(|day| {
                    let block = day + own * cv * gauss(rng);
                    let mut run = || (block + cv * shape.draw(rng)).exp();
                    Block::pair(run(), run())
                })
                .collect();
            metric
        })
        .collect()
}

/// Runs one after the other in AR(1) noise, in random order within each block.
fn autocorrelated(rng: &mut impl Rng, cells: usize, n: usize, rho: f64) -> Vec<Measurement> {
    (0..cells)
        .map(|_| {
            let mut metric = blocks(rng, 1, 1.0, Shape::Gauss, 0.0);
            let values = crate::noise::autocorrelated(rng, 2 * n, rho);
            metric.threshold = 0.0;
            metric.blocks = values
                .chunks(2)
                .map(|pair| {
                    if rng.random() {
                        Block::pair(pair[0], pair[1])
                    } else {
                        Block::pair(pair[1], pair[0])
                    }
                })
                .collect();
            metric
        })
        .collect()
}

pub(crate) fn bars(repeats: u64, runs: &[Vec<f64>], summary: &mut Summary) {
    power(repeats, runs, summary);
    wrong(repeats, runs, summary);
}

fn power(repeats: u64, pools: &[Vec<f64>], summary: &mut Summary) {
    println!("\n## Cells: percent of changed cells called, repeated runs on one H200\n");
    println!("Twelve cells of four workloads, noise threshold 0.\n");
    println!("| blocks | earlier runs a cell | cells that change | 1 % | 2 % | 5 % |");
    println!("|---|---|---|---|---|---|");
    for (n, earlier, bar) in [
        (3, 0, Some([45.0, 82.0, 94.0])),
        (3, 20, Some([65.0, 85.0, 96.0])),
        (5, 0, Some([66.0, 84.0, 95.0])),
        (5, 20, None),
        (10, 0, Some([86.0, 94.0, 99.0])),
    ] {
        for changes in [1, 4, 6, 12] {
            let found = [1.01, 1.02, 1.05].map(|ratio| {
                let draw = |i| on_gpu(pools, i, 12, n, earlier);
                called(repeats, ratio, changes, draw)[0]
            });
            let [one, two, five] = found.map(|found| format!("{found:.1}"));
            println!("| {n} | {earlier} | {changes} of 12 | {one} | {two} | {five} |");
            let bar = bar.filter(|_| changes == 12).into_iter().flatten();
            for ((size, bar), found) in [1, 2, 5].into_iter().zip(bar).zip(found) {
                let what = format!("cells, {n} blocks, {earlier} earlier runs: {size} % detected");
                summary.at_least(what, bar, found);
            }
        }
    }
    known(repeats, pools);
}

/// The same by one who knows the variance of each workload, and nothing else: plain means, the
/// normal distribution and the same false discovery rate. Shown, no bar.
fn known(repeats: u64, pools: &[Vec<f64>]) {
    let deviation = |pool: &[f64]| {
        let mean = pool.iter().sum::<f64>() / pool.len() as f64;
        let squares: f64 = pool.iter().map(|log| (log - mean).powi(2)).sum();
        (squares / pool.len() as f64).sqrt()
    };
    for n in [3, 5, 10] {
        let found = [1.01_f64, 1.02, 1.05].map(|ratio| {
            let of_seed = |seed: u64| -> usize {
                let cells = on_gpu(pools, seed, 12, n, 0).into_iter().enumerate();
                let p: Vec<f64> = cells
                    .map(|(cell, metric)| {
                        let pairs = metric.blocks.iter().filter_map(|b| b.base.zip(b.head));
                        let ratios = pairs.map(|(base, head)| (head * ratio / base).ln());
                        let mean = ratios.sum::<f64>() / n as f64;
                        let error = deviation(pools::pick(pools, cell as u64));
                        normal_two_sided(mean / error / (2.0 / n as f64).sqrt())
                    })
                    .collect();
                q_values(&p).into_iter().filter(|q| *q <= 0.02).count()
            };
            let all: usize = (0..repeats).map(of_seed).sum();
            100.0 * all as f64 / (12 * repeats) as f64
        });
        let [one, two, five] = found.map(|found| format!("{found:.1}"));
        println!("| {n} | variance known | 12 of 12 | {one} | {two} | {five} |");
    }
}

fn wrong(repeats: u64, pools: &[Vec<f64>], summary: &mut Summary) {
    println!("\n## Cells: percent of cells without a change called\n");
    println!("Where none changes / where half of them change by 5 %.\n");
    println!("| noise | blocks | 1 cell | 5 | 12 | 40 | 100 |");
    println!("|---|---|---|---|---|---|---|");
    let mut noises: Vec<(String, Box<Draw<'_>>)> = Vec::new();
    let one_of = |by: f64| move |cell: usize| if cell == 0 { by } else { 1.0 };
    for shape in Shape::ALL {
        let draw = move |i, m, n| scaled(&mut rng(31, i), (m, n), shape, |_| 1.0, (0.0, 0.0));
        noises.push((format!("{shape:?}, 1 %"), Box::new(draw)));
        let draw = move |i, m, n| {
            let mut rng = rng(32, i);
            (0..m)
                .map(|_| Measurement {
                    threshold: 0.0,
                    ..blocks(&mut rng, n, 1.0, shape, 0.0)
                })
                .collect()
        };
        noises.push((format!("{shape:?}, 0.03 to 3 %"), Box::new(draw)));
    }
    for (name, drift) in [
        ("of each cell 3 σ", (3.0, 0.0)),
        ("of all cells 3 σ", (0.0, 3.0)),
    ] {
        let draw = move |i, m, n| scaled(&mut rng(33, i), (m, n), Shape::Gauss, |_| 1.0, drift);
        noises.push((format!("Gauss, drift {name}"), Box::new(draw)));
    }
    let draw = move |i, m, n| {
        let unlike = |cell: usize| 10f64.powf((cell % 5) as f64 / 2.0 - 1.0);
        scaled(&mut rng(34, i), (m, n), Shape::Gauss, unlike, (0.0, 1.0))
    };
    noises.push(("0.1 to 10 %, drift 1 % of all".to_owned(), Box::new(draw)));
    for rho in [0.5, 0.9] {
        let draw = move |i, m, n| autocorrelated(&mut rng(35, i), m, n, rho);
        noises.push((format!("AR(1), ρ = {rho}"), Box::new(draw)));
    }
    for by in [3.0, 10.0] {
        let draw = move |i, m, n| {
            scaled(
                &mut rng(36, i),
                (m, n),
                Shape::Gauss,
                one_of(by),
                (0.0, 0.0),
            )
        };
        noises.push((
            format!("Gauss, one cell {by} times as noisy"),
            Box::new(draw),
        ));
    }
    noises.push((
        "repeated runs on one H200".to_owned(),
        Box::new(|i, m, n| on_gpu(pools, i, m, n, 0)),
    ));
    noises.push((
        "the same, 20 earlier runs".to_owned(),
        Box::new(|i, m, n| on_gpu(pools, i, m, n, 20)),
    ));
    noises.push((
        "two tight modes, 40 times as far apart".to_owned(),
        Box::new(|i, m, n| tight_modes(&mut rng(41, i), m, n)),
    ));
    noises.extend(unlike_before());
    for (noise, draw) in &noises {
        for n in [3, 5, 10] {
            print!("| {noise} | {n} |");
            for m in [1, 5, 12, 40, 100] {
                // As many comparisons in every column.
                let repeats = (4 * repeats / m as u64).max(1);
                let none = called(repeats, 1.0, 0, |i| draw(i, m, n))[1];
                let half = called(repeats, 1.05, m / 2, |i| draw(i, m, n))[1];
                print!(" {none:.2} / {half:.2} |");
                let what = format!("cells, {noise}, {n} blocks, {m} cells: false, less 2 s.e.");
                // As few draws as these err by so much.
                let draws = (repeats * (m - m / 2) as u64) as f64;
                let error = (FALSE * (100.0 - FALSE) / draws).sqrt();
                summary.at_most(what, FALSE, none.max(half) - 2.0 * error);
            }
            println!();
        }
    }
    noisy(repeats);
}

/// Each run is in one of two modes 1 % apart, as likely as not, that scatter by a fortieth of it.
fn tight_modes(rng: &mut impl Rng, cells: usize, n: usize) -> Vec<Measurement> {
    let mut metric = blocks(rng, 1, 1.0, Shape::Gauss, 0.0);
    metric.threshold = 0.0;
    let mut cell = || {
        let mut run = || 0.01 * f64::from(u8::from(rng.random::<bool>())) + 0.000_25 * gauss(rng);
        let blocks = (0..n).map(|_| Block::pair(run().exp(), run().exp()));
        Measurement {
            blocks: blocks.collect(),
            ..metric.clone()
        }
    };
    (0..cells).map(|_| cell()).collect()
}

/// Cells with 20 earlier runs each, in heavy-tailed noise, and where today's noise is another.
fn unlike_before() -> Vec<(String, Box<Draw<'static>>)> {
    let mut noises: Vec<(String, Box<Draw<'static>>)> = Vec::new();
    for shape in Shape::ALL {
        let draw = move |i, m, n| with_earlier(&mut rng(39, i), (m, n), shape, |_| 1.0);
        noises.push((format!("{shape:?}, 1 %, 20 earlier runs"), Box::new(draw)));
    }
    for by in [1.3, 1.6, 2.0, 4.0] {
        let draw = move |i, m, n| with_earlier(&mut rng(38, i), (m, n), Shape::Gauss, |_| by);
        let name = format!("Gauss, {by} times that of 20 earlier runs");
        noises.push((name, Box::new(draw)));
    }
    for by in [3.0, 10.0] {
        let today = move |cell: usize| if cell == 0 { by } else { 1.0 };
        let draw = move |i, m, n| with_earlier(&mut rng(40, i), (m, n), Shape::Gauss, today);
        let name = format!("Gauss, one cell {by} times that of 20 earlier runs");
        noises.push((name, Box::new(draw)));
    }
    noises
}

/// Cells whose noise was 1 % in 20 runs of an earlier session, and is so many times that today.
fn with_earlier(
    rng: &mut impl Rng,
    (cells, n): (usize, usize),
    shape: Shape,
    today: impl Fn(usize) -> f64,
) -> Vec<Measurement> {
    let mut now = scaled(rng, (cells, n), shape, today, (0.0, 0.0));
    for metric in &mut now {
        let mut before = scaled(rng, (1, 10), shape, |_| 1.0, (0.0, 0.0));
        let earlier = before.swap_remove(0).blocks.into_iter();
        let earlier = earlier.flat_map(|block| block.base.into_iter().chain(block.head));
        metric.past = Variance::of_earlier(&[earlier.collect()]);
    }
    now
}

/// The one cell that is noisier than all others, where these change. Shown, no bar.
fn noisy(repeats: u64) {
    println!("\n## Cells: the noisy one of several, all others changed by 20 %, percent called\n");
    println!("| times as noisy | blocks | of 5 cells | of 12 | of 40 |");
    println!("|---|---|---|---|---|");
    for by in [2.0, 3.0, 10.0] {
        for n in [3, 5] {
            print!("| {by} | {n} |");
            for m in [5, 12, 40] {
                let count = |i: u64| {
                    let one = |cell: usize| if cell == 0 { by } else { 1.0 };
                    let mut cells = scaled(&mut rng(37, i), (m, n), Shape::Gauss, one, (0.0, 0.0));
                    for metric in &mut cells[1..] {
                        for block in &mut metric.blocks {
                            block.head = block.head.map(|head| 1.2 * head);
                        }
                    }
                    let judged = judge_all(&cells, &Options::default());
                    judged.is_ok_and(|all| all[0].verdict != Verdict::Inconclusive)
                };
                print!(" {:.1} |", crate::percent(repeats, count));
            }
            println!();
        }
    }
}

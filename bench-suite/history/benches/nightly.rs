//! Whole histories, looked at night by night as `trend --gate` does: how long a step takes to fail the
//! gate, how often it does, whether it stays in mind, and how often the gate fails over nothing.
//!
//! `cargo bench -p history --bench nightly [-- --repeats N]`
//!
//! Prints Markdown tables, and at the end every bar with what was measured; status 1 where one is
//! missed. Noise is drawn from seeds, and from repeated runs on one GPU; two runs print the same.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints tables"
)]

#[path = "../../judge/tests/it/noise.rs"]
#[expect(dead_code, reason = "other benches take more of it")]
mod noise;
#[path = "../../judge/benches/bars/pools.rs"]
#[expect(dead_code, reason = "other benches take more of it")]
mod pools;
#[path = "../../judge/benches/bars/summary.rs"]
#[expect(dead_code, reason = "other benches take more of it")]
mod summary;

use std::{path::Path, process::ExitCode, sync::Arc};

use history::{Ledger, Night, Place, PointFilter, Seen, SeriesKey, moment};
use jiff::Timestamp;
use judge::{
    compare::Direction,
    trend::{Point, Trend, TrendOptions, change_points},
};
use noise::{Shape, gauss, rng, stationary};
use rayon::prelude::*;
use summary::Summary;

/// Nights before the first look.
const BEFORE: usize = 60;
/// Nights that are looked at before a step, and in which nothing happens elsewhere.
const QUIET: usize = 100;
/// Nights that are looked at after a step.
const AFTER: usize = 60;
/// Series of a repository.
const SERIES: usize = 30;
/// When the first night is.
const BEGIN: f64 = 1_767_225_600.0;
/// Nights that a range may be off.
const NEAR: f64 = 2.0;
const DAY: f64 = 86_400.0;
/// Relative noise.
const CV: f64 = 0.01;

type Draw = Box<dyn Fn(u64, usize) -> Vec<f64> + Sync>;

/// What came of one history.
#[derive(Debug, Default)]
struct Outcome {
    /// Nights after the first bad one until the gate failed.
    delay: Option<usize>,
    /// Nights on which the gate failed for the step.
    failures: usize,
    /// Nights after that failure on which the step was not open.
    forgotten: usize,
    /// Nights after that failure.
    watched: usize,
}

/// Noise around 100 by kind, all of them of 1 % but for that of the GPU, whose σ is its own.
fn noises(runs: Vec<Vec<f64>>) -> Vec<(&'static str, Draw)> {
    let of_shape = |shape: Shape| -> Draw {
        Box::new(move |seed, nights| stationary(&mut rng(70, seed), nights, CV, shape))
    };
    let autocorrelated = |rho: f64| -> Draw {
        Box::new(move |seed, nights| noise::autocorrelated(&mut rng(71, seed), nights, rho))
    };
    let spiky: Draw = Box::new(|seed, nights| {
        let mut rng = rng(72, seed);
        let mut value = || {
            let spike = 10.0 * f64::from(u8::from(gauss(&mut rng) > 1.645));
            100.0 * (CV * (gauss(&mut rng) - spike)).exp()
        };
        (0..nights).map(|_| value()).collect()
    });
    let weekly: Draw = Box::new(|seed, nights| {
        let mut rng = rng(73, seed);
        let wave = |night: usize| (night as f64 * std::f64::consts::TAU / 7.0).sin();
        let value = |night| 100.0 * (CV * (0.8 * gauss(&mut rng) + wave(night))).exp();
        (0..nights).map(value).collect()
    });
    let gpu: Draw = Box::new(move |seed, nights| {
        pools::draw(&mut rng(74, seed), pools::pick(&runs, seed), nights)
    });
    vec![
        ("normal", of_shape(Shape::Gauss)),
        ("Student's t, 3 df", of_shape(Shape::StudentT3)),
        ("slow runs", of_shape(Shape::SlowRuns)),
        ("two modes", of_shape(Shape::TwoModes)),
        ("AR(1), ρ = 0.5", autocorrelated(0.5)),
        ("5 % of nights 10 σ low", spiky),
        ("weekly waves of 1 σ", weekly),
        ("repeated runs on one H200", gpu),
    ]
}

fn key(series: usize) -> SeriesKey {
    SeriesKey {
        scenario: series.to_string(),
        metric: "throughput_samples_per_second".to_owned(),
        ..SeriesKey::default()
    }
}

/// Points and places of values, a night apart.
fn series(values: &[f64]) -> (Vec<Point>, Vec<Place>) {
    let of = |(night, value): (usize, &f64)| {
        let timestamp = BEGIN + DAY * night as f64;
        let revision = format!("r{night}");
        let point = Point {
            timestamp,
            revision: revision.clone(),
            value: *value,
        };
        let place = Place {
            time: moment(timestamp),
            revision,
            attributes: Arc::default(),
        };
        (point, place)
    };
    values.iter().enumerate().map(of).unzip()
}

/// Looks at all series every night from `BEFORE` on, and hears what came of it.
fn look(all: &[Vec<f64>], mut hear: impl FnMut(usize, &Ledger, &Night)) {
    let keys: Vec<SeriesKey> = (0..all.len()).map(key).collect();
    let all: Vec<_> = all.iter().map(|values| series(values)).collect();
    let mut ledger = Ledger::default();
    for night in BEFORE..all[0].0.len() {
        let found: Vec<Trend> = all
            .iter()
            .map(|(points, _)| {
                let found = change_points(&points[..=night], &TrendOptions::default());
                found.unwrap_or_else(|error| panic!("a simulated series: {error}"))
            })
            .collect();
        let seen: Vec<Seen> = keys
            .iter()
            .zip(&all)
            .zip(&found)
            .map(|((key, (points, places)), found)| Seen {
                key,
                direction: Direction::HigherIsBetter,
                threshold: 0.0,
                points: &points[..=night],
                places: &places[..=night],
                found,
                news: None,
                overdue: false,
            })
            .collect();
        let said = ledger.update(&PointFilter::default(), &seen, Timestamp::UNIX_EPOCH);
        hear(night, &ledger, &said);
    }
}

/// Whether an entry may be that of a step: the range has it, or a place beside it.
fn is_about(ledger: &Ledger, id: &str, step: usize) -> bool {
    let night = |place: &Place| (place.time.as_duration().as_secs_f64() - BEGIN) / DAY;
    ledger.entry(id).is_ok_and(|entry| {
        let bad = entry.first_bad.as_ref().map_or(f64::NAN, night);
        night(&entry.last_good) <= step as f64 + NEAR && bad >= step as f64 - NEAR
    })
}

/// A history with a drop of so many σ after the quiet nights.
fn with_step(values: &mut [f64], sigma: f64, steps: f64) -> Outcome {
    let step = BEFORE + QUIET;
    for value in &mut values[step..] {
        *value *= (-steps * sigma).exp();
    }
    let mut outcome = Outcome::default();
    look(&[values.to_vec()], |night, ledger, said| {
        let about = |ids: &[String]| ids.iter().any(|id| is_about(ledger, id, step));
        if night < step {
            return;
        }
        outcome.failures += usize::from(about(&said.failing));
        if outcome.delay.is_some() {
            outcome.watched += 1;
            let told = about(&said.failing) || about(&said.open);
            outcome.forgotten += usize::from(!told);
        } else if about(&said.failing) {
            outcome.delay = Some(night - step);
        }
    });
    outcome
}

/// Robust standard deviation of the logarithms.
fn sigma(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let centre = judge::median(logs.iter().copied()).unwrap_or_default();
    let distances = logs.iter().map(|log| (log - centre).abs());
    1.4826 * judge::median(distances).unwrap_or_default()
}

fn steps(repeats: u64, noises: &[(&str, Draw)], summary: &mut Summary) {
    println!(
        "\n## A step, night by night\n\n{BEFORE} nights, {QUIET} looked at, a drop, {AFTER} more. \
         Delay: nights after the first bad one until the gate fails, median; found: percent by the \
         first, third and tenth bad night; failures: nights on which the gate fails for the step, \
         where it does; flicker: percent of the nights after that on which it was not open.\n"
    );
    println!("| noise | step | delay | by night 1 | 3 | 10 | failures a step | flicker |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, draw) in noises {
        for size in [3.0, 5.0, 10.0] {
            let of = |seed| {
                let mut values = draw(seed, BEFORE + QUIET + AFTER);
                let sigma = sigma(&values[..BEFORE + QUIET]);
                with_step(&mut values, sigma, size)
            };
            let all: Vec<Outcome> = (0..repeats).into_par_iter().map(of).collect();
            let found: Vec<&Outcome> = all.iter().filter(|one| one.delay.is_some()).collect();
            let by = |night: usize| {
                let early = all
                    .iter()
                    .filter(|one| one.delay.is_some_and(|d| d < night));
                100.0 * early.count() as f64 / all.len() as f64
            };
            // What is never found takes longer than any other.
            let delays = all.iter().map(|one| one.delay.unwrap_or(AFTER) as f64);
            let delay = judge::median(delays).unwrap_or_default();
            let sum =
                |of: fn(&Outcome) -> usize| found.iter().map(|one| of(one)).sum::<usize>() as f64;
            let failures = sum(|one| one.failures) / found.len().max(1) as f64;
            let flicker = 100.0 * sum(|one| one.forgotten) / sum(|one| one.watched).max(1.0);
            println!(
                "| {name} | {size} σ | {delay} | {:.1} | {:.1} | {:.1} | {failures:.2} | \
                 {flicker:.2} |",
                by(1),
                by(3),
                by(10)
            );
            if size >= 5.0 {
                summary.at_most(format!("{name}, {size} σ: median delay"), 2.0, delay);
                summary.at_most(format!("{name}, {size} σ: failures a step"), 1.1, failures);
            }
            summary.at_most(format!("{name}, {size} σ: flicker, percent"), 2.0, flicker);
        }
    }
}

/// How often the gate fails over nothing.
fn quiet(repeats: u64, noises: &[(&str, Draw)], summary: &mut Summary) {
    println!(
        "\n## Nights on which the gate fails over nothing, in {QUIET}\n\nOne series alone, and a \
         repository of {SERIES} series that do not depend on each other.\n"
    );
    println!("| noise | one series | {SERIES} series |");
    println!("|---|---|---|");
    for (name, draw) in noises {
        let mean = |repeats: u64, series: usize| {
            let of = |seed: u64| {
                let seeds = (0..series as u64).map(|one| seed * series as u64 + one + 1_000_000);
                let all: Vec<Vec<f64>> = seeds.map(|one| draw(one, BEFORE + QUIET)).collect();
                let mut nights = 0;
                look(&all, |_, _, said| {
                    nights += usize::from(!said.failing.is_empty());
                });
                nights
            };
            let nights: usize = (0..repeats).into_par_iter().map(of).sum();
            nights as f64 / repeats as f64
        };
        let alone = mean(repeats, 1);
        let together = mean((repeats / 10).max(4), SERIES);
        println!("| {name} | {alone:.2} | {together:.2} |");
        summary.at_most(
            format!("{name}: false failures of {SERIES} series"),
            5.0,
            together,
        );
    }
}

fn run() -> Result<bool, String> {
    let usage = "usage: cargo bench -p history --bench nightly [-- --repeats N]";
    let mut repeats = 400;
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.parse().ok());
        repeats = match (word.as_str(), number) {
            ("--repeats", Some(number)) if number > 0 => number,
            _ => return Err(usage.to_owned()),
        };
    }
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../judge/benches/bars/h200-noise.csv"
    );
    let noises = noises(pools::runs(Path::new(file))?);
    let mut summary = Summary::default();
    steps(repeats, &noises, &mut summary);
    quiet(repeats, &noises, &mut summary);
    Ok(summary.print())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

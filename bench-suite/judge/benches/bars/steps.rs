//! The bars of levels that follow each other, of glitches, and of what is no step.

use judge::trend::{TrendOptions, change_points};

use crate::noise::{Shape, autocorrelated, nightly, rng, series, stationary};
use crate::percent;
use crate::summary::Summary;

/// A change counts as found if it is placed this close.
const NEAR: usize = 2;
/// Points of the first level.
const FIRST: usize = 60;

pub(crate) fn bars(repeats: u64, summary: &mut Summary) {
    second_steps(repeats, summary);
    glitches(repeats, summary);
    no_steps(repeats, summary);
    weekends(repeats, summary);
    waves(repeats / 4, summary);
}

fn is_found(values: &[f64], at: usize) -> bool {
    let found = change_points(&series(values), &TrendOptions::default());
    let found = found.unwrap_or_else(|error| panic!("a simulated series: {error}"));
    let mut changes = found.change_points.iter();
    changes.any(|change| change.index.abs_diff(at) <= NEAR)
}

/// Normal noise of 0.5 % around 100, then `short` points at 95, then some at `last`.
fn levels(seed: u64, short: usize, last: f64, fresh: usize) -> Vec<f64> {
    let mut values = stationary(
        &mut rng(18, seed),
        FIRST + short + fresh,
        0.005,
        Shape::Gauss,
    );
    for (place, value) in values.iter_mut().enumerate().skip(FIRST) {
        *value *= if place < FIRST + short {
            0.95
        } else {
            last / 100.0
        };
    }
    values
}

fn second_steps(repeats: u64, summary: &mut Summary) {
    println!("\n## Trend: a second step of 10 σ, percent found\n");
    println!("{FIRST} points at 100, some at 95, then the next level; noise 0.5 %.\n");
    println!("| points at 95 | next level | after 1 point | 2 | 3 | 5 | 12 |");
    println!("|---|---|---|---|---|---|---|");
    for (short, last) in [
        (3, 90.0),
        (5, 90.0),
        (7, 90.0),
        (10, 90.0),
        (20, 90.0),
        (5, 100.0),
        (8, 100.0),
        (20, 100.0),
    ] {
        print!("| {short} | {last} |");
        for fresh in [1, 2, 3, 5, 12] {
            let hit = |seed| is_found(&levels(seed, short, last, fresh), FIRST + short);
            let found = percent(repeats, hit);
            if short >= 5 && fresh == 3 {
                let what = format!("trend, {short} points at 95, then {last}: found after 3");
                summary.at_least(what, 95.0, found);
            }
            print!(" {found:.1} |");
        }
        println!();
    }
}

fn glitches(repeats: u64, summary: &mut Summary) {
    println!("\n## Trend: a step of 5 σ after 100 points of AR(1) noise, ρ = 0.5, percent found\n");
    println!("| history | after 3 points | 5 | 11 |");
    println!("|---|---|---|---|");
    let draw = |seed, fresh: usize, glitch: bool| {
        let mut values = autocorrelated(&mut rng(19, seed), 100 + fresh, 0.5);
        for value in &mut values[100..] {
            *value *= 0.95;
        }
        for value in values[40..43].iter_mut().filter(|_| glitch) {
            *value *= 0.8;
        }
        values
    };
    let row = |name: &str, glitch: bool| -> Vec<f64> {
        let recalls = [3, 5, 11]
            .map(|fresh| percent(repeats, |seed| is_found(&draw(seed, fresh, glitch), 100)));
        let [three, five, eleven] = recalls;
        println!("| {name} | {three:.1} | {five:.1} | {eleven:.1} |");
        recalls.to_vec()
    };
    let clean = row("clean", false);
    let spoilt = row("three nights 20 % low at 40", true);
    for ((fresh, clean), spoilt) in [3, 5, 11].into_iter().zip(clean).zip(spoilt) {
        let what = format!("trend, recall that a glitch takes after {fresh} points");
        summary.at_most(what, 5.0, clean - spoilt);
    }
}

fn no_steps(repeats: u64, summary: &mut Summary) {
    println!("\n## Trend: what is no step, percent of series with one\n");
    println!("| series | steps |");
    println!("|---|---|");
    let louder = |seed, from: usize, by: f64| -> Vec<f64> {
        let values = stationary(&mut rng(20, seed), 100, 0.005, Shape::Gauss);
        let louder = |(place, value): (usize, f64)| {
            let by = if place < from { 1.0 } else { by };
            100.0 * (value / 100.0).powf(by)
        };
        values.into_iter().enumerate().map(louder).collect()
    };
    let ramp = |seed| -> Vec<f64> {
        let values = stationary(&mut rng(21, seed), 100, 0.005, Shape::Gauss);
        let up = |(place, value): (usize, f64)| value * (1.0 + 0.01 * place as f64 / 99.0);
        values.into_iter().enumerate().map(up).collect()
    };
    let any = |values: &[f64]| {
        let found = change_points(&series(values), &TrendOptions::default());
        found.is_ok_and(|found| found.change_points.iter().any(|change| !change.gradual))
    };
    for (from, by, bar) in [
        (60, 3.0, Some(5.0)),
        (80, 5.0, Some(5.0)),
        (90, 5.0, None),
        (95, 5.0, None),
    ] {
        let steps = percent(repeats, |seed| any(&louder(seed, from, by)));
        let name = format!("noise × {by} from point {from}");
        println!("| {name} | {steps:.1} |");
        if let Some(bar) = bar {
            summary.at_most(format!("trend, {name}: called a step"), bar, steps);
        }
    }
    let steps = percent(repeats, |seed| any(&ramp(seed)));
    println!("| a ramp of 2 σ over the series | {steps:.1} |");
    summary.at_most("trend, a ramp of 2 σ: called a step", 10.0, steps);
}

/// Nights of 0.5 % noise with weekends 3 σ lower, and a drop of 5 σ: after so many nights.
fn weekends(repeats: u64, summary: &mut Summary) {
    println!("\n## Trend: a drop of 5 σ where weekends are 3 σ lower, percent found\n");
    println!("| nights before | no drop: false | after 1 night | 2 | 3 | 5 | 10 |");
    println!("|---|---|---|---|---|---|---|");
    let draw = |seed: u64, before: usize, fresh: usize| -> Vec<f64> {
        let values = stationary(&mut rng(22, seed), before + fresh, 0.005, Shape::Gauss);
        let first = usize::try_from(seed % 7).unwrap_or(0);
        let value = |(night, value): (usize, f64)| {
            let weekend = if (night + first) % 7 < 2 { 3.0 } else { 0.0 };
            let drop = if night < before { 0.0 } else { 5.0 };
            value * (-0.005_f64 * (weekend + drop)).exp()
        };
        values.into_iter().enumerate().map(value).collect()
    };
    let found = |values: &[f64]| {
        let found = change_points(&nightly(values), &TrendOptions::default());
        let found = found.unwrap_or_else(|error| panic!("a simulated series: {error}"));
        let places = found.change_points.iter().map(|change| change.index);
        places.collect::<Vec<_>>()
    };
    for before in [60, 100] {
        let wrong = percent(repeats, |seed| !found(&draw(seed, before, 0)).is_empty());
        print!("| {before} | {wrong:.1} |");
        let what = format!("trend, weekends, {before} nights");
        summary.at_most(format!("{what}: false"), 4.0, wrong);
        for fresh in [1, 2, 3, 5, 10] {
            let hit = |seed| {
                let places = found(&draw(seed, before, fresh));
                places.iter().any(|place| place.abs_diff(before) <= NEAR)
            };
            let share = percent(repeats, hit);
            print!(" {share:.1} |");
            if fresh == 3 {
                summary.at_least(format!("{what}: found after 3"), 90.0, share);
            }
        }
        println!();
    }
}

/// A drop of 5 % after 40 of 60 nights in waves of 0.3 % and noise of 0.02 %.
fn waves(repeats: u64, summary: &mut Summary) {
    println!("\n## Trend: a drop of 5 % in waves of 0.3 %, percent found\n");
    println!("| waves | no drop: false | found |");
    println!("|---|---|---|");
    let sine = |i: usize, period: f64| (i as f64 / period * std::f64::consts::TAU).sin();
    let forms: [(&str, &(dyn Fn(usize) -> f64 + Sync)); 4] = [
        ("sine of 7 nights", &|i| sine(i, 7.0)),
        ("sine of 30 nights", &|i| sine(i, 30.0)),
        ("sawtooth of 7 nights", &|i| (i % 7) as f64 / 3.0 - 1.0),
        ("weekends ten times as far", &|i| {
            if i % 7 < 5 { 0.0 } else { -10.0 }
        }),
    ];
    for (name, wave) in forms {
        let draw = |seed: u64, drop: f64| -> Vec<f64> {
            let values = stationary(&mut rng(23, seed), 60, 0.0002, Shape::Gauss);
            let value = |(i, value): (usize, f64)| {
                value * (1.0 + 0.003 * wave(i)) * if i < 40 { 1.0 } else { drop }
            };
            values.into_iter().enumerate().map(value).collect()
        };
        let any = |values: &[f64], at: Option<usize>| {
            let found = change_points(&nightly(values), &TrendOptions::default());
            let found = found.unwrap_or_else(|error| panic!("a simulated series: {error}"));
            let mut changes = found.change_points.iter();
            changes.any(|change| at.is_none_or(|at| change.index.abs_diff(at) <= NEAR))
        };
        let wrong = percent(repeats, |seed| any(&draw(seed, 1.0), None));
        let right = percent(repeats, |seed| any(&draw(seed, 0.95), Some(40)));
        println!("| {name} | {wrong:.1} | {right:.1} |");
        summary.at_most(format!("trend, {name}: false"), 5.0, wrong);
        summary.at_least(format!("trend, {name}: found"), 90.0, right);
    }
}

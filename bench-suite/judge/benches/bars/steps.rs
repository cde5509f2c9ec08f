//! The bars of levels that follow each other, of glitches, and of what is no step.

use judge::trend::{TrendOptions, change_points};

use crate::noise::{Shape, autocorrelated, rng, series, stationary};
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
    for (name, steps) in [
        (
            "noise × 5 from point 80",
            percent(repeats, |seed| any(&louder(seed, 80, 5.0))),
        ),
        (
            "noise × 3 from point 60",
            percent(repeats, |seed| any(&louder(seed, 60, 3.0))),
        ),
    ] {
        println!("| {name} | {steps:.1} |");
        summary.at_most(format!("trend, {name}: called a step"), 5.0, steps);
    }
    let steps = percent(repeats, |seed| any(&ramp(seed)));
    println!("| a ramp of 2 σ over the series | {steps:.1} |");
    summary.at_most("trend, a ramp of 2 σ: called a step", 10.0, steps);
}

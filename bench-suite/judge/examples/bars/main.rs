//! The bars of the judge, measured: `cargo run -p judge --release --example bars`. With the
//! history's speed, `cargo xtask bars` prints all of them.
//!
//! Prints Markdown tables, the trade-off curves as CSV, and at the end every bar with what
//! was measured; status 1 where one is missed. Beside it lie the public series (`series/`)
//! and repeated runs on one GPU (`h200-noise.csv`) whose noise is drawn from; `--series DIR`
//! and `--noise FILE` take others, as `timestamp,revision,value` and
//! `block,workload,samples_per_second`. Seeds are fixed: two runs print the same but for
//! the times.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints tables"
)]

mod asv;
mod compare;
mod edivisive;
#[path = "../../tests/it/noise.rs"]
mod noise;
mod pools;
mod possible;
mod summary;
mod trend;

use std::path::PathBuf;
use std::process::ExitCode;

use summary::Summary;

const USAGE: &str =
    "usage: bars [--series DIR] [--noise FILE] [--repeats N] [--part compare|looks|trend]";

struct Arguments {
    series: PathBuf,
    noise: PathBuf,
    repeats: u64,
    /// One part alone.
    part: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bars"));
    let mut parsed = Arguments {
        series: beside.join("series"),
        noise: beside.join("h200-noise.csv"),
        repeats: 4000,
        part: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--series" => parsed.series = value.into(),
            "--noise" => parsed.noise = value.into(),
            "--repeats" => {
                let number = value.parse().ok().filter(|&number| number > 0);
                parsed.repeats =
                    number.ok_or_else(|| format!("--repeats is \"{value}\", expected a number"))?;
            }
            "--part" if ["compare", "looks", "trend"].contains(&value.as_str()) => {
                parsed.part = Some(value);
            }
            _ => return Err(format!("unknown argument {word} {value}")),
        }
    }
    Ok(parsed)
}

/// Whether every bar is met.
fn run() -> Result<bool, String> {
    let arguments = arguments().map_err(|message| format!("{message}\n{USAGE}"))?;
    let files = pools::series(&arguments.series)?;
    let runs = pools::runs(&arguments.noise)?;
    let wanted = |part: &str| arguments.part.as_ref().is_none_or(|only| only == part);
    let mut summary = Summary::default();
    if wanted("compare") {
        compare::bars(arguments.repeats, &runs, &mut summary);
    }
    if wanted("looks") {
        compare::looks(arguments.repeats.min(2000));
    }
    if wanted("trend") {
        trend::bars(arguments.repeats, &files, &runs, &mut summary);
    }
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

/// How many percent of `repeats` seeds `happens` for, in parallel.
fn percent(repeats: u64, happens: impl Fn(u64) -> bool + Sync) -> f64 {
    use rayon::prelude::*;
    let count = (0..repeats).into_par_iter().filter(|&i| happens(i)).count();
    100.0 * count as f64 / repeats as f64
}

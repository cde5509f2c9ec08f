//! The bars of the judge, measured: `cargo run -p judge --release --example bars --
//! --series DIR [--noise FILE] [--repeats N] [--part compare|looks|trend]`.
//!
//! Prints Markdown tables and the trade-off curves as CSV. `DIR` holds series as
//! `timestamp,revision,value`; `FILE` holds repeated runs as
//! `block,workload,samples_per_second`. Without them the bars on synthetic noise alone
//! are measured. Seeds are fixed: two runs print the same but for the times.

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
mod trend;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: bars [--series DIR] [--noise FILE] [--repeats N] [--part compare|looks|trend]";

struct Arguments {
    series: Option<PathBuf>,
    noise: Option<PathBuf>,
    repeats: u64,
    /// One part alone.
    part: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        series: None,
        noise: None,
        repeats: 4000,
        part: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--series" => parsed.series = Some(value.into()),
            "--noise" => parsed.noise = Some(value.into()),
            "--repeats" => {
                parsed.repeats = value
                    .parse()
                    .map_err(|_| format!("--repeats is \"{value}\", expected a number"))?;
            }
            "--part" if ["compare", "looks", "trend"].contains(&value.as_str()) => {
                parsed.part = Some(value);
            }
            _ => return Err(format!("unknown argument {word} {value}")),
        }
    }
    Ok(parsed)
}

fn run() -> Result<(), String> {
    let arguments = arguments().map_err(|message| format!("{message}\n{USAGE}"))?;
    let files = match &arguments.series {
        Some(folder) => pools::series(folder)?,
        None => Vec::new(),
    };
    let runs = match &arguments.noise {
        Some(file) => pools::runs(file)?,
        None => Vec::new(),
    };
    let wanted = |part: &str| arguments.part.as_ref().is_none_or(|only| only == part);
    if wanted("compare") {
        compare::bars(arguments.repeats, &runs);
    }
    if wanted("looks") {
        compare::looks(arguments.repeats.min(2000));
    }
    if wanted("trend") {
        trend::bars(arguments.repeats, &files, &runs);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
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

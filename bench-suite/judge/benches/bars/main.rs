//! The bars of the judge, measured: `cargo bench -p judge`.
//!
//! Prints Markdown tables, the trade-off curves as CSV, and at the end every bar with what
//! was measured; status 1 where one is missed. Noise is drawn from seeds, from the public series in
//! `series/` and from repeated runs on one GPU in `h200-noise.csv`. Two runs print the same but for
//! the times.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints tables"
)]

mod cells;
mod compare;
mod minutes;
#[path = "../../tests/it/noise.rs"]
mod noise;
mod pools;
mod possible;
mod steps;
mod summary;
mod trend;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use summary::Summary;

const USAGE: &str =
    "usage: cargo bench -p judge -- [--repeats N] [compare|cells|looks|minutes|trend|room|steps]
       cargo bench -p judge -- [--repeats N] --series FILE   the series, for peers/peers.py
       cargo bench -p judge -- [--repeats N] --pairs FILE    the comparisons, likewise";

/// What is to be written for other tools in place of tables, and where.
enum Export {
    Series(PathBuf),
    Pairs(PathBuf),
}

/// How many repeats, the one part that is asked for, and what is to be exported.
fn arguments() -> Result<(u64, Option<String>, Option<Export>), String> {
    let (mut repeats, mut part, mut to) = (4000, None, None);
    // Cargo adds a word of its own.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--repeats" => {
                let number = words.next().and_then(|value| value.parse().ok());
                repeats = number.filter(|&number| number > 0).ok_or(USAGE)?;
            }
            "--series" => to = Some(Export::Series(words.next().ok_or(USAGE)?.into())),
            "--pairs" => to = Some(Export::Pairs(words.next().ok_or(USAGE)?.into())),
            "compare" | "cells" | "looks" | "minutes" | "trend" | "room" | "steps" => {
                part = Some(word);
            }
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok((repeats, part, to))
}

/// Whether every bar is met.
fn run() -> Result<bool, String> {
    let (repeats, part, to) = arguments()?;
    let beside = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bars"));
    let files = pools::series(&beside.join("series"))?;
    let runs = pools::runs(&beside.join("h200-noise.csv"))?;
    let wanted = |name: &str| part.as_ref().is_none_or(|only| only == name);
    if let Some(to) = to {
        let (written, file) = match &to {
            Export::Series(file) => (trend::export(repeats, &files, &runs, file), file),
            Export::Pairs(file) => (compare::export(repeats, &runs, file), file),
        };
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        return Ok(true);
    }
    let mut summary = Summary::default();
    if wanted("compare") {
        compare::bars(repeats, &runs, &mut summary);
    }
    if wanted("cells") {
        cells::bars(repeats.div_ceil(4), &runs, &mut summary);
    }
    if wanted("looks") {
        compare::looks(repeats.min(2000), &mut summary);
    }
    if wanted("minutes") {
        minutes::bars(repeats.div_ceil(4), &runs, &mut summary);
    }
    if wanted("trend") {
        trend::bars(repeats, &files, &runs, &mut summary);
    }
    if wanted("room") {
        trend::room(repeats, &files, &runs);
    }
    if wanted("steps") {
        steps::bars(repeats, &mut summary);
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

//! Large folders: how long a trend takes to be read and judged.
//!
//! `cargo bench -p history --bench folder`
//!
//! Writes 1,000 nights of 40 cells on one machine, and a million runs of 1,000 machines; reads and
//! judges the series that a gate looks at, and ends with status 1 where a bar is missed: 1 s for the
//! trend of one machine, 30 s for the state of all.

use std::{
    error::Error,
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use history::{Aggregate, History, Labels, PointFilter, SeriesFilter};
use judge::trend::{self, Point};
use serde_json::{Value, json};

#[path = "../tests/history/support.rs"]
#[expect(dead_code, reason = "the tests take more of it")]
mod support;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A folder of many sessions.
struct Shape {
    machines: usize,
    nights: usize,
    cells: usize,
    blocks: usize,
}

#[expect(clippy::print_stdout, reason = "a program that reports metrics")]
fn main() -> Outcome<ExitCode> {
    let one = Shape {
        machines: 1,
        nights: 1000,
        cells: 40,
        blocks: 5,
    };
    let many = Shape {
        machines: 1000,
        nights: 10,
        cells: 20,
        blocks: 5,
    };
    let of_one = Some("gpu-0".to_owned());
    let mut is_good = true;
    for (shape, looks) in [
        (one, vec![(of_one.clone(), Duration::from_secs(1))]),
        (
            many,
            vec![
                (of_one, Duration::from_secs(1)),
                (None, Duration::from_secs(30)),
            ],
        ),
    ] {
        let home = tempfile::tempdir()?;
        let bytes = fill(home.path(), &shape)?;
        println!(
            "{} machines, {} nights, {} cells, {} runs each: {} MB",
            shape.machines,
            shape.nights,
            shape.cells,
            shape.blocks,
            bytes / 1_000_000
        );
        for (machine, bar) in looks {
            let began = Instant::now();
            let (read, series) = look(&home.path().join("history"), machine.as_deref())?;
            let took = began.elapsed();
            println!(
                "  {}: {series} series read in {:.2} s, read and judged in {:.2} s (bar {} s)",
                machine.as_deref().unwrap_or("all machines"),
                read.as_secs_f64(),
                took.as_secs_f64(),
                bar.as_secs()
            );
            is_good &= took <= bar;
        }
    }
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Reads and judges the series of metrics that fail a gate.
fn look(folder: &Path, machine: Option<&str>) -> Outcome<(Duration, usize)> {
    let filter = SeriesFilter {
        machine: machine.map(str::to_owned),
        gated_or: Some(Vec::new()),
        ..SeriesFilter::default()
    };
    let began = Instant::now();
    let contents = History::existing(folder)?.read(&filter);
    if let Some(left_out) = contents.left_out.first() {
        return Err(left_out.clone().into());
    }
    let all = contents.series(&PointFilter::default(), Aggregate::Session);
    let read = began.elapsed();
    let points = all
        .into_iter()
        .map(|one| one.points.into_iter().map(Point::from).collect());
    let points: Vec<Vec<Point>> = points.collect();
    for found in trend::follow_many(&points) {
        found?;
    }
    Ok((read, points.len()))
}

/// Writes a session by way of its folder, and the others as that one with other values; returns the
/// bytes.
fn fill(home: &Path, shape: &Shape) -> Outcome<usize> {
    let session = support::session("first", 0);
    let run = |number: usize| {
        let mut record = support::record(&session, number, 1000.0);
        record.scenario = format!("scenario-{}", number % shape.cells);
        record
    };
    let runs: Vec<_> = (0..shape.cells * shape.blocks).map(run).collect();
    let folder = support::folder(home, &session, &runs);
    let history = home.join("template");
    History::at(&history)?.add(&folder, &Labels::default())?;
    let place = Path::new("results/gpu-1/smoke/torch/first.json");
    let template: Value = serde_json::from_slice(&fs::read(history.join(place))?)?;
    let mut bytes = 0;
    for machine in 0..shape.machines {
        let folder = home.join(format!("history/results/gpu-{machine}/smoke/torch"));
        fs::create_dir_all(&folder)?;
        for night in 0..shape.nights {
            let name = format!("s-{machine}-{night}");
            let mut file = template.clone();
            file["session"] = json!(name);
            file["machine"]["name"] = json!(format!("gpu-{machine}"));
            let time = support::at(i64::try_from(night)?, 0);
            file["started"] = json!(time);
            file["tool"]["revision"] = json!(format!("commit-{night}"));
            for (number, cell) in file["cells"]
                .as_array_mut()
                .into_iter()
                .flatten()
                .enumerate()
            {
                vary(cell, night * 7919 + number * 104_729, &json!(time));
            }
            let text = serde_json::to_vec(&file)?;
            bytes += text.len();
            fs::write(folder.join(format!("{name}.json")), text)?;
        }
    }
    Ok(bytes)
}

/// With values that scatter by a hundredth.
fn vary(cell: &mut Value, salt: usize, time: &Value) {
    for run in cell["runs"].as_array_mut().into_iter().flatten() {
        run["started"] = time.clone();
    }
    let all = cell["metrics"].as_object_mut().into_iter().flatten();
    for (place, value) in all
        .filter_map(|(_, all)| all.as_array_mut())
        .flatten()
        .enumerate()
    {
        let scatter = ((salt + place * 31) % 1009) as f64 / 1009.0 - 0.5;
        *value = json!(value.as_f64().map(|value| value * (1.0 + 0.01 * scatter)));
    }
}

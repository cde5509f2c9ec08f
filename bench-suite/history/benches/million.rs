//! A million points: how long they take to come in, and how long a series takes to read.
//!
//! `cargo bench -p history`
//!
//! Imports 1,000,000 points from session folders and 1,000,000 from CSV files, each into a history
//! of its own, reads every series of both, and ends with status 1 where a bar is missed: 60 s for
//! an import, 50 ms for the slowest series.

use std::{
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use history::{Aggregate, History, ImportedSeries, PointFilter, SeriesFilter};
use judge::{
    compare::{Direction, Kind},
    trend::Point,
};

#[path = "../tests/history/support.rs"]
#[expect(dead_code, reason = "the tests take more of it")]
mod support;

const POINTS: usize = 1_000_000;
const IMPORT_LIMIT: Duration = Duration::from_mins(1);
const READ_LIMIT: Duration = Duration::from_millis(50);

/// Scenarios of a session; each has a series a metric.
const SCENARIOS: usize = 20;
const BLOCKS: usize = 5;
const IMPORTED: usize = 1000;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Fill = fn(&Path, &History) -> Outcome<Duration>;

#[expect(clippy::print_stdout, reason = "a program that reports metrics")]
fn main() -> Outcome<ExitCode> {
    let fills: [(&str, Fill); 2] = [("sessions", from_sessions), ("imports", from_imports)];
    let mut good = true;
    for (what, fill) in fills {
        let home = tempfile::tempdir()?;
        let path = home.path().join("history.sqlite");
        let took = fill(home.path(), &History::open(&path)?)?;
        let began = Instant::now();
        let history = History::open_existing(&path)?;
        let series = history.series(&SeriesFilter::default())?;
        let listed = began.elapsed();
        let points: u64 = series.iter().map(|info| info.points).sum();
        let mut slowest = Duration::ZERO;
        for info in &series {
            for aggregate in [Aggregate::Session, Aggregate::Run] {
                let read = || -> Outcome<Duration> {
                    let began = Instant::now();
                    history.points(&info.key, &PointFilter::default(), aggregate)?;
                    Ok(began.elapsed())
                };
                // The middle of three, so that one hiccup of a busy machine does not count.
                let mut three = [read()?, read()?, read()?];
                three.sort();
                slowest = slowest.max(three[1]);
            }
        }
        println!(
            "{points} points from {what} in {:.1} s (bar {} s); {} series listed in {:.0} ms, the \
             slowest read in {:.1} ms (bar {} ms)",
            took.as_secs_f64(),
            IMPORT_LIMIT.as_secs(),
            series.len(),
            listed.as_secs_f64() * 1e3,
            slowest.as_secs_f64() * 1e3,
            READ_LIMIT.as_millis()
        );
        good &= points >= POINTS as u64 && took <= IMPORT_LIMIT && slowest <= READ_LIMIT;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn from_sessions(home: &Path, history: &History) -> Outcome<Duration> {
    let mut took = Duration::ZERO;
    for number in 0..POINTS.div_ceil(SCENARIOS * BLOCKS * support::POINTS) {
        let session = support::session(&format!("s-{number:06}"), i64::try_from(number)?);
        let run = |number: usize| {
            let mut record = support::record(&session, number, 1000.0 + number as f64);
            record.scenario = format!("scenario-{}", number % SCENARIOS);
            record
        };
        let runs: Vec<_> = (0..SCENARIOS * BLOCKS).map(run).collect();
        let folder = support::folder(home, &session, &runs);
        let began = Instant::now();
        support::add(history, &folder);
        took += began.elapsed();
    }
    Ok(took)
}

fn from_imports(_: &Path, history: &History) -> Outcome<Duration> {
    let point = |line: usize| Point {
        timestamp: 1.7e9 + line as f64 * 3600.0,
        // Each line a revision of its own, shared by all series.
        revision: format!("{line:040x}"),
        value: line as f64 + 0.5,
    };
    let points: Vec<Point> = (0..POINTS / IMPORTED).map(point).collect();
    let began = Instant::now();
    for number in 0..IMPORTED {
        let series = ImportedSeries {
            name: format!("series-{number}"),
            unit: "ops/s".into(),
            direction: Direction::HigherIsBetter,
            kind: Kind::TimeLike,
            threshold: None,
        };
        history.import(&series, &points, false)?;
    }
    Ok(began.elapsed())
}

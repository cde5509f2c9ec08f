//! A million points: how long they take to come in, and how long a series takes to read.
//!
//! `cargo run -p history --release --example million`
//!
//! Imports 1,000,000 points from session folders and 1,000,000 from CSV files, each into a history
//! of its own, reads every series of both with a fresh handle, and ends with status 1 where a bar
//! is missed: 60 s for an import, 50 ms for the slowest series.

use std::{
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use history::{
    Aggregate, Format, History, ImportedSeries, Labels, PointFilter, Selection, SeriesFilter,
};
use judge::compare::{Direction, Kind};
use record::{Record, Session, SessionFolder};

#[path = "../tests/history/support.rs"]
#[expect(dead_code, reason = "the tests take more of it")]
mod support;

const POINTS: usize = 1_000_000;
const IMPORT_LIMIT: Duration = Duration::from_mins(1);
const READ_LIMIT: Duration = Duration::from_millis(50);

/// Scenarios of a session; each has a series a metric.
const SCENARIOS: usize = 20;
const BLOCKS: usize = 5;
const CSV_SERIES: usize = 1000;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[expect(clippy::print_stdout, reason = "a program that reports figures")]
fn main() -> Outcome<ExitCode> {
    let home = tempfile::tempdir()?;
    let mut good = true;
    let folders = sessions(home.path())?;
    let files = csv_files(home.path())?;
    for (what, path) in [("sessions", "sessions.sqlite"), ("CSV files", "csv.sqlite")] {
        let path = home.path().join(path);
        let began = Instant::now();
        let history = History::open(&path)?;
        let points = if what == "sessions" {
            let mut points = 0;
            for folder in &folders {
                points += history.add(folder, &Labels::default())?.points;
            }
            points
        } else {
            import(&history, &files)?
        };
        drop(history);
        let import = began.elapsed();
        let megabytes = fs::metadata(&path)?.len() / 1_000_000;
        println!(
            "{points} points from {what} in {:.1} s ({megabytes} MB); the bar is {} s",
            import.as_secs_f64(),
            IMPORT_LIMIT.as_secs()
        );
        let (series, slowest, mean) = read_all(&path)?;
        println!(
            "{series} series: the slowest read in {:.1} ms, the mean in {:.2} ms; the bar is {} ms",
            slowest.as_secs_f64() * 1e3,
            mean.as_secs_f64() * 1e3,
            READ_LIMIT.as_millis()
        );
        good &= points >= POINTS && import <= IMPORT_LIMIT && slowest <= READ_LIMIT;
        for (name, time) in others(&path, home.path())? {
            println!("    {name}: {:.2} s", time.as_secs_f64());
        }
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn sessions(home: &Path) -> Outcome<Vec<SessionFolder>> {
    let each = SCENARIOS * BLOCKS * support::POINTS;
    let mut folders = Vec::new();
    for number in 0..POINTS.div_ceil(each) {
        let day = i64::try_from(number)?;
        let session = support::session(&format!("s-{number:06}"), day);
        folders.push(support::folder(home, &session, &runs(&session)));
    }
    Ok(folders)
}

fn runs(session: &Session) -> Vec<Record> {
    let run = |number: usize| {
        let mut record = support::record(session, number, 1000.0 + number as f64);
        record.scenario = format!("scenario-{}", number % SCENARIOS);
        record
    };
    (0..SCENARIOS * BLOCKS).map(run).collect()
}

fn csv_files(home: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for number in 0..CSV_SERIES {
        let mut text = "timestamp,revision,value\n".to_owned();
        for line in 0..POINTS / CSV_SERIES {
            // Each line a revision of its own, shared by all series.
            let (timestamp, value) = (1_700_000_000 + line * 3600, number + line);
            writeln!(text, "{timestamp},{line:040x},{value}.5")?;
        }
        let path = home.join(format!("{number}.csv"));
        fs::write(&path, text)?;
        files.push(path);
    }
    Ok(files)
}

fn import(history: &History, files: &[PathBuf]) -> Outcome<usize> {
    let mut points = 0;
    for (number, file) in files.iter().enumerate() {
        let series = ImportedSeries {
            name: format!("series-{number}"),
            unit: "ops/s".into(),
            direction: Direction::HigherIsBetter,
            kind: Kind::TimeLike,
        };
        points += history.import_csv(&series, file)?.added;
    }
    Ok(points)
}

/// Both ways to read, each series three times; number of series, slowest, mean.
fn read_all(path: &Path) -> Outcome<(usize, Duration, Duration)> {
    let series = History::open_existing(path)?.series(&SeriesFilter::default())?;
    let history = History::open_existing(path)?;
    let mut times = Vec::new();
    for info in &series {
        for aggregate in [Aggregate::Session, Aggregate::Run] {
            // The middle of three, so that one hiccup of a busy machine does not count.
            let mut three = [Duration::ZERO; 3];
            for time in &mut three {
                let began = Instant::now();
                let points = history.points(&info.key, &PointFilter::default(), aggregate)?;
                *time = began.elapsed();
                assert!(!points.is_empty());
            }
            three.sort();
            times.push(three[1]);
        }
    }
    let total: Duration = times.iter().sum();
    let slowest = times.iter().max().copied().unwrap_or_default();
    Ok((
        series.len(),
        slowest,
        total / u32::try_from(times.len().max(1))?,
    ))
}

fn others(path: &Path, home: &Path) -> Outcome<Vec<(&'static str, Duration)>> {
    let history = History::open_existing(path)?;
    let mut times = Vec::new();
    let mut time = |name, work: &mut dyn FnMut() -> Outcome<()>| -> Outcome<()> {
        let began = Instant::now();
        work()?;
        times.push((name, began.elapsed()));
        Ok(())
    };
    time("list the series", &mut || {
        history.series(&SeriesFilter::default())?;
        Ok(())
    })?;
    time("check everything", &mut || {
        assert!(history.check()?.is_sound());
        Ok(())
    })?;
    for (name, format) in [
        ("export CSV", Format::Csv),
        ("export JSON lines", Format::JsonLines),
        ("export Parquet", Format::Parquet),
    ] {
        time(name, &mut || {
            let file = home.join("export");
            let selection = Selection {
                aggregate: Aggregate::Run,
                ..Selection::default()
            };
            history.export_to(&file, format, &selection)?;
            Ok(fs::remove_file(file)?)
        })?;
    }
    time("recover all of it", &mut || {
        let fresh = home.join("recovered.sqlite");
        history::recover(path, &fresh)?;
        Ok(fs::remove_file(fresh)?)
    })?;
    Ok(times)
}

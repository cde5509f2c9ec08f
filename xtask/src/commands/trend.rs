//! `cargo xtask trend`: change points in the history, or in one series from a file.

use std::fs;

use history::{Aggregate, History, SeriesInfo};
use jiff::Timestamp;
use judge::{
    compare::{Direction, Verdict},
    trend::{self, ChangePoint, Point, Staleness, Trend, TrendOptions, staleness},
};
use serde::Serialize;

use crate::{
    cli::{Format, TrendArgs},
    commands::history::{file, point_filter, series_filter},
    error::{Error, Result},
    printer::Printer,
    table::table,
};

const DAY_SECONDS: f64 = 86_400.0;

/// Reads one series or the history, finds change points and prints them.
pub(crate) fn run(args: &TrendArgs, printer: &Printer) -> Result<()> {
    match &args.input {
        Some(input) => one_file(input, args.format, printer),
        None => whole_history(args, printer),
    }
}

fn one_file(input: &std::path::Path, format: Format, printer: &Printer) -> Result<()> {
    let name = input.display().to_string();
    let text = fs::read_to_string(input).map_err(|source| Error::Read {
        path: input.to_owned(),
        source,
    })?;
    let points = trend::csv::parse(&text).map_err(|source| Error::Series {
        name: name.clone(),
        source: Box::new(source),
    })?;
    let found = trend::change_points(&points, &TrendOptions::default()).map_err(|source| {
        Error::Series {
            name: name.clone(),
            source: Box::new(source),
        }
    })?;
    match format {
        Format::Json => printer.json(&found),
        Format::Text | Format::Markdown => {
            printer.line(&text_of(&name, points.len(), &found, format));
            Ok(())
        }
    }
}

/// One series of the history with what was found in it.
#[derive(Debug, Serialize)]
struct Followed {
    #[serde(flatten)]
    series: SeriesInfo,
    change_points: Vec<ChangePoint>,
    staleness: Option<Staleness>,
    /// What the newest run's level is against the one before, where it is a new one.
    newest: Option<Verdict>,
}

fn whole_history(args: &TrendArgs, printer: &Printer) -> Result<()> {
    let history = History::open_existing(file(&args.file)?)?;
    let keys = history.series(&series_filter(&args.series))?;
    let filter = point_filter(&args.series);
    let bar = printer.count_bar("reading the history", keys.len() as u64);
    let mut all = Vec::new();
    for info in &keys {
        let points = history.points(&info.key, &filter, Aggregate::Session)?;
        all.push(points.into_iter().map(Point::from).collect::<Vec<_>>());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let found = trend::change_points_of_many(&all, &TrendOptions::default());
    let now = Timestamp::now().as_duration().as_secs_f64();
    let limit = args.stale_after.map(|days| days * DAY_SECONDS);
    let mut followed = Vec::new();
    for ((series, points), found) in keys.into_iter().zip(&all).zip(found) {
        let found = found.map_err(|source| Error::Series {
            name: series.key.to_string(),
            source: Box::new(source),
        })?;
        let times: Vec<f64> = points.iter().map(|point| point.timestamp).collect();
        followed.push(Followed {
            newest: newest(&found, points, series.direction),
            staleness: staleness(&times, now, limit),
            change_points: found.change_points,
            series,
        });
    }
    match args.format {
        Format::Json => printer.json(&followed)?,
        Format::Text | Format::Markdown => print(&followed, args.format, printer),
    }
    let failing = followed
        .iter()
        .filter(|one| {
            one.newest == Some(Verdict::Worse) || one.staleness.is_some_and(|s| s.overdue)
        })
        .count();
    if args.gate && failing > 0 {
        Err(Error::Gate { failing })
    } else {
        Ok(())
    }
}

/// The verdict on the newest end: a change point at the newest revision.
fn newest(found: &Trend, points: &[Point], direction: Direction) -> Option<Verdict> {
    let last = points.last()?;
    let change = found.change_points.last()?;
    let ratio = change.ratio.filter(|_| change.revision == last.revision)?;
    Some(Verdict::of_change(ratio.ln(), direction))
}

fn print(followed: &[Followed], format: Format, printer: &Printer) {
    let mut quiet = 0;
    for one in followed {
        if one.change_points.is_empty() {
            quiet += 1;
        } else {
            let found = Trend {
                change_points: one.change_points.clone(),
            };
            let points = usize::try_from(one.series.points).unwrap_or(usize::MAX);
            printer.line(&text_of(
                &one.series.key.to_string(),
                points,
                &found,
                format,
            ));
        }
        if let Some(staleness) = one.staleness.filter(|staleness| staleness.overdue) {
            printer.line(&format!(
                "{}: no result for {:.1} days",
                one.series.key,
                staleness.age_seconds / DAY_SECONDS
            ));
        }
    }
    printer.line(&format!(
        "{} series, {quiet} of them without a change of level",
        followed.len()
    ));
}

fn text_of(name: &str, points: usize, found: &Trend, format: Format) -> String {
    let count = found.change_points.len();
    if count == 0 {
        return format!("{name}: {points} points, no change of level");
    }
    let plural = if count == 1 { "change" } else { "changes" };
    let mut table = table(
        format,
        [
            "point",
            "time",
            "revision",
            "before",
            "after",
            "change",
            "95 % interval",
            "p",
        ],
    );
    for point in &found.change_points {
        table.add_row(row(point));
    }
    format!("{name}: {points} points, {count} {plural} of level\n{table}")
}

fn row(point: &ChangePoint) -> [String; 8] {
    let percent = |ratio: f64| format!("{:+.2} %", (ratio - 1.0) * 100.0);
    let none = || "–".to_owned();
    [
        point.index.to_string(),
        time(point.timestamp),
        point.revision.chars().take(12).collect(),
        significant(point.before),
        significant(point.after),
        point.ratio.map_or_else(none, percent),
        point.interval.map_or_else(none, |[lo, hi]| {
            format!("{} to {}", percent(lo), percent(hi))
        }),
        format!("{:.1e}", point.p),
    ]
}

/// Seconds since 1970 as people read them, in UTC.
pub(crate) fn time(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates; an odd time is shown as it is"
    )]
    let whole = seconds as i64;
    Timestamp::from_second(whole).map_or_else(
        |_| seconds.to_string(),
        |time| time.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// A number to six significant digits.
fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 {
        0.0
    } else {
        value.abs().log10().floor()
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0 and above, and far below any limit"
    )]
    let decimals = (5.0 - magnitude).clamp(0.0, 12.0) as usize;
    format!("{value:.decimals$}")
}

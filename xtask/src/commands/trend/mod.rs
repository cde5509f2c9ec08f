//! `cargo xtask trend`: change points in the history, or in one series from a file.

mod followed;
mod gate;
mod read;
mod selection;
mod supersede;

use std::{
    fs,
    path::{Path, PathBuf},
    slice,
};

use history::{History, SeriesInfo, SeriesKey};
use jiff::Timestamp;
use judge::{
    compare::Direction,
    trend::{self, Point, Staleness, Trend, TrendOptions, news, staleness},
};
use metrics::Metric;
use reports::trend::Series;

use self::{followed::Followed, read::Selected};
use crate::{
    cli::{Format, TrendArgs},
    commands::history::file,
    error::{Error, Result},
    printer::Printer,
};

const DAY_SECONDS: f64 = 86_400.0;

/// Reads one series or the history, finds change points and prints them.
pub(crate) fn run(args: &TrendArgs, printer: &Printer) -> Result<()> {
    let found = match &args.input {
        Some(input) => vec![one_file(input, args, printer)?],
        None => whole_history(args, printer)?,
    };
    let all: Vec<Series> = found.iter().map(Followed::shown).collect();
    match (args.format, &found[..], &args.input) {
        // The form in which a series in a file was asked for: what was found and no more.
        (Format::Json, [only], Some(_)) => printer.json(&Trend {
            change_points: only.change_points.clone(),
        })?,
        (Format::Json, _, _) => printer.json(&found)?,
        (Format::Text, _, Some(_)) if all.iter().all(|one| one.changes.is_empty()) => {
            for one in &all {
                printer.line(&reports::trend::line(one));
            }
        }
        (Format::Text, _, _) => printer.raw(&reports::trend::text(&all)),
        (Format::Markdown, _, _) => printer.raw(&reports::trend::markdown(&all)),
    }
    if let Some(out) = &args.out {
        write(out, &all, &found, args, printer)?;
    }
    if args.gate { gate::end(&found) } else { Ok(()) }
}

fn one_file(input: &Path, args: &TrendArgs, printer: &Printer) -> Result<Followed> {
    let name = input.display().to_string();
    let refused = |source: Box<dyn std::error::Error + Send + Sync>| Error::Series {
        name: name.clone(),
        source,
    };
    let mut points = history::read_csv(input)?;
    if args.gate && points.is_empty() {
        return Err(Error::NothingToFollow {
            message: format!("{name} has no points, so that a gate would pass over nothing"),
        });
    }
    let backwards = trend::put_in_order(&mut points);
    if backwards > 0 {
        printer.note(&sorted(&name, backwards, points.len()));
    }
    let found = trend::change_points(&points, &TrendOptions::default())
        .map_err(|source| refused(Box::new(source)))?;
    let series = SeriesInfo {
        key: SeriesKey::imported(&name),
        unit: String::new(),
        direction: if args.lower_is_better {
            Direction::LowerIsBetter
        } else {
            Direction::HigherIsBetter
        },
        kind: judge::compare::Kind::TimeLike,
        points: points.len() as u64,
        oldest: points.first().map(|point| point.timestamp),
        newest: points.last().map(|point| point.timestamp),
    };
    // A file may be as old as it likes, unless somebody says how old.
    let limit = args.stale_after.map(|days| days * DAY_SECONDS);
    let age = limit.and_then(|_| age(&points, &[], limit));
    let news = news(&points, &found, &TrendOptions::default())
        .map_err(|source| refused(Box::new(source)))?;
    let mut one = Followed {
        staleness: age,
        directed: args.gate || args.lower_is_better,
        ..Followed::new(series, points, found, news)
    };
    gate::decide(slice::from_mut(&mut one), |_| true);
    Ok(one)
}

/// That lines stood in another order than that of time.
pub(crate) fn sorted(name: &str, backwards: usize, lines: usize) -> String {
    format!(
        "{name}: {backwards} of {lines} lines were older than the line before them; the points were \
         put in order of time, the oldest first"
    )
}

fn whole_history(args: &TrendArgs, printer: &Printer) -> Result<Vec<Followed>> {
    let history = History::open_existing(file(&args.file)?)?;
    let read = read::select(&history, args, printer)?;
    if read.is_empty() {
        return Err(selection::nothing(&history, &args.series)?);
    }
    let options = TrendOptions::default();
    let refused = |one: &Selected, source| Error::Series {
        name: one.info.key.to_string(),
        source: Box::new(source),
    };
    let points = |one: &Selected| one.points.iter().cloned().map(Point::from).collect();
    let all: Vec<Vec<Point>> = read.iter().map(points).collect();
    let found = trend::change_points_of_many(&all, &options).into_iter();
    let found: Vec<Trend> = found
        .zip(&read)
        .map(|(found, one)| found.map_err(|source| refused(one, source)))
        .collect::<Result<_>>()?;
    let news = trend::news_of_many(&all, &found, &options);
    let limit = args.stale_after.map(|days| days * DAY_SECONDS);
    let mut series = Vec::new();
    for (one, (points, (found, news))) in read
        .into_iter()
        .zip(all.into_iter().zip(found.into_iter().zip(news)))
    {
        let news = news.map_err(|source| refused(&one, source))?;
        let set = one.newest().and_then(|point| point.threshold);
        let gpu_changes = one.gpu_changes(&found.change_points);
        let staleness = age(&points, &one.earlier, limit);
        let followed = Followed::new(one.info, points, found, news);
        series.push(Followed {
            staleness,
            gpu_changes,
            threshold: set.unwrap_or(followed.threshold),
            superseded_by: one.superseded_by,
            ..followed
        });
    }
    // The metrics that fail a comparison, those from elsewhere, and whatever is asked for by name.
    let asked = args.series.metric.is_some();
    gate::decide(&mut series, |key| {
        let gated = Metric::named(&key.metric).is_some_and(Metric::is_gated);
        asked || gated || key.machine == SeriesKey::IMPORTED
    });
    Ok(series)
}

/// How long ago the newest result was; `limit` in seconds, or else the series' own pace, says
/// whether that is too long. One that has no pace yet has that of those whose place it has taken,
/// whose results came `earlier`: it may never get a second result.
fn age(points: &[Point], earlier: &[f64], limit: Option<f64>) -> Option<Staleness> {
    let now = Timestamp::now().as_duration().as_secs_f64();
    let mut times: Vec<f64> = points.iter().map(|point| point.timestamp).collect();
    let own = staleness(&times, now, limit)?;
    if own.limit_seconds.is_some() {
        return Some(own);
    }
    times.extend(earlier);
    staleness(&times, now, limit)
}

/// `trend.html`, `trend.md` and `trend.json`: either all three are new or none is.
fn write(
    out: &Path,
    all: &[Series],
    found: &[Followed],
    args: &TrendArgs,
    printer: &Printer,
) -> Result<()> {
    let source = match &args.input {
        Some(input) => input.display().to_string(),
        None => file(&args.file)?.display().to_string(),
    };
    let made = Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string();
    let json = serde_json::to_string_pretty(found).map_err(|source| Error::Json { source })?;
    let files = [
        ("trend.html", reports::trend::html(all, &source, &made)?),
        ("trend.md", reports::trend::markdown(all)),
        ("trend.json", json + "\n"),
    ];
    let failed = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |source| Error::Write { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    for (name, text) in &files {
        let fresh = out.join(format!("{name}.new"));
        fs::write(&fresh, text).map_err(failed(&fresh))?;
    }
    for (name, _) in &files {
        let path = out.join(name);
        fs::rename(out.join(format!("{name}.new")), &path).map_err(failed(&path))?;
    }
    printer.note(&format!("drawn: {}", out.join("trend.html").display()));
    Ok(())
}

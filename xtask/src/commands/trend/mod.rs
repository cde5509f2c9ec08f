//! `cargo xtask trend`: change points in the history, or in one series from a file.

mod gate;
mod read;
mod selection;
mod succession;

use std::{
    fs,
    path::{Path, PathBuf},
    slice,
};

use history::{History, SeriesInfo, SeriesKey};
use jiff::Timestamp;
use judge::{
    compare::{Direction, Verdict},
    trend::{self, ChangePoint, Point, Staleness, Trend, TrendOptions, news, staleness},
};
use metrics::Metric;
use reports::{
    format,
    trend::{GpuChange, Series},
};
use serde::Serialize;

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

/// One series with what was found in it.
#[derive(Debug, Serialize)]
struct Followed {
    #[serde(flatten)]
    series: SeriesInfo,
    change_points: Vec<ChangePoint>,
    staleness: Option<Staleness>,
    /// What the newest run's level is against the one before, where it brought a new one to
    /// light.
    verdict: Option<Verdict>,
    /// How sure that is among all series that the gate looks at: the smallest false discovery
    /// rate at which it would count.
    q: Option<f64>,
    /// Change points at which the GPU changed as well: the level may be the GPU's.
    gpu_changes: Vec<GpuChange>,
    /// The largest relative change that counts as none, as in a comparison: what the suite of the
    /// newest session sets, else the metric's default; 0 for series from elsewhere.
    threshold: f64,
    /// The series that has taken its place, with another image or driver. Nobody waits for results
    /// of this one any more, and the gate does not look at it.
    superseded_by: Option<SeriesKey>,
    /// Whether the gate looks at it.
    gated: bool,
    /// Whether the gate would look at it, had no other taken its place.
    #[serde(skip)]
    of_gate: bool,
    /// Why the gate says no to it; empty where it does not.
    fails: Vec<gate::Reason>,
    #[serde(skip)]
    news: Option<usize>,
    #[serde(skip)]
    points: Vec<Point>,
    /// Whether somebody said which way is better.
    #[serde(skip)]
    directed: bool,
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
    let directed = args.gate || args.lower_is_better;
    let news = news(&points, &found, &TrendOptions::default())
        .map_err(|source| refused(Box::new(source)))?;
    let mut one = followed(series, points, (found, news), age, directed);
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
    let read::Selected {
        keys,
        all,
        beside,
        successors,
    } = read::select(&history, args, printer)?;
    if keys.is_empty() {
        return Err(selection::nothing(&history, &args.series)?);
    }
    let options = TrendOptions::default();
    let refused = |info: &SeriesInfo, source| Error::Series {
        name: info.key.to_string(),
        source: Box::new(source),
    };
    let found: Vec<Trend> = keys
        .iter()
        .zip(trend::change_points_of_many(&all, &options))
        .map(|(info, found)| found.map_err(|source| refused(info, source)))
        .collect::<Result<_>>()?;
    let told = trend::news_of_many(&all, &found, &options);
    let limit = args.stale_after.map(|days| days * DAY_SECONDS);
    let mut series = Vec::new();
    for (((((info, points), found), news), successor), beside) in keys
        .into_iter()
        .zip(all)
        .zip(found)
        .zip(told)
        .zip(successors)
        .zip(beside)
    {
        let news = news.map_err(|source| refused(&info, source))?;
        let age = age(&points, &beside.earlier, limit);
        let one = followed(info, points, (found, news), age, true);
        series.push(Followed {
            superseded_by: successor,
            gpu_changes: beside.gpu_changes(&one.change_points),
            threshold: beside.threshold.unwrap_or(one.threshold),
            ..one
        });
    }
    // The metrics that fail a comparison, those from elsewhere, and whatever is asked for by name.
    let asked = args.series.metric.is_some();
    gate::decide(&mut series, |key| {
        let gated = Metric::named(&key.metric).is_some_and(|quantity| quantity.is_gated());
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

fn followed(
    series: SeriesInfo,
    points: Vec<Point>,
    (found, news): (Trend, Option<usize>),
    staleness: Option<Staleness>,
    directed: bool,
) -> Followed {
    let ratio = news.and_then(|place| found.change_points[place].ratio);
    Followed {
        verdict: ratio.map(|ratio| Verdict::of_change(ratio.ln(), series.direction)),
        staleness,
        change_points: found.change_points,
        q: None,
        gpu_changes: Vec::new(),
        threshold: Metric::named(&series.key.metric).map_or(0.0, |quantity| quantity.threshold),
        superseded_by: None,
        gated: false,
        of_gate: false,
        fails: Vec::new(),
        series,
        news,
        points,
        directed,
    }
}

impl Followed {
    /// As the reports show it.
    fn shown(&self) -> Series {
        let key = &self.series.key;
        let quantity = Metric::named(&key.metric);
        let metric = quantity.map_or(key.metric.as_str(), |quantity| quantity.label);
        let imported = key.machine == SeriesKey::IMPORTED;
        let subtitle = if imported {
            String::new()
        } else {
            let place = match key.driver.as_str() {
                "none" => key.device.clone(),
                driver => format!("{}, driver {driver}", key.device),
            };
            let parts = [metric, &key.image, &key.suite, &key.machine, &place];
            parts.map(str::to_owned).join(" · ")
        };
        Series {
            title: key.cell(),
            subtitle,
            quantity: format::Quantity::of_metric(&key.metric),
            unit: if imported {
                self.series.unit.clone()
            } else {
                String::new()
            },
            direction: self.directed.then_some(self.series.direction),
            points: self.points.clone(),
            changes: self.change_points.clone(),
            gpu_changes: self.gpu_changes.clone(),
            news: self.news,
            staleness: self.staleness,
            threshold: self.threshold,
            successor: self
                .superseded_by
                .as_ref()
                .map(|successor| succession::told(key, successor)),
        }
    }
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

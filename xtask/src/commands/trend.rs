//! `cargo xtask trend`: change points in the history, or in one series from a file.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    slice,
};

use history::{Aggregate, History, SeriesInfo, SeriesKey};
use jiff::Timestamp;
use judge::{
    compare::{Direction, Verdict},
    family::{FamilyOptions, q_values},
    trend::{self, ChangePoint, Point, Staleness, Trend, TrendOptions, news, staleness},
};
use record::{Quantity, Unit};
use reports::{format, trend::Series};
use serde::Serialize;

use crate::{
    cli::{Format, TrendArgs},
    commands::history::{file, point_filter, series_filter},
    error::{Error, Result},
    printer::Printer,
};

const DAY_SECONDS: f64 = 86_400.0;
/// A file larger than this is no series.
const MOST_BYTES: u64 = 256 << 20;

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
    let failing = found.iter().filter(|one| one.fails).count();
    if args.gate && failing > 0 {
        Err(Error::Gate { failing })
    } else {
        Ok(())
    }
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
    newest: Option<Verdict>,
    /// How sure that is among all series that the gate looks at: the smallest false discovery
    /// rate at which it would count.
    q: Option<f64>,
    /// Whether the gate says no to it.
    fails: bool,
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
    let text = read(input)?;
    let points = trend::csv::parse(&text).map_err(|source| refused(Box::new(source)))?;
    let backwards = points
        .windows(2)
        .filter(|pair| pair[1].timestamp < pair[0].timestamp)
        .count();
    if backwards > 0 {
        printer.note(&format!(
            "{name}: {backwards} of {} lines are older than the line before them; a series is read \
             in the order of its lines, the oldest first",
            points.len()
        ));
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
    let age = limit.and_then(|_| age(&points, limit));
    let directed = args.gate || args.lower_is_better;
    let news = news(&points, &found, &TrendOptions::default())
        .map_err(|source| refused(Box::new(source)))?;
    let mut one = followed(series, points, (found, news), age, directed);
    decide(slice::from_mut(&mut one), |_| true);
    Ok(one)
}

fn read(input: &Path) -> Result<String> {
    let failed = |source| Error::Read {
        path: input.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(input)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failed(std::io::Error::other(format!(
            "it has more than {}, which no series has",
            format::bytes(MOST_BYTES as f64)
        ))));
    }
    String::from_utf8(bytes).map_err(|source| {
        let place = source.utf8_error().valid_up_to();
        failed(std::io::Error::other(format!(
            "byte {place} is no UTF-8; save the series as UTF-8 CSV"
        )))
    })
}

fn whole_history(args: &TrendArgs, printer: &Printer) -> Result<Vec<Followed>> {
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
    for (((info, points), found), news) in keys.into_iter().zip(all).zip(found).zip(told) {
        let news = news.map_err(|source| refused(&info, source))?;
        let age = age(&points, limit);
        series.push(followed(info, points, (found, news), age, true));
    }
    // The figures that fail a comparison, those from elsewhere, and whatever is asked for by name.
    let asked = args.series.metric.is_some();
    decide(&mut series, |key| {
        let gated = Quantity::named(&key.metric).is_some_and(|quantity| quantity.gated);
        asked || gated || key.machine == SeriesKey::IMPORTED
    });
    Ok(series)
}

/// How long ago the newest result was; `limit` in seconds, or else the series' own pace, says
/// whether that is too long.
fn age(points: &[Point], limit: Option<f64>) -> Option<Staleness> {
    let now = Timestamp::now().as_duration().as_secs_f64();
    let times: Vec<f64> = points.iter().map(|point| point.timestamp).collect();
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
        newest: ratio.map(|ratio| Verdict::of_change(ratio.ln(), series.direction)),
        staleness,
        change_points: found.change_points,
        q: None,
        fails: false,
        series,
        news,
        points,
        directed,
    }
}

/// What the gate says of every series that it looks at. Of many series some look worse by chance
/// every night, so that the false discovery rate is held, as it is in a comparison.
fn decide(all: &mut [Followed], gated: impl Fn(&SeriesKey) -> bool) {
    let mut members: Vec<&mut Followed> = all
        .iter_mut()
        .filter(|one| gated(&one.series.key))
        .collect();
    let p: Vec<f64> = members
        .iter()
        .map(|one| one.news.map_or(1.0, |place| one.change_points[place].p))
        .collect();
    let options = FamilyOptions::default();
    for (one, q) in members.iter_mut().zip(q_values(&p, options.dependence)) {
        one.q = one.news.map(|_| q);
        let worse = one.newest == Some(Verdict::Worse) && q <= options.each.alpha;
        one.fails = worse || one.staleness.is_some_and(|staleness| staleness.overdue);
    }
}

impl Followed {
    /// As the reports show it.
    fn shown(&self) -> Series {
        let key = &self.series.key;
        let quantity = Quantity::named(&key.metric);
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
            quantity: match quantity.map(|quantity| quantity.unit) {
                Some(Unit::Bytes) => format::Quantity::Bytes,
                Some(Unit::Seconds) => format::Quantity::Seconds,
                Some(Unit::SamplesPerSecond) => format::Quantity::Throughput,
                Some(Unit::Watts) => format::Quantity::Watts,
                Some(Unit::Joules) => format::Quantity::Joules,
                Some(Unit::Count) | None => format::Quantity::Plain,
            },
            unit: if imported {
                self.series.unit.clone()
            } else {
                String::new()
            },
            direction: self.directed.then_some(self.series.direction),
            points: self.points.clone(),
            changes: self.change_points.clone(),
            news: self.news,
            staleness: self.staleness,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn worse(metric: &str, p: f64) -> Followed {
        let points: Vec<Point> = (0..40)
            .map(|i| Point {
                timestamp: f64::from(i),
                revision: String::new(),
                value: 1.0,
            })
            .collect();
        Followed {
            series: SeriesInfo {
                key: SeriesKey {
                    metric: metric.to_owned(),
                    ..SeriesKey::default()
                },
                unit: String::new(),
                direction: Direction::HigherIsBetter,
                kind: judge::compare::Kind::TimeLike,
                points: 40,
                oldest: None,
                newest: None,
            },
            change_points: vec![ChangePoint {
                index: 39,
                timestamp: 39.0,
                revision: String::new(),
                before: 1.0,
                after: 0.9,
                ratio: Some(0.9),
                interval: None,
                p,
            }],
            staleness: None,
            newest: Some(Verdict::Worse),
            q: None,
            fails: false,
            news: Some(0),
            points,
            directed: true,
        }
    }

    fn failing(mut all: Vec<Followed>) -> usize {
        decide(&mut all, |key| key.metric == "gated");
        all.iter().filter(|one| one.fails).count()
    }

    #[test]
    fn among_many_series_a_gate_asks_for_more() {
        assert_eq!(failing(vec![worse("gated", 0.015)]), 1);
        let among = |p: f64| {
            let mut all = vec![worse("gated", p)];
            all.extend((0..99).map(|_| Followed {
                news: None,
                newest: None,
                ..worse("gated", 1.0)
            }));
            failing(all)
        };
        assert_eq!(among(0.015), 0, "one of a hundred looks so by chance");
        assert_eq!(among(0.0001), 1);
        assert_eq!(
            failing((0..100).map(|_| worse("gated", 0.015)).collect()),
            100
        );
    }

    #[test]
    fn a_figure_that_explains_fails_no_gate() {
        assert_eq!(failing(vec![worse("other", 0.0)]), 0);
    }
}

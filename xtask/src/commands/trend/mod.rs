//! `trend`: change points in the history, or in one series from a file.

mod followed;
mod gate;
mod ledger;

use std::{
    path::{Path, PathBuf},
    slice,
};

use clap::Args;
use history::{Aggregate, History, SeriesInfo, SeriesKey};
use jiff::Timestamp;
use judge::{
    compare::Direction,
    trend::{self, Point, Trend, TrendError},
};
use metrics::Metric;
use reports::trend::{Entry, Series};

pub(crate) use self::followed::{Followed, method_words};
use self::ledger::Kept;
use crate::{
    cli::{
        Format, exit_codes,
        history::{HistoryFolder, SeriesArgs},
        share,
    },
    commands::write_file,
    error::{Error, Result},
    printer::{Printer, table_style},
};

const DAY_SECONDS: f64 = 86_400.0;
/// A file larger than this is no series; some, such as `/dev/zero`, have no end.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct TrendArgs {
    /// A series, in place of the history: a CSV file with the header `timestamp,revision,value`
    #[arg(
        long,
        value_name = "FILE.csv",
        conflicts_with_all = [
            "machine", "device", "track", "suite", "scenario", "variant", "metric", "image", "driver",
            "branch", "ignore"
        ]
    )]
    input: Option<PathBuf>,
    #[command(flatten)]
    folder: HistoryFolder,
    #[command(flatten)]
    series: SeriesArgs,
    /// Lower values of --input are better
    #[arg(long, requires = "input")]
    lower_is_better: bool,
    /// The largest change of --input that counts as none, such as 0.02; default: any counts
    #[arg(long, value_name = "SHARE", requires = "input", value_parser = share)]
    threshold: Option<f64>,
    /// Days without a result after which a series is reported as stale; default: from its own
    /// pace, and never for --input
    #[arg(long, value_name = "DAYS", value_parser = days)]
    stale_after: Option<f64>,
    /// Exit with 1 where a gated metric regressed that the ledger does not list yet, or where its
    /// results have stopped coming; with --metric, where any metric named by it did
    #[arg(long)]
    gate: bool,
    /// The ledger of regressions, such as one that a repository holds; default: the history's own,
    /// and none with --input
    #[arg(long, value_name = "FILE.toml")]
    ledger: Option<PathBuf>,
    /// Write Markdown into this file, for the job's summary
    #[arg(long, value_name = "FILE.md")]
    summary: Option<PathBuf>,
    /// Print GitHub's workflow commands as well
    #[arg(long)]
    annotations: bool,
    /// Draw the series: `trend.html`, with `trend.md` and `trend.json`, into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the change points
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn days(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|days| days.is_finite() && *days > 0.0)
        .ok_or_else(|| format!("`{text}` is no number of days above 0"))
}

/// Reads one series or the history, finds change points, holds them against the ledger and prints
/// them.
pub(crate) fn run(args: &TrendArgs, printer: &Printer) -> Result<()> {
    let (mut found, own) = match &args.input {
        Some(input) => (vec![one_file(input, args, printer)?], None),
        None => whole_history(args, printer)?,
    };
    let grows = args.input.is_none();
    let Some(path) = args.ledger.clone().or(own) else {
        let all = show(&found, &[], args, printer)?;
        if args.gate {
            gate::end(&found, &all, &[], grows, printer)?;
        }
        return Ok(());
    };
    let points = args.series.points();
    let mut kept = Kept::open(path, args.gate)?;
    if args.gate {
        kept.update(&points, &mut found);
    }
    kept.tell(&points, &mut found);
    let entries = kept.shown(&points);
    let all = show(&found, &entries, args, printer)?;
    if !args.gate {
        return Ok(());
    }
    let written = kept.save();
    match gate::end(&found, &all, &entries, grows, printer) {
        Ok(()) => written,
        Err(gate) => {
            // The gate's answer comes before what else went wrong.
            if let Err(error) = written {
                printer.error(&error);
            }
            Err(gate)
        }
    }
}

/// Prints and writes everything that was asked for.
fn show(
    found: &[Followed],
    entries: &[Entry],
    args: &TrendArgs,
    printer: &Printer,
) -> Result<Vec<Series>> {
    let all: Vec<Series> = found.iter().map(Followed::shown).collect();
    if let Some(path) = &args.summary {
        write_file(path, &reports::trend::markdown(&all, entries))?;
    }
    match (args.format, found, &args.input) {
        // The form in which a series in a file was asked for: what was found and no more.
        (Format::Json, [only], Some(_)) => printer.json(&only.found)?,
        (Format::Json, _, _) => printer.json(found)?,
        (Format::Text, [only], Some(_)) if only.found.change_points.is_empty() => {
            printer.line(&reports::trend::line(&all[0]));
        }
        (Format::Text, _, _) => {
            printer.raw(&reports::trend::text(&all, entries, table_style()));
        }
        (Format::Markdown, _, _) => printer.raw(&reports::trend::markdown(&all, entries)),
    }
    if let Some(out) = &args.out {
        write(out, &all, entries, found, args, printer)?;
    }
    if args.annotations {
        printer.verbatim(&reports::trend::annotations(&all, entries));
    }
    Ok(all)
}

/// Reads a series, puts it in order of time, and says so.
fn read_csv(path: &Path, printer: &Printer) -> Result<Vec<Point>> {
    let name = path.display();
    let text = regular_file::read(path, MOST_BYTES)
        .map_err(|error| error.to_string())
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()))
        .map_err(|why| Error::Input(format!("cannot read {name}: {why}")))?;
    let points = trend::csv::parse(&text);
    let mut points = points.map_err(|why| Error::Input(format!("{name}: {why}")))?;
    let backwards = trend::put_in_order(&mut points);
    if backwards > 0 {
        printer.note(&format!(
            "{name}: {backwards} of {} lines were older than the line before them; the points were \
             put in order of time, the oldest first",
            points.len()
        ));
    }
    Ok(points)
}

fn refused(name: &str, source: &TrendError) -> Error {
    Error::Input(format!("{name}: {source}"))
}

fn one_file(input: &Path, args: &TrendArgs, printer: &Printer) -> Result<Followed> {
    let name = input.display().to_string();
    let points = read_csv(input, printer)?;
    let (found, news) = trend::follow(&points).map_err(|source| refused(&name, &source))?;
    let series = SeriesInfo {
        key: SeriesKey::elsewhere(&name),
        settings: None,
        joined: Vec::new(),
        unit: String::new(),
        direction: if args.lower_is_better {
            Direction::LowerIsBetter
        } else {
            Direction::HigherIsBetter
        },
        kind: judge::compare::Kind::TimeLike,
        threshold: args.threshold,
        points: points.len() as u64,
        oldest: points.first().map(|point| point.timestamp),
        newest: points.last().map(|point| point.timestamp),
    };
    let mut one = Followed {
        directed: args.gate || args.lower_is_better,
        ..Followed::new(series, points, found, news)
    };
    // A file may be as old as it likes, unless somebody says how old.
    if args.stale_after.is_some() {
        one.look_at_age(args.stale_after);
    }
    gate::decide(slice::from_mut(&mut one), |_| true);
    Ok(one)
}

/// Its series, and where it keeps its ledger.
fn whole_history(args: &TrendArgs, printer: &Printer) -> Result<(Vec<Followed>, Option<PathBuf>)> {
    let history = args.folder.existing()?;
    let read = args.series.read(&history, Aggregate::Session, printer);
    if read.is_empty() {
        return Err(nothing(&history, &args.series));
    }
    let mut series = follow(read)?;
    for one in &mut series {
        one.look_at_age(args.stale_after);
    }
    // The metrics that fail a comparison, and whatever is asked for by name.
    let asked = args.series.metric.is_some();
    gate::decide(&mut series, |key| {
        let gated = Metric::named(&key.metric).is_some_and(Metric::is_gated);
        asked || gated
    });
    Ok((series, Some(history.ledger_path())))
}

fn nothing(history: &History, args: &SeriesArgs) -> Error {
    let named = [
        ("image", args.image.as_deref()),
        ("driver", args.driver.as_deref()),
        ("branch", args.branch.as_deref()),
    ];
    let filter = args.filter();
    let wanted = filter.patterns().into_iter().chain(named);
    let wanted = wanted.filter_map(|(name, pattern)| Some(format!("--{name} {}", pattern?)));
    let wanted: Vec<String> = wanted.collect();
    let (folder, program) = (history.folder().display(), protocol::program());
    Error::Input(if wanted.is_empty() {
        format!("the history {folder} has no series yet; `{program} history add SESSION` adds some")
    } else {
        let wanted = wanted.join(" ");
        format!(
            "no series with a point fits {wanted}; `{program} history list` names those of {folder}"
        )
    })
}

/// Looks for changes in series of a history.
pub(crate) fn follow(read: Vec<history::Series>) -> Result<Vec<Followed>> {
    let judged: Vec<Vec<Point>> = read.iter().map(|one| as_judged(&one.points)).collect();
    let found = read.into_iter().zip(trend::follow_many(&judged));
    let of_one = |(one, found): (history::Series, Result<(Trend, Option<usize>), TrendError>)| {
        let (found, news) = found.map_err(|why| refused(&one.info.key.to_string(), &why))?;
        Ok(Followed::of_history(one, found, news))
    };
    let mut series: Vec<Followed> = found.map(of_one).collect::<Result<_>>()?;
    followed::tell_methods(&mut series);
    Ok(series)
}

/// Where revisions repeat, a level may begin with a new one; so it may with a new driver or image.
pub(crate) fn as_judged(points: &[history::Point]) -> Vec<Point> {
    let is_new = |pair: &[history::Point]| {
        pair[0].origin.revision != pair[1].origin.revision
            || pair[0].changes_to(&pair[1]).next().is_some()
    };
    let several = points
        .windows(2)
        .any(|pair| pair[0].origin.revision != pair[1].origin.revision);
    let mut number = 0;
    let mut judged: Vec<Point> = points.iter().cloned().map(Point::from).collect();
    for (place, point) in judged.iter_mut().enumerate().filter(|_| several) {
        number += u32::from(place > 0 && is_new(&points[place - 1..=place]));
        point.revision = number.to_string();
    }
    judged
}

/// `trend.html`, `trend.md` and `trend.json`: either all three are new or none is.
fn write(
    out: &Path,
    all: &[Series],
    entries: &[Entry],
    found: &[Followed],
    args: &TrendArgs,
    printer: &Printer,
) -> Result<()> {
    let source = match &args.input {
        Some(input) => input.display().to_string(),
        None => args.folder.path()?.display().to_string(),
    };
    let made = Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string();
    let json = serde_json::to_string_pretty(found)?;
    let files = [
        (
            "trend.html",
            reports::trend::html(all, entries, &source, &made)?,
        ),
        ("trend.md", reports::trend::markdown(all, entries)),
        ("trend.json", json + "\n"),
    ];
    reports::write_files(out, &files)?;
    printer.note(&format!("drawn: {}", out.join("trend.html").display()));
    Ok(())
}

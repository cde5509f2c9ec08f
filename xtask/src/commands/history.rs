//! `cargo xtask history`: keep sessions, and read them over time.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use history::{
    Aggregate, Format as FileFormat, History, HistoryError, ImportedSeries, Labels, PointFilter,
    Selection, SeriesFilter, SeriesInfo, SessionFilter,
};
use judge::compare::{Direction, Kind};
use record::SessionFolder;

use crate::{
    cli::{
        BaselineCommand, ExportFormat, Format, HistoryArgs, HistoryCommand, HistoryFile, SeriesArgs,
    },
    commands::sides,
    error::{Error, Result},
    printer::Printer,
    table::table,
};

/// The history's file: what the user gave, else the one in the data folder.
pub(crate) fn file(chosen: &HistoryFile) -> Result<PathBuf> {
    chosen
        .db
        .clone()
        .or_else(history::default_path)
        .ok_or(Error::NoHistoryPath)
}

/// Which series the user asks for.
pub(crate) fn series_filter(args: &SeriesArgs) -> SeriesFilter {
    SeriesFilter {
        machine: args.machine.clone(),
        device: args.device.clone(),
        driver: args.driver.clone(),
        image: args.image.clone(),
        suite: args.suite.clone(),
        scenario: args.scenario.clone(),
        variant: args.variant.clone(),
        metric: args.metric.clone(),
    }
}

/// Which points the user asks for.
pub(crate) fn point_filter(args: &SeriesArgs) -> PointFilter {
    PointFilter {
        branch: args.branch.clone(),
        ..PointFilter::default()
    }
}

/// Carries one of its commands out.
pub(crate) fn run(args: &HistoryArgs, printer: &Printer) -> Result<()> {
    let path = file(&args.file)?;
    match &args.command {
        HistoryCommand::Add {
            sessions,
            branch,
            revision,
        } => {
            let labels = Labels {
                branch: branch.clone(),
                revision: revision.clone(),
            };
            add(&History::open(path)?, sessions, &labels, printer)
        }
        HistoryCommand::List {
            sessions,
            series,
            format,
        } => {
            let history = History::open_existing(path)?;
            if *sessions {
                list_sessions(&history, series, *format, printer)
            } else {
                list_series(&history, series, *format, printer)
            }
        }
        HistoryCommand::Export {
            to,
            format,
            runs,
            series,
        } => {
            let selection = Selection {
                series: series_filter(series),
                points: point_filter(series),
                aggregate: if *runs {
                    Aggregate::Run
                } else {
                    Aggregate::Session
                },
            };
            export(
                &History::open_existing(path)?,
                to,
                *format,
                &selection,
                printer,
            )
        }
        HistoryCommand::Import {
            name,
            file,
            unit,
            lower_is_better,
            replace,
        } => {
            let series = ImportedSeries {
                name: name.clone(),
                unit: unit.clone(),
                direction: if *lower_is_better {
                    Direction::LowerIsBetter
                } else {
                    Direction::HigherIsBetter
                },
                kind: Kind::TimeLike,
            };
            let history = History::open(path)?;
            let done = if *replace {
                history.import_csv_replacing(&series, file)?
            } else {
                history.import_csv(&series, file)?
            };
            let replaced = match done.replaced {
                0 => String::new(),
                count => format!(", {count} old ones replaced"),
            };
            printer.line(&format!(
                "{}: {} points added, {} known{replaced}",
                name, done.added, done.known
            ));
            if done.backwards > 0 {
                let lines = done.added + done.known;
                let name = file.display().to_string();
                printer.note(&super::trend::sorted(&name, done.backwards, lines));
            }
            Ok(())
        }
        HistoryCommand::Baseline(command) => baseline(&path, command, printer),
        HistoryCommand::Remove { session } => {
            let removed = History::open_existing(path)?.remove(session)?;
            let (runs, points) = (removed.runs, removed.points);
            printer.line(&format!(
                "{session}: {runs} runs and {points} points taken out"
            ));
            Ok(())
        }
        HistoryCommand::Check => check(path, printer),
        HistoryCommand::Recover { to } => recover(&path, to, printer),
    }
}

fn export(
    history: &History,
    to: &Path,
    format: Option<ExportFormat>,
    selection: &Selection,
    printer: &Printer,
) -> Result<()> {
    let format = match export_format(to, format)? {
        ExportFormat::Csv => FileFormat::Csv,
        ExportFormat::Jsonl => FileFormat::JsonLines,
        ExportFormat::Parquet => FileFormat::Parquet,
    };
    let done = if to.as_os_str() == "-" {
        match history.export(format, selection, std::io::stdout()) {
            // Whoever reads has seen enough, as `head` does.
            Err(HistoryError::Export { source }) if source.kind() == ErrorKind::BrokenPipe => {
                return Ok(());
            }
            other => other?,
        }
    } else {
        history.export_to(to, format, selection)?
    };
    printer.note(&format!("{} points of {} series", done.points, done.series));
    Ok(())
}

/// The format that was asked for, or the one that the file's name ends in; both where they agree.
fn export_format(to: &Path, asked: Option<ExportFormat>) -> Result<ExportFormat> {
    if to.as_os_str() == "-" {
        return Ok(asked.unwrap_or(ExportFormat::Csv));
    }
    let ending = to.extension().map(std::ffi::OsStr::to_ascii_lowercase);
    let told = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("csv") => Some(ExportFormat::Csv),
        Some("jsonl" | "ndjson") => Some(ExportFormat::Jsonl),
        Some("parquet") => Some(ExportFormat::Parquet),
        _ => None,
    };
    let refuse = |what: String| {
        Err(Error::ExportFormat {
            message: format!("{}: {what}", to.display()),
        })
    };
    match (asked, told) {
        (Some(asked), Some(told)) if asked != told => refuse(format!(
            "the name is that of another format than --format {}; give a name that ends in .{}",
            asked.word(),
            asked.word()
        )),
        (None, None) => refuse(
            "the name does not say in which format to write; end it in .csv, .jsonl or .parquet, \
             or give --format"
                .to_owned(),
        ),
        (asked, told) => Ok(asked.or(told).unwrap_or(ExportFormat::Csv)),
    }
}

fn recover(path: &Path, to: &Path, printer: &Printer) -> Result<()> {
    let done = history::recover(path, to)?;
    let saved = &done.saved;
    printer.line(&format!(
        "saved into {}: {} sessions, {} runs, {} series, {} points",
        to.display(),
        saved.sessions,
        saved.runs,
        saved.series,
        saved.points
    ));
    for lost in done
        .incomplete_sessions
        .iter()
        .chain(&done.incomplete_imports)
    {
        printer.note(&format!(
            "{}: {} runs and {} points are lost; add its folder again",
            lost.name, lost.lost_runs, lost.lost_points
        ));
    }
    if done.silent > 0 {
        printer.note(&format!(
            "{} cells of sessions have no GPUs and noise thresholds; adding the sessions' folders again \
             brings them",
            done.silent
        ));
    }
    Ok(())
}

fn add(history: &History, sessions: &[PathBuf], labels: &Labels, printer: &Printer) -> Result<()> {
    for folder in sessions {
        let bar = printer.count_bar(&folder.display().to_string(), 0);
        let added =
            history.add_watched(&SessionFolder::at(folder), labels, &mut |done, total| {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            })?;
        bar.finish_and_clear();
        let session = &added.session;
        printer.line(&if added.unchanged {
            format!("{session}: known already, nothing changed")
        } else if !added.new && added.runs + added.points == 0 {
            format!("{session}: known already; branch, end, noise thresholds or GPUs were added")
        } else {
            let (runs, failed, points) = (added.runs, added.failed, added.points);
            format!("{session}: {runs} runs added ({failed} failed), {points} points")
        });
        sides::tell_torn(session, added.torn, printer);
    }
    Ok(())
}

fn list_series(
    history: &History,
    series: &SeriesArgs,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let mut found = history.series(&series_filter(series))?;
    if series.branch.is_some() {
        found = on_branch(history, found, &point_filter(series))?;
    }
    if format == Format::Json {
        return printer.json(&found);
    }
    let mut table = table(
        format,
        [
            "machine", "device", "image", "cell", "metric", "points", "newest",
        ],
    );
    for info in &found {
        table.add_row([
            info.key.machine.clone(),
            info.key.device.clone(),
            info.key.image.clone(),
            info.key.cell(),
            info.key.metric.clone(),
            info.points.to_string(),
            info.newest.map_or_else(String::new, reports::trend::time),
        ]);
    }
    printer.line(&format!("{table}\n{} series", found.len()));
    Ok(())
}

/// Those with a point that fits, and what is known of these points.
fn on_branch(
    history: &History,
    all: Vec<SeriesInfo>,
    filter: &PointFilter,
) -> Result<Vec<SeriesInfo>> {
    let mut found = Vec::new();
    for info in all {
        let points = history.points(&info.key, filter, Aggregate::Run)?;
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            found.push(SeriesInfo {
                points: points.len() as u64,
                oldest: Some(first.timestamp),
                newest: Some(last.timestamp),
                ..info
            });
        }
    }
    Ok(found)
}

fn list_sessions(
    history: &History,
    series: &SeriesArgs,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let filter = SessionFilter {
        branch: series.branch.clone(),
        image: series.image.clone(),
        machine: series.machine.clone(),
        complete_only: false,
    };
    let found = history.sessions(&filter)?;
    if format == Format::Json {
        return printer.json(&found);
    }
    let mut table = table(
        format,
        [
            "session",
            "started",
            "branch",
            "revision",
            "images",
            "runs",
            "failed",
            "baselines",
        ],
    );
    for info in &found {
        table.add_row([
            info.session.clone(),
            reports::trend::time(info.started),
            info.branch.clone().unwrap_or_default(),
            info.revision.clone().unwrap_or_default(),
            info.images.join(", "),
            info.runs.to_string(),
            info.failed.to_string(),
            info.baselines.join(", "),
        ]);
    }
    printer.line(&format!("{table}\n{} sessions", found.len()));
    Ok(())
}

fn baseline(path: &Path, command: &BaselineCommand, printer: &Printer) -> Result<()> {
    match command {
        BaselineCommand::Set { name, session } => {
            let before = History::open(path)?.set_baseline(name, session)?;
            let before = before.map_or_else(String::new, |old| format!(" (was {old})"));
            printer.line(&format!("{name} is {session}{before}"));
        }
        BaselineCommand::List => {
            for baseline in History::open_existing(path)?.baselines()? {
                printer.line(&format!("{} {}", baseline.name, baseline.session));
            }
        }
        BaselineCommand::Remove { name } => {
            History::open(path)?.remove_baseline(name)?;
            printer.line(&format!("{name} is no baseline any more"));
        }
    }
    Ok(())
}

fn check(path: PathBuf, printer: &Printer) -> Result<()> {
    let history = match History::open_existing(path) {
        Err(HistoryError::Damaged { path, detail, .. }) => {
            printer.line(&detail);
            return Err(Error::HistoryDamaged { path });
        }
        other => other?,
    };
    let health = history.check()?;
    if health.is_sound() {
        printer.line(&format!("{}: as it was written", history.path().display()));
        return Ok(());
    }
    for problem in &health.problems {
        printer.line(problem);
    }
    Err(Error::HistoryDamaged {
        path: history.path().to_owned(),
    })
}

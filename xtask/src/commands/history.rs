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
use reports::format::plural;

use crate::{
    cli::{
        AddArgs, BaselineCommand, ExportArgs, ExportFormat, Format, HistoryArgs, HistoryCommand,
        HistoryFile, ImportArgs, RebuildArgs, RemoveArgs, SeriesArgs,
    },
    commands::{session_ref, trend::method_words},
    error::{Error, Result},
    printer::{Form, Printer},
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
        track: args.track.clone(),
        suite: args.suite.clone(),
        scenario: args.scenario.clone(),
        variant: args.variant.clone(),
        metric: args.metric.clone(),
    }
}

/// Which of their points.
pub(crate) fn point_filter(args: &SeriesArgs) -> PointFilter {
    PointFilter {
        branch: args.branch.clone(),
        image: args.image.clone(),
        driver: args.driver.clone(),
    }
}

/// Carries one of its commands out.
pub(crate) fn run(args: &HistoryArgs, printer: &Printer) -> Result<()> {
    let path = file(&args.file)?;
    match &args.command {
        HistoryCommand::Add(args) => add(&History::open(path)?, args, printer),
        HistoryCommand::List(args) => {
            let history = History::open_existing(path)?;
            if args.sessions {
                list_sessions(&history, &args.series, args.format, printer)
            } else {
                list_series(&history, &args.series, args.format, printer)
            }
        }
        HistoryCommand::Export(args) => export(&History::open_existing(path)?, args, printer),
        HistoryCommand::Import(args) => import(&History::open(path)?, args, printer),
        HistoryCommand::Baseline(command) => baseline(path, command, printer),
        HistoryCommand::Remove(args) => remove(&History::open_existing(path)?, args, printer),
        HistoryCommand::Check => {
            let checked = History::open_existing(&path).and_then(|history| history.check());
            if let Err(error @ HistoryError::Damaged { .. }) = checked {
                return Err(Error::HistoryDamaged(error));
            }
            checked?;
            printer.line(&format!("{} is consistent", path.display()));
            Ok(())
        }
        HistoryCommand::Rebuild(args) => rebuild(&path, args, printer),
    }
}

fn add(history: &History, args: &AddArgs, printer: &Printer) -> Result<()> {
    let track = |text: &String| match text.split_once('=') {
        Some((image, track)) => (image.to_owned(), track.to_owned()),
        None => (History::ONLY_IMAGE.to_owned(), text.clone()),
    };
    let labels = Labels {
        branch: args.branch.clone(),
        revision: args.revision.clone(),
        tracks: args.tracks.iter().map(track).collect(),
    };
    for folder in &args.sessions {
        let added = history.add(&SessionFolder::at(folder), &labels)?;
        let session = &added.session;
        printer.line(&if added.unchanged {
            format!("{session}: known already, nothing changed")
        } else if !added.new && added.runs + added.points == 0 {
            format!(
                "{session}: known already; labels, end, noise thresholds, attributes, methods or \
                 folder brought up to date"
            )
        } else {
            let (runs, points) = (
                plural(added.runs, "run", "runs"),
                plural(added.points, "point", "points"),
            );
            format!(
                "{session}: {runs} added ({} failed), {points}",
                added.failed
            )
        });
        session_ref::note_left_out(session, &added.left_out, printer);
        if !added.side_by_side.is_empty() {
            printer.note(&format!(
                "{session}: {} are versions of one image and followed side by side, each as a track \
                 of its own; name tracks with --track IMAGE=NAME",
                added.side_by_side.join(" and ")
            ));
        }
    }
    Ok(())
}

fn remove(history: &History, args: &RemoveArgs, printer: &Printer) -> Result<()> {
    if let Some(session) = &args.session {
        let removed = history.remove(session)?;
        let runs = plural(removed.runs, "run", "runs");
        let points = plural(removed.points, "point", "points");
        printer.line(&format!("{session}: {runs} and {points} removed"));
    }
    if let Some(name) = &args.imported {
        let points = plural(history.remove_import(name)?, "point", "points");
        printer.line(&format!("{name}: {points} removed"));
    }
    Ok(())
}

fn import(history: &History, args: &ImportArgs, printer: &Printer) -> Result<()> {
    let series = ImportedSeries {
        name: args.name.clone(),
        unit: args.unit.clone(),
        direction: if args.lower_is_better {
            Direction::LowerIsBetter
        } else {
            Direction::HigherIsBetter
        },
        kind: Kind::TimeLike,
        threshold: args.threshold,
    };
    let points = super::trend::read_csv(&args.file, printer)?;
    let done = history.import(&series, &points, args.replace)?;
    let replaced = match done.replaced {
        0 => String::new(),
        count => format!(", {count} replaced"),
    };
    let (name, added, known) = (&args.name, done.added, done.known);
    let added = plural(added, "point", "points");
    printer.line(&format!("{name}: {added} added, {known} known{replaced}"));
    let backwards = judge::trend::backwards(&points);
    if backwards > 0 {
        let name = args.file.display().to_string();
        printer.note(&super::trend::sorted(&name, backwards, points.len()));
    }
    Ok(())
}

fn export(history: &History, args: &ExportArgs, printer: &Printer) -> Result<()> {
    let selection = Selection {
        series: series_filter(&args.series),
        points: point_filter(&args.series),
        aggregate: if args.runs {
            Aggregate::Run
        } else {
            Aggregate::Session
        },
        ignore: args.series.method.ignore.clone(),
    };
    let (format, form) = match export_format(&args.to, args.format)? {
        ExportFormat::Csv => (FileFormat::Csv, Form::Csv),
        ExportFormat::Jsonl => (FileFormat::JsonLines, Form::JsonLines),
    };
    let done = if args.to.as_os_str() == "-" {
        match history.export(format, &selection, Printer::stream(form)) {
            // Whoever reads has seen enough, as `head` does.
            Err(HistoryError::Export { source }) if source.kind() == ErrorKind::BrokenPipe => {
                return Ok(());
            }
            other => other?,
        }
    } else {
        history.export_to(&args.to, format, &selection)?
    };
    let points = plural(done.points, "point", "points");
    printer.note(&format!("{points} of {} series", done.series));
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
        _ => None,
    };
    let message = match (asked, told) {
        (Some(ExportFormat::Csv), Some(ExportFormat::Jsonl)) => {
            "--format csv writes another format than the name says; end it in .csv"
        }
        (Some(ExportFormat::Jsonl), Some(ExportFormat::Csv)) => {
            "--format jsonl writes another format than the name says; end it in .jsonl"
        }
        (None, None) => {
            "the name does not say in which format to write; end it in .csv or .jsonl, or give \
             --format"
        }
        (Some(format), _) | (None, Some(format)) => return Ok(format),
    };
    Err(Error::ExportFormat {
        message: format!("{}: {message}", to.display()),
    })
}

fn rebuild(path: &Path, args: &RebuildArgs, printer: &Printer) -> Result<()> {
    let done = History::rebuild(path, &args.folders, args.drop_missing)?;
    printer.line(&format!(
        "{}: made again of {} and {} imported series, {}",
        path.display(),
        plural(done.sessions, "session", "sessions"),
        done.imports,
        plural(done.points, "point", "points")
    ));
    for session in &done.dropped {
        printer.note(&format!("{session} was left out: its folder is not found"));
    }
    if let Some(damaged) = &done.damaged {
        printer.note(&format!("the damaged file is {}", damaged.display()));
    }
    Ok(())
}

fn list_series(
    history: &History,
    series: &SeriesArgs,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let found = history.series(&series_filter(series))?;
    let mut found = history::join(found, &series.method.ignore);
    let points = point_filter(series);
    if points != PointFilter::default() {
        found = with_points(history, found, &points)?;
    }
    if format == Format::Json {
        return printer.json(&found);
    }
    let told_apart = history::told_apart(&found);
    // A column of its own where series are alike in everything but their method.
    let has_methods = told_apart.iter().any(|told| !told.is_empty());
    let mut columns = vec![
        "machine", "device", "track", "cell", "metric", "points", "newest",
    ];
    columns.extend(has_methods.then_some("method"));
    let mut table = table(format, columns);
    for (info, told_apart) in found.iter().zip(&told_apart) {
        let mut row = vec![
            info.key.machine.clone(),
            info.key.device.clone(),
            info.key.track.clone(),
            info.key.cell(),
            info.key.metric.clone(),
            info.points.to_string(),
            info.newest.map_or_else(String::new, reports::trend::time),
        ];
        row.extend(has_methods.then(|| method_words(told_apart)));
        table.add_row(row);
    }
    printer.line(&format!("{table}\n{} series", found.len()));
    if told_apart.iter().any(|told| told.contains_key("")) {
        printer.note(
            "the history does not know the settings of a method; `history rebuild` reads them from \
             the sessions' folders, as far as these have them",
        );
    }
    Ok(())
}

/// Those with a point that fits, and what is known of these points.
fn with_points(
    history: &History,
    all: Vec<SeriesInfo>,
    filter: &PointFilter,
) -> Result<Vec<SeriesInfo>> {
    let mut found = Vec::new();
    for info in all {
        let points = history.points_of(&info, filter, Aggregate::Run)?;
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
    let count = plural(found.len(), "session", "sessions");
    printer.line(&format!("{table}\n{count}"));
    Ok(())
}

fn baseline(path: PathBuf, command: &BaselineCommand, printer: &Printer) -> Result<()> {
    match command {
        BaselineCommand::Set { name, session } => {
            let before = History::open(path)?.set_baseline(name, session)?;
            let before = before.map_or_else(String::new, |old| format!(" (was {old})"));
            printer.line(&format!("{name} is {session}{before}"));
        }
        BaselineCommand::List => {
            for (name, session) in History::open_existing(path)?.baselines()? {
                printer.line(&format!("{name} {session}"));
            }
        }
        BaselineCommand::Remove { name } => {
            History::open(path)?.remove_baseline(name)?;
            printer.line(&format!("{name} is no baseline any more"));
        }
    }
    Ok(())
}

//! `history`: keep sessions, and read them over time.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use history::{Aggregate, History, Labels, SeriesInfo, SessionFilter};
use record::SessionFolder;
use reports::format::plural;

use crate::{
    cli::{
        Format, exit_codes,
        history::{HistoryFolder, SeriesArgs, read},
    },
    commands::{session_ref, trend::method_words},
    error::Result,
    printer::Printer,
    table::table,
};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    folder: HistoryFolder,
    #[command(subcommand)]
    command: HistoryCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum HistoryCommand {
    /// Add sessions; adding one again changes nothing
    Add(AddArgs),
    /// List series, or sessions
    List(ListArgs),
    /// Take a session out
    Remove {
        /// The session's name
        session: String,
    },
}

#[derive(Debug, Clone, Args)]
struct AddArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<PathBuf>,
    /// The branch that was measured
    #[arg(long)]
    branch: Option<String>,
    /// What was measured, such as a commit
    #[arg(long)]
    revision: Option<String>,
    /// The track that an image is followed along, such as `main`; default: the image's name without
    /// versions, or the whole name where images of one session would share a track
    #[arg(long = "track", value_name = "[IMAGE=]NAME")]
    tracks: Vec<String>,
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    /// Sessions in place of series
    #[arg(
        long,
        conflicts_with_all = [
            "device", "driver", "track", "suite", "scenario", "variant", "metric", "ignore"
        ]
    )]
    sessions: bool,
    #[command(flatten)]
    series: SeriesArgs,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Carries one of its commands out.
pub(crate) fn run(args: &HistoryArgs, printer: &Printer) -> Result<()> {
    let new = || -> Result<History> { Ok(History::at(args.folder.path()?)?) };
    let existing = || args.folder.existing();
    match &args.command {
        HistoryCommand::Add(args) => add(&new()?, args, printer),
        HistoryCommand::List(args) if args.sessions => list_sessions(&existing()?, args, printer),
        HistoryCommand::List(args) => list_series(&existing()?, args, printer),
        HistoryCommand::Remove { session } => remove(&existing()?, session, printer),
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
            format!("{session}: known already; labels or facts brought up to date")
        } else {
            let runs = plural(added.runs, "run", "runs");
            let (failed, points) = (added.failed, plural(added.points, "point", "points"));
            format!("{session}: {runs} added ({failed} failed), {points}")
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

fn remove(history: &History, session: &str, printer: &Printer) -> Result<()> {
    let removed = history.remove(session)?;
    let runs = plural(removed.runs, "run", "runs");
    let points = plural(removed.points, "point", "points");
    printer.line(&format!("{session}: {runs} and {points} removed"));
    Ok(())
}

fn list_series(history: &History, args: &ListArgs, printer: &Printer) -> Result<()> {
    let found = args.series.read(history, Aggregate::Run, printer);
    let found: Vec<&SeriesInfo> = found.iter().map(|one| &one.info).collect();
    if args.format == Format::Json {
        return printer.json(&found);
    }
    let told_apart = history::told_apart(&found);
    // A column of its own where series are alike in everything but their method.
    let has_methods = told_apart.iter().any(|told| !told.is_empty());
    let mut columns = vec![
        "machine", "device", "track", "cell", "metric", "points", "newest",
    ];
    columns.extend(has_methods.then_some("method"));
    let mut table = table(args.format, columns);
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
    Ok(())
}

fn list_sessions(history: &History, args: &ListArgs, printer: &Printer) -> Result<()> {
    let series = &args.series;
    let contents = read(history, &series.filter(), printer);
    let found = contents.sessions(&SessionFilter {
        branch: series.branch.clone(),
        image: series.image.clone(),
        ..SessionFilter::default()
    });
    if args.format == Format::Json {
        return printer.json(&found);
    }
    let columns = [
        "session", "started", "branch", "revision", "images", "runs", "failed",
    ];
    let mut table = table(args.format, columns);
    for info in &found {
        table.add_row([
            info.session.clone(),
            reports::trend::time(info.started),
            info.branch.clone().unwrap_or_default(),
            info.revision.clone().unwrap_or_default(),
            info.images.join(", "),
            info.runs.to_string(),
            info.failed.to_string(),
        ]);
    }
    let count = plural(found.len(), "session", "sessions");
    printer.line(&format!("{table}\n{count}"));
    Ok(())
}

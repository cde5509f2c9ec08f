//! `site`: a static site of sessions, comparisons and trends.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use history::{Aggregate, Point, PointFilter, SeriesFilter, SeriesKey};
use reports::{
    format::plural,
    site::{self, Content, Outcome, Trend},
};

use crate::{
    cli::{
        exit_codes,
        history::{named, read},
    },
    commands::trend,
    error::{Result, writing},
    printer::Printer,
};

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "The site is written beside DIR and takes its place when it is whole. A damaged session is an \
         error where it is named, and left out with a note where it lies below a folder.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct SiteArgs {
    /// Folders of sessions, of comparisons (`compare --out`) and of searches (`fit --out`), or
    /// folders with such in or below them
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The site's folder: not there yet, empty, or a site
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Its heading
    #[arg(long, value_name = "TEXT", default_value = "Torchgauge")]
    title: String,
    /// The history whose trends it shows; without it none are
    #[arg(long, value_name = "DIR", env = "TORCHGAUGE_HISTORY")]
    history: Option<PathBuf>,
}

/// Draws the site beside its place, puts it there, and lists its pages.
pub(crate) fn run(args: &SiteArgs, printer: &Printer) -> Result<()> {
    // `.` has no name to stand beside.
    let out = args.out.canonicalize().unwrap_or_else(|_| args.out.clone());
    site::check(&out)?;
    let content = Content {
        title: args.title.clone(),
        folders: args.folders.clone(),
        trends: trends(args.history.as_deref(), printer)?,
    };
    let failed = writing(&out);
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(&failed)?;
    // It goes at the end with what is in it: half a site, or the one before.
    let work = tempfile::Builder::new()
        .prefix(".site-")
        .tempdir_in(parent)
        .map_err(&failed)?;
    let (fresh, old) = (work.path().join("new"), work.path().join("old"));
    let outcome = site::draw(&content, &fresh)?;
    if out.exists() {
        fs::rename(&out, &old).map_err(&failed)?;
    }
    if let Err(error) = fs::rename(&fresh, &out) {
        let _ = fs::rename(&old, &out);
        return Err(failed(error));
    }
    tell(args, &outcome, printer);
    Ok(())
}

fn tell(args: &SiteArgs, outcome: &Outcome, printer: &Printer) {
    let index = args.out.join("index.html");
    for one in &outcome.left_out {
        printer.note(&format!("{} left out: {}", one.folder.display(), one.why));
    }
    printer.line(&index.display().to_string());
    let drawn = plural(outcome.drawn.len(), "page", "pages");
    printer.note(&format!("{drawn} drawn"));
}

/// The series of a history that fail a comparison, by what they are of.
fn trends(folder: Option<&Path>, printer: &Printer) -> Result<Vec<Trend>> {
    let Some(history) = named(folder)? else {
        return Ok(Vec::new());
    };
    let gated = SeriesFilter {
        gated_or: Some(Vec::new()),
        ..SeriesFilter::default()
    };
    let contents = read(&history, &gated, printer);
    let read = contents.series(&PointFilter::default(), Aggregate::Session);
    let from = read
        .iter()
        .map(|one| one.points.iter().map(origin).collect());
    let from: Vec<Vec<_>> = from.collect();
    let mut trends: BTreeMap<Vec<String>, Vec<site::Followed>> = BTreeMap::new();
    let followed = trend::follow(read)?.into_iter();
    for (one, from) in followed.zip(from) {
        let key = &one.series.key;
        trends.entry(name(key)).or_default().push(site::Followed {
            cell: key.cell(),
            metric: key.metric.clone(),
            series: one.shown(),
            from,
        });
    }
    let trends = trends.into_iter().map(|(name, series)| Trend {
        name: name.join(" · "),
        series,
    });
    Ok(trends.collect())
}

/// What series have in common that stand on one page.
fn name(key: &SeriesKey) -> Vec<String> {
    let parts = [&key.suite, &key.track, &key.device, &key.machine];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.cloned().collect()
}

/// The session and the image of a point.
fn origin(point: &Point) -> (String, String) {
    let image = point.origin.attributes.get("image").cloned();
    (point.origin.session.clone(), image.unwrap_or_default())
}

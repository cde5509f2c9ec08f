//! `cargo xtask site`: a static site of sessions, comparisons and trends.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs, io,
    path::{Path, PathBuf},
    process,
    time::UNIX_EPOCH,
};

use history::{Aggregate, Point, PointFilter, SeriesFilter, SeriesInfo, SeriesKey};
use metrics::Metric;
use reports::{
    format::plural,
    site::{self, Content, Outcome, Trend},
};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use serde::Serialize;

use crate::{
    cli::{Format, SiteArgs},
    commands::{past, trend},
    error::{Error, Result},
    printer::Printer,
    table::table,
};

/// What `--format json` prints.
#[derive(Debug, Serialize)]
struct SiteReport<'a> {
    version: u32,
    index: PathBuf,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Draws the site beside its place, puts it there, and says what was drawn.
pub(crate) fn run(args: &SiteArgs, printer: &Printer) -> Result<()> {
    // `.` has no name to stand beside.
    let out = args.out.canonicalize().unwrap_or_else(|_| args.out.clone());
    site::check(&out)?;
    let read = |path: &PathBuf| {
        regular_file::read_text(path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })
    };
    let content = Content {
        title: args.title.clone(),
        about: args.about.as_ref().map(read).transpose()?,
        folders: args.folders.clone(),
        trends: trends(args.db.as_deref())?,
        program: program(),
        redraw: args.redraw,
    };
    let fresh = Fresh::beside(&out)?;
    let before = Some(out.as_path()).filter(|out| out.exists());
    let outcome = site::draw(&content, before, &fresh.path)?;
    fresh.take_the_place_of(&out)?;
    tell(args, &outcome, printer)
}

fn tell(args: &SiteArgs, outcome: &Outcome, printer: &Printer) -> Result<()> {
    let index = args.out.join("index.html");
    for one in &outcome.left_out {
        printer.note(&format!("{} left out: {}", one.folder.display(), one.why));
    }
    match args.format {
        Format::Json => printer.json(&SiteReport {
            version: 1,
            index,
            outcome,
        })?,
        Format::Text => printer.line(&index.display().to_string()),
        Format::Markdown => {
            let mut rows = table(args.format, ["page", "what"]);
            for (places, word) in [
                (&outcome.drawn, "drawn"),
                (&outcome.kept, "kept"),
                (&outcome.removed, "removed"),
            ] {
                for place in places {
                    rows.add_row([place.as_str(), word]);
                }
            }
            printer.line(&rows.to_string());
        }
    }
    let removed = match outcome.removed.len() {
        0 => String::new(),
        count => format!(", {count} removed"),
    };
    printer.note(&format!(
        "{} drawn, {} kept{removed}",
        plural(outcome.drawn.len(), "page", "pages"),
        outcome.kept.len()
    ));
    Ok(())
}

/// What pages were drawn by. Two programs that were built from a changed checkout have the same
/// revision: they are told apart by when they were built.
fn program() -> String {
    let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("TORCHGAUGE_REVISION"));
    if revision != "unknown" && !revision.ends_with("-dirty") {
        return format!("{version} {revision}");
    }
    let built = || {
        let program = env::current_exe().ok()?;
        let time = fs::metadata(program).ok()?.modified().ok()?;
        Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos())
    };
    format!("{version} {revision} {}", built().unwrap_or_default())
}

/// The series of a history that fail a comparison or come from elsewhere, by what they are of.
fn trends(db: Option<&Path>) -> Result<Vec<Trend>> {
    let Some(history) = past::named(db)? else {
        return Ok(Vec::new());
    };
    let mut read: Vec<(SeriesInfo, Vec<Point>)> = Vec::new();
    for info in history.series(&SeriesFilter::default())? {
        if is_followed(&info.key) {
            let points = history.points(&info.key, &PointFilter::default(), Aggregate::Session)?;
            if !points.is_empty() {
                read.push((info, points));
            }
        }
    }
    let all = read.iter().map(|(_, points)| points);
    let from: Vec<Vec<_>> = all
        .clone()
        .map(|points| points.iter().map(origin).collect())
        .collect();
    let judged: Vec<Vec<_>> = all.map(|points| trend::as_judged(points)).collect();
    let mut trends: BTreeMap<Vec<String>, Vec<site::Followed>> = BTreeMap::new();
    let followed = trend::follow(read, &HashMap::new())?.into_iter();
    for ((one, judged), from) in followed.zip(judged).zip(from) {
        let key = &one.series.key;
        trends.entry(name(key)).or_default().push(site::Followed {
            cell: key.cell(),
            metric: key.metric.clone(),
            series: one.shown(),
            judged,
            from,
        });
    }
    let trends = trends.into_iter().map(|(name, series)| Trend {
        name: name.join(" · "),
        series,
    });
    Ok(trends.collect())
}

fn is_followed(key: &SeriesKey) -> bool {
    let is_gated = Metric::named(&key.metric).is_some_and(Metric::is_gated);
    is_gated || key.machine == SeriesKey::IMPORTED
}

/// What series have in common that stand on one page.
fn name(key: &SeriesKey) -> Vec<String> {
    let parts = [&key.suite, &key.track, &key.device, &key.machine];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.cloned().collect()
}

/// The session and the image of a point; `None` for what was measured elsewhere.
fn origin(point: &Point) -> Option<(String, String)> {
    let image = point.attributes.get("image");
    Some((point.session.clone()?, image.cloned().unwrap_or_default()))
}

/// A folder beside a site's place, which is gone where the site does not come to its end.
struct Fresh {
    path: PathBuf,
}

impl Fresh {
    fn beside(out: &Path) -> Result<Self> {
        let path = beside(out, "new");
        let failed = |source| Error::Write {
            path: path.clone(),
            source,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::create_dir(&path).map_err(failed)?;
        Ok(Self { path })
    }

    /// Swaps the two in one step, so that there is a whole site at any moment.
    fn take_the_place_of(self, out: &Path) -> Result<()> {
        let moved = if out.exists() {
            swap(&self.path, out)
        } else {
            fs::rename(&self.path, out)
        };
        moved.map_err(|source| {
            let fresh = self.path.clone();
            // It is whole, and somebody may want it.
            std::mem::forget(self);
            Error::SiteNotMoved {
                fresh,
                out: out.to_owned(),
                source,
            }
        })
    }
}

impl Drop for Fresh {
    /// What is left at its end is half a site, or the one before.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// `.NAME.new-PID` beside `NAME`.
fn beside(out: &Path, word: &str) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}.{word}-{}", process::id()))
}

/// Exchanges two folders; on a file system that cannot, one after the other.
fn swap(fresh: &Path, out: &Path) -> io::Result<()> {
    match renameat_with(CWD, fresh, CWD, out, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        other => return Ok(other?),
    }
    let old = beside(out, "old");
    fs::rename(out, &old)?;
    if let Err(error) = fs::rename(fresh, out) {
        fs::rename(&old, out)?;
        return Err(error);
    }
    fs::rename(&old, fresh)
}

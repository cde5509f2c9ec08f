//! `cargo xtask compare`: two images, sessions or variants, cell by cell.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use history::{Aggregate, PointFilter, SeriesFilter, SeriesKey};
use judge::{moderation::Variance, sessions::BetweenSessions};
use metrics::Metric;
use record::{Records, Session, SessionFolder};
use reports::format::plural;
use verdict::{CellMetric, FailOn, Gate, Side, SideError, Verdicts};

use crate::{
    cli::{
        By, Format, IgnoreArgs, by, exit_codes,
        history::{HistoryFolder, named, read},
        share, word,
    },
    commands::{session_ref, write_file},
    error::{Error, Result},
    printer::{Printer, table_style},
};

const FAIL_ON: &[(&str, &str)] = &[
    ("regressed", "A gated metric that regressed"),
    ("inconclusive", "One that is inconclusive, too"),
];

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "A side is a session's folder, or its name where that lies below --sessions; or out of the \
         history: `@NAME` the session of this name, `branch=NAME` the newest complete session of a branch, \
         `image=NAME` the newest complete session with an image; of those, the newest that shares a \
         cell with the other side. `:IMAGE` behind it picks one of several images.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct CompareArgs {
    /// What to compare against: `SESSION[:IMAGE]`, `@NAME[:IMAGE]`, `branch=NAME[:IMAGE]` or
    /// `image=NAME`
    #[arg(value_name = "BASE")]
    base: String,
    /// What to compare, in the same forms; default: of a session with two images, the second against
    /// the first
    #[arg(value_name = "HEAD", conflicts_with = "by")]
    head: Option<String>,
    /// Compare two values of one axis within BASE, such as `precision=fp32,amp-bf16`
    #[arg(long, value_name = "AXIS=BASE,HEAD", value_parser = by)]
    by: Option<By>,
    /// How to print the verdicts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print every verdict, and not only what changed most
    #[arg(long)]
    all: bool,
    /// Print GitHub's workflow commands as well, which annotate a pull request
    #[arg(long)]
    annotations: bool,
    #[arg(
        long,
        value_name = "FILE.xml",
        help = "Write the verdicts as JUnit XML"
    )]
    junit: Option<PathBuf>,
    /// Write the verdicts as Markdown, for a comment: the gate, what changed most, the rest folded
    #[arg(long, value_name = "FILE.md")]
    summary: Option<PathBuf>,
    /// Where the report can be read, for a link in the Markdown
    #[arg(long, value_name = "URL")]
    link: Option<String>,
    /// Write the verdicts as a page, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What fails the command with exit code 1
    #[arg(long, value_parser = word::<FailOn>(FAIL_ON), default_value = "regressed")]
    fail_on: FailOn,
    /// Relative change of a metric that counts as none, in place of its own; by the metric's
    /// name or as tables print it, such as `throughput=0.02`
    #[arg(long, value_name = "QUANTITY=SHARE", value_parser = threshold)]
    threshold: Vec<(String, f64)>,
    /// Compare although machine, GPU or driver differ
    #[arg(long)]
    across_machines: bool,
    #[command(flatten)]
    method: IgnoreArgs,
    /// Where the folders of sessions lie that the history names
    #[arg(long, value_name = "DIR", default_value = "sessions")]
    sessions: PathBuf,
    #[command(flatten)]
    folder: HistoryFolder,
}

fn threshold(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected QUANTITY=SHARE, such as throughput=0.02")?;
    Ok((metric(name).to_owned(), share(value)?))
}

/// The name of the metric that tables call so; any other word as it is.
fn metric(word: &str) -> &str {
    let word = word.trim();
    Metric::compared()
        .find(|metric| metric.label.eq_ignore_ascii_case(word))
        .map_or(word, |metric| metric.name)
}

/// Judges, prints, and fails where a gated metric says no.
pub(crate) fn run(args: &CompareArgs, printer: &Printer) -> Result<()> {
    let verdicts = judge(args, printer)?;
    let fail_on = args.fail_on;
    if let Some(path) = &args.junit {
        write_file(path, &reports::comparison::junit(&verdicts, fail_on)?)?;
    }
    if let Some(path) = &args.summary {
        let link = args.link.as_deref();
        write_file(
            path,
            &reports::comparison::markdown(&verdicts, fail_on, link),
        )?;
    }
    if let Some(out) = &args.out {
        let page = reports::comparison::write(&verdicts, fail_on, out)?;
        printer.note(&format!("drawn: {}", page.display()));
    }
    match args.format {
        Format::Json => printer.json(&verdicts)?,
        Format::Text => {
            let style = table_style();
            printer.raw(&reports::comparison::text(
                &verdicts, fail_on, style, args.all,
            ));
        }
        Format::Markdown => {
            let link = args.link.as_deref();
            printer.raw(&reports::comparison::markdown(&verdicts, fail_on, link));
        }
    }
    if args.annotations {
        printer.verbatim(&reports::comparison::annotations(&verdicts, fail_on));
    }
    let gate = Gate::read(&verdicts, fail_on);
    if !gate.passes() {
        let failing = plural(gate.count(), "metric", "metrics");
        return Err(Error::Gate(format!("the gate failed: {failing}")));
    }
    if verdicts.is_nothing_gated() {
        let message = "no gated metric was measured on both sides, so a gate would pass with \
                       nothing judged; see the failed runs above";
        return Err(Error::Input(message.to_owned()));
    }
    Ok(())
}

fn judge(args: &CompareArgs, printer: &Printer) -> Result<Verdicts> {
    let mut options = verdict::Options {
        across_machines: args.across_machines,
        ignore: args.method.ignore.clone(),
        thresholds: args.threshold.iter().cloned().collect(),
        ..verdict::Options::default()
    };
    let Some(head) = &args.head else {
        let chosen = Chosen::read(&args.base, args, None, printer)?;
        let (base, head) = match (&args.by, &chosen.session.images[..]) {
            (Some(by), _) => {
                let side = chosen.side()?;
                (
                    side.along(&by.axis, &by.base)?,
                    side.along(&by.axis, &by.head)?,
                )
            }
            (None, [base, head]) if chosen.image.is_none() => {
                (chosen.of(&base.name)?, chosen.of(&head.name)?)
            }
            (None, _) => return same_sides(&chosen.side()?),
        };
        options.earlier = earlier(&base, &head, args, printer)?;
        return Ok(verdict::compare(&base, &head, &options)?);
    };
    // The side that leaves a choice is chosen to go with the other one.
    let (base, head) = if session_ref::asks_for_newest(&args.base) {
        let head = Chosen::read(head, args, None, printer)?;
        let base = Chosen::read(&args.base, args, Some(&head.side()?), printer)?;
        (base, head)
    } else {
        let base = Chosen::read(&args.base, args, None, printer)?;
        let head = Chosen::read(head, args, Some(&base.side()?), printer)?;
        (base, head)
    };
    let (base, head) = (base.side()?, head.side()?);
    if is_same(&base, &head) {
        return same_sides(&base);
    }
    let mut words = args.head.iter().chain([&args.base]);
    if words.any(|word| session_ref::asks_history(word)) {
        options.between_sessions = between_sessions(&base, &head, args, printer)?;
    }
    options.earlier = earlier(&base, &head, args, printer)?;
    Ok(verdict::compare(&base, &head, &options)?)
}

/// How far the history's sessions lie apart, series by series that the base is a point of. The two
/// sides say nothing of it: what they differ in is the question.
fn between_sessions(
    base: &Side<'_>,
    head: &Side<'_>,
    args: &CompareArgs,
    printer: &Printer,
) -> Result<BTreeMap<CellMetric, BetweenSessions>> {
    let of_base = |point: &history::Point| {
        point.origin.session == base.origin.session
            && point.origin.attributes.get("image") == Some(&base.origin.image)
    };
    let compared = [&base.origin.session, &head.origin.session];
    let is_other = |point: &history::Point| !compared.contains(&&point.origin.session);
    let filter = of_machine(base);
    let mut known = BTreeMap::new();
    let contents = read(&args.folder.existing()?, &filter, printer);
    for series in contents.series(&PointFilter::default(), Aggregate::Session) {
        if !series.points.iter().any(of_base) {
            continue;
        }
        let key = cell_metric(series.info.key);
        let others = series.points.into_iter().filter(is_other);
        let others: Vec<judge::trend::Point> = others.map(Into::into).collect();
        if let Some(between) = BetweenSessions::of(&others) {
            known.insert(key, between);
        }
    }
    Ok(known)
}

/// What runs of the same cells scatter by in other sessions of the machine, where a history was
/// named. A side that is kept to one value of an axis has cells that no series has.
fn earlier(
    base: &Side<'_>,
    head: &Side<'_>,
    args: &CompareArgs,
    printer: &Printer,
) -> Result<BTreeMap<CellMetric, Variance>> {
    let Some(history) = named(args.folder.history.as_deref())? else {
        return Ok(BTreeMap::new());
    };
    let filter = of_machine(base);
    let compared = [&base.origin.session, &head.origin.session];
    let mut runs: BTreeMap<CellMetric, BTreeMap<_, Vec<f64>>> = BTreeMap::new();
    let contents = read(&history, &filter, printer);
    for series in contents.series(&PointFilter::default(), Aggregate::Run) {
        let sessions = runs.entry(cell_metric(series.info.key)).or_default();
        for point in series.points.into_iter().filter(|point| point.value > 0.0) {
            let (session, image) = (&point.origin.session, point.origin.attributes.get("image"));
            if !compared.contains(&session) {
                let of = (session.clone(), image.cloned());
                sessions.entry(of).or_default().push(point.value);
            }
        }
    }
    let known = runs.into_iter().filter_map(|(key, sessions)| {
        let sessions: Vec<Vec<f64>> = sessions.into_values().collect();
        Some((key, Variance::of_earlier(&sessions)?))
    });
    Ok(known.collect())
}

fn of_machine(side: &Side<'_>) -> SeriesFilter {
    SeriesFilter {
        machine: Some(side.origin.machine.clone()),
        ..SeriesFilter::default()
    }
}

fn cell_metric(key: SeriesKey) -> CellMetric {
    CellMetric {
        suite: key.suite,
        scenario: key.scenario,
        variant: key.variant,
        metric: key.metric,
    }
}

fn is_same(one: &Side<'_>, other: &Side<'_>) -> bool {
    let (one, other) = (&one.origin, &other.origin);
    (&one.session, &one.image) == (&other.session, &other.image)
}

fn same_sides<T>(side: &Side<'_>) -> Result<T> {
    Err(Error::Input(format!(
        "both sides are {}; give another session or image as HEAD, or two values of an axis with --by \
         AXIS=BASE,HEAD",
        side.origin
    )))
}

/// A session read from disk, and which of its images is meant.
struct Chosen {
    session: Session,
    records: Records,
    image: Option<String>,
}

impl Chosen {
    /// The session that the word means; of several, the newest that can be compared with `other`.
    fn read(
        text: &str,
        args: &CompareArgs,
        other: Option<&Side<'_>>,
        printer: &Printer,
    ) -> Result<Self> {
        let fits = |chosen: &Self| other.is_none_or(|other| chosen.goes_with(other));
        let chosen =
            session_ref::find_fitting(text, &args.sessions, &args.folder, Self::at, fits, printer)?;
        let left_out = chosen.records.left_out();
        session_ref::note_left_out(&chosen.session.session, &left_out, printer);
        Ok(chosen)
    }

    fn at(place: session_ref::Found) -> Result<Self> {
        let folder = SessionFolder::at(place.folder);
        let mut records = folder.read_records()?;
        metrics::across_runs(&mut records.records);
        Ok(Self {
            session: folder.read_session()?,
            records,
            image: place.image,
        })
    }

    /// Whether it has a cell that the other side has too, and is not that side itself.
    fn goes_with(&self, other: &Side<'_>) -> bool {
        let fits = |side: &Side<'_>| side.shares_a_cell(other) && !is_same(side, other);
        match self.side() {
            Ok(side) => fits(&side),
            // Which image is meant is asked of whoever wrote the command.
            Err(SideError::Ambiguous { images, .. }) => images
                .iter()
                .any(|image| self.of(image).is_ok_and(|side| fits(&side))),
            Err(_) => false,
        }
    }

    fn side(&self) -> std::result::Result<Side<'_>, SideError> {
        Side::pick(&self.session, &self.records.records, self.image.as_deref())
    }

    fn of(&self, image: &str) -> std::result::Result<Side<'_>, SideError> {
        Side::pick(&self.session, &self.records.records, Some(image))
    }
}

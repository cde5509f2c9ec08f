//! `cargo xtask compare`: two images, sessions or variants, cell by cell.

use std::collections::BTreeMap;

use history::{Aggregate, PointFilter, SeriesFilter, SeriesKey};
use judge::{moderation::Variance, sessions::BetweenSessions};
use record::{Records, Session, SessionFolder};
use reports::format::plural;
use verdict::{CellMetric, Gate, Side, SideError, Verdicts};

use crate::{
    cli::{CompareArgs, Format, history::read},
    commands::{past, session_ref, write_file},
    error::{Error, Result},
    printer::{Printer, table_style},
};

/// Judges, prints, and fails where a gated metric says no.
pub(crate) fn run(args: &CompareArgs, printer: &Printer) -> Result<()> {
    let (verdicts, head) = judge(args, printer)?;
    let fail_on = args.fail_on.into();
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
        let mut past = past::of(args.folder.history.as_deref(), &[head], printer)?;
        past.retain(|one| one.image == verdicts.head.image);
        let page = reports::comparison::write(&verdicts, fail_on, &past, out)?;
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
        let message = "no gated metric was measured on both sides, so that a gate would pass over \
                       nothing; see the failed runs above";
        return Err(Error::Input(message.to_owned()));
    }
    Ok(())
}

/// The verdicts, and the session of the head.
fn judge(args: &CompareArgs, printer: &Printer) -> Result<(Verdicts, Session)> {
    let mut options = verdict::Options {
        across_machines: args.across_machines,
        ignore: args.method.ignore.clone(),
        thresholds: args.threshold.iter().cloned().collect(),
        ..verdict::Options::default()
    };
    let Some(head) = &args.head else {
        let chosen = Chosen::read(&args.base, args, None, printer)?;
        let side = chosen.side()?;
        // The command line asks for HEAD or --by.
        let Some(by) = &args.by else {
            return same_sides(&side);
        };
        let (base, head) = (
            side.along(&by.axis, &by.base)?,
            side.along(&by.axis, &by.head)?,
        );
        options.earlier = earlier(&base, &head, args, printer)?;
        let verdicts = verdict::compare(&base, &head, &options)?;
        return Ok((verdicts, chosen.session.clone()));
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
    let session = head.session.clone();
    let (base, head) = (base.side()?, head.side()?);
    if is_same(&base, &head) {
        return same_sides(&base);
    }
    let words = args.head.iter().chain([&args.base]);
    if words
        .into_iter()
        .any(|word| session_ref::asks_history(word))
    {
        options.between_sessions = between_sessions(&base, &head, args, printer)?;
    }
    options.earlier = earlier(&base, &head, args, printer)?;
    Ok((verdict::compare(&base, &head, &options)?, session))
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
    let filter = SeriesFilter {
        machine: Some(base.origin.machine.clone()),
        ..SeriesFilter::default()
    };
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
    let Some(history) = past::named(args.folder.history.as_deref())? else {
        return Ok(BTreeMap::new());
    };
    let filter = SeriesFilter {
        machine: Some(base.origin.machine.clone()),
        ..SeriesFilter::default()
    };
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
        let pick = |image: &str| Side::pick(&self.session, &self.records.records, Some(image));
        let fits = |side: &Side<'_>| side.shares_a_cell(other) && !is_same(side, other);
        match self.side() {
            Ok(side) => fits(&side),
            // Which image is meant is asked of whoever wrote the command.
            Err(SideError::Ambiguous { images, .. }) => images
                .iter()
                .any(|image| pick(image).is_ok_and(|side| fits(&side))),
            Err(_) => false,
        }
    }

    fn side(&self) -> std::result::Result<Side<'_>, SideError> {
        Side::pick(&self.session, &self.records.records, self.image.as_deref())
    }
}

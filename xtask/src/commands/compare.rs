//! `cargo xtask compare`: two images, sessions or variants, cell by cell.

use std::collections::BTreeMap;

use history::{Aggregate, History, PointFilter, SeriesFilter};
use judge::sessions::BetweenSessions;
use record::{Records, Session, SessionFolder};
use verdict::{CellMetric, Gate, Side, SideError, Verdicts};

use crate::{
    cli::{CompareArgs, Format},
    commands::{history::file, past, session_ref, write_file},
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
        write_file(path, &reports::comparison::markdown(&verdicts))?;
    }
    if let Some(out) = &args.out {
        let mut past = past::of(args.file.db.as_deref(), &[head])?;
        past.retain(|one| one.image == verdicts.head.image);
        let page = reports::comparison::write(&verdicts, fail_on, &past, out)?;
        printer.note(&format!("drawn: {}", page.display()));
    }
    match args.format {
        Format::Json => printer.json(&verdicts)?,
        Format::Text => printer.raw(&reports::comparison::text(&verdicts, table_style())),
        Format::Markdown => printer.raw(&reports::comparison::markdown(&verdicts)),
    }
    if args.annotations {
        printer.verbatim(&reports::comparison::annotations(&verdicts, fail_on));
    }
    let gate = Gate::read(&verdicts, fail_on);
    if gate.passes() {
        Ok(())
    } else {
        Err(Error::Gate {
            failing: gate.count(),
        })
    }
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
        options.between_sessions = between_sessions(&base, &head, args)?;
    }
    Ok((verdict::compare(&base, &head, &options)?, session))
}

/// How far the history's sessions lie apart, series by series that the base is a point of. The two
/// sides say nothing of it: what they differ in is the question.
fn between_sessions(
    base: &Side<'_>,
    head: &Side<'_>,
    args: &CompareArgs,
) -> Result<BTreeMap<CellMetric, BetweenSessions>> {
    let history = History::open_existing(file(&args.file)?)?;
    let of_base = |point: &history::Point| {
        point.session.as_ref() == Some(&base.origin.session)
            && point.attributes.get("image") == Some(&base.origin.image)
    };
    let compared = [&base.origin.session, &head.origin.session];
    let is_other = |point: &history::Point| {
        let session = point.session.as_ref();
        session.is_none_or(|session| !compared.contains(&session))
    };
    let filter = SeriesFilter {
        machine: Some(base.origin.machine.clone()),
        ..SeriesFilter::default()
    };
    let mut known = BTreeMap::new();
    for series in history.series(&filter)? {
        let key = series.key;
        let points = history.points(&key, &PointFilter::default(), Aggregate::Session)?;
        if !points.iter().any(of_base) {
            continue;
        }
        let others = points.into_iter().filter(is_other);
        let others: Vec<judge::trend::Point> = others.map(Into::into).collect();
        if let Some(between) = BetweenSessions::of(&others) {
            let of = CellMetric {
                suite: key.suite,
                scenario: key.scenario,
                variant: key.variant,
                metric: key.metric,
            };
            known.insert(of, between);
        }
    }
    Ok(known)
}

fn is_same(one: &Side<'_>, other: &Side<'_>) -> bool {
    let (one, other) = (&one.origin, &other.origin);
    (&one.session, &one.image) == (&other.session, &other.image)
}

fn same_sides<T>(side: &Side<'_>) -> Result<T> {
    Err(Error::SameSides {
        side: side.origin.to_string(),
    })
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
        let chosen = session_ref::find_fitting(text, &args.sessions, &args.file, Self::at, fits)?;
        let left_out = chosen.records.left_out();
        session_ref::note_left_out(&chosen.session.session, &left_out, printer);
        Ok(chosen)
    }

    fn at(place: session_ref::Found) -> Result<Self> {
        let folder = SessionFolder::at(place.folder);
        Ok(Self {
            session: folder.read_session()?,
            records: folder.read_records()?,
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

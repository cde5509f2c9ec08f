//! `cargo xtask compare`: two images, sessions or variants, cell by cell.

use std::{fs, path::Path};

use record::{Records, Session, SessionFolder};
use verdict::{Gate, Side, SideError, Verdicts};

use crate::{
    cli::{CompareArgs, Format},
    commands::session_ref,
    error::{Error, Result},
    printer::Printer,
};

/// Judges, prints, and fails where a gated metric says no.
pub(crate) fn run(args: &CompareArgs, printer: &Printer) -> Result<()> {
    let verdicts = judge(args, printer)?;
    let fail_on = args.fail_on.into();
    if let Some(path) = &args.junit {
        write(path, &reports::comparison::junit(&verdicts, fail_on)?)?;
    }
    if let Some(path) = &args.summary {
        write(path, &reports::comparison::markdown(&verdicts))?;
    }
    if let Some(out) = &args.out {
        let page = reports::comparison::write(&verdicts, fail_on, out)?;
        printer.note(&format!("drawn: {}", page.display()));
    }
    match args.format {
        Format::Json => printer.json(&verdicts)?,
        Format::Text => printer.raw(&reports::comparison::text(
            &verdicts,
            reports::text::Style::Plain,
        )),
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

fn judge(args: &CompareArgs, printer: &Printer) -> Result<Verdicts> {
    let options = verdict::Options {
        across_machines: args.across_machines,
        ignore: args.ignore.clone(),
        thresholds: args.threshold.iter().cloned().collect(),
        ..verdict::Options::default()
    };
    let Some(head) = &args.head else {
        let base = Chosen::read(&args.base, args, None, printer)?;
        let side = base.side()?;
        // The command line asks for HEAD or --by.
        let Some(by) = &args.by else {
            return same_sides(&side);
        };
        let (base, head) = (
            side.along(&by.axis, &by.base)?,
            side.along(&by.axis, &by.head)?,
        );
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
    Ok(verdict::compare(&base, &head, &options)?)
}

fn is_same(one: &Side<'_>, other: &Side<'_>) -> bool {
    let (one, other) = (&one.origin, &other.origin);
    (&one.session, &one.image) == (&other.session, &other.image)
}

fn same_sides(side: &Side<'_>) -> Result<Verdicts> {
    Err(Error::SameSides {
        side: side.origin.to_string(),
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
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

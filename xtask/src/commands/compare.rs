//! `cargo xtask compare`: two images, sessions or variants, cell by cell.

use std::{fs, path::Path};

use record::{Record, Session, SessionFolder};
use verdict::{Gate, Side, Verdicts};

use crate::{
    cli::{CompareArgs, Format},
    commands::sides,
    error::{Error, Result},
    printer::Printer,
};

/// Judges, prints, and fails where a gated quantity says no.
pub(crate) fn run(args: &CompareArgs, printer: &Printer) -> Result<()> {
    let verdicts = judge(args)?;
    let fail_on = args.fail_on.into();
    if let Some(path) = &args.junit {
        write(path, &reports::comparison::junit(&verdicts, fail_on)?)?;
    }
    if let Some(path) = &args.summary {
        write(path, &reports::comparison::markdown(&verdicts))?;
    }
    match args.format {
        Format::Json => printer.json(&verdicts)?,
        Format::Text => printer.raw(&reports::comparison::text(&verdicts)),
        Format::Markdown => printer.raw(&reports::comparison::markdown(&verdicts)),
    }
    if args.annotations {
        printer.raw(&reports::comparison::annotations(&verdicts, fail_on));
    }
    let gate = Gate::read(&verdicts, fail_on);
    if gate.passes() {
        Ok(())
    } else {
        Err(Error::Gate {
            failing: gate.failing.len(),
        })
    }
}

fn judge(args: &CompareArgs) -> Result<Verdicts> {
    let options = verdict::Options {
        across_machines: args.across_machines,
        margins: args.margin.iter().cloned().collect(),
        ..verdict::Options::default()
    };
    let base = Chosen::read(&args.base, args)?;
    let verdicts = match (&args.by, &args.head) {
        (Some(by), _) => {
            let side = base.side()?;
            let (base, head) = (
                side.along(&by.axis, &by.base)?,
                side.along(&by.axis, &by.head)?,
            );
            verdict::compare(&base, &head, &options)?
        }
        (None, head) => {
            let head = Chosen::read(head.as_deref().unwrap_or(&args.base), args)?;
            verdict::compare(&base.side()?, &head.side()?, &options)?
        }
    };
    Ok(verdicts)
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
    records: Vec<Record>,
    image: Option<String>,
}

impl Chosen {
    fn read(text: &str, args: &CompareArgs) -> Result<Self> {
        let place = sides::find(text, &args.sessions, &args.file)?;
        let folder = SessionFolder::at(place.folder);
        Ok(Self {
            session: folder.read_session()?,
            records: folder.read_records()?.records,
            image: place.image,
        })
    }

    fn side(&self) -> Result<Side<'_>> {
        Ok(Side::pick(
            &self.session,
            &self.records,
            self.image.as_deref(),
        )?)
    }
}

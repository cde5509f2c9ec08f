//! `cargo xtask claims`: a session held against what somebody claimed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use judge::claims::Outcome;
use record::{Claim, SessionFolder};
use verdict::{ClaimFound, Side};

use crate::{
    cli::{Format, IgnoreArgs, exit_codes, history::HistoryFolder},
    commands::{scenarios, session_ref},
    error::{Error, Result},
    printer::{Printer, table_style},
};

/// What fails the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A claim that is refuted
    Refuted,
    /// One that is inconclusive, too
    Inconclusive,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "A session keeps the claims of its suites. With --of, those of another suite are judged by \
         its runs, as far as it measured what they are about.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct ClaimsArgs {
    /// The session: a folder, `@NAME`, `branch=NAME` or `image=NAME`; `:IMAGE` behind it
    /// judges by the runs of one of its images alone
    #[arg(value_name = "SESSION")]
    session: String,
    /// Judge the claims of this suite in `scenarios/`, or file, in place of the session's own; may
    /// be given several times
    #[arg(long, value_name = "NAME|FILE")]
    of: Vec<String>,
    #[command(flatten)]
    method: IgnoreArgs,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write what was found as a page, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What fails the command with exit code 1; nothing unless given
    #[arg(long, value_enum)]
    fail_on: Option<FailOn>,
    /// Where the folders of sessions lie that the history names
    #[arg(long, value_name = "DIR", default_value = "sessions")]
    sessions: PathBuf,
    #[command(flatten)]
    folder: HistoryFolder,
}

/// Judges, prints, and fails where that is asked for and a claim does not stand.
pub(crate) fn run(args: &ClaimsArgs, printer: &Printer) -> Result<()> {
    let place = session_ref::find(&args.session, &args.sessions, &args.folder, printer)?;
    let folder = SessionFolder::at(place.folder);
    let session = folder.read_session()?;
    let records = folder.read_records()?;
    session_ref::note_left_out(&session.session, &records.left_out(), printer);
    let mut records = records.records;
    metrics::across_runs(&mut records);
    if let Some(image) = &place.image {
        // An image that did not run is an error, and not a session without measurements.
        Side::pick(&session, &records, Some(image))?;
        records.retain(|run| run.image == *image);
    }
    let claims = if args.of.is_empty() {
        session.claims.clone()
    } else {
        of_suites(&args.of)?
    };
    if claims.is_empty() {
        return Err(Error::Input(format!(
            "the session {} carries no claims; judge those of a suite with --of NAME, such as --of \
             claims",
            session.session
        )));
    }
    let found = verdict::judge_claims(&session, &records, &claims, &args.method.ignore)?;
    if let Some(out) = &args.out {
        let page = reports::claims::write(&found, &session.session, out)?;
        printer.note(&format!("drawn: {}", page.display()));
    }
    match args.format {
        Format::Json => printer.json(&found)?,
        Format::Text => printer.raw(&reports::claims::text(&found, table_style())),
        Format::Markdown => printer.raw(&reports::claims::markdown(&found)),
    }
    gate(&found, args.fail_on)
}

fn of_suites(names: &[String]) -> Result<Vec<Claim>> {
    let catalog = scenarios::catalog()?;
    let mut claims = Vec::new();
    for name in names {
        claims.extend(catalog.load(name)?.claims);
    }
    Ok(claims)
}

fn gate(found: &[ClaimFound], fail_on: Option<FailOn>) -> Result<()> {
    let count = |wanted| found.iter().filter(|one| one.outcome == wanted).count();
    let refuted = count(Outcome::Refuted);
    let undecided = match fail_on {
        None => return Ok(()),
        Some(FailOn::Refuted) => 0,
        Some(FailOn::Inconclusive) => count(Outcome::Inconclusive),
    };
    if refuted + undecided > 0 {
        return Err(Error::Gate(format!(
            "claims: {refuted} refuted, {undecided} inconclusive"
        )));
    }
    if !found.iter().any(ClaimFound::is_measured) {
        let message = "the session measured none of the claims, so a gate would pass with \
                       nothing judged; measure the cells that they name, or leave --fail-on out";
        return Err(Error::Input(message.to_owned()));
    }
    Ok(())
}

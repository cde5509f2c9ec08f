//! `cargo xtask report`: draw sessions that have run.

use record::{Session, SessionFolder};

use crate::{cli::ReportArgs, commands::past, error::Result, printer::Printer};

/// Writes the three files and says where.
pub(crate) fn run(args: &ReportArgs, printer: &Printer) -> Result<()> {
    let folders: Vec<SessionFolder> = args.sessions.iter().map(SessionFolder::at).collect();
    let out = args.out.as_ref().unwrap_or(&args.sessions[0]);
    let sessions = folders.iter().map(SessionFolder::read_session);
    let sessions: Vec<Session> = sessions.collect::<std::result::Result<_, _>>()?;
    let past = past::of(args.history.as_deref(), &sessions, printer)?;
    for path in reports::write(&folders, past, out)? {
        printer.line(&path.display().to_string());
    }
    Ok(())
}

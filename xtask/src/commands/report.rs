//! `cargo xtask report`: draw sessions that have run.

use std::path::PathBuf;

use clap::Args;
use record::{Session, SessionFolder};

use crate::{commands::past, error::Result, printer::Printer};

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<PathBuf>,
    /// Where to write; default: into the folder of the first session
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The history to draw beside the metrics; without it none is
    #[arg(long, value_name = "DIR", env = "TORCHGAUGE_HISTORY")]
    history: Option<PathBuf>,
}

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

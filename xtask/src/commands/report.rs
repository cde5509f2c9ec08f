//! `cargo xtask report`: draw sessions that have run.

use std::path::PathBuf;

use clap::Args;
use record::SessionFolder;

use crate::{error::Result, printer::Printer};

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<PathBuf>,
    /// Where to write; default: into the folder of the first session
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the three files and says where.
pub(crate) fn run(args: &ReportArgs, printer: &Printer) -> Result<()> {
    let folders: Vec<SessionFolder> = args.sessions.iter().map(SessionFolder::at).collect();
    let out = args.out.as_ref().unwrap_or(&args.sessions[0]);
    for path in reports::write(&folders, out)? {
        printer.line(&path.display().to_string());
    }
    Ok(())
}
